"""A masked language model: its batches, one pass over the text, and how well it guesses."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it
from transformers import BertConfig, BertForMaskedLM

from masked.texts import MASK, SPECIAL, Rows, Texts, batches_of, ids_of
from structviews.runtime.device import multiplies_half
from structviews.runtime.processes import Interrupted, stop_signals
from structviews.runtime.wording import duration
from structviews.training.checkpoint import Progress, load_state, save_state

# As BERT has it: of the pieces so many are guessed, of which some are hidden, and some replaced by any other.
GUESSED, HIDDEN, REPLACED = 0.15, 0.8, 0.1
# Share of the steps in which the learning rate rises; it falls to 0 in the others.
WARM_UP = 0.05
WEIGHT_DECAY, LARGEST_GRADIENT = 0.01, 1.0
SEED = 1
REPORT_STEPS, SAVE_SECONDS = 100, 180


@dataclass(frozen=True)
class Settings:
    """Sizes, and how it is trained.

    Attributes:
        vocabulary: number of pieces. 8,000 make a step 7 % faster, and 8 % more pieces of the same words.
        dim, layers, heads, inner: of the encoder.
        positions: pieces that it reads at once.
        batch: pieces in a batch.
        rate: the highest learning rate.
    """

    vocabulary: int = 16_000
    dim: int = 256
    layers: int = 4
    heads: int = 4
    inner: int = 1024
    positions: int = 128
    batch: int = 4096
    rate: float = 1e-3


class Masked(NamedTuple):
    """A batch in which some pieces are to be guessed.

    Attributes:
        ids: ``(rows, length)`` what the model reads.
        places: ``(m,)`` where these pieces are in ``ids``, flattened.
        targets: ``(m,)`` their ids.
    """

    ids: Tensor
    places: Tensor
    targets: Tensor


class Score(NamedTuple):
    """How well pieces are guessed: the share that is right, and the perplexity."""

    accuracy: float
    perplexity: float


def new_model(settings: Settings, n_pieces: int) -> BertForMaskedLM:
    """A model with random weights.

    It has no dropout, which keeps a model from learning by heart: this one reads each sentence once. Attention is
    spelt out, which is a third faster to train on a CPU, in bf16 and on short rows, than PyTorch's fused one.
    """
    torch.manual_seed(SEED)
    return BertForMaskedLM(
        BertConfig(
            vocab_size=n_pieces,
            hidden_size=settings.dim,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            intermediate_size=settings.inner,
            max_position_embeddings=settings.positions,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
        )
    )


def masked(ids: np.ndarray, n_pieces: int, generator: np.random.Generator) -> Masked:
    """Choose and hide pieces of ``ids (rows, length)``: as many in each row, never the first and last ones."""
    n_rows, length = ids.shape
    count = max(1, round(GUESSED * (length - 2)))
    chosen = generator.random((n_rows, length - 2)).argpartition(count - 1, axis=1)[:, :count] + 1
    places = (np.arange(n_rows)[:, None] * length + chosen).ravel()
    read = ids.ravel().copy()
    targets = read[places]
    others = generator.integers(len(SPECIAL), n_pieces, len(places))
    how = generator.random(len(places))
    read[places] = np.where(how < HIDDEN, MASK, np.where(how < HIDDEN + REPLACED, others, targets))
    return Masked(*map(torch.from_numpy, (read.reshape(ids.shape), places, targets)))


def guesses(model: BertForMaskedLM, batch: Masked) -> Tensor:
    """Logits ``(m, pieces)`` of the pieces to be guessed; those of the others, 6 in 7, are not computed."""
    with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_half(torch.device("cpu"))):
        states = model.bert(input_ids=batch.ids).last_hidden_state
        logits: Tensor = model.cls(states.flatten(0, 1)[batch.places])
    return logits.float()


def train(work: Path, model: BertForMaskedLM, pieces: np.ndarray, rows: Rows, settings: Settings) -> int:
    """Read all rows once, from where the state in ``work`` ends; return the number of steps.

    Raises:
        Interrupted: on SIGINT or SIGTERM, after the state is saved.
    """
    weights = nn.ParameterList(model.parameters())  # the output layer's, which are those of its words, only once
    optimiser = torch.optim.AdamW(groups(weights), fused=True)
    batches = batches_of(rows, settings.batch, np.random.default_rng(SEED))
    first = step = load_state(work, weights, optimiser).step
    model.train()
    began = reported = saved = time.monotonic()
    losses: list[float] = []
    read = 0
    with stop_signals() as stopped:
        for step, batch in enumerate(batches[first:], first + 1):
            hidden = masked(ids_of(pieces, rows, batch), model.config.vocab_size, np.random.default_rng((SEED, step)))
            losses.append(take_step(model, optimiser, hidden, settings.rate * share_of_rate(step, len(batches))))
            read += hidden.ids.numel()
            now = time.monotonic()
            if step % REPORT_STEPS == 0 or step == len(batches):
                place = f"step {step:,} of {len(batches):,}"
                left = duration((now - began) / (step - first) * (len(batches) - step))
                speed = read / (now - reported)
                print(f"{place}: loss {np.mean(losses):.3f}, {speed:,.0f} pieces/s, {left} left", flush=True)
                losses, read, reported = [], 0, now
            if stopped() or now - saved > SAVE_SECONDS or step == len(batches):
                save_state(work, weights, optimiser, Progress(step))
                saved = time.monotonic()
            if stopped():
                raise Interrupted(stopped(), step)
    return len(batches)


def take_step(model: BertForMaskedLM, optimiser: torch.optim.Optimizer, batch: Masked, rate: float) -> float:
    """Change the weights; return the loss before."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    loss = F.cross_entropy(guesses(model, batch), batch.targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
    optimiser.step()
    optimiser.zero_grad()
    return loss.item()


