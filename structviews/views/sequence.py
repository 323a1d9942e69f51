"""Sequence views: recurrent networks over the words in text order."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn.functional import embedding
from torch.nn.utils.rnn import PackedSequence

from structviews.batches.batch import Batch, WordIds
from structviews.errors import InputError
from structviews.kernels import recurrent
from structviews.kernels.cells import xavier
from structviews.kernels.recurrent import Gru, GruResetBefore, Lstm, RecurrentCell
from structviews.settings import Settings, setting
from structviews.views import VIEWS
from structviews.views.view import Encoded, View, Words

GRU, LSTM = "gru", "lstm"
AFTER, BEFORE = "after", "before"
KINDS: dict[tuple[str, str], type[RecurrentCell]] = {
    (GRU, AFTER): Gru,
    (GRU, BEFORE): GruResetBefore,
    (LSTM, AFTER): Lstm,
}


@dataclass(frozen=True)
class SequenceConfig(Settings):
    """The cell of a sequence view."""

    cell: str = setting(GRU, "Recurrent cell: gru or lstm.", choices=(GRU, LSTM), rare=True)
    reset_gate: str = setting(
        AFTER,
        "Where a GRU's reset gate acts: after or before the product with the state.",
        choices=(AFTER, BEFORE),
        rare=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.cell, self.reset_gate) not in KINDS:
            raise InputError(f"reset_gate = {self.reset_gate}: an LSTM has no reset gate: leave it out")


@VIEWS.register("seq")
class Sequence(View):
    """Bidirectional GRU or LSTM, half of the dimension per direction (structured views, quick-thoughts).

    Its vector is the concatenation of the final states of both directions.
    """

    bidirectional: ClassVar[bool] = True
    Config: ClassVar[type[SequenceConfig]] = SequenceConfig

    def __init__(self, word_dim: int, dim: int, config: SequenceConfig) -> None:
        super().__init__()
        if self.bidirectional and dim % 2:
            raise InputError(f"dimension {dim} of the view 'seq' is odd: give an even one (half per direction)")
        self.dim = dim
        self.word_dim = word_dim
        self.kind = KINDS[config.cell, config.reset_gate]
        size = dim // (1 + self.bidirectional)
        self.network = self.kind.module(word_dim, size, bidirectional=self.bidirectional)
        n_gates = len(self.network.get_parameter("bias_ih_l0")) // size
        xavier(self, {name: n_gates for name, _ in self.named_parameters()})

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        vectors, network, kind = words.rows(ids), self.network, self.kind
        packing = batch.packing
        if not torch.is_grad_enabled() and not vectors.is_cuda:
            vector, outputs = recurrent.run_inference(network, kind, vectors, ids, packing, states)
            return Encoded(vector, outputs, batch.offsets if states else None)
        if vectors.is_cuda and kind.built_in:  # cuDNN runs the whole sequence; on the CPU PyTorch's modules are slow
            inputs = embedding(ids.inverse[packing.order], vectors)
            (outputs, *_), final = network(PackedSequence(inputs, packing.sizes))
            final = final[0] if isinstance(final, tuple) else final
        else:
            outputs, final = recurrent.run(network, kind, vectors, ids, packing)
        vector = torch.cat(final.unbind(0), dim=1)[packing.sentence]
        if not states:
            return Encoded(vector)
        in_text_order = torch.empty_like(outputs).index_copy(0, packing.order, outputs)
        return Encoded(vector, in_text_order.to(vector.dtype), batch.offsets)


@VIEWS.register("seq-uni")
class ForwardSequence(Sequence):
    """Forward GRU or LSTM; its vector is the final state."""

    bidirectional: ClassVar[bool] = False
