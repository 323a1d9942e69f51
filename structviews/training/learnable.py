"""What cannot be learnt is said before training begins."""

import warnings

import numpy as np
import torch

from structviews.errors import InputError
from structviews.training.trainer import Training

# Sentences, evenly spaced, of which some must differ.
COMPARED = 1000


def check_learnable(training: Training) -> None:
    """Check that a run can learn something from its corpus; it writes nothing and draws no random numbers.

    Warns if there is nothing to validate on.

    Raises:
        InputError: if no sentence has a context, all candidates are right, or all sentences are the same.
    """
    config, corpus = training.config, training.config.data.corpus
    size, window = config.optimisation.batch_size, 2 * config.objective.context + 1
    if all_the_same(training):
        raise InputError(f"{corpus}: all its sentences are the same, so there is nothing to learn: give another corpus")
    lonely = not has_neighbours(training)
    if lonely or min(size, len(training.train_rows)) <= window:  # else some are right and some are not
        with torch.random.fork_rng(devices=[]):
            metrics = training.validate(training.train_rows)
        if lonely and not metrics:
            raise InputError(
                f"{corpus}: no sentence has a neighbour in its document, so there is nothing to learn: parse running "
                "text, or lines with a blank line only between documents"
            )
        chances = [value for name, value in metrics.items() if name.split(".")[-1] == "chance_accuracy"]
        if chances and min(chances) >= 1:
            raise InputError(
                f"batch_size = {size}, context = {config.objective.context}: every candidate is right, so there is "
                "nothing to learn: give a larger --batch-size or more sentences"
            )
    if config.data.held_out and not len(training.held_out_rows) and training.ranks.leads:
        warnings.warn(f"{corpus}: one document, which is not split: none is held out for validation", stacklevel=2)


def has_neighbours(training: Training) -> bool:
    """Whether some training sentence has a context, or, where the objective reads only that, a next sentence.

    True of any corpus if the objective reads no contexts.
    """
    if not training.model.reads_neighbours:
        return True
    reach = 1 if "next" in training.model.context_needs else training.config.objective.context
    chosen = np.isin(np.arange(len(training.corpus)), training.train_rows, assume_unique=True)
    start, last = 0, [-1, 0]  # of the shard before
    for table in training.corpus.tables():  # mostly, the first one has some
        own = chosen[start : start + len(table)]
        document, position = (
            np.append(before, table[name].to_numpy()[own])
            for before, name in zip(last, ("document", "position"), strict=True)
        )
        if ((np.diff(document) == 0) & (np.diff(position) <= reach)).any():
            return True
        start, last = start + len(table), [document[-1], position[-1]]
    return False


def all_the_same(training: Training) -> bool:
    """Whether the training sentences are all the same, by a sample of them."""
    rows = training.train_rows
    sample = rows[:: max(1, len(rows) // COMPARED)]
    first = training.corpus.sentence(int(sample[0])).tokens
    return all(training.corpus.sentence(int(row)).tokens == first for row in sample)