def groups(weights: Iterable[Tensor]) -> list[dict[str, object]]:
    """Matrices, whose weights decay, and vectors, whose weights do not."""
    matrices, vectors = ([each for each in weights if (each.dim() > 1) is are] for are in (True, False))
    return [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]


def share_of_rate(step: int, steps: int) -> float:
    """The learning rate of a step, counted from 1, as a share of the highest."""
    rising = WARM_UP * steps
    return step / rising if step < rising else (steps - step + 1) / (steps - rising + 1)


@torch.no_grad()
def score(model: BertForMaskedLM, pieces: np.ndarray, rows: Rows, settings: Settings) -> Score:
    """How well the model guesses pieces of held-out rows."""
    model.eval()
    right, loss, n = 0, 0.0, 0
    for batch in hidden_batches(pieces, rows, model.config.vocab_size, settings.batch):
        logits = guesses(model, batch)
        right += int((logits.argmax(dim=1) == batch.targets).sum())
        loss += float(F.cross_entropy(logits, batch.targets, reduction="sum"))
        n += len(batch.targets)
    return Score(right / n, float(np.exp(loss / n)))


def score_of_counts(texts: Texts, rows: Rows, n_pieces: int, settings: Settings) -> Score:
    """How well the same pieces are guessed from how frequent pieces are, and nothing else."""
    read = texts.part(~texts.held_out).pieces
    counts = np.bincount(read, minlength=n_pieces) + 1
    asked = hidden_batches(texts.pieces, rows, n_pieces, settings.batch)
    targets = np.concatenate([batch.targets.numpy() for batch in asked])
    likely = np.log(counts / counts.sum())[targets]
    return Score(float(np.mean(targets == counts.argmax())), float(np.exp(-likely.mean())))


def hidden_batches(pieces: np.ndarray, rows: Rows, n_pieces: int, most: int) -> Iterable[Masked]:
    """The held-out rows, with the same pieces hidden each time."""
    generator = np.random.default_rng(SEED)
    batches: Sequence[np.ndarray] = batches_of(rows, most, generator)
    return (masked(ids_of(pieces, rows, batch), n_pieces, generator) for batch in batches)
