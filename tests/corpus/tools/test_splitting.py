import numpy as np
import pytest
from corpora import topic_corpus
from made_corpora import contents, quiet, source, write_source

from structviews.corpus import writer
from structviews.corpus.format import Row
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.tools.splitting import deal, equal_shares, read_shares, split
from structviews.corpus.tools.verification import verify_corpus
from structviews.errors import InputError


def documents(corpus):
    return {row.document for row in corpus} | {skip.document for skip in corpus.skipped}


def test_every_sentence_is_in_the_part_of_its_document(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "SHARD_ROWS", 7)
    whole = ParsedCorpus.open(corpus)
    parts = split(whole, {"train": 3, "dev": 2}, tmp_path / "parts", 1, quiet)
    assert [len(documents(part)) for part in parts.values()] == [3, 2]
    assert set.union(*map(documents, parts.values())) == documents(whole)
    for name, part in parts.items():
        rows = [row for row in whole if row.document in documents(part)]
        assert list(part) == rows
        assert part.skipped == [skip for skip in whole.skipped if skip.document in documents(part)]
        assert list(verify_corpus(tmp_path / "parts" / f"{name}.parsed", quiet)) == []
        assert all(n == 7 for n in part.shard_rows[:-1])
        assert part.manifest["split"] == {
            "corpus": whole.fingerprint,
            "shares": {"train": 3, "dev": 2},
            "seed": 1,
            "part": name,
        }
        assert part.manifest["sources"] == whole.manifest["sources"]


def test_shards_are_those_that_the_rows_alone_would_give(tmp_path, monkeypatch):
    """So a part's dictionaries have its own words and no others."""
    monkeypatch.setattr(writer, "SHARD_ROWS", 7)
    whole = ParsedCorpus.open(topic_corpus(tmp_path / "x.parsed"))
    for part in split(whole, equal_shares(3), tmp_path / "parts", 1, quiet).values():
        written = write_source(tmp_path / f"again-{part.path.name}", list(part), shard_size=7)
        ours, theirs = contents(part.path), contents(written)
        assert ours.keys() == theirs.keys()
        assert all(ours[name] == theirs[name] for name in ours if name.endswith(".arrow"))


def test_the_seed_decides(corpus, tmp_path):
    whole = ParsedCorpus.open(corpus)
    found = {
        (seed, again): documents(split(whole, equal_shares(2), tmp_path / f"{seed}-{again}", seed, quiet)["0"])
        for seed in (1, 2, 3)
        for again in (False, True)
    }
    assert all(found[seed, False] == found[seed, True] for seed in (1, 2, 3))
    assert len({tuple(sorted(each)) for each in found.values()}) > 1


@pytest.mark.parametrize(("n", "shares"), [(10, [0.9, 0.1]), (7, [1, 1]), (100, [1, 2, 3]), (3, [1, 1, 1])])
def test_parts_have_their_shares(n, shares):
    sizes = np.bincount(deal(n, shares, 0), minlength=len(shares))
    assert sizes.sum() == n
    assert np.abs(sizes - n * np.array(shares) / sum(shares)).max() <= 1


def test_a_part_may_lose_all_sentences_but_skipped_ones(tmp_path):
    """The last document of the source has no other."""
    folder = write_source(tmp_path / "x.parsed", source(2))
    parts = split(ParsedCorpus.open(folder), equal_shares(2), tmp_path / "parts", 1, quiet)
    assert sorted(len(part) for part in parts.values()) == [0, sum(isinstance(each, Row) for each in source(2))]
    assert sum(len(part.skipped) for part in parts.values()) == sum(not isinstance(each, Row) for each in source(2))


def test_shares_as_they_are_written():
    assert read_shares("train=0.9, dev=.1") == {"train": 0.9, "dev": 0.1}
    for text in (
        "train=0.9",
        "train",
        "a=1,a=2",
        "a=1,b=0",
        "a=1,b=-1",
        "a=1,b=x",
        "a=1,b=nan",
        "a=1,b=inf",
        "=1,b=1",
        "a/b=1,c=1",
    ):
        with pytest.raises(InputError, match=r"--shares .*train=0\.9,dev=0\.1"):
            read_shares(text)
    with pytest.raises(InputError, match="--parts 1: give at least 2"):
        equal_shares(1)


def test_too_few_documents(corpus, tmp_path):
    with pytest.raises(InputError, match=r"5 documents: none left for .*: give fewer parts"):
        split(ParsedCorpus.open(corpus), equal_shares(6), tmp_path / "parts", 1, quiet)
    assert not (tmp_path / "parts").exists()
