"""What ``Embedder.encode`` takes besides sentences: devices, progress, processes; and the precision of bf16."""

import pickle
import shutil
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from corpora import RandomParser, tiny_rows

from structviews.encoding import encoding_pool
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import open_pool, processes_that_pay
from structviews.encoding.kinds.joined import JoinedEmbedder
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.encoding.preparation import SentenceError
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.runs.settings_file import read_settings, write_settings
from structviews.runs.which_vectors import Representation

SENTENCES = [row.sentence for row in tiny_rows()]
RAW = ["A bird sings.", "It is dead", *(f"Tree {i} of the dead trees" for i in range(20))]


@pytest.fixture(scope="module")
def embedder(runs_of_all_kinds):
    return Embedder.load(runs_of_all_kinds["words"])


@pytest.fixture(scope="module")
def joined(runs_of_all_kinds):
    return Embedder.load(runs_of_all_kinds["joined"])


@pytest.fixture(scope="module")
def pool(joined):
    """Within it, processes share PyTorch's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    with open_pool(joined, 2) as opened:
        assert torch.get_num_threads() == 2
        yield opened
    assert torch.get_num_threads() == 4
    torch.set_num_threads(before)


def test_the_run_moves_to_a_device(runs_of_all_kinds, one_line):
    for name in ("trees", "joined"):
        embedder = Embedder.load(runs_of_all_kinds[name])
        assert embedder.encode(SENTENCES, device="cpu").shape == (len(SENTENCES), embedder.dim)
        assert embedder.device == torch.device("cpu")
        for wrong in ("cuda:77", "nowhere"):
            with one_line(f"device = {wrong}: "):
                embedder.encode(SENTENCES, device=wrong)
        embedder.to("meta")
        assert embedder.device.type == "meta"


def test_a_bar_is_shown(embedder, capfd):
    embedder.encode(RAW, 4, True)
    shown = capfd.readouterr()
    assert "encoding" in shown.err
    assert f"{len(RAW)} of {len(RAW)} sentences" in shown.err
    assert shown.out == ""
    embedder.encode(RAW, 4, False)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("batch_size", [2, 256])
@pytest.mark.parametrize("takes", [None, [True], [False], [False, False, True]], ids=str)
def test_processes_give_the_same(joined, pool, batch_size, takes, small_pieces):
    """With this process alone, or with another one: whichever takes the next piece."""
    told = []
    small_pieces(*(takes or [True]))
    wrong = [*SENTENCES[:2], ["two words"], *SENTENCES[:3], ["three words now"], *SENTENCES]
    with nullcontext(pool) if takes else open_pool(joined, 1) as chosen:
        vectors = joined.encode(SENTENCES, batch_size, lambda *counts: told.append(counts), pool=chosen)
        assert joined.encode([], pool=chosen).shape == (0, joined.dim)
        np.testing.assert_allclose(joined.encode(SENTENCES[0], batch_size, pool=chosen), vectors[0], atol=1e-6)
        with pytest.raises(SentenceError, match=r"^sentences\[2\]: .*two words"):  # also if the other is met first
            joined.encode(wrong, 3, pool=chosen)
    np.testing.assert_allclose(vectors, joined.encode(SENTENCES), atol=1e-6)
    assert told[-1] == (len(SENTENCES), len(SENTENCES))
    assert sorted(told) == told
    assert {total for _, total in told} == {len(SENTENCES)}


def test_processes_that_pay(runs_of_all_kinds, embedder, monkeypatch):
    def pay(embedder, sentences, free=None):
        monkeypatch.setattr(encoding_pool, "available_bytes", lambda: free)
        return processes_that_pay(embedder, sentences)

    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert [pay(embedder, n) for n in (1, 4095, 4096, 10**7)] == [1, 1, 2, 4]
    assert [pay(embedder, 10**7, free) for free in (25 * 10**8, 0)] == [3, 1]
    assert pay(embedder.with_representation(remove_component=True, transductive=True), 10**7) == 1
    assert pay(Embedder.load(runs_of_all_kinds["words"]).to("meta"), 10**7) == 1


def test_nothing_is_told_after_an_error(joined, pool, left_to_others):
    """The other process has begun the next piece by then, and goes on."""
    told = []
    for _ in range(3):
        with pytest.raises(SentenceError, match=r"^sentences\[1\]: "):
            joined.encode([SENTENCES[0], ["two words"], *SENTENCES * 9], 2, lambda *each: told.append(each), pool=pool)
        before = len(told)
        joined.encode(SENTENCES, pool=pool)
        assert len(told) == before


@pytest.mark.parametrize(
    "choose",
    [
        lambda joined: joined.with_representation(pooling="mean", normalise=True),
        lambda joined: joined.with_view(joined.view_names[1]),
        lambda joined: joined.with_representation(similarity_pooling="mean").for_similarity(),
        # One of the two is not what a process would choose by itself.
        lambda joined: joined.with_precision("fp32"),
        lambda joined: joined.with_precision("bf16"),
    ],
)
def test_processes_know_what_was_chosen(joined, pool, choose, left_to_others):
    chosen = choose(joined)
    expected = chosen.encode(SENTENCES)
    other = joined.with_precision("fp32" if chosen.precision == "bf16" else "bf16").encode(SENTENCES)
    assert expected.shape != other.shape or np.abs(expected - other).max() > 1e-4
    np.testing.assert_allclose(chosen.encode(SENTENCES, pool=pool), expected, atol=1e-6)


def test_processes_keep_to_the_limit_and_warn_once(joined, pool, small_pieces):
    small_pieces(False, True)
    embedder = joined.with_view(joined.view_names[1]).with_limit(max_tokens=5, overlong="cut")
    long, first = "The dead tree fell, it's said.", ["The", "dead", "tree", "fell", ","]
    texts = [long, "A bird", long, "A", long]
    with pytest.raises(SentenceError, match=r"^sentences\[0\]: 6 words, but the limit is 5"):
        embedder.with_limit(overlong="raise").encode(texts, pool=pool)
    with pytest.warns(UserWarning, match="cut to the first") as warned:
        vectors = embedder.encode(texts, 1, pool=pool)
    assert [str(each.message) for each in warned] == ["3 sentences were cut to the first 5 words (max_tokens)"]
    np.testing.assert_allclose(vectors, embedder.encode([first, ["A", "bird"], first, ["A"], first]), atol=1e-6)


def test_strings_are_prepared_by_processes_or_a_given_parser(runs_of_all_kinds, joined, pool, left_to_others, one_line):
    """The processes have no parser of this name; words alone they find."""
    parser = RandomParser()
    embedder = Embedder.load(runs_of_all_kinds["joined"], parser)
    expected = embedder.encode(RAW)
    np.testing.assert_allclose(embedder.encode(RAW, pool=pool), expected, atol=1e-6)
    assert parser.n_parsed == 2 * len(RAW)
    with pytest.raises(InputError, match=r"parser cannot be loaded here \(unknown parser 'random'.*\): give parsed"):
        joined.encode(RAW, pool=pool)
    with one_line(r"sentences\[20\]: "):
        joined.encode([*SENTENCES, *SENTENCES[:8], ["two words"], *SENTENCES], pool=pool)


def test_what_a_pool_cannot_do_is_one_line(runs_of_all_kinds, embedder, joined, pool):
    with pytest.raises(InputError, match=r"words: the pool was opened for another run, .*joined: open one for this"):
        embedder.encode(RAW, pool=pool)
    with pytest.raises(InputError, match="transductive = true"):
        joined.with_representation(remove_component=True, transductive=True).encode(SENTENCES, pool=pool)
    with pytest.raises(InputError, match="processes = 0: give at least 1"), open_pool(embedder, 0):
        pass
    made = TrainedEmbedder(embedder.config, embedder.parsed, embedder.model, embedder.vocabularies)
    with pytest.raises(InputError, match="created in memory has no folder: load"), open_pool(made, 1):
        pass
    np.testing.assert_allclose(joined.encode(SENTENCES, pool=pool), joined.encode(SENTENCES), atol=1e-6)


def test_warnings_of_processes_are_given_here(runs_of_all_kinds, tmp_path, capfd, left_to_others, monkeypatch):
    """Not on the processes' own standard error, where each would say it once more. They load the folder ``default``."""
    run = shutil.copytree(runs_of_all_kinds["trees"], tmp_path / "default")
    settings = read_settings(run)
    settings["parsed"]["parser"] = {"name": "builtin", "version": "1", "settings": {"beam": 9}}
    write_settings(run, settings)
    monkeypatch.chdir(tmp_path)
    embedder = Embedder.load("./default")
    with open_pool(embedder, 2) as pool, pytest.warns(UserWarning, match="another model or other settings"):
        embedder.encode(RAW, pool=pool)
    assert "Warning" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["words", "generative", "joined", "default"])
