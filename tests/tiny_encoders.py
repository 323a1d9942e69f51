"""Tiny encoders made here: BERT, RoBERTa, MPNet and XLM-R, with random weights and tokenisers of their kinds."""

import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    MPNetConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLMRobertaConfig,
)

TEXT = [
    "The film isn't bad, but the critics' reviews were.",
    'She said "it rains" (again) and left the house at ten.',
    "We don't know whether they'll come; he's late and I'm tired.",
    "Cafés in Zürich sell naïve paintings for 25 euros.",
    "电影 很 好看 。 这 是 一个 测试",
    "A sentence about nothing in particular, with words of several lengths.",
] * 3
KINDS = ("bert", "roberta", "mpnet", "xlm-roberta")
PIECES = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
SPECIAL = {
    "bert": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    "mpnet": PIECES | {"unk": "[UNK]", "cls": "<s>", "sep": "</s>"},
    "roberta": PIECES,
    "xlm-roberta": PIECES,
}


def tokeniser(kind, pieces=220):
    """A tokeniser as models of a kind have it, trained on a few sentences."""
    special = list(dict.fromkeys(SPECIAL[kind].values()))
    if kind in ("bert", "mpnet"):
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=pieces, special_tokens=special)
    elif kind == "roberta":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
    else:
        made = Tokenizer(models.Unigram())
        made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=pieces, special_tokens=special, unk_token="<unk>")
    made.train_from_iterator(TEXT, trainer)
    first, last = ("[CLS]", "[SEP]") if kind == "bert" else ("<s>", "</s>")
    ends = [(each, made.token_to_id(each)) for each in (first, last)]
    if kind == "roberta":
        made.post_processor = processors.RobertaProcessing(ends[1], ends[0], add_prefix_space=False)
    else:
        made.post_processor = processors.TemplateProcessing(f"{first} $A {last}", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, **{f"{name}_token": token for name, token in SPECIAL[kind].items()}
    )


def config(kind, n_pieces, pad, dim=32, layers=2, positions=40):
    """The configuration of a model of a kind."""
    size = {
        "vocab_size": n_pieces,
        "hidden_size": dim,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": 2 * dim,
        "pad_token_id": pad,
    }
    made = {"bert": BertConfig, "roberta": RobertaConfig, "mpnet": MPNetConfig, "xlm-roberta": XLMRobertaConfig}[kind]
    extra = 0 if kind == "bert" else pad + 1  # positions begin after that of padding
    return made(**size, max_position_embeddings=positions + extra)


def encoder_folder(folder, kind="bert", seed=0, **size):
    """A folder with an encoder of a kind, as ``save_pretrained`` writes it."""
    tokens = tokeniser(kind)
    about = config(kind, len(tokens), tokens.pad_token_id, **size)
    torch.manual_seed(seed)
    model = AutoModel.from_config(about)
    with torch.no_grad():
        for parameter in model.parameters():  # as large as trained ones, so that states differ from word to word
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["model_type"] == kind
    return folder


def in_shards(folder, to):
    """A copy of an encoder whose weights are in several files."""
    AutoModel.from_pretrained(folder).save_pretrained(to, max_shard_size="20KB")
    AutoTokenizer.from_pretrained(folder).save_pretrained(to)
    assert not (to / "model.safetensors").exists()
    return to


def published_model(folder):
    """A sentence-transformers model of ``KINDS[0]``, untrained, with a card; its folder."""
    library = pytest.importorskip("sentence_transformers", reason="needs structviews[sentence-transformers]")
    torch.manual_seed(0)
    modules = library.sentence_transformer.modules if hasattr(library, "sentence_transformer") else library.models
    transformer, pooling = modules.Transformer(str(encoder_folder(folder / "bert"))), modules.Pooling(32)
    library.SentenceTransformer(modules=[transformer, pooling], device="cpu").save_pretrained(str(folder / "tiny"))
    (folder / "tiny" / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Tiny\n")
    return folder / "tiny"
