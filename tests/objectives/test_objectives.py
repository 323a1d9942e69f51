"""What every registered objective keeps to."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch
from components import create_objective

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.objectives.consensus import AGREEMENTS
from structviews.objectives.objective import Context, ContextWords, Inputs, context_indices, next_indices
from structviews.runs.config import TrainConfig
from structviews.settings import settings_of

B, DIM, WORD_DIM, VOCABULARY, TEACHER_DIM = 7, 4, 3, 11, 5
DOCUMENT = torch.tensor([0, 0, 0, 1, 1, 1, 2])
POSITION = torch.tensor([0, 1, 2, 0, 1, 5, 0])
# Settings in which an objective works in another way than by default.
OTHERS = [
    ("pairwise", {"self_score": "zero", "mask_duplicates": True}),
    ("pairwise", {"other_contexts": "left-out"}),
    *((name, {"critic": "bilinear"}) for name in ("pairwise", "quick-thoughts")),
    ("quick-thoughts", {"self_score": "zero", "mask_duplicates": True}),
    *(
        ("quick-thoughts", {"loss": loss, **negatives})
        for loss in ("softmax", "binary", "margin")
        for negatives in ({}, *({"negatives": kind, "contrasts": 2} for kind in ("random", "nearest")))
    ),
    ("quick-thoughts", {"loss": "binary", "mask_duplicates": True}),
    ("quick-thoughts", {"loss": "margin", "critic": "bilinear"}),
    *(("consensus", {"agreement": name}) for name in AGREEMENTS),
    ("consensus", {"include_self": False, "power_iterations": 0}),
    ("consensus", {"over_contexts": "sum", "window": 6}),
    ("generative", {"parseval": 0.0, "noise_words": 3}),
    ("generative", {"draw": "batch"}),
    ("skip-thought", {"conditioning": "start", "output_layers": 2}),
    ("simcse", {"head": False}),
    *(("teacher", {name: 0}) for name in ("cosine_weight", "similarity_weight")),
    ("teacher", {"pairwise_weight": 0.5}),
]
every_name = pytest.mark.parametrize("name", list(OBJECTIVES))
every_objective = pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, {}) for name in OBJECTIVES), *OTHERS],
    ids=lambda value: value if isinstance(value, str) else ",".join(f"{k}={v}" for k, v in value.items()) or "default",
)


def views_of(name, settings=None):
    """As few views as the objective takes."""
    agreement = (settings or {}).get("agreement", "multi")
    if (settings or {}).get("pairwise_weight"):
        return ("seq", "seq")
    return ("seq",) * (2 - (agreement == "single") if name == "consensus" else OBJECTIVES[name].min_views)


def make(name, settings):
    """The objective, and vectors of its views."""
    views = views_of(name, settings)
    inputs = Inputs(views, (DIM,) * len(views), WORD_DIM, torch.arange(VOCABULARY), VOCABULARY, TEACHER_DIM)
    objective = create_objective(name, inputs, **settings).double()
    encoded = objective.passes * views
    return objective, [torch.randn(B, DIM, dtype=torch.float64, requires_grad=True) for _ in encoded]


def reads_neighbours(objective, settings):
    return objective.reads_neighbours(objective.Config(**settings))


def context(document=DOCUMENT, position=POSITION):
    """All that a context may have; sentences are as long as their row."""
    torch.manual_seed(3)
    n = len(document)
    sentence = torch.repeat_interleave(torch.arange(n), torch.arange(1, n + 1))
    table, distinct = torch.randn(VOCABULARY, WORD_DIM, dtype=torch.float64), torch.tensor([1, 4, 5, 9])
    return Context(
        context_indices(document, position, 1),
        torch.arange(n).clamp(max=4),
        next_indices(document, position),
        ContextWords(distinct, torch.arange(len(sentence)) % 4, sentence, table, np.arange(1, n + 1), table[distinct]),
        torch.randn(n, TEACHER_DIM, dtype=torch.float64),
    )


def on_meta(part):
    """Tensors without data: what asks for a value, or for a size that depends on values, is an error."""
    values = {f.name: getattr(part, f.name) for f in fields(part)}
    moved = {n: v.to("meta") if isinstance(v, torch.Tensor) else v for n, v in values.items()}
    return replace(part, **{n: on_meta(v) if is_dataclass(v) else v for n, v in moved.items()})


@every_objective
def test_losses_and_metrics_are_numbers_and_validation_has_what_it_reports(name, settings):
    objective, views = make(name, settings)
    facts = context()
    for training in (True, False):
        before = torch.get_rng_state()
        with torch.set_grad_enabled(training):
            loss, metrics = objective.train(training)(views, facts)
        assert loss.shape == ()
        assert metrics.keys() >= {"loss", "chance_loss", "anchors"}
        assert metrics["loss"] == loss
        for metric, value in metrics.items():
            assert value.shape == (), metric
            assert value.isfinite(), metric
            assert not value.requires_grad, metric
    # A run with another number of validations would be another run, if they drew random numbers.
    assert torch.equal(torch.get_rng_state(), before)
    assert "loss" in objective.report.format(**{metric: float(value) for metric, value in metrics.items()})


@every_objective
def test_every_view_and_parameter_learns(name, settings):
    objective, views = make(name, settings)
    objective(views, context())[0].backward()
    for what, tensor in [("view", view) for view in views] + list(objective.named_parameters()):
        assert tensor.grad is not None, what
        assert tensor.grad.isfinite().all(), what
        assert tensor.grad.any(), what
    objective.after_step()
    assert objective(views, context())[0].isfinite()


@every_objective
@pytest.mark.parametrize("n", [1, 3])
def test_a_batch_without_contexts_teaches_nothing(name, settings, n):
    objective, views = make(name, settings)
    if not reads_neighbours(objective, settings) or name == "teacher":
        pytest.skip("learns from each sentence by itself")
    views = [view[:n].detach().requires_grad_() for view in views]
    loss, metrics = objective(views, context(torch.arange(n), torch.zeros(n, dtype=torch.int64)))
    assert loss == 0
    assert metrics["anchors"] == 0
    assert all(value.isfinite() for value in metrics.values())
    loss.backward()
    learnt = [*views, *objective.parameters()]
    assert all(tensor.grad is None or not tensor.grad.any() for tensor in learnt)


@every_objective
@pytest.mark.parametrize("document", [DOCUMENT, DOCUMENT[[0, 1, 1, 1, 1, 4, 6]], torch.zeros_like(DOCUMENT)])
def test_chance_is_what_equal_vectors_reach(name, settings, document):
    objective, views = make(name, settings)
    if name == "skip-thought":  # whose states are those of its decoders
        pytest.skip("has a loss by the words before, too")
    facts = replace(context(document), same=torch.arange(B))  # nothing is masked
    loss, metrics = objective.eval()([torch.zeros_like(view) for view in views], facts)
    assert metrics["chance_loss"].item() == pytest.approx(loss.item(), rel=1e-6)
    if "chance_accuracy" in metrics and reads_neighbours(objective, settings):
        reach = settings.get("window", 2 * B) // 2
        others = [sum(j != i for j in range(max(i - reach, 0), min(i + reach, B))) for i in range(B)]
        contexts = [row[row >= 0] for row in facts.neighbours]
        shares = [len(some) / n for some, n in zip(contexts, others, strict=True) if len(some)]
        assert metrics["chance_accuracy"].item() == pytest.approx(sum(shares) / len(shares))


@every_objective
@pytest.mark.parametrize("scale", [0.0, 1e3])
def test_extreme_vectors_are_harmless(name, settings, scale):
    objective, views = make(name, settings)
    views = [(scale * view).detach().requires_grad_() for view in views]
    loss, _ = objective(views, context())
    loss.backward()
    assert loss.isfinite()
    assert all(tensor.grad.isfinite().all() for tensor in [*views, *objective.parameters()])


@every_objective
def test_nothing_waits_for_the_device(name, settings):
    objective, views = make(name, settings)
    views = [view.detach().to("meta").requires_grad_() for view in views]
    place = torch.empty(2, B, dtype=torch.int64, device="meta")
    facts = replace(on_meta(context()), neighbours=context_indices(*place, 1), next=next_indices(*place))
    loss, metrics = objective.to("meta")(views, facts)
    loss.backward()
    objective.after_step()
    assert all(tensor.is_meta for tensor in (loss, *metrics.values(), *(view.grad for view in views)))


@every_objective
def test_nothing_is_read_that_it_does_not_need(name, settings):
    objective, views = make(name, settings)
    needed = {"neighbours"} | objective.needs
    facts = context()
    less = replace(facts, **{f.name: None for f in fields(Context) if f.name not in needed})
    losses = []
    for some in (facts, less):
        torch.manual_seed(1)
        losses.append(objective(views, some)[0])
    assert torch.equal(*losses)


@every_name
def test_its_options_are_settings_of_a_run(name):
    config = TrainConfig.of(corpus="x.parsed", views=views_of(name), objective=name)
    own = {setting.flat for setting in settings_of(OBJECTIVES[name].Config)}
    assert isinstance(config.objective.options[name], OBJECTIVES[name].Config)
    assert own <= config.flat().keys()
    assert config.table()["objective"].get(name, {}).keys() == own
    objective, _ = make(name, {})
    assert tuple(objective.extra_views((), {})) == OBJECTIVES[name].extra_names


@every_name
def test_views_that_it_does_not_take_are_refused(name):
    cls = OBJECTIVES[name]
    numbers = [cls.min_views - 1] + ([cls.max_views + 1] if cls.max_views is not None else [])
    for n in numbers:
        with pytest.raises(InputError, match=f"{n} views? for the objective '{name}'"):
            create_objective(name, Inputs(("seq",) * n, (DIM,) * n))
    if cls.max_views != 1 and cls.one_dim:
        with pytest.raises(InputError, match="different dimensions 4, 6"):
            create_objective(name, Inputs(("seq", "seq"), (4, 6)))


def test_contexts_joined_are_those_of_one_batch():
    one, other = context(), context(DOCUMENT[2:], POSITION[2:])
    joined = Context.joined([one, other])
    assert len(joined) == len(one) + len(other)
    document = torch.cat([DOCUMENT, DOCUMENT[2:] + 10])
    position = torch.cat([POSITION, POSITION[2:]])
    assert torch.equal(joined.neighbours, context_indices(document, position, 1))
    assert torch.equal(joined.next, next_indices(document, position))
    assert torch.equal(joined.same, torch.cat([one.same, other.same]))
    first, second, both = (part.words.distinct[part.words.inverse] for part in (one, other, joined))
    assert torch.equal(both, torch.cat([first, second]))
    assert torch.equal(joined.words.sentence, torch.cat([one.words.sentence, other.words.sentence + len(one)]))
    assert joined.words.table is one.words.table
    assert joined.words.lengths.tolist() == [*one.words.lengths, *other.words.lengths]
    assert torch.equal(joined.words.vectors, torch.cat([one.words.vectors, other.words.vectors]))


def test_the_next_sentence_is_that_which_follows_in_the_document():
    rows = next_indices(DOCUMENT, POSITION).tolist()
    places = list(zip(DOCUMENT.tolist(), POSITION.tolist(), strict=True))
    assert rows == [places.index((d, p + 1)) if (d, p + 1) in places else -1 for d, p in places]
    assert sorted(rows) == [-1, -1, -1, -1, 1, 2, 4]
