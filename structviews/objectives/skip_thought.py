"""The skip-thought objective (Kiros et al. 2015), which quick-thoughts' appendix C compares with.

Shapes: B sentences in the batch, n words in total, R words in a block, V words in the vocabulary, D dimension of a
sentence vector, X dimension of a word vector.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from structviews.kernels.cells import xavier
from structviews.kernels.steps import Function
from structviews.objectives import OBJECTIVES
from structviews.objectives.objective import Context, Inputs, Objective, preceding
from structviews.settings import Settings, setting

# Scores in a block of words, R x V: 32 MB in single precision.
LOGITS_AT_ONCE = 2**23


@dataclass(frozen=True)
class SkipThoughtConfig(Settings):
    """The settings of the skip-thought objective."""

    conditioning: str = setting(
        "gates",
        "How a decoder reads the sentence: in its gates at every word, or as its start.",
        choices=("gates", "start"),
    )
    output_layers: int = setting(1, "Output layers: 1 that both decoders share, or 2.", least=1, most=2)


@OBJECTIVES.register("skip-thought")
class SkipThought(Objective):
    """Predicts the previous and the next sentence word by word from a sentence vector, with a recurrent decoder each.

    With the words before it and the vector ``z`` of the neighbouring sentence, a word's probability is
    ``softmax(V s + b)``, where ``s`` is the state of a GRU, D dimensions, that has read the words before it, first a
    vector of zeros. With ``gates``, ``z`` is added to the reset gate, the update gate and the candidate, each through
    a matrix of its own (Kiros et al. 2015, eqs. 5 to 8; the reset gate comes after the product, as in their code);
    with ``start``, it is the GRU's first state, which quick-thoughts' count of parameters implies. The loss is the mean
    of ``-log p`` over the words of all neighbours. Words are predicted from the vectors that the first view reads,
    which are trained by it too. The end of a sentence is not predicted.
    """

    min_views: ClassVar[int] = 1
    max_views: ClassVar[int | None] = 1
    example: ClassVar[str] = "seq-uni"
    Config = SkipThoughtConfig
    report: ClassVar[str] = (
        "loss {loss:.3f} (chance {chance_loss:.3f}), negative log-likelihood per word of the unigram model "
        "{unigram_nll:.3f}"
    )
    needs = frozenset({"next", "words", "vectors"})
    unigram: Tensor

    def __init__(self, inputs: Inputs, config: SkipThoughtConfig) -> None:
        super().__init__()
        (dim,) = inputs.dims
        self.in_gates = config.conditioning == "gates"
        size = inputs.word_dim + dim * self.in_gates
        self.decoders = nn.ModuleList(nn.GRU(size, dim) for _ in range(2))  # of the previous and of the next sentence
        # Their names have ".words.", so a run that starts from another takes its rows as those of a word table.
        self.words = nn.ModuleList(nn.Linear(dim, inputs.n_words) for _ in range(config.output_layers))
        xavier(self, {name: 3 for name, _ in self.named_parameters() if name.startswith("decoders")})
        counts = torch.ones(inputs.n_words) if inputs.counts is None else inputs.counts.clamp(min=1)
        self.register_buffer("unigram", (counts / counts.sum()).log(), persistent=False)

    def forward(self, views: Sequence[Tensor], context: Context) -> tuple[Tensor, dict[str, Tensor]]:
        words = context.words
        if words is None or words.vectors is None or context.next is None:
            raise ValueError("this objective needs the words, their vectors and the next sentences in the context")
        (sentences,) = views
        order, sizes = words.packing.order, words.packing.sizes
        sentence, targets = words.sentence[order], words.distinct[words.inverse][order]
        # Each word's decoder reads the word before it, and zeros at the first of a sentence.
        first = words.sentence.diff(prepend=words.sentence.new_full((1,), -1)) > 0
        before = F.embedding(words.inverse.roll(1), words.vectors).masked_fill(first[:, None], 0.0)
        read = before.index_select(0, order)
        losses, weights = [], []
        # The previous sentence of i is predicted from i, by the decoder of what comes before.
        sources = context.next, preceding(context.next)
        for number, (decoder, source) in enumerate(zip(self.decoders, sources, strict=True)):
            weight = (source >= 0)[sentence].to(sentences.dtype)
            predicting = sentences.index_select(0, source.clamp(min=0))
            # States (n, D) before each word, in packed order, whose first B words are of different sentences.
            if self.in_gates:
                packed = PackedSequence(torch.cat([read, predicting.index_select(0, sentence)], dim=1), sizes)
                (states, *_), _ = decoder(packed)
            else:
                start = predicting.index_select(0, sentence[: len(predicting)])[None]
                (states, *_), _ = decoder(PackedSequence(read, sizes), start)
            output = self.words[number % len(self.words)]
            losses.append(_WordLoss.apply(states, output.weight, output.bias, targets, weight))
            weights.append(weight)
        times = torch.stack(weights).sum(dim=0)  # that each word is predicted
        n_predicted = times.sum()
        loss = torch.stack(losses).sum() / n_predicted.clamp(min=1)
        metrics = {
            "loss": loss.detach(),
            "chance_loss": math.log(max(len(self.unigram), 1)) * (n_predicted > 0),
            "anchors": n_predicted.to(torch.int64),
        }
        if not self.training:
            unigram = (times * self.unigram.to(loss.dtype)[targets]).sum()
            metrics["unigram_nll"] = -unigram / n_predicted.clamp(min=1)
        return loss, metrics


class _WordLoss(Function):
    """The sum over words of ``-w log softmax(W s + b)[target]``, with its gradient, block by block."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, importance: Tensor) -> Tensor:
        d_states, d_weight, d_bias = (torch.zeros_like(tensor) for tensor in (states, weight, bias))
        losses = []
        rows = max(1, LOGITS_AT_ONCE // max(len(weight), 1))
        blocks = (each.split(rows) for each in (states, targets[:, None], importance[:, None], d_states))
        for s, target, w, d_s in zip(*blocks, strict=True):
            scores = torch.addmm(bias, s, weight.T)
            scores -= scores.amax(dim=1, keepdim=True)
            chosen = scores.gather(1, target)
            total = scores.exp_().sum(dim=1, keepdim=True)
            losses.append((w * (total.log() - chosen)).sum())
            if any(ctx.needs_input_grad):
                d_scores = scores.mul_(w / total).scatter_add_(1, target, -w)
                torch.mm(d_scores, weight, out=d_s)
                d_weight.addmm_(d_scores.T, s)
                d_bias += d_scores.sum(dim=0)
        ctx.save_for_backward(d_states, d_weight, d_bias)
        return torch.stack(losses).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        return (*(gradient * d_loss for gradient in ctx.saved_tensors), None, None)
