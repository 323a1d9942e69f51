"""Benchmarks: speed and memory, as ratios between contenders that take turns in one run.

    python scripts/bench.py train --corpus gum.parsed --json bench.json
    python scripts/bench.py encode --help

train       the tree encoders and the whole training step, beside recursion, DGL and one large matrix product
encode      sentences to vectors, beside transformers of published sizes
busy        encoding, parsing and serving beside other programs that use all cores
parsers     the built-in parser beside other libraries' parsers at published sizes
attachment  parsers' attachment and rates on treebanks of Universal Dependencies
calibration whether the built-in parser knows how sure it is, and the cost of saying so
eval        the evaluation's classifiers beside scikit-learn
loader      from a parsed corpus to batches, and its memory
ranks       training in several processes, beside one with as many threads
serve       requests a second of `structviews serve`, and its behaviour under load
states      contextual words: pieces, states of a frozen encoder, and batches with them

Each has flags of its own. All print Markdown; with --json FILE they also write what they found.
"""

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

# Works from a checkout, with only the dependencies of training installed.
sys.path.append(str(Path(__file__).resolve().parents[1]))
NAMES = [
    "train",
    "encode",
    "busy",
    "parsers",
    "attachment",
    "calibration",
    "eval",
    "loader",
    "ranks",
    "serve",
    "states",
]


def main() -> None:
    """Measure, print, and write JSON."""
    first = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    first.add_argument("benchmark", choices=NAMES)
    name = first.parse_args(sys.argv[1:2]).benchmark
    module = import_module(f"benchmarks.{name}")
    parser = argparse.ArgumentParser(
        prog=f"bench.py {name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.flags(parser)
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    options = parser.parse_args(sys.argv[2:])
    found = module.measure(options)
    if found is None:  # a process of several, whose first one reports
        return
    from benchmarks.measure import machine  # noqa: PLC0415  the benchmark has set up PyTorch

    about = machine()
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "command": sys.argv, **found}, indent=1) + "\n")
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    used = ", ".join(f"{name} {instructions}" for name, instructions in about["instructions"].items())
    print(f"{about['processor']} (used: {used}), {about['cores']} cores, load {about['load']:.1f}; {versions}\n")
    print(module.tables(found))


if __name__ == "__main__":
    main()
