"""The backends around stanza, benepar and spaCy, on tiny models in these libraries' own files."""

import json
import shutil
import socket
import sys

import pytest
import tiny_parsers
from nltk.tree import Tree
from shell import refused
from unpickled import Touch

from structviews.corpus.sentence import InvalidSentence
from structviews.parsing.binarise import binarise, strip
from structviews.parsing.libraries import errors_of, hash_files, sentence, surface
from structviews.parsing.parser import Fault, Options
from structviews.parsing.specification import load
from structviews.parsing.treebank import as_token

TOKENS = [*tiny_parsers.ODD_SENTENCES, *([f"w{i}" for i in range(n)] for n in (2, 3, 5, 9, 17, 40))]
# A file of each kind of models, to be spoilt.
FILES = {"stanza": "en/depparse/random.pt", "spacy": "tiny/parser/model", "benepar": "tiny.pt"}
FILES |= {"benepar-t5": "benepar_en3/benepar_model.bin"}
every_kind = pytest.mark.parametrize("kind", FILES)


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
        return specification, shutil.copytree(folder, tmp_path / "models")

    return copied


def failure(specification, folder, **options):
    return refused(load, specification, Options(**{"models": folder, "device": "cpu"} | options))


@every_kind
def test_description_is_of_the_files_and_not_of_their_place(kind, loaded, copied):
    specification, folder = copied(kind)
    assert load(specification, Options(models=folder, device="cpu")).describe() == loaded(kind).describe()
    before = hash_files(folder, [folder / FILES[kind]])
    (folder / FILES[kind]).write_bytes(b"other")
    assert hash_files(folder, [folder / FILES[kind]]) != before


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
    at_fault = next(i for i, tokens in enumerate(TOKENS) if tokens[0] == "w0" and len(tokens) == 9)

    class Failing:
        def __getattr__(self, name):
            return getattr(library, name)

        def __call__(self, sentences):
            return library(check(sentences, list))

        def parse_sents(self, sentences):
            return library.parse_sents(check(sentences, lambda each: each.words))

        def pipe(self, documents):
            return library.pipe(check(documents, lambda each: [word.text for word in each]))

    def check(sentences, words):
        if TOKENS[at_fault] in map(words, sentences):
            raise StopIteration("w8 is too much")
        return sentences

    expected = parser.parse(TOKENS)
    monkeypatch.setattr(parser.parser, inner, Failing())
    answers = parser.parse(TOKENS)
    assert isinstance(answers[at_fault], Fault)
    assert "w8 is too much" in answers[at_fault].reason
    assert answers[:at_fault] + answers[at_fault + 1 :] == expected[:at_fault] + expected[at_fault + 1 :]


@pytest.mark.parametrize(("kind", "file"), [*FILES.items(), ("stanza", "resources.json")])
def test_a_truncated_file_or_one_with_code_is_refused_and_the_remedy_said(kind, file, copied, capfd, tmp_path):
    import torch

    specification, folder = copied(kind)
    (folder / file).write_bytes((folder / file).read_bytes()[:300])
    message = failure(specification, folder)
    assert str(folder / file.split("/")[0]) in message
    assert "structviews parser download" in message
    assert capfd.readouterr().err == ""
    torch.save(Touch(tmp_path / "sprung"), folder / file)
    failure(specification, folder)
    assert not (tmp_path / "sprung").exists()
    (tmp_path / "empty").mkdir()
    message = failure(specification, tmp_path / "empty")
    assert str(tmp_path / "empty") in message
    assert f"structviews parser download {specification.partition(':')[0]}" in message
    assert f"--models {tmp_path}" in message


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


def test_stanza_models_that_are_not_there(copied):
    _, folder = copied("stanza")
    file = folder / "resources.json"
    resources = json.loads(file.read_text())
    assert "--lang xx: stanza has no models for this language" in failure("stanza", folder, language="xx")
    assert "choose one of default" in failure("stanza:gum", folder)
    file.write_text(json.dumps(resources | {"de": resources["en"], "gsw": {"alias": "de"}}))
    message = failure("stanza", folder, language="gsw")
    assert message.startswith(f"{folder}/de/")
    assert f"structviews parser download stanza --lang gsw --models {folder}" in message
    shutil.copytree(folder / "en", folder / "de")
    assert f"{folder}/de/pos/random.pt is a model for 'en'" in failure("stanza", folder, language="de")
    (folder / "en/pos/random.pt").write_bytes(b"cut")
    assert failure("stanza", folder).startswith(f"{folder}/en/pos/random.pt is damaged or not the version in resources")
    (folder / "en/pos/random.pt").unlink()
    assert failure("stanza", folder).startswith(f"{folder}/en/pos/random.pt: ")
    del resources["en"]["packages"]["default"]["constituency"]
    file.write_text(json.dumps(resources))
    shutil.copy(folder / "de/pos/random.pt", folder / "en/pos/random.pt")
    assert load("stanza", Options(models=folder, device="cpu")).kinds == {"dependency"}


