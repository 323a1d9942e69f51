"""A teacher's words: as reduced and weighted by hand, in both formats; trained as in loops; with n-grams fitted."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from corpora import opened

from structviews.batches.reader import epoch_batches
from structviews.encoding.representation import normalised
from structviews.pretrained.sentence_models import Teacher
from structviews.pretrained.stored_states import store_states
from structviews.training import teacher_words
from structviews.training.teacher_words import BESIDE, RIDGE, fit_ngrams, take_file, trained
from structviews.words.sub_words import SubWords, hashed_ngrams
from structviews.words.vector_files import WordVectors, save_vectors
from structviews.words.vocabulary import UNKNOWN, Vocabulary, count_words
from structviews.words.word_settings import Word2VecConfig

pytest.importorskip("gensim", reason="needs structviews[vectors]")


@pytest.fixture
def corpus(place):
    return opened(place / "x.parsed")


@pytest.fixture
def teacher(place):
    return Teacher.open(str(place / "teacher" / "tiny"))


def by_hand(teacher, counts, words, dim):
    """The vectors from the docstring's sentence; their signs, by dimension, are free."""
    vectors = np.stack([teacher.states([[word]])[0].numpy() for word in words]).astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    shares = np.array([counts[word] / counts.total() for word in words])
    return (1e-3 / (1e-3 + shares))[:, None] * (centred @ directions[:dim].T)


@pytest.mark.parametrize(("name", "subwords"), [("words.vec", 0), ("words.bin", 0), ("words.bin", 50)])
def test_a_file_has_the_teachers_words(corpus, teacher, tmp_path, name, subwords):
    config = Word2VecConfig(dim=6, min_count=3, subwords=subwords, lower_case=True)
    steps = []
    count = take_file(tmp_path / name, corpus, config, teacher, progress=lambda *step: steps.append(step))
    counts = count_words(corpus, uncased=True)
    vectors = WordVectors.open(tmp_path / name)
    words = vectors.words.to_pylist()
    assert sorted(words) == sorted(word for word, n in counts.items() if n >= 3)
    assert (len(words), steps[-1]) == (count, (count, count))
    found, expected = vectors.read(words)[1], by_hand(teacher, counts, words, 6)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=2e-5)
    has_vector, _ = vectors.read(["topicless"])
    assert has_vector.tolist() == [bool(subwords)]


@pytest.mark.parametrize("subwords", [0, 50])
def test_other_words_come_beside_the_teachers(corpus, teacher, tmp_path, subwords):
    config = Word2VecConfig(dim=6, min_count=3, subwords=subwords)
    take_file(tmp_path / "alone.bin", corpus, config, teacher)
    alone = WordVectors.open(tmp_path / "alone.bin")
    words = alone.words.to_pylist()
    others = np.random.default_rng(0).standard_normal((len(words) - 1, 4)).astype(np.float32)
    save_vectors(tmp_path / "others.vec", words[:-1], others)
    take_file(tmp_path / "both.bin", corpus, config, teacher, beside=WordVectors.open(tmp_path / "others.vec"))
    both = WordVectors.open(tmp_path / "both.bin").read(words)[1]
    np.testing.assert_allclose(both[:, :6], alone.read(words)[1], atol=2e-5)
    further = both[:, 6:]
    np.testing.assert_allclose(further[-1], 0, atol=1e-6)
    lengths = np.linalg.norm(further[:-1], axis=1)
    np.testing.assert_allclose(further[:-1] / lengths[:, None], normalised(others), atol=1e-5)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-5)
    counts = count_words(corpus)
    occurrences = np.array([counts[word] for word in words])
    own, others = (occurrences @ np.square(each).sum(axis=1) for each in (both[:, :6], further))
    assert others == pytest.approx(BESIDE**2 * own, rel=1e-4)


@pytest.fixture
def sentences(corpus, teacher):
    """The words that have a vector, a corpus's sentences as their numbers, and the teacher's vectors of these."""
    words = sorted(word for word, n in count_words(corpus, uncased=True).items() if n >= 3)
    store_states(corpus, teacher, lambda *_: None)
    texts = [corpus.sentence(row).tokens for row in range(len(corpus))]
    known = [[words.index(token.lower()) for token in text if token.lower() in words] for text in texts]
    return words, known, F.normalize(teacher.states(texts).half().float(), dim=1)


