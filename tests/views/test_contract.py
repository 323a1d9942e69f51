"""What every registered view keeps to, and what each is by itself."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from tiny_encoders import encoder_folder
from trees_for_tests import SHAPES, WORDS, chain, gum, star, with_trees, words

from structviews.batches.batch import collate
from structviews.errors import InputError
from structviews.pretrained.loading import Blueprint
from structviews.views import VIEWS
from structviews.views.view import View, create_view
from structviews.views.word_tables import WordTable
from structviews.words.vocabulary import UNKNOWN, Vocabulary

WORD_DIM, DIM = 5, 6
VOCABULARY = Vocabulary([UNKNOWN, *WORDS])
# Every word of the vocabulary, an unknown one, siblings, and a tree of some height.
SENTENCES = [*SHAPES["mixed"], with_trees(("an", *words(3)), (2, 0, 2, 2), lambda _, b: b - 1)]
OPTIONS = {"lstm": {"cell": "lstm"}, "before": {"reset_gate": "before"}, "first": {"pooling": "first"}}
TWO_WAY, ONE_WAY = ([name, f"{name} lstm", f"{name} before"] for name in ("seq", "seq-uni"))
SEQUENCES = [*TWO_WAY, *ONE_WAY]
TRANSFORMERS = ["transformer", "transformer first"]
MEANS = ("average", "sif")
every_view = pytest.mark.parametrize("name", dict.fromkeys([*VIEWS, *SEQUENCES, *TRANSFORMERS]))


@cache
def encoder():
    """A pretrained encoder without its weights."""
    with TemporaryDirectory() as folder:
        return Blueprint.of(encoder_folder(Path(folder), "bert", dim=DIM))


def create(name, dim=DIM):
    """A view; after a space, which of its settings is another."""
    name, _, option = name.partition(" ")
    return create_view(name, WORD_DIM, dim, VIEWS[name].Config(**OPTIONS.get(option, {})), encoder())


def make(name):
    """A view and its word table, float64, biases not zero."""
    view = create(name).double().eval()
    for parameter in view.parameters():
        if parameter.dim() < 2:
            torch.nn.init.normal_(parameter, std=0.5)
        elif view.reads_pieces:  # otherwise so small that states hardly differ
            torch.nn.init.normal_(parameter, std=0.3)
    table = WordTable(len(VOCABULARY), view.word_dim)
    if view.reads_frequencies:
        table.frequencies = torch.linspace(0.2, 0, len(VOCABULARY))
    return view, table.double()


def encode(view, table, some, states=False):
    batch = collate(some, {"words": VOCABULARY}, [view.needs], aligner=encoder().aligner)
    return view(table, batch, batch.ids["words"], states)


@every_view
def test_one_vector_a_sentence(name):
    view, table = make(name)
    encoded = encode(view, table, SENTENCES)
    assert view.dim == (DIM if view.learns else WORD_DIM)
    assert encoded.vector.shape == (len(SENTENCES), view.dim)
    assert encoded.vector.dtype == torch.float64
    assert encoded.states is encoded.offsets is encoded.attention is None


@every_view
def test_every_parameter_learns(name):
    view, table = make(name)
    vector = encode(view, table, SENTENCES).vector
    (vector * torch.randn_like(vector)).sum().backward()
    for part in (view, table):
        for parameter_name, parameter in part.named_parameters():
            if (part is table and view.reads_pieces) or ".pooler." in parameter_name:  # which nobody reads
                continue
            assert parameter.grad is not None, parameter_name
            gradient = parameter.grad.to_dense()
            assert gradient.isfinite().all(), parameter_name
            # A key's bias adds the same to all scores of a query.
            assert gradient.any() or parameter_name.endswith("key.bias"), parameter_name
    assert any(True for _ in view.parameters()) == (view.learns and name != "bow")
    if view.reads_pieces:
        return
    read = table.weight.grad.to_dense().any(dim=1)
    assert read[1:].all()
    assert read[0] == (name not in MEANS)  # which leave out unknown words


@every_view
@pytest.mark.parametrize("states", [False, True])
def test_a_sentence_alone_is_as_in_a_batch(name, states):
    view, table = make(name)
    some = SENTENCES + gum(10)
    together = encode(view, table, some, states)
    for i, sentence in enumerate(some):
        alone = encode(view, table, [sentence], states)
        torch.testing.assert_close(alone.vector[0], together.vector[i], rtol=0, atol=1e-10)
        if states and alone.states is not None:
            own = together.states[together.offsets[i] : together.offsets[i + 1]]
            torch.testing.assert_close(alone.states, own, rtol=0, atol=1e-10)


@every_view
def test_states_and_offsets_on_request(name):
    view, table = make(name)
    encoded = encode(view, table, SENTENCES, states=True)
    torch.testing.assert_close(encoded.vector, encode(view, table, SENTENCES).vector)
    if encoded.states is None:
        return
    lengths = [len(s.tokens) for s in SENTENCES]
    sizes = [2 * n - 1 for n in lengths] if view.needs == "constituency" else lengths
    if view.reads_pieces:
        sizes = encoder().aligner.read([s.tokens for s in SENTENCES]).lengths.tolist()
    if name in MEANS:
        sizes = [max(1, sum(token in WORDS for token in s.tokens)) for s in SENTENCES]
    assert encoded.offsets.tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    assert encoded.states.shape == (sum(sizes), view.dim)
    assert (encoded.attention is not None) == (name == "dep")
    if encoded.attention is not None:
        assert encoded.attention.shape == (sum(lengths) - len(lengths),)


def root_of(states, sentence):
    return states[sentence.heads.index(0)]


# How the vector follows from the states; a view that is not here promises nothing.
VECTOR_OF_STATES = {
    "bow": lambda states, _: states.sum(dim=0),
    "avg": lambda states, _: states.mean(dim=0),
    **dict.fromkeys(MEANS, lambda states, _: states.mean(dim=0)),
    **dict.fromkeys(ONE_WAY, lambda states, _: states[-1]),
    **dict.fromkeys(TWO_WAY, lambda states, _: torch.cat([states[-1, : DIM // 2], states[0, DIM // 2 :]])),
    "dep": root_of,
    "dep-sum": root_of,
    "dep-gru": root_of,
    "const": lambda states, _: states[-1],
    "const-gru": lambda states, _: states[-1],
    "transformer": lambda states, _: states.mean(dim=0),
    "transformer first": lambda states, _: states[0],
}


@pytest.mark.parametrize("name", VECTOR_OF_STATES)
def test_the_vector_follows_from_the_states(name):
    view, table = make(name)
    encoded = encode(view, table, SENTENCES, states=True)
    for i, sentence in enumerate(SENTENCES):
        own = encoded.states[encoded.offsets[i] : encoded.offsets[i + 1]]
        torch.testing.assert_close(VECTOR_OF_STATES[name](own, sentence), encoded.vector[i], rtol=0, atol=1e-10)


@every_view
def test_the_words_and_what_the_view_reads_decide(name):
    view, table = make(name)
    one, other = star(6), chain(6)
    same = torch.allclose(*encode(view, table, [one, other]).vector)
    assert same == (view.needs == "tokens")
    there, back = (with_trees(tokens, (2, 0, 2), lambda _, b: b - 1) for tokens in (words(3), words(3)[::-1]))
    assert torch.allclose(*encode(view, table, [there, back]).vector) == (
        name in ("bow", "avg", *MEANS, "dep", "dep-sum", "dep-gru")
    )


@every_view
def test_it_starts_with_zero_biases_and_the_seed_decides_the_rest(name):
    torch.manual_seed(4)
    one = create(name)
    torch.manual_seed(4)
    other = create(name)
    for (parameter_name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        if not one.reads_pieces:  # the initialisation of which is its library's
            assert a.any() == (a.dim() > 1), parameter_name


@every_view
def test_what_is_missing_is_named(name):
    view, table = make(name)
    batch = collate(SENTENCES, {"words": VOCABULARY}, ["tokens"])
    if view.reads_pieces:
        with pytest.raises(ValueError, match="the batch has no pieces of an encoder"):
            view(table, batch, batch.ids["words"])
        return
    if view.needs == "tokens":
        view(table, batch, batch.ids["words"])
        return
    with pytest.raises(ValueError, match=f"no {view.needs} trees"):
        view(table, batch, batch.ids["words"])


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        InputError, match=rf"unknown view 'deps' \(did you mean dep\?\): choose one of {', '.join(VIEWS)}"
    ):
        create_view("deps", WORD_DIM, DIM)


def test_a_new_view_is_known_by_its_name(monkeypatch):
    assert list(VIEWS)  # what is built in is loaded
    monkeypatch.setattr(VIEWS, "_known", {})
    body = {"__init__": lambda self, *arguments: vars(self).update(made_with=arguments), "forward": None}
    new = VIEWS.register("new")(type("New", (View,), body))
    assert list(VIEWS) == ["new"]
    assert create_view("new", WORD_DIM, DIM).made_with == (WORD_DIM, DIM, new.Config())


def test_a_bag_is_a_loop_over_words():
    view, table = make("bow")
    assert not list(view.parameters())
    rows = dict(zip(VOCABULARY.words, table.weight.tolist(), strict=True))
    for sentence, vector in zip(SENTENCES, encode(view, table, SENTENCES).vector.tolist(), strict=True):
        total = [0.0] * DIM
        for token in sentence.tokens:
            for d in range(DIM):
                total[d] += rows.get(token, rows[UNKNOWN])[d]
        assert vector == pytest.approx(total, abs=1e-12)


def test_the_projected_mean_is_a_loop_over_words():
    view, table = make("avg")
    ids = {word: i for i, word in enumerate(VOCABULARY.words)}
    for sentence, vector in zip(SENTENCES, encode(view, table, SENTENCES).vector, strict=True):
        project = view.project
        projected = [project.weight @ table.weight[ids.get(token, 0)] + project.bias for token in sentence.tokens]
        torch.testing.assert_close(vector, sum(projected) / len(projected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_a_loop_over_known_words(name):
    view, table = make(name)
    ids = {word: i for i, word in enumerate(VOCABULARY.words)}
    unknown = with_trees(("zzz", "an", "yyy"), (2, 0, 2), lambda _, b: b - 1)
    for some in (SENTENCES, [unknown], [*SENTENCES, unknown]):
        for sentence, vector in zip(some, encode(view, table, some).vector, strict=True):
            known = [ids[token] for token in sentence.tokens if token in ids]
            weights = [0.001 / (0.001 + table.frequencies[i]) if name == "sif" else 1.0 for i in known]
            weighted = [weight * table.weight[i] for weight, i in zip(weights, known, strict=True)]
            expected = sum(weighted) / len(known) if known else torch.zeros_like(vector)
            torch.testing.assert_close(vector, expected, rtol=0, atol=1e-12)
    lonely = encode(view, table, [with_trees(("zzz",), (0,), None), *SENTENCES], states=True)
    assert lonely.offsets[1] == 1
    assert not lonely.states[0].any()


def test_two_directions_want_an_even_dimension():
    with pytest.raises(InputError, match="dimension 7 of the view 'seq' is odd"):
        create_view("seq", WORD_DIM, 7)
    assert create_view("seq-uni", WORD_DIM, 7).dim == 7
