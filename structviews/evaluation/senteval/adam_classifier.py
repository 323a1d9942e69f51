"""SentEval's default classifier: a linear layer and a softmax, trained by Adam until dev accuracy stops rising.

After ``senteval/tools/classifier.py`` and ``validation.py`` of facebookresearch/SentEval (``usepytorch`` True, ``nhid``
0, its defaults for the rest). Shapes: d features, K classes, S penalties, P parts of the data, of which G are trained
in step; b examples in a batch. A member is the classifier of one part with one penalty.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from structviews.errors import InputError
from structviews.evaluation.senteval.protocols.protocol import Blocks, Classifier, Fitted, Grid, Plan, Select
from structviews.runtime.device import best_device, to_tensor
from structviews.runtime.wording import counted

BATCH = 64
MISSES = 6  # stop at this many evaluations without gain, consecutive or not
DEV_SHARE = 0.05  # of the examples of a final fit that has no development set
# Most numbers that a step of the members trained together touches: so many lie in a CPU's caches.
STEP_ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 28}


@dataclass(frozen=True)
class Part:
    """What members learn from: rows to train on, all parts' in one block, and rows that decide when to stop."""

    train: np.ndarray  # in the order that the epochs' permutations refer to
    dev: np.ndarray  # in one block
    drawn: int = 0  # length of the permutation that divided the two, drawn before those of the epochs; 0: none


class _Blocks:
    """The features, on the GPU if there is one: blocks (n_i, d) that are not copied; and the labels."""

    def __init__(self, features: Sequence[np.ndarray], labels: np.ndarray) -> None:
        self.device = best_device()
        self.blocks = [to_tensor(np.asarray(x, np.float32)).to(self.device) for x in features]
        self.starts = np.cumsum([0, *map(len, features)])
        self.labels = to_tensor(np.asarray(labels, np.int64)).to(self.device)
        self.classes = int(labels.max()) + 1
        self.width = self.blocks[0].shape[1]

    def of(self, rows: np.ndarray) -> tuple[Tensor, int]:
        """The block of rows that lie in one, and its first row."""
        block = int(np.searchsorted(self.starts, rows[0], side="right")) - 1
        return self.blocks[block], int(self.starts[block])

    def logits(self, rows: np.ndarray, weights: Tensor, intercepts: Tensor) -> Tensor:
        """Logits (S, n, K) of rows (n,) of one block, for weights (S, K, d) and intercepts (S, K)."""
        block, start = self.of(rows)
        chosen = block[torch.from_numpy(rows - start).to(self.device)]
        flat = torch.addmm(intercepts.flatten(), chosen, weights.flatten(0, 1).T)
        return flat.view(len(rows), *intercepts.shape).transpose(0, 1)


