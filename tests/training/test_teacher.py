"""The objective teacher: its formula in loops, its encoder in a run, and what is refused."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import opened, random_trees, small_config
from perturbed import grammar_corpus, perturbed
from rich.console import Console

from structviews.encoding.embedder import Embedder
from structviews.encoding.sentence_encoder import SentenceEncoder
from structviews.errors import InputError
from structviews.hub.portable import stage
from structviews.objectives.objective import Context, Inputs
from structviews.objectives.teacher import TeacherAgreement, TeacherConfig
from structviews.pretrained.alignment import as_texts
from structviews.pretrained.sentence_models import PublishedModel, Teacher
from structviews.pretrained.stored_states import StoredStates, store_states
from structviews.runs.settings_file import load_run
from structviews.training import loop
from structviews.training.checkpoint import Progress
from structviews.training.loop import train
from structviews.training.trainer import Training

SENTENCES = [random_trees(words.split()) for words in ("topic1-2 of it .", "it .", "the topic3-1 and topic3-2")]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def mapped_by(linear, vector):
    rows = zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)
    return [sum(w * x for w, x in zip(row, vector, strict=True)) + bias for row, bias in rows]


def formula(objective, views, teacher, source, changed):
    """The loss in loops, from the docstring; a ``changed`` sentence has another meaning than its source."""
    weights, temperature = objective.config, objective.config.similarity_temperature
    mapped = [[mapped_by(each, v) for v in view.tolist()] for each, view in zip(objective.maps, views, strict=True)]
    n, teacher = len(teacher), teacher.tolist()
    known = [i for i in range(n) if not changed[i]]
    together = [[sum(values) / len(mapped) for values in zip(*(m[i] for m in mapped), strict=True)] for i in range(n)]

    def wanted(i, j):
        same = (source[i] if source[i] >= 0 else i) == (source[j] if source[j] >= 0 else j)
        return weights.changed_similarity if same and changed[i] != changed[j] else cosine(teacher[i], teacher[j])

    def distribution(similarity, i):
        scores = {j: math.exp(similarity(i, j) / temperature) for j in range(n) if j != i}
        return {j: score / sum(scores.values()) for j, score in scores.items()}

    total, students = 0.0, mapped if len(mapped) == 1 else [*mapped, together]
    for student in students:
        for i in known:
            p, q = distribution(wanted, i), distribution(lambda i, j, own=student: cosine(own[i], own[j]), i)
            total += weights.cosine_weight * (1 - cosine(student[i], teacher[i]))
            total += weights.similarity_weight * sum(p[j] * math.log(p[j] / q[j]) for j in p)
    return total / len(known) / len(students)


@pytest.mark.parametrize(("n_views", "perturbed"), [(1, False), (2, False), (2, True)])
def test_the_loss_and_its_gradients_are_those_of_the_formula(n_views, perturbed):
    """Perturbed: the fourth and the fifth sentence are made of the first and the second; the last two are changed."""
    weights = {"cosine_weight": 0.7, "similarity_weight": 1.3}
    config = TeacherConfig(**weights, similarity_temperature=0.4, changed_similarity=-0.3)
    inputs = Inputs(("seq",) * n_views, (4,) * n_views, teacher_dim=3)
    objective = TeacherAgreement(inputs, config).double()
    views = [torch.randn(6, 4, dtype=torch.float64, requires_grad=True) for _ in range(n_views)]
    teacher = torch.randn(6, 3, dtype=torch.float64)
    source, changed = [-1] * 6, [False] * 6
    if perturbed:
        source, changed = [-1, -1, -1, 0, 1, 0], [False, False, False, False, True, True]
        teacher[3:] = teacher[source[3:]]
    made = {"source": torch.tensor(source), "changed": torch.tensor(changed)} if perturbed else {}
    context = Context(torch.full((6, 1), -1), teacher=teacher, **made)
    loss, _ = objective(views, context)
    assert loss.item() == pytest.approx(formula(objective, views, teacher, source, changed), abs=1e-9)
    assert torch.autograd.gradcheck(lambda *each: objective(each, context)[0], views)


@pytest.fixture(scope="module")
def taught(place, tmp_path_factory):
    """A run of two views and its teacher's folder."""
    teacher = place / "teacher" / "tiny"
    out = tmp_path_factory.mktemp("taught") / "run"
    config = small_config(place / "x.parsed", out, ("dep", "avg"), objective="teacher", teacher=str(teacher), epochs=2)
    return train(config), teacher


def test_the_views_in_the_teachers_space_are_an_encoder_of_the_run(taught):
    run, _ = taught
    embedder = Embedder.load(run)
    assert (embedder.view_names, embedder.widths) == (["dep", "avg", "teacher"], [8, 8, 32])
    channel, *_ = embedder.model.channels.values()
    calls = []
    for view in channel.views:
        view.register_forward_hook(lambda view, *_: calls.append(view))
    embedder.encode_views(SENTENCES[:1])
    assert calls == [*channel.views]  # each once, not again for the further one
    dep, avg, together = (torch.from_numpy(each) for each in embedder.encode_views(SENTENCES))
    maps = channel.objective.maps
    with torch.no_grad():
        torch.testing.assert_close(together, (maps[0](dep) + maps[1](avg)) / 2)
    alone = embedder.with_view("teacher")
    assert alone.needs == {"tokens", "dependency"}
    np.testing.assert_allclose(alone.encode(SENTENCES), together, atol=1e-6)
    # Its only state is its vector.
    np.testing.assert_allclose(alone.with_representation(pooling="mean").encode(SENTENCES), together, atol=1e-6)
    encoder = SentenceEncoder(alone)
    encoder(SENTENCES).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in maps.parameters())


