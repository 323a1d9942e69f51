"""What every registered view keeps to, and what each is by itself."""

from dataclasses import replace
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
from structviews.views.view import WordTable, create_view
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
def test_a_sentence_alone_is_as_in_a_batch(name):
    view, table = make(name)
    some = SENTENCES + gum(10)
    together = encode(view, table, some, states=True)
    for i, sentence in enumerate(some):
        alone = encode(view, table, [sentence], states=True)
        torch.testing.assert_close(alone.vector[0], together.vector[i], rtol=0, atol=1e-10)
        own = together.states[together.offsets[i] : together.offsets[i + 1]]
        torch.testing.assert_close(alone.states, own, rtol=0, atol=1e-10)


# How the vector follows from the states.
VECTOR_OF_STATES = {
    "bow": lambda states, _: states.sum(dim=0),
    "avg": lambda states, _: states.mean(dim=0),
    **dict.fromkeys(MEANS, lambda states, _: states.mean(dim=0)),
    **dict.fromkeys(ONE_WAY, lambda states, _: states[-1]),
    **dict.fromkeys(TWO_WAY, lambda states, _: torch.cat([states[-1, : DIM // 2], states[0, DIM // 2 :]])),
    **dict.fromkeys(("dep", "dep-sum", "dep-rel", "dep-gru"), lambda states, s: states[s.heads.index(0)]),
    **dict.fromkeys(("const", "const-gru"), lambda states, _: states[-1]),
    "transformer": lambda states, _: states.mean(dim=0),
    "transformer first": lambda states, _: states[0],
}


@every_view
def test_the_vector_and_on_request_the_states_that_it_follows_from(name):
    view, table = make(name)
    alone, encoded = (encode(view, table, SENTENCES, states) for states in (False, True))
    assert view.dim == (DIM if view.learns else WORD_DIM)
    assert alone.vector.shape == (len(SENTENCES), view.dim)
    assert alone.vector.dtype == torch.float64
    assert alone.states is alone.offsets is alone.attention is None
    torch.testing.assert_close(encoded.vector, alone.vector)
    lengths = [len(s.tokens) for s in SENTENCES]
    sizes = [2 * n - 1 for n in lengths] if view.needs == "constituency" else lengths
    if view.reads_pieces:
        sizes = encoder().aligner.read([s.tokens for s in SENTENCES]).lengths.tolist()
    if name in MEANS:
        sizes = [max(1, sum(token in WORDS for token in s.tokens)) for s in SENTENCES]
    assert encoded.offsets.tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    assert encoded.states.shape == (sum(sizes), view.dim)
    assert (encoded.attention is not None) == (name in ("dep", "dep-rel"))
    for i, (sentence, own) in enumerate(zip(SENTENCES, encoded.states.split(sizes), strict=True)):
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


def test_who_bites_whom_makes_a_difference_to_dep_rel_and_none_to_dep():
    dog = with_trees(("the", "dog", "bit", "the", "man"), (2, 3, 0, 5, 3), lambda _, b: b - 1)
    man = replace(dog, tokens=("the", "man", "bit", "the", "dog"))
    by_side = [replace(each, relations=("dep",) * 5) for each in (dog, man)]
    by_relation = [replace(dog, relations=("det", subject, "root", "det", "obl")) for subject in ("nsubj", "obj")]
    vocabulary = Vocabulary([UNKNOWN, *dict.fromkeys(dog.tokens)])
    for name in ("dep", "dep-rel"):
        view = create(name).double()
        table = WordTable(len(vocabulary), view.word_dim).double()
        for pair in (by_side, by_relation):
            batch = collate(pair, {"words": vocabulary}, [view.needs])
            one, other = view(table, batch, batch.ids["words"]).vector
            assert torch.allclose(one, other, rtol=0, atol=1e-12) == (name == "dep")
            assert name == "dep" or (one - other).norm() > 0.01 * one.norm()


@every_view
def test_it_starts_with_zero_biases_and_the_seed_decides_the_rest(name):
    encoder()  # whose making, by whichever test is the first, draws numbers too
    torch.manual_seed(4)
    one = create(name)
    torch.manual_seed(4)
    other = create(name)
    for (parameter_name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        if not one.reads_pieces:  # the initialisation of which is its library's
            assert a.any() == (a.dim() > 1), parameter_name


@pytest.mark.parametrize("name", [name for name in VIEWS if VIEWS[name].needs != "tokens" or VIEWS[name].reads_pieces])
def test_what_is_missing_is_named(name):
    view, table = make(name)
    batch = collate(SENTENCES, {"words": VOCABULARY}, ["tokens"])
    missing = "pieces of an encoder" if view.reads_pieces else f"{view.needs} trees"
    with pytest.raises(ValueError, match=f"no {missing}"):
        view(table, batch, batch.ids["words"])


@pytest.mark.parametrize("name", ["bow", "avg", *MEANS])
def test_a_vector_without_structure_is_a_loop_over_words(name):
    view, table = make(name)
    ids = {word: i for i, word in enumerate(VOCABULARY.words)}
    unknown = with_trees(("zzz", "an", "yyy"), (2, 0, 2), lambda _, b: b - 1)
    for some in (SENTENCES, [unknown], [*SENTENCES, unknown]):
        for sentence, vector in zip(some, encode(view, table, some).vector, strict=True):
            read = [ids.get(token, 0) for token in sentence.tokens if token in ids or name not in MEANS]
            weights = [0.001 / (0.001 + table.frequencies[i]) if name == "sif" else 1.0 for i in read]
            expected = torch.zeros(view.word_dim, dtype=torch.float64)
            for weight, i in zip(weights, read, strict=True):
                expected = expected + weight * table.weight[i]
            if name != "bow":
                expected = expected / max(len(read), 1)
            if name == "avg":
                expected = view.project.weight @ expected + view.project.bias
            torch.testing.assert_close(vector, expected, rtol=0, atol=1e-12)
    if name not in MEANS:
        return
    lonely = encode(view, table, [with_trees(("zzz",), (0,), None), *SENTENCES], states=True)
    assert lonely.offsets[1] == 1
    assert not lonely.states[0].any()


def test_two_directions_want_an_even_dimension():
    with pytest.raises(InputError, match="dimension 7 of the view 'seq' is odd"):
        create_view("seq", WORD_DIM, 7)
    assert create_view("seq-uni", WORD_DIM, 7).dim == 7
