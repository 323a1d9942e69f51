"""Other libraries' parsers with random weights, in the libraries' own file formats, tiny or of published sizes.

A parser's speed does not depend on its weights, except for the number of transitions: see ``follow``.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from structviews.corpus.sentence import ParsedSentence
from structviews.parsing.binarise import unbinarise

# Names of the model files that are made.
NAME = "random"
LANGUAGE = "en"

# stanza's options, where a size differs from the trainers' defaults, which are what is published.
TINY_STANZA = {
    "tokenize": "--emb_dim 4 --hidden_dim 6 --conv_res 1,3",
    "pos": "--hidden_dim 6 --char_hidden_dim 4 --deep_biaff_hidden_dim 6 --composite_deep_biaff_hidden_dim 4 "
    "--word_emb_dim 4 --char_emb_dim 4 --tag_emb_dim 4 --transformed_dim 4 --num_layers 1",
    "depparse": "--hidden_dim 6 --char_hidden_dim 4 --deep_biaff_hidden_dim 6 --deep_biaff_output_dim 4 "
    "--word_emb_dim 4 --char_emb_dim 4 --tag_emb_dim 4 --transformed_dim 4 --num_layers 1",
    "constituency": "--hidden_size 12 --delta_embedding_dim 4 --tag_embedding_dim 4 --transition_embedding_dim 4 "
    "--transition_hidden_size 4 --pattn_num_layers 0 --lattn_d_proj 0 --num_lstm_layers 1",
}
# English word vectors and language models of characters: words, their dimension; hidden units.
PUBLISHED_WORDS, PUBLISHED_CHARACTERS = (150_000, 100), 1024
TINY_WORDS = (0, 8)

TINY_BENEPAR = {
    "d_model": 16,
    "num_layers": 1,
    "num_heads": 2,
    "d_kv": 8,
    "d_ff": 16,
    "d_label_hidden": 8,
    "d_tag_hidden": 8,
}
PUBLISHED_BENEPAR = {
    "d_model": 1024,
    "num_layers": 8,
    "num_heads": 8,
    "d_kv": 64,
    "d_ff": 2048,
    "d_label_hidden": 250,
    "d_tag_hidden": 250,
}
TINY_T5 = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}


def conllu(sentences: Sequence[ParsedSentence]) -> str:
    """The sentences with dependencies as CoNLL-U, with the tags in both tag columns."""
    blocks = []
    for sentence in sentences:
        columns = zip(sentence.tokens, sentence.tags, sentence.heads, sentence.relations, strict=True)
        blocks.append(
            "".join(
                f"{i}\t{w}\t{w.lower()}\t{t}\t{t}\t_\t{h}\t{r}\t_\t_\n" for i, (w, t, h, r) in enumerate(columns, 1)
            )
        )
    return "\n".join(blocks) + "\n"


def stanza_trees(sentences: Sequence[ParsedSentence]) -> list[Any]:
    """The sentences' n-ary trees as stanza's objects."""
    from stanza.models.constituency.parse_tree import Tree  # noqa: PLC0415

    def convert(node: Any) -> Any:
        return Tree(node) if isinstance(node, str) else Tree(node.label(), [convert(child) for child in node])

    return [Tree("ROOT", [convert(unbinarise(sentence))]) for sentence in sentences]


def stanza_models(folder: Path, sentences: Sequence[ParsedSentence], *, tiny: bool = False) -> None:
    """Write a stanza folder with a language's models and ``resources.json``.

    Args:
        folder: is made.
        sentences: with both kinds of tree; vocabularies are theirs.
        tiny: thousands of weights instead of millions.
    """
    from stanza.models.pos.trainer import Trainer as Tagger  # noqa: PLC0415
    from stanza.models.tokenization.trainer import Trainer as Tokeniser  # noqa: PLC0415

    logging.disable(logging.WARNING)
    sizes = TINY_STANZA if tiny else dict.fromkeys(TINY_STANZA, "")
    below = [] if tiny else ["forward_charlm", "backward_charlm"]
    files = {kind: folder / LANGUAGE / kind / f"{NAME}.pt" for kind in ("pretrain", *sizes, *below)}
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
    vectors = _word_vectors(files["pretrain"], sentences, *(TINY_WORDS if tiny else PUBLISHED_WORDS))
    for kind in below:
        _character_model(files[kind], sentences, forward=kind.startswith("forward"))
    common = ["--lang", LANGUAGE, "--shorthand", f"{LANGUAGE}_{NAME}", "--save_dir", str(folder)]
    characters = [
        word for kind in below for word in (f"--charlm_{kind.removesuffix('_charlm')}_file", str(files[kind]))
    ]
    arguments = {kind: [*common, *words.split()] for kind, words in sizes.items()}

    args, vocabulary = _tokeniser(arguments["tokenize"], sentences)
    tokeniser = randomised(Tokeniser(args, vocab=vocabulary, device="cpu"))
    # Or else words would have white space in them.
    torch.nn.init.constant_(tokeniser.model.tok_clf.bias, 10)
    tokeniser.save(str(files["tokenize"]))
    charlm = ["--charlm", *characters] if below else []
    args, vocabulary = _tagger(arguments["pos"] + charlm, sentences)
    randomised(Tagger(args, vocab=vocabulary, pretrain=vectors, device="cpu")).save(str(files["pos"]))
    randomised(_dependency_parser(arguments["depparse"] + charlm, sentences, vectors)).save(str(files["depparse"]))
    vector_file = ["--wordvec_pretrain_file", str(files["pretrain"])]
    parser = _constituency_parser(arguments["constituency"] + characters + vector_file, sentences)
    parser.save(str(files["constituency"]), save_optimizer=False)
    (folder / "resources.json").write_text(json.dumps({LANGUAGE: _resources(files)}))
    logging.disable(logging.NOTSET)


def randomised(trainer: Any) -> Any:
    """Draw the weights that training initialises to zero, so that no two scores are equal."""
    for weight in trainer.model.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight)
    return trainer


def _resources(files: dict[str, Path]) -> dict[str, Any]:
    """What ``resources.json`` says about the models of a language."""
    below = [kind for kind in ("pretrain", "forward_charlm", "backward_charlm") if kind in files]
    dependencies = [{"model": kind, "package": NAME} for kind in below]
    entries: dict[str, Any] = {}
    for kind, file in files.items():
        entry: dict[str, Any] = {"md5": hashlib.md5(file.read_bytes()).hexdigest()}
        if kind in ("pos", "depparse", "constituency"):
            entry["dependencies"] = dependencies
        entries[kind] = {NAME: entry}
    processors = dict.fromkeys(("tokenize", "pos", "depparse", "constituency"), NAME)
    return {"lang_name": "English", "packages": {"default": {**processors, "lemma": "identity"}}, **entries}


def _word_vectors(file: Path, sentences: Sequence[ParsedSentence], count: int, dim: int) -> Any:
    from stanza.models.common.pretrain import Pretrain, PretrainedWordVocab  # noqa: PLC0415

    words = sorted({token.lower() for sentence in sentences for token in sentence.tokens})
    words += [f"word{i}" for i in range(count - len(words))]
    vectors = Pretrain(str(file))
    vectors._vocab = PretrainedWordVocab(words)
    vectors._emb = torch.randn(len(vectors._vocab), dim)
    vectors.save(str(file))
    return vectors


def _character_model(file: Path, sentences: Sequence[ParsedSentence], *, forward: bool) -> None:
    from stanza.models.common.char_model import CHARLM_END, CHARLM_START, CharacterLanguageModel  # noqa: PLC0415
    from stanza.models.common.vocab import CharVocab  # noqa: PLC0415

    text = "".join(token for sentence in sentences for token in sentence.tokens)
    vocabulary = CharVocab([text + CHARLM_START + CHARLM_END], LANGUAGE)
    sizes = {"char_hidden_dim": PUBLISHED_CHARACTERS, "char_emb_dim": 100, "char_num_layers": 1}
    rates = {"char_dropout": 0.0, "char_unit_dropout": 0.0, "char_rec_dropout": 0.0}
    model = CharacterLanguageModel({**sizes, **rates}, {"char": vocabulary}, is_forward_lm=forward)
    model.save(str(file))


def _tokeniser(arguments: list[str], sentences: Sequence[ParsedSentence]) -> tuple[dict[str, Any], Any]:
    from stanza.models.tokenization.vocab import Vocab  # noqa: PLC0415
    from stanza.models.tokenizer import DEFAULT_FEAT_FUNCS, parse_args  # noqa: PLC0415

    vocabulary = Vocab([[(character, 0) for s in sentences for character in " ".join(s.tokens)]], LANGUAGE)
    args = parse_args([*arguments, "--no_use_mwt"])
    features = {"feat_funcs": DEFAULT_FEAT_FUNCS, "feat_dim": len(DEFAULT_FEAT_FUNCS), "num_dict_feat": 0}
    return args | features | {"vocab_size": len(vocabulary)}, vocabulary


def _tagger(arguments: list[str], sentences: Sequence[ParsedSentence]) -> tuple[dict[str, Any], Any]:
    from stanza.models.pos.data import Dataset  # noqa: PLC0415
    from stanza.models.tagger import parse_args  # noqa: PLC0415
    from stanza.utils.conll import CoNLL  # noqa: PLC0415

    args = parse_args(arguments)
    return args, Dataset.init_vocab([CoNLL.conll2doc(input_str=conllu(sentences))], args)


def _dependency_parser(arguments: list[str], sentences: Sequence[ParsedSentence], vectors: Any) -> Any:
    from stanza.models.depparse.data import Dataset  # noqa: PLC0415
    from stanza.models.depparse.trainer import GraphTrainer  # noqa: PLC0415
    from stanza.models.parser import parse_args  # noqa: PLC0415
    from stanza.utils.conll import CoNLL  # noqa: PLC0415

    args = parse_args(arguments)
    data = Dataset(CoNLL.conll2doc(input_str=conllu(sentences)), args, vectors)
    return GraphTrainer(args=args, vocab=data.vocab, pretrain=vectors, device="cpu")


def _constituency_parser(arguments: list[str], sentences: Sequence[ParsedSentence]) -> Any:
    from stanza.models.common.foundation_cache import FoundationCache  # noqa: PLC0415
    from stanza.models.constituency import parser_training  # noqa: PLC0415
    from stanza.models.constituency.parse_transitions import Shift  # noqa: PLC0415
    from stanza.models.constituency_parser import parse_args  # noqa: PLC0415

    trees = stanza_trees(sentences)
    # Trained in two stages, a parser has its attention layers in the second one only.
    args = parse_args([*arguments, "--no_multistage"])
    trainer, *_ = parser_training.build_trainer(args, trees, trees, [], FoundationCache(), None)
    # Weights that were never trained open constituents without end: these shift where they may.
    with torch.no_grad():
        trainer.model.output_layers[-1].bias[trainer.model.transition_map[Shift()]] += 10
    return trainer


def follow(model: Any, sentences: Sequence[ParsedSentence]) -> None:
    """Make a stanza constituency parser take the transitions of given trees, after scoring all of them.

    Args:
        model: of the processor ``constituency``.
        sentences: all that it will be given, with constituents.
    """
    from stanza.models.constituency import transition_sequence  # noqa: PLC0415

    by_words = dict(zip((sentence.tokens for sentence in sentences), stanza_trees(sentences), strict=True))
    begin = model.initial_state_from_words

    def initial_state_from_words(given: list[list[tuple[str, str]]]) -> list[Any]:
        gold = [by_words[tuple(word for word, _ in words)] for words in given]
        paths = transition_sequence.build_treebank(gold, model.transition_scheme, model.reverse_sentence)
        return [state._replace(gold_sequence=path) for state, path in zip(begin(given), paths, strict=True)]

    model.initial_state_from_words = initial_state_from_words
    model.predict = lambda states, is_legal=True: model.predict_gold(states)


def _benepar_settings(sentences: Sequence[ParsedSentence], sizes: dict[str, int], **choices: Any) -> dict[str, Any]:
    """Arguments of benepar's ``ChartParser``."""
    from benepar.char_lstm import RetokenizerForCharLSTM  # noqa: PLC0415
    from benepar.decode_chart import ChartDecoder  # noqa: PLC0415
    from benepar.nkutil import HParams  # noqa: PLC0415

    dropouts = ("morpho_emb", "attention", "relu", "residual", "char_lstm_input")
    settings = {
        **{f"{name}_dropout": 0.0 for name in dropouts},
        "use_pretrained": False,
        "pretrained_model": "",
        "use_chars_lstm": False,
        "use_encoder": True,
        "encoder_max_len": 512,
        "d_char_emb": 64,
        "predict_tags": True,
        "tag_loss_scale": 5.0,
        "force_root_constituent": True,
    }
    tags = sorted({tag for sentence in sentences for tag in sentence.tags})
    return {
        "tag_vocab": {tag: i for i, tag in enumerate(["UNK", *tags])},
        "label_vocab": ChartDecoder.build_vocab([unbinarise(sentence) for sentence in sentences]),
        "char_vocab": RetokenizerForCharLSTM.build_vocab([sentence.tokens for sentence in sentences]),
        "hparams": HParams(**settings | sizes | choices),
    }


