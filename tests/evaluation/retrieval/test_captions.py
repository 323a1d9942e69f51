"""Images and captions: the files, the loss, the ranks and what is learnt, against plain loops."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from corpora import random_trees, small_config, topic_corpus, write_corpus
from shell import fails, refused

from structviews.corpus.layout import Row
from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval import captions
from structviews.evaluation.retrieval.captions import CAPTION_PROTOCOLS, DIRECTIONS, Pairs, Projections, fold_means
from structviews.evaluation.retrieval.neighbours import Ranks
from structviews.evaluation.scores.results import load_results
from structviews.evaluation.scores.tables import score_table
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.training.loop import train

OBJECTS = 30
evaluate_captions = partial(captions.evaluate_captions, trees=None, progress=lambda stage: None)


class Bag:
    """Sums of a vector for each word."""

    dim = 24

    def __init__(self):
        self.table = {f"w{i}": np.random.default_rng(i).standard_normal(self.dim) for i in range(OBJECTS)}
        self.seen = []

    def encode(self, sentences):
        self.seen += sentences
        return np.array([sum(self.table.get(w, 0 * self.table["w0"]) for w in s) for s in sentences], np.float32)


@pytest.fixture
def small(monkeypatch):
    """Both protocols, for few images."""
    monkeypatch.setattr(captions, "DIM", 20)
    monkeypatch.setattr(captions, "FOLD", 20)
    less = {"senteval": {"epochs": 7}, "kiros": {"check_every": 40, "lr": 1e-3}}
    for name, changes in less.items():
        monkeypatch.setitem(CAPTION_PROTOCOLS, name, replace(CAPTION_PROTOCOLS[name], contrasts=4, batch=32, **changes))
    return CAPTION_PROTOCOLS


@pytest.fixture
def folder(tmp_path, rng):
    """Features are sums of what is in an image; each caption names it, in another order and with one word more."""
    objects = rng.standard_normal((OBJECTS, 16))
    for split, n in (("train", 160), ("dev", 40), ("test", 45)):
        inside = np.array([rng.choice(OBJECTS, 3, replace=False) for _ in range(n)])
        names = np.array([f"{split}-{i}" for i in range(n)])
        np.savez(tmp_path / f"{split}.npz", features=objects[inside].sum(axis=1).astype(np.float16), images=names)
        lines = []
        for name, image in zip(names.tolist(), inside, strict=True):
            texts = [" ".join(f"w{i}" for i in rng.permutation([*image, rng.integers(OBJECTS)])) for _ in range(6)]
            lines.append(json.dumps({"image": name, "captions": texts}))
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_files_are_read_in_their_order(folder):
    data = captions.read_captions(folder)
    lines = [json.loads(line) for line in (folder / "dev.jsonl").read_text().splitlines()]
    assert data["dev"].captions == [tuple(text.split()) for line in lines for text in line["captions"][:5]]
    assert data["dev"].features.dtype == np.float32
    np.testing.assert_array_equal(data["dev"].features, np.load(folder / "dev.npz")["features"])
    assert "train.jsonl: fewer than 801 captions" in refused(captions.read_captions, folder, 800)


def save(folder, split, **arrays):
    there = dict(np.load(folder / f"{split}.npz"))
    np.savez(folder / f"{split}.npz", **{name: a for name, a in (there | arrays).items() if a is not None})


def edit(folder, number, line):
    """Another line in the captions of dev, or none."""
    lines = (folder / "dev.jsonl").read_text().splitlines()
    lines[number - 1 : number] = [] if line is None else [line]
    (folder / "dev.jsonl").write_text("\n".join(lines) + "\n")


CAPTIONS = ["a b"] * 5
BAD = [
    (lambda f: save(f, "dev", features=np.ones(40)), r"dev.npz: features is float64 of shape \(40,\)"),
    (lambda f: save(f, "dev", features=np.full((40, 16), np.nan)), "dev.npz: row 0 of features .* infinite"),
    (lambda f: save(f, "dev", features=np.ones((40, 15))), "dev.npz: features has 15 columns, those of train 16"),
    (lambda f: save(f, "dev", features=np.ones((39, 16))), r"dev.npz: images is <U\d+ of shape \(40,\)"),
    (lambda f: edit(f, 3, json.dumps({"image": "dev-3", "captions": CAPTIONS})), "dev.jsonl:3: image 'dev-3', but"),
    (lambda f: edit(f, 3, json.dumps({"image": "dev-2", "captions": CAPTIONS[1:]})), "dev.jsonl:3: fewer than 5"),
    (lambda f: edit(f, 40, None), "dev.jsonl:39: 39 lines for 40 images"),
]


@pytest.mark.parametrize(("damage", "message"), BAD)
def test_bad_files_are_one_line(folder, damage, message, one_line):
    damage(folder)
    with one_line(message):
        captions.read_captions(folder)


def test_the_loss_is_that_of_plain_loops():
    torch.manual_seed(1)
    images, texts = torch.randn(2, 6, 5).double()
    other_images, other_texts = torch.randn(2, 6, 3, 5).double()
    expected = 0.0
    for i in range(6):
        for c in range(3):
            expected += max(0, captions.MARGIN - images[i] @ texts[i] + images[i] @ other_texts[i, c])
            expected += max(0, captions.MARGIN - images[i] @ texts[i] + other_images[i, c] @ texts[i])
    torch.testing.assert_close(captions.ranking_loss(images, texts, other_images, other_texts), expected)


def test_ranks_are_those_of_sorted_lists():
    """As ``senteval/tools/ranking.py`` sorts them, where no scores are equal."""
    scores = np.random.default_rng(0).permutation(7 * 35).reshape(7, 35).astype(np.float32)
    scores[np.arange(35) // 5, np.arange(35)] += 50.5
    sorted_rows = [np.argsort(-row).tolist() for row in scores]
    by_image = [min(row.index(5 * i + c) for c in range(5)) for i, row in enumerate(sorted_rows)]
    by_caption = [np.argsort(-scores[:, c]).tolist().index(c // 5) for c in range(35)]
    of_images, of_captions = (captions.fold_ranks(scores)[way] for way in DIRECTIONS)
    assert (of_images.higher.tolist(), of_captions.higher.tolist()) == (by_image, by_caption)
    assert set(of_images.tied) == set(of_captions.tied) == {1}
    assert max(by_image) > 0
    of_images, of_captions = (captions.fold_ranks(np.ones((20, 100)))[way] for way in DIRECTIONS)
    assert of_captions.recalled(1).mean() == pytest.approx(1 / 20)
    assert of_images.tied.tolist() == [1 + 95] * 20  # an image's own captions count once


def test_scores_are_means_over_folds(small):
    torch.manual_seed(0)
    model, features, texts = Projections(4, 6, 5), torch.randn(45, 4), torch.randn(225, 6)
    with torch.no_grad():
        images, sentences = model.images(features), model.captions(texts)
    medians, recalls = [], []
    for start in (0, 20):
        ranks = []
        for c in range(5 * start, 5 * start + 100):
            cosines = [float(images[i] @ sentences[c]) for i in range(start, start + 20)]
            ranks.append(sum(each > cosines[c // 5 - start] for each in cosines))
        medians.append(np.floor(np.median(ranks)) + 1)
        recalls.append(100 * np.mean([rank < 5 for rank in ranks]))
    scores = fold_means(captions.split_ranks(model, Pairs(features, texts)))
    assert scores["text to image median rank"] == np.mean(medians)
    assert scores["text to image R@5"] == pytest.approx(np.mean(recalls))
    assert len(scores) == 8


def test_intervals_draw_images_with_all_their_captions():
    found = np.random.default_rng(0).random(200) < 0.5
    # All captions of an image fare alike, so that five hits are one.
    ranks = []
    for fold in np.where(found, 0, 5000).reshape(2, 100):
        texts = np.repeat(fold, 5)
        ranks.append(dict(zip(DIRECTIONS, (Ranks(each, np.ones(len(each))) for each in (fold, texts)), strict=True)))
    intervals, scores = captions.recall_intervals(ranks), fold_means(ranks)
    assert intervals.keys() == {name for name in scores if "R@" in name}
    half_width = 196 * np.sqrt(found.mean() * (1 - found.mean()) / 200)
    for name, (low, high) in intervals.items():
        assert (low, high) == pytest.approx((scores[name] - half_width, scores[name] + half_width), abs=1.5)


def test_kiros_draws_contrasts_from_all_pairs():
    for name, overlap in (("senteval", False), ("kiros", True)):
        protocol = replace(CAPTION_PROTOCOLS[name], batch=20)
        batches = list(captions.drawn_batches(50, protocol, np.random.default_rng(0)))
        assert sorted(torch.cat([pairs for pairs, _, _ in batches]).tolist()) == list(range(50))
        assert [each.shape for each in batches[0]] == [(20,), (20, protocol.contrasts), (20, protocol.contrasts)]
        assert all(torch.isin(others, pairs).any() == overlap for pairs, *both in batches for others in both)
        drawn = torch.cat([others.flatten() for _, *both in batches for others in both])
        assert np.bincount(drawn, minlength=50).min() > 30  # 60 or 100 expected


def test_kiros_first_weights_are_uniform():
    model = Projections(8, 18, 1000, kiros=True)
    for layer, bound in ((model.of_images, 1 / 2), (model.of_captions, 1 / 3)):
        assert 0.99 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", ["senteval", "kiros"])
def test_maps_are_learnt(folder, small, name):
    data, bag = captions.read_captions(folder), Bag()
    entry = evaluate_captions(bag, data, small[name])
    assert entry["protocol"]["name"] == name
    assert len(bag.seen) == len(set(bag.seen))
    assert entry["scores"]["image to text R@1"] > 40  # chance is 5
    assert entry["scores"]["text to image R@10"] > 85  # chance is 50
    assert entry["protocol"]["folds"] == 2
    assert entry["examples"] == {"train": 800, "dev": 200, "test": 225}
    assert evaluate_captions(Bag(), data, small[name]) == entry
    # Captions of other images: nothing to learn, and nothing leaks.
    rng = np.random.default_rng(0)
    for images in data.values():
        images.captions[:] = [images.captions[i] for i in rng.permutation(len(images.captions))]
    assert evaluate_captions(bag, data, small[name])["scores"]["text to image R@1"] < 15


@pytest.fixture
def pairs(folder):
    """The training pairs, and those of dev."""
    splits = captions.read_captions(folder)
    found = (splits[name] for name in ("train", "dev"))
    return [Pairs(torch.from_numpy(each.features), torch.from_numpy(Bag().encode(each.captions))) for each in found]


def test_training_ends_at_the_fourth_epoch_without_a_gain(pairs, monkeypatch, small):
    sums = iter([10, 20, 20, 15, 30, 30, 5, 99])
    monkeypatch.setattr(captions, "fold_means", lambda _: {"R@1": next(sums)})
    stages = []
    _, best = captions.fit(*pairs, small["senteval"], stages.append)
    assert (best, len(stages)) == (30, 7)


def test_kiros_looks_at_dev_after_so_many_updates_and_at_the_end_and_never_stops(pairs, monkeypatch, small):
    seen, updates = [], []
    monkeypatch.setattr(captions, "fold_means", lambda _: seen.append(len(updates)) or {"R@1": -1.0})
    loss = captions.ranking_loss
    monkeypatch.setattr(captions, "ranking_loss", lambda *vectors: updates.append(vectors) or loss(*vectors))
    captions.fit(*pairs, small["kiros"], [].append)
    assert seen == [*range(40, 15 * 25, 40), 15 * 25]
    # Images as they are, captions scaled to length 1.
    assert (updates[0][0].norm(dim=1) - 1).abs().max() > 0.1
    torch.testing.assert_close(updates[0][1].norm(dim=1), torch.ones(32))


@pytest.mark.usefixtures("small")
def test_the_command_adds_to_the_results(folder, tmp_path, command, does):
    run = train(small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path / "run", ("dep", "avg"), steps=2))
    data = captions.read_captions(folder)
    distinct = sorted({caption for each in data.values() for caption in each.captions})
    rows = [Row(0, i, i + 1, random_trees(list(caption))) for i, caption in enumerate(distinct)]
    parsed = write_corpus(tmp_path / "captions.parsed", rows, shard_size=1000)
    for flags in ((), ("--protocol", "kiros")):
        assert "image to text" in does("tasks", "captions", run, "--images", folder, "--parsed", parsed, *flags)
    entry = load_results(run)["tasks"]["COCO"]
    assert (entry["dim"], entry["protocol"]["margin"]) == (16, 0.2)
    table = score_table([run])
    shown = "/".join(f"{entry['scores'][f'{way} R@1']:.1f}" for way in DIRECTIONS)
    assert table.runs[0].texts[table.header.index("COCO")] == shown
    kiros = load_results(run, "results.kiros.json")
    assert (kiros["protocol"]["name"], kiros["flags"]) == ("kiros", " --protocol kiros")
    unit = Embedder.load(run).with_representation(normalise=True)
    expected = evaluate_captions(unit, data, CAPTION_PROTOCOLS["kiros"], trees=TaskTrees(parsed))
    assert kiros["tasks"]["COCO"]["scores"] == expected["scores"]
    said = fails(command, tmp_path, "tasks", "captions", run, "--images", folder, "--protocol", "kirros")
    assert "unknown protocol 'kirros' (did you mean kiros?): choose one of" in said
