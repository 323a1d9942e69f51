"""Speed of the tree encoders and of training, compared with recursion, DGL and the hardware's ceiling.

    python scripts/bench.py --corpus gum.parsed --json bench.json
    python scripts/bench.py --only kernels,step --quick
    python scripts/bench.py --device cuda

Contenders take turns on the same batches with the same weights, forward and backward, including word
vectors' gradients; medians over rounds are printed as Markdown. The ceiling is one large matrix
product: a contender's share of it is the operations of its own matrix products divided by those that
the large product does in the same time. Naive recursion runs on three sentences at a time, and its rate
is scaled by words. Everything is repeated with one thread. Without --corpus, trees are random, with
English-like shapes.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Works from a checkout, with only the dependencies of training installed.
sys.path.append(str(Path(__file__).resolve().parents[1]))
PARTS = ("memory", "kernels", "step", "shares", "growth", "loader")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a parsed corpus with both kinds of tree")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, help="PyTorch threads; by default its own choice")
    parser.add_argument("--only", default=",".join(PARTS), help=f"comma-separated parts: {', '.join(PARTS)}")
    parser.add_argument("--sizes", default="64,400", help="sentences per batch")
    parser.add_argument("--hidden", default="150,600,1200", help="dimensions of the vectors")
    parser.add_argument("--quick", action="store_true", help="batches of 400, vectors of 600, one thread setting")
    parser.add_argument("--sentences", type=int, default=8000, help="size of the random corpus")
    parser.add_argument("--rounds", type=int, default=7, help="most rounds per comparison")
    parser.add_argument(
        "--seconds", type=float, help="start no more rounds of a race after so many; default 60, 5 on a GPU"
    )
    parser.add_argument("--ceiling", type=int, help="rows of the large product; default 2048, 8192 on a GPU")
    parser.add_argument("--json", type=Path, help="also write all results to this JSON file")
    args = parser.parse_args()
    if unknown := set(args.only.split(",")) - set(PARTS):
        parser.error(f"--only {','.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    return args


def main() -> None:
    """Measure, print, and write JSON."""
    args = arguments()
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # hide GPUs
    from benchmarks import corpora, measure, parts  # noqa: PLC0415 - PyTorch reads the environment

    from structviews.runtime.machine import keep_freed_memory  # noqa: PLC0415

    keep_freed_memory()  # as training does
    with tempfile.TemporaryDirectory() as folder:
        corpus = args.corpus or corpora.random_corpus(Path(folder), args.sentences).path
        settings = settings_of(args, corpus)
        machine = measure.machine(settings.device)
        print(f"# {' '.join(sys.argv)}\n\n{describe(machine)}\n")
        results: dict[str, Any] = {"machine": machine, "command": sys.argv}
        for name in args.only.split(","):
            results[name] = []
            for row in parts.PARTS[name](settings):
                results[name].append(row)
                print(f"{name}: {' '.join(str(v) for v in list(row.values())[:4])}", file=sys.stderr)
                if args.json:
                    args.json.write_text(json.dumps(results, indent=1) + "\n")
            print(TABLES[name](results[name]), "\n", flush=True)


def settings_of(args: argparse.Namespace, corpus: Path) -> Any:
    """The settings, with defaults that depend on the device."""
    import torch  # noqa: PLC0415
    from benchmarks.parts import Settings  # noqa: PLC0415

    cuda = args.device == "cuda"
    threads = args.threads or torch.get_num_threads()
    return Settings(
        corpus=corpus,
        device=torch.device(args.device),
        threads=[threads] if cuda or args.quick or threads == 1 else [threads, 1],
        sizes=[400] if args.quick else [int(size) for size in args.sizes.split(",")],
        hidden=[600] if args.quick else [int(hidden) for hidden in args.hidden.split(",")],
        rounds=args.rounds,
        seconds=args.seconds or (5 if cuda else 60),
        ceiling=args.ceiling or (8192 if cuda else 2048),
    )


def describe(machine: dict[str, Any]) -> str:
    """Describe the machine on one line."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    device = "" if machine["device"] == "cpu" else f"{machine['device']}; "
    return f"{device}{machine['processor']}, {machine['cores']} cores, load {machine['load']:.1f}; {versions}"


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table in Markdown."""
    lines = [list(header), *([str(cell) for cell in row] for row in rows)]
    lines.insert(1, ["--"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def compared(rows: list[dict[str, Any]]) -> str:
    """Sentences per second of each contender, with the ratio to DGL and the share of the ceiling."""
    names = list(dict.fromkeys(name for row in rows for name in row["sentences_per_second"]))

    def cell(row: dict[str, Any], name: str) -> str:
        if name not in row["sentences_per_second"]:
            return ""
        ratio = f", {row['times_dgl'][name]:.2f} x" if row["times_dgl"] else ""
        paper = f", {row['times_the_paper'][name]:.1f} x the paper's" if "times_the_paper" in row else ""
        return f"{row['sentences_per_second'][name]:,.0f}{ratio}, {row['share_of_ceiling'][name]:.0%}{paper}"

    places = ("what", "batch", "hidden", "threads")
    body = ([*(row[p] for p in places), *(cell(row, name) for name in names), ceiling(row)] for row in rows)
    explained = "Sentences/s, ratio to DGL, share of the ceiling of the same precision:"
    return f"{explained}\n\n{table([*places, *names, 'ceiling GFLOP/s'], body)}"


def ceiling(row: dict[str, Any]) -> str:
    """Speed of one large matrix product, in both precisions."""
    return " / ".join(f"{value:,.0f}" for value in row["ceiling_gflops"].values())


def grown(rows: list[dict[str, Any]]) -> str:
    """Microseconds per word."""
    header = ["by", "case", "hidden", "levels dep / const", *rows[0]["microseconds_per_word"]]

    def cells(row: dict[str, Any]) -> Iterable[Any]:
        yield from (row["by"], row["case"], row["hidden"], " / ".join(map(str, row["levels"])))
        yield from map(figure, row["microseconds_per_word"].values())

    return f"Microseconds a word, forward and backward:\n\n{table(header, map(cells, rows))}"


def listed(rows: list[dict[str, Any]]) -> str:
    """All figures of all rows."""
    names = [name for name, value in rows[0].items() if not isinstance(value, dict)]
    return table((name.replace("_", " ") for name in names), ([figure(row[name]) for name in names] for row in rows))


def figure(value: Any) -> str:
    """A number with its significant digits."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


TABLES = {"memory": listed, "kernels": compared, "step": compared, "shares": listed, "growth": grown, "loader": listed}

if __name__ == "__main__":
    main()