def benepar_model(file: Path, sentences: Sequence[ParsedSentence], *, tiny: bool = False) -> None:
    """benepar's parser without a pretrained model, as one file, as its training saves it."""
    from benepar.parse_chart import ChartParser  # noqa: PLC0415

    sizes = TINY_BENEPAR if tiny else PUBLISHED_BENEPAR
    parser = ChartParser(**_benepar_settings(sentences, sizes, use_chars_lstm=True))
    torch.save({"config": parser.config, "state_dict": parser.state_dict()}, file)


def benepar_t5(folder: Path, sentences: Sequence[ParsedSentence], *, tiny: bool = False) -> None:
    """benepar's parser on T5, as a folder, like its released models. Subwords are learnt from the sentences."""
    from benepar.parse_chart import ChartParser  # noqa: PLC0415
    from transformers import T5Config  # noqa: PLC0415

    from structviews.parsing.backends.benepar import transformers_as_benepar_knows_them  # noqa: PLC0415

    tokeniser = _subwords(sentences, 200 if tiny else 8000)
    tokeniser.save_pretrained(folder)
    # T5's own defaults are those of T5-small.
    config = T5Config(**(TINY_T5 if tiny else {}), vocab_size=max(len(tokeniser), 32128 * (not tiny)))
    config.save_pretrained(folder)
    sizes = TINY_BENEPAR if tiny else PUBLISHED_BENEPAR | {"num_layers": 2}
    settings = _benepar_settings(sentences, sizes, use_pretrained=True)
    with transformers_as_benepar_knows_them():
        parser = ChartParser(**settings, pretrained_model_path=str(folder))
    config.benepar = parser.config
    config.save_pretrained(folder)
    torch.save(parser.state_dict(), folder / "benepar_model.bin")


