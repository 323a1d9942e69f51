"""The generative objective (Tang and de Sa, "Improving Sentence Representations with Multi-view Frameworks", 2.2).

Shapes: B sentences in the batch, n words in total, N predicted words, S sampled words, V words in the
vocabulary, D dimension of a sentence vector, X dimension of a word vector.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from structviews.batches.batch import Batch, WordIds
from structviews.kernels.steps import Function
from structviews.objectives import OBJECTIVES
from structviews.objectives.contrast import SCORES_AT_ONCE
from structviews.objectives.objective import Context, Inputs, Objective, preceding
from structviews.settings import Settings, setting
from structviews.views.view import Encoded, View, Words

# Exponent of the unigram counts in the noise distribution (Mikolov et al. 2013).
POWER = 0.75
# Words sampled per batch where all its sentences share them.
DRAWS = 2048
# Numbers of the word vectors in a block of samples: 1 MB in single precision.
NUMBERS_AT_ONCE = 2**18


@dataclass(frozen=True)
class GenerativeConfig(Settings):
    """The settings of the generative objective."""

    noise_words: int = setting(1, "Noise words for each predicted word.", least=1, most=1000)
    draw: str = setting(
        "word", "Whether the noise is drawn for each predicted word, or once for the batch.", choices=("word", "batch")
    )
    parseval: float = setting(
        0.01, "Strength of the step that keeps the decoder orthonormal; 0 for none.", least=0, below=1
    )


@OBJECTIVES.register("generative")
class Generative(Objective):
    """Predicts the words of the next sentence from a sentence vector, through a linear decoder.

    With ``h_i = U z_i`` and the noise distribution q, unigrams to the power 0.75, the loss is the mean
    over the words w of next sentences of

        -log sigmoid(v_w . h_i) - k E_q[log sigmoid(-v . h_i)]

    In training the expectation is estimated from k samples for each word, or from ``DRAWS`` shared by all of them;
    in evaluation mode it is exact. Word vectors get no gradient. The reported probability of a word is
    ``q(w) exp(v_w . h_i)``, normalised over the vocabulary: the distribution that negative sampling
    converges to (Levy and Goldberg 2014).

    Args:
        inputs: one view, and the word counts.
        config: the settings: ``noise_words`` is k; ``parseval`` is b of the Parseval step
            ``U <- (1 + b) U - b U U^T U`` (Cisse et al. 2017), which keeps the rows of U orthonormal, or its
            columns if there are fewer of them; U then starts orthonormal. With 0 it is free, and starts as in He
            et al. 2015, which the paper uses for all weights.
    """

    min_views: ClassVar[int] = 1
    max_views: ClassVar[int | None] = 1
    example: ClassVar[str] = "seq"
    Config = GenerativeConfig
    extra_names: ClassVar[tuple[str, ...]] = ("linear",)
    report: ClassVar[str] = (
        "loss {loss:.3f} (chance {chance_loss:.3f}), negative log-likelihood per word {nll:.3f} "
        "(unigram model {unigram_nll:.3f})"
    )
    needs = frozenset({"next", "words"})
    noise: Tensor
    unigram: Tensor

    def __init__(self, inputs: Inputs, config: GenerativeConfig) -> None:
        super().__init__()
        self.noise_words, self.draw, self.parseval = config.noise_words, config.draw, config.parseval
        start = nn.init.orthogonal_ if config.parseval else partial(nn.init.kaiming_normal_, nonlinearity="relu")
        self.decoder = nn.Parameter(start(torch.empty(inputs.word_dim, inputs.dims[0])))
        # Words that do not occur in this corpus count as if they occurred once.
        counts = (torch.ones(1) if inputs.counts is None else inputs.counts.clamp(min=1)).double()
        noise = counts**POWER
        self.register_buffer("noise", noise / noise.sum(), persistent=False)
        self.register_buffer("unigram", counts / counts.sum(), persistent=False)

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        if context.words is None or context.next is None:
            raise ValueError("this objective needs the words and the next sentences in the context")
        (sentences,) = views
        decoded = sentences @ self.decoder.T
        words = context.words
        anchor = preceding(context.next)[words.sentence]  # the sentence that predicts each word, or -1
        ids = words.distinct[words.inverse]
        n_predicted = (anchor >= 0).sum()
        weight = (anchor >= 0).to(decoded.dtype) / n_predicted.clamp(min=1)
        anchor = anchor.clamp(min=0)  # words without an anchor have zero weight
        of_words = decoded.index_select(0, anchor)
        scores = (of_words * words.table.index_select(0, ids)).sum(dim=1)
        log_total = None
        if not self.training:
            # For each sentence the expected loss of a sample, and log sum_w q(w) exp(v_w . h).
            noise, costs, totals = self.noise.to(decoded.dtype), [], []
            for rows in decoded.split(max(1, SCORES_AT_ONCE // len(noise))):
                of_rows = rows @ words.table.T
                costs.append(F.softplus(of_rows) @ noise)
                totals.append((of_rows.detach() + noise.log()).logsumexp(dim=1))
            noise_loss, log_total = torch.cat(costs)[anchor], torch.cat(totals)
        elif self.draw == "batch":
            shared = words.table.index_select(0, self._drawn(DRAWS))
            noise_loss = F.softplus(decoded @ shared.T).mean(dim=1)[anchor]
        else:
            own = self._drawn(len(of_words) * self.noise_words).view(len(of_words), self.noise_words)
            noise_loss = _DrawnLoss.apply(of_words, words.table, own)
        loss = (weight * (F.softplus(-scores) + self.noise_words * noise_loss)).sum()
        metrics = {
            "loss": loss.detach(),
            "chance_loss": (1 + self.noise_words) * math.log(2) * (n_predicted > 0),
            "orthonormality_error": orthonormality_error(self.decoder.detach()),
            "anchors": n_predicted,
        }
        if log_total is not None:
            metrics["nll"] = -(weight * (scores.detach() + self.noise.log()[ids] - log_total[anchor])).sum()
            metrics["unigram_nll"] = -(weight * self.unigram.log()[ids]).sum()
        return loss, metrics

    def _drawn(self, number: int) -> Tensor:
        """Ids of words of the noise, ``(number,)``."""
        draws = torch.rand(number, dtype=self.noise.dtype, device=self.noise.device)
        return torch.searchsorted(self.noise.cumsum(dim=0), draws).clamp(max=len(self.noise) - 1)

    @torch.no_grad()
    def after_step(self) -> None:
        if self.parseval:
            u = self.decoder
            step = _gram(u) @ u if len(u) <= u.shape[1] else u @ _gram(u)
            u.mul_(1 + self.parseval).sub_(step, alpha=self.parseval)

    def extra_views(self, learners: Sequence[tuple[View, Words]], encoded: Mapping[View, Encoded]) -> dict[str, View]:
        return {"linear": LinearView(self.decoder)}


class _DrawnLoss(Function):
    """The mean of ``softplus(v . h)`` over each row's samples ``(n,)``, with its gradient, block by block.

    Samples' vectors ``(n, k, X)`` would take gigabytes if there are many, and blocks that fit the cache are faster.
    """

    @staticmethod
    def forward(ctx: Any, decoded: Tensor, table: Tensor, drawn: Tensor) -> Tensor:
        losses, gradient = [], torch.empty_like(decoded)
        rows = max(1, NUMBERS_AT_ONCE // (drawn.shape[1] * decoded.shape[1]))
        for h, ids, d_h in zip(*(tensor.split(rows) for tensor in (decoded, drawn, gradient)), strict=True):
            vectors = table.index_select(0, ids.flatten()).view(*ids.shape, -1)
            scores = torch.linalg.vecdot(vectors, h[:, None])
            losses.append(F.softplus(scores).mean(dim=1))
            torch.sum(vectors.mul_(scores.sigmoid_().div_(ids.shape[1])[:, :, None]), dim=1, out=d_h)
        ctx.save_for_backward(gradient)
        return torch.cat(losses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_losses: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * d_losses[:, None], None, None


class LinearView(View):
    """The mean word vector times the transposed decoder U ``(X, D)`` of the objective (multi-view frameworks 2.2)."""

    linear: ClassVar[bool] = True

    def __init__(self, decoder: Tensor):
        super().__init__()
        self.word_dim, self.dim = decoder.shape
        self._decoder = [decoder]  # in a list, so that it is not registered as a parameter of this module

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        decoder = self._decoder[0]
        vector = words.bag(ids, batch.offsets[:-1], "mean") @ decoder
        return Encoded(vector, words.lookup(ids) @ decoder, batch.offsets) if states else Encoded(vector)


def orthonormality_error(u: Tensor) -> Tensor:
    """Frobenius norm of ``U U^T - I``, or of ``U^T U - I`` if U has fewer columns than rows."""
    gram = _gram(u)
    return (gram - torch.eye(len(gram), dtype=gram.dtype, device=gram.device)).norm()


def _gram(u: Tensor) -> Tensor:
    return u @ u.T if len(u) <= u.shape[1] else u.T @ u
