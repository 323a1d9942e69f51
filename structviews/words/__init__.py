"""Words: vocabularies, word-vector files, and training word vectors."""

# Where a channel's word vectors come from: learnt in training, or read from a file.
TRAINED, FIXED = CHANNELS = ("trained", "fixed")