@dataclass(frozen=True)
class AdamClassifier(Classifier):
    """SentEval's torch classifier; strengths are Adam's weight decay (L2, on the intercept too).

    As there, each member starts from the same seed: equal initial weights, and for parts of equal size the same
    permutations. So parts of equal size are trained in step, with all their penalties, as batched products.
    """

    seed: int  # of the initial weights and the permutations
    epochs: int = 4  # between two evaluations on dev
    rounds: int = 51  # the most evaluations: to the first after more than 200 epochs

    def fit(self, features: Blocks, labels: np.ndarray, planned: Plan, grid: Grid, select: Select) -> Fitted:
        """Train the members of all inner splits; the final ones once their penalty is selected.

        A final fit is trained on 95 % of its examples and stopped by the rest, which the first permutation chooses.
        With a development set it is the inner fit again.
        """
        blocks = _Blocks(features, labels)
        inner = [fold for choice in planned for fold in choice.inner]
        table = torch.tensor(grid, dtype=torch.float32)
        fits = self.fit_softmaxes(blocks, [Part(*fold) for fold in inner], table.expand(len(inner), -1))
        tested = [blocks.logits(test, *fit).argmax(-1) for (_, test), fit in zip(inner, fits, strict=True)]
        selected = select([classes.cpu().numpy() for classes in tested])
        if len(inner) > 1:
            parts = [self.divided(choice.train) for choice in planned]
            fits, selected = self.fit_softmaxes(blocks, parts, table[list(selected), None]), [0] * len(planned)
        logits = [blocks.logits(choice.test, *fits[i])[selected[i]] for i, choice in enumerate(planned)]
        return [log_softmax(each.cpu().double().numpy(), axis=1) for each in logits], 0

    def divided(self, rows: np.ndarray) -> Part:
        """Divide rows (n,) into those to train on and those that decide when to stop; InputError if too few."""
        dev = int(DEV_SHARE * len(rows))
        if not dev:
            few = counted(len(rows), "training example")
            raise InputError(f"{few}: too few to set aside {DEV_SHARE:.0%}, by which training stops; use more")
        permuted = rows[np.random.RandomState(self.seed).permutation(len(rows))]
        return Part(permuted[dev:], permuted[:dev], len(rows))

    def fit_softmaxes(self, blocks: _Blocks, parts: Sequence[Part], penalties: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For each part and penalty (P, S), the weights (K, d) and intercepts (K,) that are best on its dev rows.

        Parts that share their permutations are trained in step, as many as ``STEP_ELEMENTS`` allows.
        """
        alike: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, part in enumerate(parts):
            alike[len(part.train), part.drawn].append(i)
        touched = BATCH * blocks.width + 4 * penalties.shape[1] * blocks.classes * blocks.width
        size = max(1, STEP_ELEMENTS[blocks.device.type] // touched)
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for numbers in alike.values():
            for start in range(0, len(numbers), size):
                some = numbers[start : start + size]
                best = self._fit_in_step(blocks, [parts[i] for i in some], penalties[some].to(blocks.device))
                found |= dict(zip(some, best, strict=True))
        return [found[i] for i in range(len(parts))]

    def _fit_in_step(self, blocks: _Blocks, parts: Sequence[Part], penalties: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The same for G parts of equal size; a part whose members have all stopped drops out."""
        layers = _Layers(blocks, penalties, self.seed)
        table, start = blocks.of(parts[0].train)
        rows = torch.from_numpy(np.stack([part.train for part in parts]) - start).to(blocks.device)
        goals = torch.nn.functional.one_hot(blocks.labels[start : start + len(table)], blocks.classes).float()  # (n, K)
        best = [torch.empty_like(each) for each in (layers.weights, layers.intercepts)]
        scores = torch.full(best[0].shape[:2], -1, device=blocks.device)  # numbers of correct predictions
        misses = torch.zeros_like(scores)
        running = torch.arange(len(parts), device=blocks.device)
        draws = np.random.RandomState(self.seed)
        if parts[0].drawn:
            draws.permutation(parts[0].drawn)
        for _ in range(self.rounds):
            for _ in range(self.epochs):
                order = torch.from_numpy(draws.permutation(rows.shape[1])).to(blocks.device)
                shuffled = rows[:, order]
                for batch in zip(shuffled.split(BATCH, 1), goals[shuffled].split(BATCH, 1), strict=True):
                    layers.learn(table, *batch)
            correct = torch.stack([layers.correct(blocks, i, parts[g].dev) for i, g in enumerate(running.tolist())])
            better = (correct > scores[running]) & (misses[running] < MISSES)
            part, member = better.nonzero(as_tuple=True)
            for values, now in zip(best, (layers.weights, layers.intercepts), strict=True):
                values[running[part], member] = now[part, member]
            scores[running[part], member] = correct[part, member]
            misses[running] += ~better
            going = (misses[running] < MISSES).any(1)
            if not going.all():
                running, rows = running[going], rows[going]
                layers.keep(going)
            if not len(running):
                break
        return list(zip(*best, strict=True))

    def describe(self) -> dict[str, Any]:
        apart = counted(self.epochs, "epoch")
        return {
            "classifier": "linear layer and softmax",
            "penalty": "L2 on the weights and the intercept, as Adam's weight decay, which is the grid",
            "solver": f"Adam (0.001), mean log loss of batches of {BATCH}, float32",
            "stopping": f"at the {MISSES}th evaluation without gain, of at most {self.rounds}, {apart} apart; the "
            f"final fit's on {DEV_SHARE:.0%} of its training examples, unless there is a development set",
        }


class _Layers:
    """Softmaxes of G parts with S penalties each, and their Adam: weights (G, S, K, d), intercepts (G, S, K)."""

    def __init__(self, blocks: _Blocks, penalties: Tensor, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            initial = torch.nn.Linear(blocks.width, blocks.classes)
        start = [x.detach().to(blocks.device) for x in (initial.weight, initial.bias)]
        self.weights, self.intercepts = (x.expand(*penalties.shape, *x.shape).clone() for x in start)
        self.penalties = penalties[..., None]
        self.optimiser = self._adam()
        self.batch = torch.empty(len(penalties) * BATCH, blocks.width, device=blocks.device)

    def _adam(self) -> torch.optim.Adam:
        self.slopes, self.offsets = torch.empty_like(self.weights), torch.empty_like(self.intercepts)
        self.weights.grad, self.intercepts.grad = self.slopes, self.offsets
        return torch.optim.Adam([self.weights, self.intercepts], fused=True)

    def learn(self, table: Tensor, rows: Tensor, goals: Tensor) -> None:
        """Take a step on rows (G, b) of the examples (n, d), whose classes are ``goals`` (G, b, K)."""
        parts, size = rows.shape
        batch = torch.index_select(table, 0, rows.flatten(), out=self.batch[: rows.numel()]).view(parts, size, -1)
        logits = torch.baddbmm(self.intercepts.flatten(1)[..., None], self.weights.flatten(1, 2), batch.transpose(1, 2))
        shares = logits.view(*self.intercepts.shape, size).softmax(2)
        errors = shares.sub_(goals.transpose(1, 2)[:, None]).div_(size).flatten(1, 2)
        torch.bmm(errors, batch, out=self.slopes.flatten(1, 2))
        torch.sum(errors, 2, out=self.offsets.flatten(1))
        # Not by the optimiser: it has one weight decay for a whole tensor.
        self.slopes.flatten(2).addcmul_(self.weights.flatten(2), self.penalties)
        self.offsets.addcmul_(self.intercepts, self.penalties)
        self.optimiser.step()

    def correct(self, blocks: _Blocks, part: int, rows: np.ndarray) -> Tensor:
        """How many of the rows the members of a part predict correctly, (S,)."""
        logits = blocks.logits(rows, self.weights[part], self.intercepts[part])
        return (logits.argmax(-1) == blocks.labels[torch.from_numpy(rows)]).sum(1)

    def keep(self, parts: Tensor) -> None:
        """Drop the parts for which the mask (G,) is false."""
        states = [self.optimiser.state[each] for each in (self.weights, self.intercepts)]
        kept = (self.weights, self.intercepts, self.penalties)
        self.weights, self.intercepts, self.penalties = (each.detach()[parts] for each in kept)
        self.optimiser = self._adam()
        for each, state in zip((self.weights, self.intercepts), states, strict=True):
            left = {name: value if name == "step" else value[parts] for name, value in state.items()}
            self.optimiser.state[each] = left
