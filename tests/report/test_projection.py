"""Vectors in the plane, against a singular value decomposition; pictures of them, and the command."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from report_pages import read_page
from shell import fails

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool
from structviews.report import projection
from structviews.report.projection import Sample, draw_run, project, read_labels


def test_without_umap_points_are_the_first_two_principal_components():
    vectors = np.random.default_rng(0).standard_normal((60, 9)).astype(np.float32) * np.arange(9, 0, -1)
    u, s, _ = np.linalg.svd((vectors - vectors.mean(0)).astype(np.float64), full_matrices=False)
    found = project(vectors)
    np.testing.assert_allclose(np.abs(found.points), np.abs(u[:, :2] * s[:2]), atol=1e-3)  # to their signs
    assert found.method == f"PCA, {100 * (s[:2] ** 2).sum() / (s**2).sum():.0f} % of the variance"
    assert project(np.ones((5, 4), np.float32)).method == "PCA, 0 % of the variance"
    with pytest.raises(InputError, match="2 distinct sentences are too few"):
        project(vectors[:2])


def test_with_umap_it_is_asked_for_neighbours_by_cosine(monkeypatch):
    asked = []

    def fitted(**settings):
        asked.append(settings)
        return SimpleNamespace(fit_transform=lambda vectors: vectors[:, :2] + 1)

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=fitted))
    monkeypatch.setattr(projection, "find_spec", lambda name: name)
    vectors = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    found = project(vectors, seed=7)
    np.testing.assert_array_equal(found.points, vectors[:, :2] + 1)
    assert found.method == "UMAP by cosine"
    assert asked == [{"n_neighbors": 15, "metric": "cosine", "random_state": 7}]
    assert project(vectors[:15]).method.startswith("PCA")


def test_a_sample_is_spread_over_the_pool(trained):
    pool = Pool(trained[0])
    assert Sample.of(pool, 10**6).texts == pool.texts
    some = Sample.of(pool, 7)
    assert len(some.rows) == len(some.texts) == 7
    assert (some.rows[0], some.rows[-1]) == (0, len(pool) - 1)
    assert np.ptp(np.diff(some.rows)) <= 1
    assert [" ".join(sentence.tokens) for sentence in some.sentences] == some.texts


def test_labels_belong_to_lines_of_the_source(trained, tmp_path):
    text, labels = tmp_path / "x.txt", tmp_path / "labels"
    text.write_text("one bird\n\ntwo birds\none bird\nno bird\n")
    labels.write_text("a\n\nb\nc\nd\n")
    pool = Pool(text)
    assert read_labels(labels, pool, np.arange(3)) == ["a", "b", "d"]
    assert read_labels(labels, pool, np.array([2])) == ["d"]
    for content, message in (
        ("a\n\n \nc\nd\n", r"labels:3: no label, but .*x\.txt has a sentence from that line"),
        ("a\n\nb\nc\nd\ne\nf\n", r"labels: 7 lines, but .*x\.txt has 5: give one label per line"),
        ("a\nb\n", r"labels: 2 lines, but a sentence of .*x\.txt is from line 5"),
    ):
        labels.write_text(content)
        with pytest.raises(InputError, match=message):
            read_labels(labels, pool, np.arange(3))
    parsed = Pool(trained[0])
    labels.write_text("".join(f"line {i}\n" for i in range(1, 97)))
    assert read_labels(labels, parsed, np.array([0, 5])) == ["line 1", f"line {parsed.positions[5] + 1}"]


def test_an_interactive_page_has_each_sentence_where_its_vector_is(trained, labels, tmp_path):
    corpus, (run, _) = trained
    pool, out = Pool(corpus), tmp_path / "x.html"
    found, sample = draw_run(run, pool, out, labels=labels, most=50)
    np.testing.assert_allclose(found.points, project(Embedder.load(run).encode(sample.sentences)).points)
    (data,) = (json.loads(each.text) for each in read_page(out).all("script", id="data"))
    assert data["texts"] == [pool.shown(row) for row in sample.rows]
    assert data["lines"] == pool.lines[sample.rows].tolist()
    # Places on the page are places in the plane, moved and scaled alike, with y downwards.
    x, y = np.array([data["x"], data["y"]])
    scale = np.ptp(found.points, axis=0).max()
    np.testing.assert_allclose(np.diff(x), np.diff(found.points[:, 0]) / scale, atol=2e-4)
    np.testing.assert_allclose(np.diff(y), -np.diff(found.points[:, 1]) / scale, atol=2e-4)
    assert (x.min(), y.min()) == (0, 0)
    assert max(x.max(), y.max()) == 1
    label, document, length = data["colourings"]
    assert [each["name"] for each in data["colourings"]] == ["label", "document", "length in words"]
    assert [label["classes"][i]["name"] for i in label["values"]] == read_labels(labels, pool, sample.rows)
    assert length["values"] == [len(text.split()) for text in sample.texts]
    numbers = [int(document["classes"][i]["name"].split()[1]) for i in document["values"]]
    assert numbers == pool.documents[sample.rows].tolist()


def test_documents_of_a_text_are_those_of_its_parsed_corpus(trained, tmp_path):
    pool = Pool(trained[0])
    numbers = [row.document + 1 for row in ParsedCorpus.open(trained[0])]
    assert pool.documents.tolist() == [numbers[i] for i in pool.positions]
    text = tmp_path / "x.txt"
    text.write_text("\n\none\n\n\ntwo\none\nthree\n")
    pool = Pool(text)
    assert (pool.texts, pool.documents.tolist()) == (["one", "two", "three"], [1, 2, 2])


@pytest.mark.parametrize(("name", "begins"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("x.html", b"<!doctype")])
def test_the_command_writes_what_the_ending_says_and_the_same_again(trained, labels, tmp_path, does, name, begins):
    flags = ("--corpus", trained[0], "--labels", labels, "--max-sentences", 30, "-o", name)
    found = []
    for _ in range(2):
        printed = does("runs", "project", trained[1][0], *flags)
        assert f"{name}: 30 of " in printed
        assert " sentences, PCA, " in printed
        found.append((tmp_path / name).read_bytes())
    assert found[0].startswith(begins)
    assert found[0] == found[1]


def test_bad_input_is_one_line(trained, tmp_path, command):
    run, corpus = trained[1][0], ("--corpus", trained[0])
    (tmp_path / "x.png").mkdir()
    for arguments, message in [
        ((run, *corpus, "-o", "x.jpg"), "x.jpg: pictures must end in .png, .svg, .html"),
        ((run, *corpus, "-o", "x.png"), "x.png: is a folder: give the name of a file"),
        ((run, *corpus, "--max-sentences", 2, "-o", "y.png"), "Invalid value for '--max-sentences'"),
    ]:
        assert message in fails(command, tmp_path, "runs", "project", *arguments)
