"""Make the bundled model.

    python scripts/default_model.py make novels-*.txt.zst modern-*.txt.zst --senteval senteval -o work
    python scripts/default_model.py ship work/packed/default --baseline work/runs/sif --search search.md

The first step goes from texts to a scored model: it parses the texts, learns word vectors on all of them, trains the
views, packs the run, and scores it beside baselines of the same words. If it is stopped, run the same command again to
resume; what each stage took is printed, and kept in stages.json. The last step, which needs the extra ``hub``, puts the
packed model into the package with its scores and a model card. To pack another run, use the step between:

    python scripts/default_model.py pack runs/dep-const -o packed/default --words 40000
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from smoke import command

from structviews.errors import InputError
from structviews.hub.packing import pack, ship
from structviews.runs import bundled
from structviews.runtime.documents import write_json
from structviews.runtime.wording import duration

# The settings, chosen as docs/default-model.md says.
VECTORS = ("--lower-case", "--subwords", 60_000, "--epochs", 3, "--workers", 2)
TRAINING = ("--views", "dep,const,sif", "--unit-words", "--channels", "fixed", "--epochs", 1, "--held-out", 0.01)
HIDDEN = 600
KEPT_WORDS = 80_000
BASELINES = ("average", "sif")


@dataclass(frozen=True)
class Stage:
    """A part of the work.

    Attributes:
        title: what it does, for people.
        made: what is there once it is finished.
        do: does it, or what is left of it.
    """

    title: str
    made: Path
    do: Callable[[], object]


def main() -> None:
    """Make, pack, or ship."""
    options = arguments()
    try:
        if options.step == "make":
            make(options)
            return
        if options.step == "pack":
            keep(options.run, options.out, options.words)
        else:
            ship(options.packed, options.out, options.baseline, options.search)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{options.out}: {sum(path.stat().st_size for path in options.out.iterdir()) / 1e6:.1f} MB")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    making = steps.add_parser("make", help="go from texts to a scored model")
    making.add_argument("texts", type=Path, nargs="+", help="one sentence per line, an empty line after each document")
    making.add_argument("--senteval", type=Path, required=True, help="folder with SentEval's tasks")
    making.add_argument("-o", "--out", type=Path, required=True, help="folder for all that is made")
    making.add_argument("--hidden", type=int, default=HIDDEN, help="dimension of a trained view's vector")
    packing = steps.add_parser("pack", help="make a run small")
    packing.add_argument("run", type=Path, help="a fully trained run")
    packing.add_argument("-o", "--out", type=Path, required=True, help="folder to create; scores carry its name")
    packing.add_argument(
        "--words", type=int, required=True, help="number of most frequent words that each channel keeps"
    )
    shipping = steps.add_parser("ship", help="put a packed run into the package")
    shipping.add_argument("packed", type=Path, help="folder made by pack and scored by eval")
    shipping.add_argument(
        "-o",
        "--out",
        type=Path,
        default=bundled.MODELS / "default",
        help="folder to create; default: the package's own",
    )
    shipping.add_argument("--baseline", type=Path, help="a run whose scores the card shows for comparison")
    shipping.add_argument("--search", type=Path, help="Markdown for the card on how the settings were found")
    return parser.parse_args()


def make(options: argparse.Namespace) -> None:
    """Go through the stages, and say what each took."""
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "stages.json"
    seconds: dict[str, float] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for stage in stages(options):
        if not stage.made.exists():
            began = time.monotonic()
            try:
                stage.do()
            finally:  # what was done before a stop counts too
                seconds[stage.title] = seconds.get(stage.title, 0) + time.monotonic() - began
                write_json(file, seconds, sealed=False)
        print(
            f"{stage.title}: {duration(seconds[stage.title])}" if stage.title in seconds else f"{stage.title}: before"
        )


def stages(options: argparse.Namespace) -> Iterator[Stage]:
    """The stages in order."""
    out, tasks = options.out, options.out / "tasks.parsed"
    parsed = [out / "parsed" / f"{text.name.split('.')[0]}.parsed" for text in options.texts]
    corpus, vectors, run, packed = (out / name for name in ("all.parsed", "all.bin", "runs/default", "packed/default"))
    for text, each in zip(options.texts, parsed, strict=True):
        yield Stage(f"parse {text.name}", each / "manifest.json", lambda t=text, p=each: parse(t, p))
    yield Stage("merge", corpus / "manifest.json", lambda: command("cache", "merge", *parsed, "-o", corpus))
    yield Stage("word vectors", vectors, lambda: command("vectors", corpus, "-o", vectors, *VECTORS))
    given = ("--corpus", corpus, "--vectors", vectors)
    training = (*TRAINING, "--hidden", options.hidden, "--out", run)
    yield Stage("train", run / "components.safetensors", lambda: command("train", *given, *training))
    yield Stage("pack", packed, lambda: keep(run, packed, KEPT_WORDS))
    yield Stage(
        "parse tasks", tasks / "manifest.json", lambda: command("parse", "--senteval", options.senteval, "-o", tasks)
    )
    scored = [packed]
    for kind in BASELINES:
        scored.append(out / "runs" / kind)
        yield Stage(
            f"baseline {kind}", scored[-1], lambda k=kind, r=scored[-1]: command("baseline", k, *given, "-o", r)
        )
    for each in scored:
        marker = out / f"{each.name}.scored"  # scores are saved task by task
        yield Stage(f"score {each.name}", marker, lambda r=each, m=marker: score(r, options.senteval, tasks, m))


def parse(text: Path, out: Path) -> None:
    """Parse a text with one sentence on each line."""
    out.parent.mkdir(parents=True, exist_ok=True)
    command("parse", text, "-o", out, "--format", "lines", "--workers", 2)


def score(run: Path, senteval: Path, trees: Path, marker: Path) -> None:
    """Score a run on all tasks."""
    command("eval", run, "--senteval", senteval, "--parsed", trees)
    marker.touch()


def keep(run: Path, out: Path, words: int) -> None:
    """Pack a run, and say what is left out."""
    for note in pack(run, out, words):
        print(note, file=sys.stderr)


if __name__ == "__main__":
    main()