def _subwords(sentences: Sequence[ParsedSentence], size: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: PLC0415
    from transformers import T5TokenizerFast  # noqa: PLC0415

    tokeniser = Tokenizer(models.Unigram())
    tokeniser.pre_tokenizer = pre_tokenizers.Metaspace()
    tokeniser.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>")
    tokeniser.train_from_iterator([" ".join(sentence.tokens) for sentence in sentences], trainer)
    tokeniser.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return T5TokenizerFast(tokenizer_object=tokeniser, extra_ids=0, model_max_length=512)


def spacy_pipeline(
    folder: Path, sentences: Sequence[ParsedSentence], *, tiny: bool = False, parser: bool = True
) -> None:
    """A pipeline with a tagger and a parser on shared vectors, as large as spaCy's small ones."""
    import spacy  # noqa: PLC0415
    from spacy.tokens import Doc  # noqa: PLC0415
    from spacy.training import Example  # noqa: PLC0415

    width, rows, hidden = (8, 50, 8) if tiny else (96, 5000, 64)
    nlp = spacy.blank(LANGUAGE)
    vectors = {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "width": width,
        "depth": 1 if tiny else 4,
        "embed_size": rows,
        "window_size": 1,
        "maxout_pieces": 3,
        "subword_features": True,
        "pretrained_vectors": None,
    }
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": width}
    nlp.add_pipe("tok2vec", config={"model": vectors})
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}})
    if parser:
        steps = {"hidden_width": hidden, "maxout_pieces": 2, "use_upper": False, "nO": None}
        model = {
            "@architectures": "spacy.TransitionBasedParser.v2",
            "state_type": "parser",
            "extra_state_tokens": False,
        }
        nlp.add_pipe("parser", config={"model": {**model, **steps, "tok2vec": listener}, "min_action_freq": 1})
    examples = [
        Example(
            Doc(nlp.vocab, words=list(s.tokens)),
            Doc(
                nlp.vocab,
                words=list(s.tokens),
                tags=list(s.tags),
                heads=[head - 1 if head else i for i, head in enumerate(s.heads)],
                deps=[relation if head else "ROOT" for relation, head in zip(s.relations, s.heads, strict=True)],
            ),
        )
        for s in sentences
    ]
    nlp.initialize(lambda: examples)
    draw = np.random.default_rng(0)
    for layer in (layer for name in ("tagger", "parser")[: 1 + parser] for layer in nlp.get_pipe(name).model.walk()):
        for name in layer.param_names:
            if layer.has_param(name) and not layer.get_param(name).any():
                layer.set_param(name, draw.normal(size=layer.get_param(name).shape).astype(np.float32))
    nlp.to_disk(folder)
