"""Words: vocabularies, word-vector files, and training word vectors."""

# Where a channel's word vectors come from: learnt in training, read from a file, or states of a pretrained encoder.
TRAINED, FIXED, CONTEXTUAL = CHANNELS = ("trained", "fixed", "contextual")