def test_training_is_that_of_loops(corpus, teacher, sentences, tmp_path, monkeypatch):
    """Two epochs beside the formula of the objective, sentence by sentence, with PyTorch's own Adam for sparse rows."""
    for name, value in (("BATCH", 16), ("WARM_UP", 3), ("RATES", {"words": 0.05, "map": 0.02})):
        monkeypatch.setattr(teacher_words, name, value)
    words, known, wanted = sentences
    rng = np.random.default_rng(3)
    start, directions = (rng.standard_normal(shape).astype(np.float32) for shape in ((len(words), 6), (32, 6)))
    vocabulary = Vocabulary([UNKNOWN, *words], uncased=True)
    found = trained(corpus, vocabulary, teacher, 5, start, directions, 2, tmp_path / "state")
    table = torch.nn.Embedding.from_pretrained(torch.from_numpy(start), freeze=False, sparse=True)
    to_teacher = torch.nn.Parameter(torch.from_numpy(directions.copy()))
    sparse, dense = torch.optim.SparseAdam(table.parameters(), 1), torch.optim.Adam([to_teacher], 1)
    every = np.arange(len(corpus))
    batches = [rows for epoch in range(2) for rows in epoch_batches(every, 16, 5, epoch, shuffled=True)]
    for number, rows in enumerate(batches):
        scale = min(1, (number + 1) / 3) * (1 - number / len(batches))
        sparse.param_groups[0]["lr"], dense.param_groups[0]["lr"] = 0.05 * scale, 0.02 * scale
        means = torch.stack([table(torch.tensor(known[row])).mean(dim=0) for row in rows])
        mapped, taught = F.normalize(means @ to_teacher.T, dim=1), wanted[rows]
        loss = 1 - (mapped * taught).sum(dim=1).mean()
        for i in range(len(rows)):
            others = [j for j in range(len(rows)) if j != i]
            p, q = ((each[others] @ each[i] / 0.05).log_softmax(dim=0) for each in (taught, mapped))
            loss = loss + (p.exp() * (p - q)).sum() / len(rows)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
    np.testing.assert_allclose(found, (table.weight @ to_teacher.T).detach().numpy(), atol=2e-4)
    assert np.abs(found - start @ directions.T).max() > 0.01


def test_trained_words_agree_better_and_resume(corpus, teacher, sentences, tmp_path, monkeypatch):
    words, known, wanted = sentences
    monkeypatch.setattr(teacher_words, "BATCH", 16)
    config = Word2VecConfig(dim=16, min_count=3, subwords=50, lower_case=True)

    def divergence(path):
        """Of the means' cosines with one another from the teacher's."""
        vectors = WordVectors.open(path).read(words)[1]
        means = F.normalize(torch.stack([torch.from_numpy(vectors[own]).mean(dim=0) for own in known]), dim=1)
        return (means @ means.T - wanted @ wanted.T).square().mean()

    for epochs in (0, 1, 3):
        take_file(tmp_path / f"{epochs}.bin", corpus, config, teacher, epochs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.bin", "1.bin", "3.bin"]
    assert divergence(tmp_path / "3.bin") < divergence(tmp_path / "1.bin") < divergence(tmp_path / "0.bin")

    def stop(done, total):
        if 2 * done > total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_file(tmp_path / "again.bin", corpus, config, teacher, 3, stop)
    steps = []
    take_file(tmp_path / "again.bin", corpus, config, teacher, 3, lambda *step: steps.append(step))
    assert steps[0][0] > len(corpus)  # after the first epoch
    assert steps[-1] == (3 * len(corpus), 3 * len(corpus))
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "3.bin").read_bytes()


def test_ngrams_are_those_of_ridge_regression():
    words = ["abcd", "bcde", "cdef", "abc", "xyz", "wxyz"]
    vectors = np.random.default_rng(0).standard_normal((6, 3))
    sub_words = SubWords(np.ones((8, 3), np.float32), None, 3, 4)
    fit_ngrams(sub_words, words, vectors)
    means = np.zeros((len(words), 8))
    for row, word in zip(means, words, strict=True):
        hashes, _ = hashed_ngrams([word.encode()], 3, 4)
        for number in hashes % 8:
            row[number] += 1 / len(hashes)
    exact = np.linalg.solve(means.T @ means + RIDGE * np.eye(8), means.T @ vectors)
    np.testing.assert_allclose(sub_words.rows, exact, atol=1e-4)


def test_the_command_and_what_it_refuses(place, command, does):
    corpus, teacher = place / "x.parsed", place / "teacher" / "tiny"
    taught = ("--teacher", teacher, "--dim", 6, "--min-count", 3)
    assert does("vectors", corpus, "-o", "t.vec", *taught).startswith("t.vec: 36 words, 6 dimensions\n")
    both = does("vectors", corpus, "-o", "both.vec", *taught, "--beside", "t.vec")
    assert both.startswith("both.vec: 36 words, 12 dimensions\n")
    for arguments, said in (
        (("--teacher", teacher), f"dim = 300: more than the 32 dimensions of {teacher}: lower --dim"),
        ((*taught[:2], "--window", 3), "--window: a setting of skip-gram, not of --teacher: leave one of them out"),
        (("--beside", "t.vec"), "--beside: the file is put beside a teacher's words: name the teacher with --teacher"),
    ):
        code, _, errors = command("vectors", corpus, "-o", "u.vec", *arguments)
        assert (code, errors.splitlines()[-1]) == (2, f"error: {said}")
