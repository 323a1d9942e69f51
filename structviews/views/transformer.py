"""The view of a pretrained transformer, trained further beside the other views."""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from structviews.batches.batch import Batch, WordIds
from structviews.errors import InputError
from structviews.pretrained.loading import Blueprint
from structviews.pretrained.states import sentence_states
from structviews.runtime.arrays import starts_of
from structviews.runtime.device import send, to_tensor
from structviews.settings import Settings, setting
from structviews.views import VIEWS
from structviews.views.view import Encoded, View, Words
from structviews.words.word_settings import FIRST, MEAN

# Settings of an encoder's configuration that are shares of what is dropped.
DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")


@dataclass(frozen=True)
class TransformerConfig(Settings):
    """How a transformer is read and trained."""

    pooling: str = setting(
        MEAN,
        "Vector of a sentence in the view transformer: the mean of its pieces, or the first.",
        flat="sentence_pooling",
        choices=(MEAN, FIRST),
    )
    lr: float = setting(
        3e-5, "Learning rate of the view transformer.", flat="encoder_lr", above=0, most=1000, training=True
    )
    top_layers: int = setting(
        0,
        "Train only the top N layers of the transformer; 0 for all of it.",
        least=0,
        most=10_000,
        metavar="N",
        training=True,
    )
    recompute: bool = setting(
        False,
        "Recompute the transformer's layers in the backward pass: less memory, more time.",
        flags="--recompute",
        rare=True,
        training=True,
    )


@VIEWS.register("transformer")
class Transformer(View):
    """A transformer of Hugging Face; its vector is the mean of the last layer's states, or the first of them.

    Args:
        word_dim: dimension of the other views' word vectors, which it does not read.
        dim: dimension of its vector, that of its states.
        config: how it is read and trained.
        encoder: its configuration and tokeniser.

    Raises:
        InputError: if its states have another dimension, or it has fewer layers than are to be trained.
    """

    reads_pieces: ClassVar[bool] = True
    Config: ClassVar[type[TransformerConfig]] = TransformerConfig

    def __init__(self, word_dim: int, dim: int, config: TransformerConfig, encoder: Blueprint) -> None:
        super().__init__()
        if encoder.dim != dim:
            raise InputError(
                f"hidden = {dim}: the states of {encoder.place} have {encoder.dim} dimensions, and so has the view "
                f"'transformer': give --hidden {encoder.dim}"
            )
        self.dim = dim
        self.word_dim = word_dim
        self.lr = config.lr
        self.pooling = config.pooling
        self.padding = encoder.tokeniser.pad
        self.network = encoder.network()
        if config.top_layers:
            freeze_below(self.network, config.top_layers)
        if config.recompute:
            # Its name in version 5 of transformers, and its later one.
            names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
            enable = next(getattr(self.network, name) for name in names if hasattr(self.network, name))
            try:
                enable({"use_reentrant": False})
            except ValueError:  # not all of transformers' encoders can
                raise InputError(
                    f"recompute = true: {encoder.place} cannot compute its layers again: leave out --recompute"
                ) from None
        # Tells runs apart whose tokenisers differ, as the digest of the weights tells all other runs apart.
        self.register_buffer("tokeniser", torch.tensor([*encoder.digest], dtype=torch.uint8))

    @property
    def drops(self) -> bool:
        if any(part.p > 0 for part in self.network.modules() if isinstance(part, nn.Dropout)):
            return True
        # Some encoders, such as BART's, call a function, with the rates of their configuration.
        return any(getattr(self.network.config, share, 0) for share in DROPOUTS)

    def forward(self, words: Words, batch: Batch, ids: WordIds, states: bool = False) -> Encoded:
        pieces = batch.pieces
        if pieces is None:
            raise ValueError("the batch has no pieces of an encoder: collate it with an aligner")
        vector, of_pieces = sentence_states(self.network, self.padding, pieces, self.pooling, states)
        if of_pieces is None:
            return Encoded(vector)
        offsets = np.append(starts_of(pieces.lengths), pieces.lengths.sum())
        return Encoded(vector, of_pieces, send(to_tensor(offsets), vector.device))


def freeze_below(network: Any, n_trained: int) -> None:
    """Freeze all that the input of a ``PreTrainedModel``'s top layers is computed from, so that it never changes.

    Which parameters these are is asked of autograd: some encoders have biases or norms that all layers share. On the
    device meta, where some encoders cannot be followed, these stay as they are.

    Raises:
        InputError: if it has fewer layers, or they share their weights.
    """
    depth: int = network.config.num_hidden_layers
    if n_trained > depth:
        raise InputError(f"top_layers = {n_trained}: the encoder has {depth} layers: give at most {depth}")
    try:
        with torch.inference_mode(False), torch.enable_grad():
            copied = copy.deepcopy(network).eval()  # a forward pass may leave hooks
            parameters = list(copied.parameters())
            pieces = torch.zeros(1, 2, dtype=torch.long, device=network.device)
            found = copied(input_ids=pieces, output_hidden_states=True)
            below, above = (
                torch.autograd.grad(states.sum(), parameters, retain_graph=True, allow_unused=True)
                for states in (found.hidden_states[depth - n_trained], found.last_hidden_state)
            )
    except RuntimeError:
        if network.device.type == "meta":
            return
        raise
    if not any(over is not None and under is None for over, under in zip(above, below, strict=True)):
        raise InputError(f"top_layers = {n_trained}: the encoder's layers share their weights: leave it out")
    for parameter, gradient in zip(network.parameters(), below, strict=True):
        parameter.requires_grad_(gradient is None)
