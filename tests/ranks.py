"""What the ranks of test_ranks.py do; started once for each rank, with torchrun's variables."""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from corpora import small_config
from safetensors.torch import save_file

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.training.checkpoint import Progress
from structviews.training.ranks import joined_ranks
from structviews.training.trainer import Training

# Tried in this order: an objective takes the first that it can work on.
VIEWS = (("dep", "const"), ("seq", "seq"), ("seq",))
STEPS = 3


def case_configs(corpus, out):
    """Settings by name of every objective, and of some that gather more or train several batches a step."""
    # Eight sentences of three batches a rank, and a rest of other lengths.
    settings = {"batch_size": 9, "clip": 1e9, "precision": "fp32", "gather_negatives": True, "held_out": 0.0}
    own = {"teacher": {"teacher": str(Path(corpus).parent / "tiny"), "pairwise_weight": 1.0}}
    configs = {}
    for objective in OBJECTIVES:
        for views in VIEWS:
            try:
                config = small_config(corpus, out, views, objective=objective, **settings, **own.get(objective, {}))
                Training(config)
            except InputError:
                continue
            configs[objective] = config
            break
    # With dropout, no two processes compute the same.
    assert configs.keys() == {name for name in OBJECTIVES if OBJECTIVES[name].passes == 1}
    pairwise = configs["pairwise"]
    configs["duplicates"] = pairwise.replaced(mask_duplicates=True)
    configs["three"] = pairwise.replaced(views=("bow", "avg", "seq"), hidden=8)
    for agreement in ("multi+single", "within", "skip"):
        configs[agreement] = configs["consensus"].replaced(agreement=agreement)
    configs["quick"] = configs["quick-thoughts"].replaced(self_score="zero", context=2)
    configs["own"] = pairwise.replaced(gather_negatives=False)
    configs["own-accumulated"] = pairwise.replaced(gather_negatives=False, accumulate=2)
    return configs


def prepared(config, ranks=None):
    """A training in double precision whose weights stay."""
    training = Training(config, ranks)
    training.model.double()
    training.optimiser.step = lambda: None
    training.model.after_step = lambda: None
    return training


def gradients(training):
    """By name, dense."""
    return {
        name: p.grad.to_dense() if p.grad.is_sparse else p.grad
        for name, p in training.model.named_parameters()
        if p.grad is not None
    }


def rows_of(training, batch):
    """Where a batch's sentences stand in the corpus."""
    places = {place: i for i, place in enumerate(zip(*places_of(training), strict=True))}
    return [places[place] for place in zip(batch.document.tolist(), batch.position.tolist(), strict=True)]


def places_of(training):
    tables = [training.inputs.corpus.shard(i) for i in range(training.inputs.corpus.n_shards)]
    return [[v for table in tables for v in table[name].to_pylist()] for name in ("document", "position")]


def write_gradients(ranks, corpus, folder):
    """Each rank's rows, and after each step the loss and the gradients."""
    for name, config in case_configs(corpus, folder / "run").items():
        training, rows, results = prepared(config, ranks), [], {}
        for number, step in zip(range(STEPS), training.steps(Progress()), strict=False):
            rows.append([rows_of(training, batch) for batch in step.batches])
            agreed = training.agree(step, 0)
            assert agreed.sentences == sum(ranks.exchange(np.array([sum(map(len, step.batches))], np.uint8)).ravel())
            torch.manual_seed(number)
            metrics, _ = training.step(*step.batches, words=agreed.words)
            results[f"{number}.loss"] = torch.as_tensor(metrics["trained"]["loss"])
            results |= {f"{number}.{n}": gradient.contiguous() for n, gradient in gradients(training).items()}
        (folder / f"{name}.{ranks.rank}.json").write_text(json.dumps(rows))
        save_file(results, folder / f"{name}.{ranks.rank}.safetensors")


def main(task, *arguments):
    torch.set_num_threads(1)
    with joined_ranks() as ranks:
        if task == "gradients":
            write_gradients(ranks, Path(arguments[0]), Path(arguments[1]))
        if task == "fail" and ranks.rank == 1:
            raise InputError("this rank cannot go on")
        if task == "die" and ranks.rank == 1:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        ranks.wait()
    for thread in Path("/proc/self/task").glob("*/comm"):  # nothing of the group may outlive it
        if "gloo" in (name := thread.read_text().strip()):
            print(f"left behind: {name}")


if __name__ == "__main__":
    from structviews.cli import app as cli

    cli.app = lambda **_: main(*sys.argv[1:])
    cli.main()