@pytest.mark.parametrize("kind", ["benepar", "benepar-t5"])
def test_benepar_gives_the_best_tree_of_its_scores(kind, loaded):
    """Against benepar's own CKY in plain Python, sentence by sentence."""
    parser = loaded(kind)
    chart = parser.parser.parser._parser
    for tokens, answer in zip(TOKENS, parser.parse(TOKENS), strict=True):
        words = parser.parser.benepar.InputSentence(words=list(map(surface, tokens)))
        given = parser.parser.parser._with_missing_fields_filled(words)
        (scores,) = chart.parse([given], return_scores=True)
        tree = chart.decoder.tree_from_scores(scores, [(token, "X") for token in tokens])
        binary = binarise(strip(tree))
        assert (answer.left, answer.right, answer.labels) == (binary.left, binary.right, binary.labels)


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


def test_spacy_package_is_not_imported_and_other_components_do_not_run(tiny_models, tmp_path, monkeypatch):
    """A pipeline that is installed as a package, whose code would fail."""
    import spacy

    nlp = spacy.load(tiny_models("spacy")[1] / "tiny")
    nlp.add_pipe("sentencizer", first=True)
    nlp.add_pipe("merge_entities")
    package = tmp_path / "xy_tiny"
    package.mkdir()
    nlp.to_disk(package / "xy_tiny-1.0.0")
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    parser = load("spacy:xy_tiny", Options(device="cpu"))
    assert parser.parse([["a"]])[0].tokens == ("a",)
    assert parser.parser.nlp.pipe_names == ["tok2vec", "tagger", "parser"]


def test_spacy_and_benepar_models_that_cannot_be_used(tiny_models, tmp_path, monkeypatch):
    specification, folder = tiny_models("spacy")
    from benchmarks import parser_models

    parser_models.spacy_pipeline(tmp_path / "tagger", tiny_parsers.sentences(), tiny=True, parser=False)
    message = failure("spacy:tagger", tmp_path)
    assert message.startswith(f"{tmp_path / 'tagger'}: this pipeline has no dependency parser (it has tok2vec, tagger)")
    assert "for 'en', but --lang is 'de': add --lang en" in failure(specification, folder, language="de")
    assert "no pipeline given" in failure("spacy", None)
    assert "structviews parser download spacy en_core_web_none" in failure("spacy:en_core_web_none", None)
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert "spacy, which is not installed: pip install 'structviews[parsers]'" in failure("spacy", None)
    tiny_models("benepar")
    assert "--lang fi: benepar only has models for ar, de, en" in failure("benepar", tmp_path, language="fi")
    assert "for 'de', but --lang is 'en'" in failure("benepar:benepar_de2", tmp_path)
    assert "no such file or folder" in failure(f"benepar:{tmp_path}/none.pt", tmp_path)


def test_no_tree_and_a_tree_over_other_words_are_faults():
    for brackets, reason in (
        ("(S (A a) (B c))", "word 2 of the constituency tree is 'c', but the token is 'b'"),
        ("(S (A a) (-NONE- b))", "1 words for 2 tokens"),
        ("(S (-NONE- a) (-NONE- b))", "the bracket tree has no words"),
    ):
        assert reason in sentence(["a", "b"], Tree.fromstring(brackets)).reason
    assert "2 dependency roots" in sentence(["a", "b"], heads=(0, 0), relations=("root", "root")).reason
    deep = Tree("X", ["a"])
    for _ in range(5000):
        deep = Tree("S", [deep])
    assert isinstance(sentence(["a"], deep), Fault)


def test_surface_and_back():
    tokens, words = ("-LRB-", "a-RSB-b", "``", "''", "'", "1\u2423000"), ("(", "a]b", '"', '"', "'", "1 000")
    assert tuple(map(surface, tokens)) == words
    assert as_token("1 000\u00a0x") == "1\u2423000\u2423x"


def test_errors_become_those_of_sentences_but_for_memory():
    with pytest.raises(InvalidSentence, match=r"lib failed \(IndexError\)"), errors_of("lib"):
        raise IndexError
    with pytest.raises(RuntimeError), errors_of("lib"):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
