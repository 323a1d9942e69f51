"""``structviews parser train``: what it learns from, what it writes, how it resumes, and what it refuses."""

import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from shell import fails
from vector_files import write_vectors

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.backends.builtin import BuiltinParser
from structviews.parsing.neural import ParserConfig, ParserNetwork
from structviews.parsing.parser import Options
from structviews.parsing.specification import load
from structviews.training import parser_training
from structviews.training.parser_training import ParserJob, encoded, loss_of, read_treebanks, score, train_parser

# Words as form/tag/head/relation, and the bracketed tree.
SENTENCES = [
    ("I/PRP/2/nsubj go/VBP/0/root home/RB/2/advmod", "(ROOT (S (NP-SBJ (PRP I)) (VP (VBP go) (ADVP (RB home)))))"),
    ("A/DT/2/det bird/NN/3/nsubj sat/VBD/0/root ././3/punct", "(ROOT (S (NP (DT A) (NN bird)) (VP (VBD sat)) (. .)))"),
    ("Go/VB/0/root", "(ROOT (S (VP (VB Go))))"),
]
SMALL = {"buckets": 50, "word_dim": 16, "affix_dim": 8, "dim": 24, "blocks": 2, "heads": 2}
SMALL |= {"arc_dim": 16, "relation_dim": 16, "span_dim": 16}


