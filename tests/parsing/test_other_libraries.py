"""The backends around stanza, benepar and spaCy, on tiny models in these libraries' own files."""

import json
import shutil
import socket

import pytest
import tiny_parsers
from nltk.tree import Tree

from structviews.corpus.sentence import InvalidSentence
from structviews.errors import InputError
from structviews.parsing.binarise import binarise, strip
from structviews.parsing.libraries import as_token, errors_of, hash_files, sentence, surface
from structviews.parsing.parser import Fault, Options
from structviews.parsing.specification import load

TOKENS = [
    ["The", "bird", "sat", "."],
    ["Go"],
    ["(", "[", "{", "}", "]", ")", "-LRB-", "a-RRB-b", "``", "''", "1\\/2"],
    ["naïve", "😀", "👩‍👩‍👧", "\ufeff", "عربى", "漢字", "a\u0301", "1\u2423000"],
    ["_", "#", "%", "|", "+", "<s>", "-NONE-", "NP=2", "x" * 200],
    *([f"w{i}" for i in range(n)] for n in (2, 3, 5, 9, 17, 40)),
]
KINDS = {
    "stanza": {"dependency", "constituency"},
    "benepar": {"constituency"},
    "benepar-t5": {"constituency"},
    "spacy": {"dependency"},
}
# Whose weights can be spoilt.
FILES = {
    "stanza": "en/depparse/random.pt",
    "benepar": "tiny.pt",
    "benepar-t5": "benepar_en3/benepar_model.bin",
    "spacy": "tiny/parser/model",
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def loaded(tiny_models):
    """Loads the tiny parser of a kind."""

    def loaded(kind):
        specification, folder = tiny_models(kind)
        return load(specification, Options(models=folder, device="cpu"))

    return loaded


@pytest.fixture
def copied(tiny_models, tmp_path):
    """Copies the tiny models of a kind, to be spoilt."""

    def copied(kind):
        specification, folder = tiny_models(kind)
        shutil.copytree(folder, tmp_path / "models")
        return specification, tmp_path / "models"

    return copied


def failure(specification, folder, **options):
    with pytest.raises(InputError) as caught:
        load(specification, Options(**{"models": folder, "device": "cpu"} | options))
    message = str(caught.value)
    assert "\n" not in message
    return message


# What all have in common.


@every_kind
def test_description_is_of_the_files_and_not_of_their_place(kind, loaded, copied):
    description = loaded(kind).describe()
    assert json.loads(json.dumps(description)) == description
    assert len(description["model"]) == 64
    specification, folder = copied(kind)
    assert load(specification, Options(models=folder, device="cpu")).describe() == description


@every_kind
def test_loading_and_parsing_ask_nothing_of_the_network(kind, loaded, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was asked")

    tiny = loaded(kind)
    expected = tiny.parse(TOKENS[:3])
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert loaded(kind).parse(TOKENS[:3]) == expected


@every_kind
def test_a_sentence_that_the_library_fails_on_is_alone_in_it(kind, loaded, monkeypatch):
    parser = loaded(kind)
    inner = {"stanza": "pipeline", "spacy": "nlp"}.get(kind, "parser")
    library = getattr(parser.parser, inner)

    class Failing:
        def __getattr__(self, name):
            return getattr(library, name)

        def __call__(self, sentences):
            return library(check(sentences, list))

        def parse_sents(self, given):
            return library.parse_sents(check(given, lambda each: each.words))

        def pipe(self, documents):
            return library.pipe(check(documents, lambda each: [word.text for word in each]))

    def check(sentences, words):
        if any("w8" in words(each) and len(words(each)) == 9 for each in sentences):
            raise StopIteration("w8 is too much")
        return sentences

    expected = parser.parse(TOKENS)
    monkeypatch.setattr(parser.parser, inner, Failing())
    answers = parser.parse(TOKENS)
    at_fault = next(i for i, tokens in enumerate(TOKENS) if len(tokens) == 9 and tokens[0] == "w0")
    assert isinstance(answers[at_fault], Fault)
    assert "w8 is too much" in answers[at_fault].reason
    assert answers[:at_fault] + answers[at_fault + 1 :] == expected[:at_fault] + expected[at_fault + 1 :]


@every_kind
def test_a_folder_without_models_says_what_fetches_them(kind, tiny_models, tmp_path):
    specification, _ = tiny_models(kind)
    message = failure(specification, tmp_path)
    library = tiny_parsers.LIBRARIES[kind]
    assert str(tmp_path) in message
    assert f"structviews parser download {library}" in message
    assert f"--models {tmp_path}" in message


@pytest.mark.parametrize(("kind", "file"), [*FILES.items(), ("stanza", "resources.json")])
def test_a_truncated_file(kind, file, copied, capfd):
    specification, folder = copied(kind)
    (folder / file).write_bytes((folder / file).read_bytes()[:300])
    message = failure(specification, folder)
    assert str(folder / file.split("/")[0]) in message
    assert "structviews parser download" in message
    assert capfd.readouterr().err == ""


@every_kind
def test_a_checkpoint_that_would_run_code_is_not_read(kind, copied, tmp_path):
    import torch

    specification, folder = copied(kind)
    torch.save(Trap(tmp_path / "sprung"), folder / FILES[kind])
    failure(specification, folder)
    assert not (tmp_path / "sprung").exists()


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("name", ["stanza", "spacy"])
def test_libraries_that_are_not_installed(monkeypatch, name):
    monkeypatch.setitem(__import__("sys").modules, name, None)
    assert f"{name}, which is not installed: pip install 'structviews[parsers]'" in failure(name, None)


# stanza.


def test_stanza_gives_what_its_own_pipeline_gives(loaded, tiny_models):
    ours = loaded("stanza").parser.parse(TOKENS)
    import stanza

    pipeline = stanza.Pipeline(
        "en", dir=str(tiny_models("stanza")[1]), processors="tokenize,pos,lemma,depparse,constituency",
        tokenize_pretokenized=True, download_method=None, device="cpu", logging_level="ERROR",
    )  # fmt: skip
    document = pipeline([[surface(token) for token in tokens] for tokens in TOKENS])
    for answer, theirs in zip(ours, document.sentences, strict=True):
        assert answer.heads == tuple(word.head for word in theirs.words)
        assert answer.relations == tuple(word.deprel for word in theirs.words)
        assert answer.tags == tuple(word.xpos for word in theirs.words)
        # In brackets a space would end the word.
        if not any(" " in word.text for word in theirs.words):
            binary = binarise(strip(Tree.fromstring(str(theirs.constituency))))
            assert (answer.left, answer.right, answer.labels) == (binary.left, binary.right, binary.labels)


@pytest.mark.parametrize(("kind", "unused"), [("dependency", "constituency"), ("constituency", "depparse")])
def test_stanza_leaves_out_the_trees_that_are_not_wanted(kind, unused, tiny_models, loaded):
    _, folder = tiny_models("stanza")
    parser = load("stanza", Options(models=folder, device="cpu", wanted=frozenset({kind})))
    assert parser.kinds == {kind}
    assert unused not in parser.parser.pipeline.processors
    for answer, both in zip(parser.parse(TOKENS), loaded("stanza").parse(TOKENS), strict=True):
        assert (answer.has_dependencies, answer.has_constituents) == (kind == "dependency", kind == "constituency")
        if kind == "constituency":
            assert (answer.tags, answer.left, answer.labels) == (both.tags, both.left, both.labels)


def test_stanza_tokenises(loaded):
    texts = ["The bird sat.", "", "Go  home!  Now.", "a\u00a0b 1 000"]
    found = loaded("stanza").parser.tokenise(texts)
    for words, text in zip(found, texts, strict=True):
        assert "".join(words) == "".join(text.split())
        assert all(words)
        assert not any(c.isspace() for word in words for c in word)


def edit_resources(folder, edit):
    file = folder / "resources.json"
    resources = json.loads(file.read_text())
    edit(resources)
    file.write_text(json.dumps(resources))


def test_stanza_models_that_are_not_there(copied):
    _, folder = copied("stanza")
    assert "--lang xx: stanza has no models for this language" in failure("stanza", folder, language="xx")
    assert "choose one of default" in failure("stanza:gum", folder)
    edit_resources(folder, lambda resources: resources.update(de=resources["en"], gsw={"alias": "de"}))
    message = failure("stanza", folder, language="gsw")
    assert message.startswith(f"{folder}/de/")
    assert f"structviews parser download stanza --lang gsw --models {folder}" in message
    shutil.copytree(folder / "en", folder / "de")
    assert f"{folder}/de/pos/random.pt is a model for 'en'" in failure("stanza", folder, language="de")
    (folder / "en/pos/random.pt").unlink()
    assert failure("stanza", folder).startswith(f"{folder}/en/pos/random.pt: ")
    edit_resources(folder, lambda resources: resources["en"]["packages"]["default"].pop("constituency"))
    shutil.copy(folder / "de/pos/random.pt", folder / "en/pos/random.pt")
    assert load("stanza", Options(models=folder, device="cpu")).kinds == {"dependency"}


def test_stanza_models_of_another_version(copied):
    import torch

    _, folder = copied("stanza")
    file = folder / "en/depparse/random.pt"
    checkpoint = torch.load(file, weights_only=True)
    del checkpoint["config"]["hidden_dim"]
    torch.save(checkpoint, file)
    assert failure("stanza", folder).startswith(f"{file} is damaged or not the version in resources.json")
    edit_resources(folder, lambda resources: resources["en"]["depparse"]["random"].pop("md5"))
    assert "cannot load its models" in failure("stanza", folder)


# benepar.


@pytest.mark.parametrize("kind", ["benepar", "benepar-t5"])
def test_benepar_gives_the_best_tree_of_its_scores(kind, loaded):
    """Against benepar's own CKY in plain Python, sentence by sentence."""
    parser = loaded(kind)
    chart = parser.parser.parser._parser
    for tokens, answer in zip(TOKENS, parser.parse(TOKENS), strict=True):
        given = parser.parser.parser._with_missing_fields_filled(
            parser.parser.benepar.InputSentence(words=[surface(token) for token in tokens])
        )
        (scores,) = chart.parse([given], return_scores=True)
        tree = chart.decoder.tree_from_scores(scores, [(token, "X") for token in tokens])
        binary = binarise(strip(tree))
        assert (answer.left, answer.right, answer.labels) == (binary.left, binary.right, binary.labels)


def test_benepar_without_a_model_for_the_language(tiny_models, tmp_path):
    tiny_models("benepar")
    assert "--lang fi: benepar only has models for ar, de, en" in failure("benepar", tmp_path, language="fi")
    assert "for 'de', but --lang is 'en'" in failure("benepar:benepar_de2", tmp_path)
    assert "no such file or folder" in failure(f"benepar:{tmp_path}/none.pt", tmp_path)


# spaCy.


def test_spacy_gives_what_its_own_pipeline_gives(loaded, tiny_models):
    import spacy
    from spacy.tokens import Doc

    nlp = spacy.load(tiny_models("spacy")[1] / "tiny")
    for answer, tokens in zip(loaded("spacy").parse(TOKENS), TOKENS, strict=True):
        starts = [True] + [False] * (len(tokens) - 1)
        doc = nlp(Doc(nlp.vocab, words=[surface(token) for token in tokens], sent_starts=starts))
        assert answer.tags == tuple(word.tag_ for word in doc)
        assert answer.heads == tuple(0 if word.head == word else word.head.i + 1 for word in doc)
        assert answer.relations == tuple(word.dep_ for word in doc)


def test_spacy_runs_what_gives_trees_and_tags_only(tiny_models, tmp_path):
    import spacy

    nlp = spacy.load(tiny_models("spacy")[1] / "tiny")
    nlp.add_pipe("sentencizer", first=True)
    nlp.add_pipe("entity_ruler")
    nlp.add_pipe("merge_entities")
    nlp.to_disk(tmp_path / "more")
    parser = load("spacy:more", Options(models=tmp_path, device="cpu"))
    assert parser.parser.nlp.pipe_names == ["tok2vec", "tagger", "parser"]


def test_spacy_pipelines_that_cannot_be_used(tiny_models, tmp_path):
    specification, folder = tiny_models("spacy")
    from benchmarks import parser_models

    parser_models.spacy_pipeline(tmp_path / "tagger", tiny_parsers.sentences(), tiny=True, parser=False)
    message = failure("spacy:tagger", tmp_path)
    assert message.startswith(f"{tmp_path / 'tagger'}: this pipeline has no dependency parser (it has tok2vec, tagger)")
    assert "for 'en', but --lang is 'de': add --lang en" in failure(specification, folder, language="de")
    assert "no pipeline given" in failure("spacy", None)
    assert "structviews parser download spacy en_core_web_none" in failure("spacy:en_core_web_none", None)


def test_spacy_package_is_not_imported(tiny_models, tmp_path, monkeypatch):
    """A pipeline that is installed as a package, whose code would fail."""
    package = tmp_path / "xy_tiny"
    shutil.copytree(tiny_models("spacy")[1] / "tiny", package / "xy_tiny-1.0.0")
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert load("spacy:xy_tiny", Options(device="cpu")).parse([["a"]])[0].tokens == ("a",)


# What they share.


def test_surface_and_back():
    tokens, words = ("-LRB-", "a-RSB-b", "``", "''", "'", "1\u2423000"), ("(", "a]b", '"', '"', "'", "1 000")
    assert tuple(map(surface, tokens)) == words
    assert as_token("1 000\u00a0x") == "1\u2423000\u2423x"


@pytest.mark.parametrize(
    ("brackets", "reason"),
    [
        ("(S (A a) (B c))", "word 2 of the constituency tree is 'c', but the token is 'b'"),
        ("(S (A a) (-NONE- b))", "1 words for 2 tokens"),
        ("(S (-NONE- a) (-NONE- b))", "the bracket tree has no words"),
    ],
)
def test_a_tree_over_other_words_is_a_fault(brackets, reason):
    assert reason in sentence(["a", "b"], Tree.fromstring(brackets)).reason


def test_what_is_no_tree_is_a_fault():
    tree = Tree("X", ["a"])
    for _ in range(5000):
        tree = Tree("S", [tree])
    assert isinstance(sentence(["a"], tree), Fault)
    assert "2 dependency roots" in sentence(["a", "b"], heads=(0, 0), relations=("root", "root")).reason


def test_errors_become_those_of_sentences_but_for_memory():
    with pytest.raises(InvalidSentence, match=r"lib failed \(IndexError\)"), errors_of("lib"):
        raise IndexError
    with pytest.raises(RuntimeError), errors_of("lib"):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")


def test_hashes_are_of_names_and_contents(tmp_path):
    for folder, name, content in (("a", "x", "1"), ("b", "x", "1"), ("c", "y", "1"), ("d", "x", "2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(content)
    hashes = [hash_files(tmp_path / folder, [*(tmp_path / folder).iterdir()]) for folder in "abcd"]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
