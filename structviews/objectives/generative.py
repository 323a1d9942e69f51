"""The generative objective (Tang and de Sa, "Improving Sentence Representations with Multi-view Frameworks", 2.2).

Shapes: B sentences of a batch, n words of all of them, N words that are predicted, S words drawn, V
words of the vocabulary, D length of a sentence vector, X length of a word vector.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.batching import Batch
from structviews.objectives.base import Context, ContextWords, Inputs, Objective, promoted, register
from structviews.objectives.contrast import BLOCK
from structviews.views.base import Encoded, View
from structviews.vocabulary import WordIds, Words

# Of the unigram counts, for the words drawn (Mikolov et al. 2013).
POWER = 0.75
# Words drawn a batch, which stand for all of its negatives.
DRAWS = 2048


@register("generative")
class Generative(Objective):
    """A sentence's vector predicts the words of the next sentence, through a linear decoder.

    With ``h_i = U z_i`` and negatives from the noise distribution q, unigrams to the power 0.75, the
    loss is the mean over the words w of next sentences of

        -log sigmoid(v_w . h_i) - k E_q[log sigmoid(-v . h_i)]

    Training draws ``DRAWS`` words for the expectation, which all sentences share; in evaluation mode it
    is exact. Word vectors get no gradient from here. The probability of a word is
    read off as ``q(w) exp(v_w . h_i)``, normalised over the vocabulary, to which negative sampling
    drives the scores (Levy and Goldberg 2014).

    Args:
        inputs: one view, and the counts of the words.
        negatives: k.
        parseval: b of the Parseval step ``U <- (1 + b) U - b U U^T U`` (Cisse et al. 2017), which keeps
            the rows of U orthonormal, or its columns where these are fewer; 0 for none.
    """

    min_views: ClassVar[int] = 1
    max_views: ClassVar[int | None] = 1
    example: ClassVar[str] = "seq"
    options: ClassVar[tuple[str, ...]] = ("negatives", "parseval")
    extra_names: ClassVar[tuple[str, ...]] = ("linear",)
    report: ClassVar[str] = (
        "loss {loss:.3f} (chance {chance_loss:.3f}), negative log-likelihood a word {nll:.3f} "
        "(unigram model {unigram_nll:.3f})"
    )
    needs = frozenset({"next", "words"})
    noise: Tensor
    unigram: Tensor

    def __init__(self, inputs: Inputs, negatives: int = 1, parseval: float = 0.01):
        super().__init__()
        self.negatives = negatives
        self.parseval = parseval
        self.decoder = nn.Parameter(nn.init.orthogonal_(torch.empty(inputs.words_dim, inputs.dims[0])))
        # A word that never occurs in this corpus counts as if it did once.
        counts = torch.ones(1) if inputs.counts is None else inputs.counts.clamp(min=1)
        self.register_buffer("noise", _distribution(counts.double() ** POWER), persistent=False)
        self.register_buffer("unigram", _distribution(counts.double()), persistent=False)

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        if context.words is None or context.next is None:
            raise ValueError("the context has no words or no next sentences, which this objective needs")
        (sentences,) = promoted(views)
        decoded = sentences @ self.decoder.T
        words = context.words
        anchor = _previous(context.next)[words.sentence]  # of each word the sentence that predicts it, or -1
        ids = words.distinct[words.inverse]
        n_predicted = (anchor >= 0).sum()
        weight = (anchor >= 0).to(decoded.dtype) / n_predicted.clamp(min=1)
        anchor = anchor.clamp(min=0)  # without weight where there is none
        scores = (decoded.index_select(0, anchor) * words.table.index_select(0, ids)).sum(dim=1)
        noise_loss, log_total = self._sampled(decoded, words) if self.training else self._exact(decoded, words)
        loss = (weight * (F.softplus(-scores) + self.negatives * noise_loss[anchor])).sum()
        metrics = {
            "loss": loss.detach(),
            "chance_loss": (1 + self.negatives) * math.log(2) * (n_predicted > 0),
            "orthonormality_error": orthonormality_error(self.decoder.detach()),
            "anchors": n_predicted,
        }
        if log_total is not None:
            metrics["nll"] = -(weight * (scores.detach() + self.noise.log()[ids] - log_total[anchor])).sum()
            metrics["unigram_nll"] = -(weight * self.unigram.log()[ids]).sum()
        return loss, metrics

    def _sampled(self, decoded: Tensor, words: ContextWords) -> tuple[Tensor, None]:
        """An estimate of what a negative costs each sentence, ``(B,)``; the same words for all."""
        draws = torch.rand(DRAWS, dtype=self.noise.dtype, device=decoded.device)
        drawn = torch.searchsorted(self.noise.cumsum(dim=0), draws).clamp(max=len(self.noise) - 1)
        return F.softplus(decoded @ words.table.index_select(0, drawn).T).mean(dim=1), None

    def _exact(self, decoded: Tensor, words: ContextWords) -> tuple[Tensor, Tensor]:
        """What a negative costs each sentence, ``(B,)``, and the logarithm of its ``sum_w q(w) exp(v_w . h)``."""
        costs, totals = [], []
        noise = self.noise.to(decoded.dtype)
        for rows in decoded.split(max(1, BLOCK // len(noise))):
            scores = rows @ words.table.T
            costs.append(F.softplus(scores) @ noise)
            totals.append((scores.detach() + noise.log()).logsumexp(dim=1))
        return torch.cat(costs), torch.cat(totals)

    @torch.no_grad()
    def after_step(self) -> None:
        if self.parseval:
            u = self.decoder
            step = _gram(u) @ u if len(u) <= u.shape[1] else u @ _gram(u)
            u.mul_(1 + self.parseval).sub_(step, alpha=self.parseval)

    def extra_views(self) -> dict[str, nn.Module]:
        return {"linear": LinearView(self.decoder)}


class LinearView(View):
    """What the decoder's transpose makes of the mean word vector: ``U^T x`` (multi-view frameworks 2.2).

    Args:
        decoder: ``(X, D)`` U, which stays the objective's.
    """

    linear: ClassVar[bool] = True

    def __init__(self, decoder: Tensor):
        super().__init__()
        self.words_dim, self.dim = decoder.shape
        self._decoder = [decoder]  # in a list: not a parameter of this module too

    def encode(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        decoder = self._decoder[0]
        vector = words.bag(ids, batch.offsets[:-1], "mean") @ decoder
        return Encoded(vector, words.lookup(ids) @ decoder, batch.offsets) if states else Encoded(vector)


def orthonormality_error(u: Tensor) -> Tensor:
    """Frobenius norm of ``U U^T - I``, or of ``U^T U - I`` where the columns are fewer."""
    gram = _gram(u)
    return (gram - torch.eye(len(gram), dtype=gram.dtype, device=gram.device)).norm()


def _gram(u: Tensor) -> Tensor:
    return u @ u.T if len(u) <= u.shape[1] else u.T @ u


def _distribution(counts: Tensor) -> Tensor:
    return counts / counts.sum()


def _previous(following: Tensor) -> Tensor:
    """For each sentence ``(B,)`` the one that it follows, -1 where there is none; the inverse of ``following``."""
    n = len(following)
    found = torch.full((n + 1,), -1, dtype=following.dtype, device=following.device)
    rows = torch.arange(n, device=following.device)
    return found.scatter_(0, torch.where(following < 0, n, following), rows)[:n]
