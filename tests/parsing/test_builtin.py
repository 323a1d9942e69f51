import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_parsers import ODD_SENTENCES
from trees_for_tests import gum

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.backends import builtin
from structviews.parsing.backends.builtin import BuiltinParser
from structviews.parsing.neural import ParserConfig, ParserNetwork
from structviews.parsing.quantised import QuantisedNetwork
from structviews.training.parser_training import score

SETTINGS = {
    "version": "1", "words": ["the", "bird", "sat"], "tags": ["NN", "DT", "VB"],
    "relations": ["det", "root", "nsubj", "obj"], "labels": ["", "NP", "VP", "S", "S+VP"],
}  # fmt: skip
SENTENCES = [*ODD_SENTENCES, ["word"] * 120, ["\u0000", "x\ud800"], ["w" * 10_000, "x"]]
SENTENCES += [[f"w{i}" for i in range(n)] for n in range(2, 40)]


def random_parser(scale=0.3):
    torch.manual_seed(3)
    config = ParserConfig(
        *(len(SETTINGS[key]) for key in ("words", "tags", "relations", "labels")), buckets=50, word_dim=8,
        affix_dim=4, dim=24, blocks=2, heads=2, arc_dim=8, relation_dim=6, span_dim=10,
    )  # fmt: skip
    network = ParserNetwork(config)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return BuiltinParser(network, SETTINGS | {"config": vars(config)})


@pytest.fixture(scope="module")
def shipped():
    return BuiltinParser.read()


@pytest.fixture
def folder(tmp_path):
    random_parser().save(tmp_path / "parser")
    return tmp_path / "parser"


def test_a_batch_of_one_gives_the_trees_of_a_batch_of_many_and_they_are_whole():
    parser = random_parser(scale=1.0)
    together = parser.parse(SENTENCES)
    assert [parser.parse([tokens])[0] for tokens in SENTENCES[::2]] == together[::2]
    for tree in together:
        assert [r == "root" for r in tree.relations] == [head == 0 for head in tree.heads]
        # Unlabelled nodes are left children.
        n = len(tree.tokens)
        assert all(tree.labels[node] for node in (*tree.right, 2 * n - 2) if node >= n)


def digest(folder):
    contents = [(folder / name).read_bytes() for name in ("model.safetensors", "model.json")]
    return hashlib.sha256(b"".join(contents)).hexdigest()


def test_save_and_load(folder):
    before, after = random_parser(), BuiltinParser.read(folder)
    assert after.settings == before.settings
    written = load_file(folder / "model.safetensors")
    for name, weight in before.network.state_dict().items():
        assert torch.equal(written[name], weight.half()), name
    for name, weight in after.network.state_dict().items():
        torch.testing.assert_close(weight.float(), written[name].float(), rtol=2**-8, atol=0)
    assert BuiltinParser.read(folder).parse(SENTENCES) == after.parse(SENTENCES)
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "model.safetensors", "model.sha256"]
    assert after.describe() == {"name": "builtin", "version": "1", "settings": {}, "model": digest(folder)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("missing", "model.safetensors: No such file or directory: finish the parser's training"),
        ("damaged", r"damaged: its files do not match model\.sha256"),
        # With the right digest.
        ("no object", "^.*: not a built-in parser of this version"),
        ("no labels", "^.*: not a built-in parser of this version.*labels"),
        ("other weights", "^.*: not a built-in parser of this version.*weights of other shapes than model.json says"),
    ],
)
def test_what_is_no_parser_of_this_version(folder, change, message):
    settings, weights = json.loads((folder / "model.json").read_text("utf-8")), load_file(folder / "model.safetensors")
    if change == "other weights":
        weights["encoder.weight"] = weights.pop("norm.weight")
    else:
        del settings["labels"]
    save_file(weights, folder / "model.safetensors")
    (folder / "model.json").write_text("null" if change == "no object" else json.dumps(settings))
    if change == "missing":
        (folder / "model.safetensors").unlink()
    elif change != "damaged":
        (folder / "model.sha256").write_text(digest(folder))
    with pytest.raises(InputError, match=message):
        BuiltinParser.read(folder)


def test_a_bird_on_a_tree(shipped):
    (tree,) = shipped.parse([["The", "black", "bird", "sat", "on", "a", "dead", "tree", "."]])
    assert tree.heads == (3, 3, 4, 0, 8, 8, 8, 4, 4)
    assert tree.spans()[-1] == (0, 9, "S")
    assert {(0, 3, "NP"), (3, 8, "VP"), (4, 8, "PP"), (5, 8, "NP")} <= set(tree.spans())


def test_accuracy_on_real_sentences(shipped):
    scores = score(shipped, gum(200))
    assert scores["tags"] >= 94
    assert min(scores["LAS"], scores["F1"]) >= 80


def test_ranges_travel_with_the_weights(tmp_path, monkeypatch):
    before = random_parser()
    before.calibrate(SENTENCES)
    before.save(tmp_path)
    for quick, kind in ((["int8"], QuantisedNetwork), ([], ParserNetwork)):
        monkeypatch.setattr(builtin, "quick_arithmetic", lambda quick=quick: quick)
        after = BuiltinParser.read(tmp_path)
        assert type(after.network) is kind
        assert after.settings == before.settings
        assert all(isinstance(result, ParsedSentence) for result in after.parse(SENTENCES))