def test_vectors_are_close_to_those_of_fp32(runs_of_all_kinds, name):
    single, short = (Embedder.load(runs_of_all_kinds[name], precision=each) for each in ("fp32", "bf16"))
    for pooling in ("vector", "mean", "pooled"):
        vectors, others = (each.with_representation(pooling=pooling).encode(SENTENCES) for each in (single, short))
        assert others.dtype == np.float32
        cosines = (normalised(vectors.astype(np.float64)) * normalised(others.astype(np.float64))).sum(axis=1)
        # A distance of zero would mean that all was done in fp32.
        assert 1e-9 < (1 - cosines).max() < 1e-3


def test_copies_keep_it(joined):
    embedder = joined.with_precision("bf16")
    others = [embedder.with_limit(max_tokens=9), embedder.with_representation(), embedder.with_view(embedder.views[0])]
    others += [embedder.for_similarity(), pickle.loads(pickle.dumps(embedder))]
    assert {each.precision for other in (embedder, *others) for each in (other, *other.members)} == {"bf16"}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_joined_run_has_the_precision_of_the_members_that_have_one(runs_of_all_kinds, precision):
    members = [Embedder.load(runs_of_all_kinds[name]) for name in ("sif", "words")]
    joined = JoinedEmbedder(members, ["sif", "words"], Representation()).with_precision(precision)
    assert joined.members[0].description == "vector - pc"  # words without encoders have none
    assert joined.encodes_in == precision