def test_perturbed_sentences_have_their_sentences_vector(place, tmp_path):
    corpus = grammar_corpus(tmp_path / "x.parsed", sentences=60)
    altered, teacher = perturbed(corpus), Teacher.open(str(place / "teacher" / "tiny"))
    stored = StoredStates(corpus, teacher)
    store_states(corpus, teacher, lambda sentences, size: None)
    names = {"objective": "teacher", "teacher": str(place / "teacher" / "tiny"), "perturbed": str(altered.path)}
    training = Training(small_config(corpus.path, tmp_path / "run", ("dep", "seq"), **names))
    batch = next(training.steps(Progress())).batches[0]
    n = int((batch.document >= 0).sum())
    assert 0 < n < len(batch)
    every = np.concatenate([stored.shard(number) for number in range(corpus.n_shards)])
    assert {tuple(row) for row in batch.teacher[:n].tolist()} <= {tuple(row) for row in every.tolist()}
    assert batch.changed[n:].unique().tolist() == [False, True]
    assert torch.equal(batch.teacher[n:], batch.teacher[batch.source[n:]])
    assert training.losses(batch)[0].isfinite()


def test_a_run_says_whose_student_it_is_and_a_copy_does_without_the_folder(taught, tmp_path):
    run, teacher = taught
    about = {"name": "tiny", "files": PublishedModel(teacher).fingerprint, "dim": 32, "licence": "apache-2.0"}
    assert load_run(run)[1].teacher == about
    stage(run, tmp_path / "copy")
    config, _ = load_run(tmp_path / "copy")
    assert config.objective.options["teacher"].teacher == "tiny"
    assert str(teacher.parent) not in (tmp_path / "copy" / "config.toml").read_text()


def test_vectors_on_disk_are_the_models_own(place, taught, tmp_path, monkeypatch):
    _, teacher = taught
    corpus = opened(place / "x.parsed")
    stored = StoredStates.find(corpus, Teacher.open(str(teacher)))
    rows = [corpus.sentence(row).tokens for row in range(len(corpus))]
    import sentence_transformers

    own = sentence_transformers.SentenceTransformer(str(teacher), device="cpu").encode(as_texts(rows))
    found = np.concatenate([stored.shard(number) for number in range(corpus.n_shards)])
    np.testing.assert_allclose(found, own, atol=0.002)
    shutil.copytree(teacher, tmp_path / "other")
    (tmp_path / "other" / "note.txt").write_text("another model")
    assert not StoredStates.find(corpus, Teacher.open(str(tmp_path / "other")))
    # What it has read is not locked again, so that several runs may begin at once.
    monkeypatch.delattr(loop, "store_states")
    assert loop.read_by(Teacher.open(str(teacher)), corpus, Console(quiet=True)) == stored.path


def test_a_teacher_that_is_none_is_refused_and_nothing_is_written(place, tmp_path, monkeypatch, one_line):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    for teacher, message in {
        "": "objective = teacher: give the folder of a sentence-transformers model, or its id",
        "nowhere/at-all/here": "teacher = nowhere/at-all/here: no such folder: give the folder",
        "empty": "not a model that sentence-transformers can load",
    }.items():
        with one_line(message):
            train(small_config(place / "x.parsed", "run", ("dep",), objective="teacher", teacher=teacher))
        assert not Path("run").exists()


def test_another_teacher_is_refused_and_a_damaged_one_is_named(place, taught, tmp_path):
    run, folder = taught
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "note.txt").write_text("another model")
    settings = {"objective": "teacher", "teacher": str(other), "epochs": 2}
    with pytest.raises(InputError, match="trained with another teacher than other: give that, or another folder"):
        train(small_config(place / "x.parsed", run, ("dep", "avg"), **settings))
    begun = small_config(place / "x.parsed", tmp_path / "run", ("dep", "avg"), init_from=str(run), **settings)
    with pytest.raises(InputError, match="it was trained with another teacher than other: give that, or another run"):
        train(begun)
    (other / "note.txt").unlink()
    (other / "README.md").write_text("another card")
    assert PublishedModel(other).fingerprint == PublishedModel(folder).fingerprint
    (other / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"not a model that .* can load: .*: restore its files, or give another"):
        _ = Teacher.open(str(other)).dim


def test_the_command_stores_vectors_that_training_finds(place, command, tmp_path):
    shutil.copytree(place / "x.parsed", tmp_path / "x.parsed")
    code, output, errors = command("corpus", "states", "x.parsed", "--teacher", place / "teacher" / "tiny")
    assert code == 0, errors
    folder, *about = output.splitlines()[0].split(": ")
    assert about == ["64 sentences, 32 dimensions"]
    assert len([*Path(tmp_path, folder).glob("shard-*.safetensors")]) == 3
    assert command("verify", folder)[0] == 0
    code, _, errors = command("corpus", "states", "x.parsed", "--teacher", "t", "--encoder", "e")
    assert (code, errors) == (2, "error: --teacher takes no --encoder: leave one of them out\n")