def conllu(sentence):
    rows = [word.rsplit("/", 3) for word in sentence.split()]
    lines = [f"{i}\t{w}\t_\t_\t{t}\t_\t{h}\t{r}\t_\t_\n" for i, (w, t, h, r) in enumerate(rows, 1)]
    return "".join(lines) + "\n"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A network small enough to train in a moment."""
    config = partial(ParserConfig, **SMALL)
    config.word_dim = SMALL["word_dim"]
    monkeypatch.setattr(parser_training, "ParserConfig", config)
    for name, value in {"MIN_WORDS": 1, "MIN_LABELS": 1, "BATCH_WORDS": 20, "WARM_UP": 5, "RATE": 1e-2}.items():
        monkeypatch.setattr(parser_training, name, value)


@pytest.fixture
def files(tmp_path):
    """A treebank of both trees, and one of dependencies alone."""
    for name in ("both", "dev", "other"):
        (tmp_path / f"{name}.conllu").write_text("".join(conllu(words) for words, _ in SENTENCES * 4))
    for name in ("both", "dev"):
        (tmp_path / f"{name}.ptb").write_text("".join(f"{tree}\n" for _, tree in SENTENCES * 4))
    return {name: tuple(tmp_path.glob(f"{name}.*")) for name in ("both", "dev", "other")}


def test_a_command_makes_a_parser_that_others_take(files, tmp_path, command):
    treebanks, dev = (*files["both"], *files["other"]), [f for path in files["dev"] for f in ("--dev", path)]
    arguments = (*treebanks, *dev, "--epochs", 1, "--licence", "CC BY 4.0", "-o", "p")
    code, output, shown = command("parser", "train", *arguments)
    assert code == 0, shown
    assert "p: trained" in output
    assert "epoch 1 of 1: loss " in shown
    assert "tags " in shown.splitlines()[-1]
    names = {path.name for path in (tmp_path / "p").iterdir()}
    assert names == {"README.md", "job.json", "model.json", "model.safetensors", "model.sha256"}
    card = (tmp_path / "p/README.md").read_text()
    assert card.count(": 12 sentences") == 2
    assert "/other.conllu: 12 sentences" in card
    assert "CC BY 4.0" in card
    (tmp_path / "t.txt").write_text("I go home.\nThe bird sat.\n")
    assert command("parse", "t.txt", "--parser", "p", "--format", "lines")[0] == 0
    assert ParsedCorpus.open(tmp_path / "t.parsed").parser["name"] == "builtin:p"
    assert "only parses English: add --lang en" in fails(
        command, tmp_path, "parse", "t.txt", "--parser", "p", "--lang", "de", "-o", "x.parsed"
    )
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "p").iterdir()}
    code, _, shown = command("parser", "train", *arguments)
    assert (code, shown.splitlines()[0]) == (0, "p: already trained")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "p").iterdir()} == before
    assert "other files or settings" in fails(command, tmp_path, "parser", "train", *arguments, "--seed", 2)


@pytest.mark.parametrize("kinds", [{"dependency"}, {"constituency"}])
def test_a_treebank_of_one_kind_gives_a_parser_of_this_kind(files, tmp_path, kinds):
    suffix = ".conllu" if "dependency" in kinds else ".ptb"
    one, dev = (tuple(path for path in files[name] if path.suffix == suffix) for name in ("both", "dev"))
    train_parser(ParserJob(one, dev, tmp_path / "p", epochs=1, language="af"))
    parser = load(f"builtin:{tmp_path / 'p'}", Options("af"))
    assert parser.kinds == kinds
    for sentences in ([["I", "go"], ["Go"], ["The", "bird", "sat"]], [["I", "go"]]):
        for tree in parser.parse(sentences):
            assert tree.has_dependencies == ("dependency" in kinds)
            assert tree.has_constituents == ("constituency" in kinds)


@pytest.mark.slow
def test_training_learns(files, tmp_path):
    parser = train_parser(ParserJob(files["both"], files["dev"], tmp_path / "p", epochs=40))
    (dev,) = read_treebanks(files["dev"])
    assert set(score(parser, dev.sentences).values()) == {100.0}


def test_an_interrupted_training_goes_on_to_the_same_parser(files, tmp_path, monkeypatch):
    def job(name, **changes):
        return ParserJob((*files["both"], *files["other"]), files["dev"], tmp_path / name, epochs=3, **changes)

    train_parser(job("whole"))
    stops = iter(range(20))

    def interrupted(*given):
        if next(stops) == 5:
            signal.raise_signal(signal.SIGINT)
        return loss_of(*given)

    monkeypatch.setattr(parser_training, "SAVE_SECONDS", -1)  # after each step
    with monkeypatch.context() as patch:
        patch.setattr(parser_training, "loss_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_parser(job("parts"))
    with pytest.raises(InputError, match="other files or settings"):
        train_parser(job("parts", seed=2))
    (state,) = (tmp_path / "parts/state").iterdir()
    content = state.read_bytes()
    state.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="damaged"):
        train_parser(job("parts"))
    state.write_bytes(content)
    train_parser(job("parts"))
    for name in ("model.safetensors", "model.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_learns_from_vectors_and_silver_trees(files, tmp_path, command, monkeypatch):
    vectors = np.random.default_rng(1).standard_normal((2, 16)).astype(np.float32)
    write_vectors(tmp_path / "words.vec", ["bird", "worm"], vectors)
    write_vectors(tmp_path / "short.vec", ["bird", "worm"], vectors[:, :3])
    arguments = ("parser", "train", *files["other"], "--dev", *files["other"], "-o", "p")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "t.txt").write_text("I go home.\n")
    said = fails(command, tmp_path, "parse", "t.txt", "--parser", "unfinished", "-o", "x.parsed")
    assert "model.safetensors: No such file or directory: finish the parser's training" in said
    (tmp_path / "of_mine").mkdir()
    (tmp_path / "of_mine/notes.txt").write_text("mine")
    assert "of_mine: already exists" in fails(command, tmp_path, *arguments[:-1], "of_mine")
    assert "3 dimensions: give vectors of 16" in command(*arguments, "--words", "short.vec")[2]
    assert not (tmp_path / "p").exists()
    assert "--lang pt-BR: give a code" in fails(command, tmp_path, *arguments, "--lang", "pt-BR")
    assert command("parse", *files["both"], "--parser", "treebank", "-o", "silver.parsed")[0] == 0
    monkeypatch.setattr(parser_training, "RATE", 0)
    silver = (tmp_path / "silver.parsed",)
    train_parser(ParserJob(files["other"], files["dev"], tmp_path / "p", tmp_path / "words.vec", silver, epochs=2))
    parser = BuiltinParser.read(tmp_path / "p")
    assert {"bird", "worm"} <= set(parser.settings["words"])
    table = load_file(tmp_path / "p/model.safetensors")["words.form.weight"]
    rows = table[parser.featuriser(["Bird", "worm"])[:, 0].astype(np.int64)].float()
    # As the file has them, but for the scale, and half precision.
    assert torch.nn.functional.cosine_similarity(rows, torch.from_numpy(vectors)).min() > 0.999


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a/X/2/dep b/X/1/dep", "bad.conllu:1: 0 dependency roots"),
        ("a/X/0/root b/X/0/root", "bad.conllu:1: 2 dependency roots"),
        ("a/X/0/root b/X/3/dep c/X/2/dep", "bad.conllu:1: dependency cycle through word 2"),
        ("a/X/0/top b/X/1/dep", "bad.conllu: no relation 'root': give a treebank of Universal Dependencies"),
        ("_/X/0/root _/X/1/dep", "bad.conllu: no sentences with words and trees: give a treebank with its text"),
    ],
)
def test_a_bad_treebank_is_one_line_with_file_and_sentence(files, tmp_path, command, text, message):
    (tmp_path / "bad.conllu").write_text(conllu(text))
    for arguments in (["bad.conllu", "--dev", *files["other"]], [*files["other"], "--dev", "bad.conllu"]):
        assert message in fails(command, tmp_path, "parser", "train", *arguments, "-o", "p")


def test_brackets_without_labels_are_refused(tmp_path, command):
    (tmp_path / "bad.ptb").write_text("((VB go) (RB home))\n")
    arguments = ("parser", "train", "bad.ptb", "--dev", "bad.ptb", "-o", "p")
    assert "bad.ptb: no labels of constituents" in fails(command, tmp_path, *arguments)


def test_the_loss_is_the_cross_entropy_of_each_choice(files, monkeypatch):
    """Tags, heads, relations and spans, one word and one span at a time."""
    (treebank,) = read_treebanks(files["both"])
    settings = parser_training.vocabularies(treebank.sentences, [], "en")
    torch.manual_seed(1)
    sizes = (len(settings[key]) for key in ("words", "tags", "relations", "labels"))
    network = ParserNetwork(ParserConfig(*sizes, **SMALL, dropout=0.0)).double()
    featuriser = BuiltinParser(network, settings | {"config": SMALL}).featuriser
    batch = encoded(treebank.sentences[:3], settings, featuriser)
    torch.manual_seed(1)
    lower, total = torch.rand(len(batch)) < parser_training.LOWER_CASE, 0.0
    n_words = sum(len(each.cased) for each in batch)
    network.words.form.weight.data[:] = network.words.form.weight.data[1]  # so that no word is dropped
    for low, each in zip(lower, batch, strict=True):
        n = len(each.cased)
        chosen = each.lowered if low else each.cased
        mask = torch.ones(1, n, dtype=torch.bool)
        words = network.words(torch.from_numpy(chosen)[None])
        states = network.encode(words, mask)
        outputs = network.outputs(words, mask)
        posts = network.spans.fenceposts(states, mask)
        gold = {(a, b): label for a, b, label in each.spans.tolist()}
        for word in range(n):
            head = each.heads[word]
            relation = network.relations(outputs.dependents[:, word + 1], outputs.heads[:, head])[0]
            for scores, true in (
                (outputs.tags[0, word], each.tags[word]),
                (outputs.arcs[0, word + 1], head),
                (relation, each.relations[word]),
            ):
                total -= scores.log_softmax(0)[true].item() / n_words
            for end in range(word + 1, n + 1):
                scores = network.spans(posts, torch.tensor([word]), torch.tensor([end]))[0]
                total -= scores.log_softmax(0)[gold.get((word, end), 0)].item() / n_words
    torch.manual_seed(1)
    found = loss_of(network, batch, torch.device("cpu"))
    assert found.item() == pytest.approx(total, rel=1e-5)
    # A sentence without annotation changes nothing.
    monkeypatch.setattr(parser_training, "LOWER_CASE", 0)
    none = np.full(len(batch[1].tags), parser_training.IGNORED)
    without = batch[1]._replace(tags=none, heads=none, relations=none, spans=None)
    assert loss_of(network, [without], torch.device("cpu")) == 0
    one = [batch[0]._replace(spans=None)]
    torch.testing.assert_close(*(loss_of(network, each, torch.device("cpu")) for each in (one, [*one, without])))


def test_of_a_very_small_treebank_rare_words_and_labels_are_learnt(files, monkeypatch):
    (treebank,) = read_treebanks(files["both"])
    monkeypatch.setattr(parser_training, "MIN_WORDS", 20)
    monkeypatch.setattr(parser_training, "MIN_LABELS", 20)
    settings = parser_training.vocabularies(treebank.sentences, [], "en")
    assert {"bird", "go"} < set(settings["words"])
    assert {"", "NP", "S"} < set(settings["labels"])


def test_a_single_epoch_reads_silver_trees():
    assert parser_training.parts_of(0, 1, [["gold"]], [["silver"]]) == [["gold"], ["silver"]]


def test_the_same_files_in_other_roles_are_another_job(files, tmp_path):
    one, two = ((path,) for path in files["both"])
    jobs = [ParserJob(one + two, files["dev"], tmp_path), ParserJob(one, two + files["dev"], tmp_path)]
    assert jobs[0].described() != jobs[1].described()


def test_scores_of_known_errors():
    tree = {"tokens": ("a", "b", "c"), "left": (1, 0), "right": (2, 3), "heads": (2, 0, 2)}
    truth = {"tags": ("A", "B", "C"), "relations": ("nsubj", "root", "obl:tmod"), "labels": ("NP", "", "", "VP", "S")}
    guess = {"tags": ("A", "B", "X"), "relations": ("det", "root", "obl"), "labels": ("NP", "", "", "S+VP", "S")}

    guesser = SimpleNamespace(parse=lambda _: [ParsedSentence(**tree, **guess)])
    scores = score(guesser, [ParsedSentence(**tree, **truth)])
    assert scores["UAS"] == 100
    without = ParsedSentence(tree["tokens"], heads=tree["heads"], relations=truth["relations"])
    assert score(guesser, [without]).keys() == {"UAS", "LAS"}  # of what the gold sentences have
    assert [scores[name] for name in ("tags", "LAS", "F1")] == pytest.approx([200 / 3, 200 / 3, 600 / 7])