@pytest.mark.parametrize("multiplies", [False, True])
def test_auto_is_what_the_cpu_multiplies(runs_of_all_kinds, monkeypatch, multiplies):
    monkeypatch.setattr("structviews.encoding.kinds.trained.multiplies_half", lambda _: multiplies)
    embedder = Embedder.load(runs_of_all_kinds["words"])
    assert embedder.encodes_in == ("bf16" if multiplies else "fp32")
    assert ("bf16" in embedder.description) == multiplies
    explicit = Embedder.load(runs_of_all_kinds["words"], precision=embedder.encodes_in)
    np.testing.assert_array_equal(embedder.encode(SENTENCES), explicit.encode(SENTENCES))
    monkeypatch.setattr(TrainedEmbedder, "device", torch.device("cuda"))
    assert embedder.encodes_in == "fp32"


def test_wrong_options_are_one_line(embedder, one_line):
    with one_line("unknown precision 'fp16': choose one of auto, fp32, bf16"):
        embedder.with_precision("fp16")
    with one_line("batch_size = 0: give at least 1"):
        embedder.encode(["x"], batch_size=0)
    for call in (embedder.with_limit, partial(Embedder.load, "default")):
        with one_line("unknown overlong 'drop': choose one of raise, cut"):
            call(overlong="drop")
