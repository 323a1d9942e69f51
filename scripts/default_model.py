"""Make the bundled models, ``default`` and ``default-small``.

    python scripts/default_model.py make modern-*.txt.zst --teacher all-MiniLM-L6-v2 --senteval senteval -o work
    python scripts/default_model.py ship work/packed/default --baselines work/runs/average work/runs/random \
        --sources modern-sources.tsv --about scripts/bundled_models/about.md --stages work/stages.json \
        --machine "two cores of ..." --before default-before

The first step goes from texts to a scored model: it parses the texts, alters their sentences, lets the teacher read
them, takes its words, trains the views, packs the run, and scores it beside baselines of the same words. With
``--size small`` it makes the small model from the same parsed texts. If it is stopped, run the same command again to
resume; what each stage took is printed, and kept in stages.json. The last step, which needs the extra ``hub``, puts the
packed model into the package with its sources, its scores and a model card. To pack another run, use the step between:

    python scripts/default_model.py pack runs/dep-const -o packed/default --words 40000
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import RunVectors
from structviews.encoding.representation import cosines_of_pairs
from structviews.errors import InputError
from structviews.hub.card import model_card
from structviews.hub.portable import CARD, read_sources, stage, write_sources
from structviews.runs import bundled
from structviews.runs.folder import COMPONENTS, SOURCES
from structviews.runs.settings_file import PARSED, load_run, read_settings, run_kind, write_settings
from structviews.runs.weights import load_vocabularies, read_weights, save_sub_words, save_vocabularies, write_weights
from structviews.runtime.documents import write_json
from structviews.runtime.files import new_folder, text_lines
from structviews.runtime.wording import duration
from structviews.training.baselines import RANDOM, make_baseline
from structviews.words import CONTEXTUAL, FIXED, TRAINED
from structviews.words.sub_words import quantise
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import Vocabulary


@dataclass(frozen=True)
class Size:
    """The settings of a bundled model, chosen as docs/default-model.md says.

    ``dim`` is that of the word vectors, and so of the view average, ``hidden`` that of each trained view; ``words`` are
    as many as the packed run keeps, ``sub_words`` rows of n-grams; ``steps`` those of training, and the slower ones
    after them; ``similarity`` is the encoder for cosines. All that is made for it alone has the ``suffix`` in its name.
    """

    suffix: str
    dim: int
    hidden: int
    words: int
    sub_words: int
    steps: tuple[int, int]
    views: tuple[str, ...]
    similarity: str

    def named(self, name: str) -> str:
        """The name of something that is made for this size."""
        return f"{name}{self.suffix}"

    def weights(self, chosen: Sequence[str]) -> str:
        """The flag's value that joins the ``chosen`` ones of the run's encoders."""
        return ",".join(str(int(view in chosen)) for view in (*self.views, TEACHER))


TEACHER, MEAN = "teacher", "average"
# A packed word, or row of sub-words, takes a byte for each number and four more.
SIZES = {
    "full": Size("", 300, 400, 80_000, 60_000, (1680, 857), ("dep-rel", "const", "avg", "average"), TEACHER),
    "small": Size("-small", 128, 128, 40_000, 40_000, (1388, 500), ("dep-rel", "avg", "average"), MEAN),
}
# For features; avg is a map of average.
FEATURES = ("dep-rel", "const", MEAN, TEACHER)
VECTORS = ("--lower-case", "--min-count", 4, "--epochs", 2)
TRAINING = ("--channels", "fixed", "--objective", "teacher", "--held-out", 0.003, "--normalise")
# The last steps are slower, and see the sentences in another order.
FIRST, LAST = ("--lr", 0.001), ("--lr", 0.0002, "--seed", 2)
# Ten sentences, each with its passive, its cleft, and its roles reversed.
ROLES = Path(__file__).parent / "bundled_models/roles.tsv"
LICENCE = "cc-by-sa-4.0"
PUBLISHED = "DEP, CONST (UMBC 40M)"
# Parts of the work as the card tells them, with the first words of their stages' titles.
WORK = {
    "texts, altered sentences and tasks parsed": ("parse", "merge", "perturb"),
    "sentences read by the teacher": ("teacher",),
    "words taken from it": ("word vectors",),
    "views trained": ("train",),
    "packed, and scored beside baselines": ("pack", "baseline", "score"),
}

# The fixed word table and its scales, see ``words.sub_words.quantise``.
TABLE, SCALE = (f"channels.{FIXED}.words.0.{name}" for name in ("weight", "scale"))


@dataclass(frozen=True)
class Stage:
    """A part of the work: what it does, for people; what is there once it is finished; and how it is done."""

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
            options.out = options.out or bundled.MODELS / options.packed.name
            ship(options)
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
    making.add_argument(
        "--teacher", required=True, help="folder of a sentence-transformers model, or its id on the Hub"
    )
    making.add_argument("--senteval", type=Path, required=True, help="folder with SentEval's tasks")
    making.add_argument("-o", "--out", type=Path, required=True, help="folder for all that is made")
    making.add_argument("--size", choices=SIZES, default="full", help="which of the bundled models to make")
    packing = steps.add_parser("pack", help="make a run small")
    packing.add_argument("run", type=Path, help="a fully trained run")
    packing.add_argument("-o", "--out", type=Path, required=True, help="folder to create; scores carry its name")
    packing.add_argument(
        "--words", type=int, required=True, help="number of most frequent words that each channel keeps"
    )
    shipping = steps.add_parser("ship", help="put a packed run into the package")
    shipping.add_argument("packed", type=Path, help="folder made by pack and scored by eval")
    shipping.add_argument("-o", "--out", type=Path, help="folder to create; default: in the package, by the same name")
    shipping.add_argument("--baselines", type=Path, nargs="+", default=(), help="runs to compare scores with")
    shipping.add_argument("--sources", type=Path, nargs="+", default=(), help="tables of the texts")
    shipping.add_argument("--about", type=Path, nargs="+", default=(), help="Markdown files: sections of the card")
    shipping.add_argument("--before", type=Path, help="the model that it replaces, for the card's section on roles")
    shipping.add_argument("--stages", type=Path, help="stages.json, for the card's section on what it took")
    shipping.add_argument("--machine", default="", help="what the stages ran on, such as: two cores of an AMD EPYC")
    shipping.add_argument(
        "--cores", type=int, nargs=len(WORK), default=(2, 2, 1, 1, 1), help=f"cores for each of: {'; '.join(WORK)}"
    )
    return parser.parse_args()


def make(options: argparse.Namespace) -> None:
    """Go through the stages, and say what each took."""
    options.out.mkdir(parents=True, exist_ok=True)
    size = SIZES[options.size]
    file = options.out / f"{size.named('stages')}.json"
    seconds: dict[str, float] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for each in stages(options, size):
        if not each.made.exists():
            began = time.monotonic()
            try:
                each.do()
            finally:  # what was done before a stop counts too
                seconds[each.title] = seconds.get(each.title, 0) + time.monotonic() - began
                write_json(file, seconds, sealed=False)
        print(f"{each.title}: {duration(seconds[each.title])}" if each.title in seconds else f"{each.title}: before")


def command(*arguments: object) -> None:
    """A command of structviews, as a user gives it."""
    text = [str(argument) for argument in arguments]
    print("structviews", *text, file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "structviews", *text], check=True, stdout=sys.stderr)


def stages(options: argparse.Namespace, size: Size) -> Iterator[Stage]:
    """The stages in order; parsed texts and tasks are of all sizes."""
    out, corpus, tasks = options.out, options.out / "all.parsed", options.out / "tasks.parsed"
    parsed = [out / "parsed" / f"{text.name.split('.')[0]}.parsed" for text in options.texts]
    vectors = out / f"{size.named('all')}.bin"
    run, packed = (out / folder / size.named("default") for folder in ("runs", "packed"))
    for text, each in zip(options.texts, parsed, strict=True):
        yield Stage(f"parse {text.name}", each / "manifest.json", lambda t=text, p=each: parse(t, p))
    yield Stage("merge", corpus / "manifest.json", lambda: command("corpus", "merge", *parsed, "-o", corpus))
    altered, teacher = out / "altered.parsed", ("--teacher", options.teacher)
    yield Stage("perturb", altered / "manifest.json", lambda: command("perturb", corpus, "-o", altered, "--workers", 2))
    marker = out / "teacher.read"
    yield Stage("teacher", marker, lambda: (command("corpus", "states", corpus, *teacher), marker.touch()))
    learning = (*VECTORS, *teacher, "--dim", size.dim, "--subwords", size.sub_words)
    yield Stage("word vectors", vectors, lambda: command("vectors", corpus, "-o", vectors, *learning))
    given = ("--corpus", corpus, "--perturbed", altered, "--vectors", vectors, *teacher)
    views = ("--views", ",".join(size.views), "--hidden", size.hidden)
    weights = ("--view-weights", size.weights(FEATURES), "--similarity-view-weights", size.weights((size.similarity,)))
    begun, finished = out / "runs" / size.named("begun"), "components.safetensors"
    slower = (*LAST, "--init-from", begun)
    for title, folder, flags, steps in zip(
        ("train", "train on"), (begun, run), (FIRST, slower), size.steps, strict=True
    ):
        training = (*given, *TRAINING, *views, *weights, *flags, "--steps", steps, "--out", folder)
        yield Stage(title, folder / finished, lambda arguments=training: command("train", *arguments))
    yield Stage("pack", packed, lambda: keep(run, packed, size.words))
    yield Stage(
        "parse tasks", tasks / "manifest.json", lambda: command("parse", "--senteval", options.senteval, "-o", tasks)
    )
    scored = [packed]
    for kind in (MEAN, RANDOM):
        scored.append(out / "runs" / size.named(kind))
        yield Stage(
            f"baseline {kind}",
            scored[-1],
            lambda k=kind, r=scored[-1]: make_baseline(k, corpus, r, vectors, encoders(k, size)),
        )
    for each in scored:
        marker = out / f"{each.name}.scored"  # scores are saved task by task
        yield Stage(f"score {each.name}", marker, lambda r=each, m=marker: score(r, options.senteval, tasks, m))


def encoders(kind: str, size: Size) -> dict[str, object] | None:
    """The settings of a baseline: untrained encoders like the model's, or none."""
    weights = tuple(float(view in FEATURES) for view in size.views)
    settings = {"views": size.views, "hidden": size.hidden, "normalise": True, "view_weights": weights}
    return settings if kind == RANDOM else None


def parse(text: Path, out: Path) -> None:
    """Parse a text with one sentence on each line."""
    out.parent.mkdir(parents=True, exist_ok=True)
    command("parse", text, "-o", out, "--format", "lines", "--workers", 2)


def score(run: Path, senteval: Path, trees: Path, marker: Path) -> None:
    """Score a run on all tasks."""
    command("eval", run, "--senteval", senteval, "--parsed", trees)
    marker.touch()


def pack(run: Path, out: Path, words: int) -> list[str]:
    """Copy a run with its most frequent words only and without local paths.

    Fixed word vectors are rounded to 8 bits a number, other weights to half precision. Sentences of kept words get the
    same vectors as from the run, up to rounding. The packed run looks for no file of word vectors: other words are
    composed of the file's sub-words, which it then stores in 8 bits, or are unknown. Returns notes on what is left out,
    and why; raises InputError if the run is not fully trained, ``out`` exists, or a weight overflows half precision.
    """
    if words < 1:
        raise InputError(f"words = {words}: give at least 1")
    kind = run_kind(run)
    if kind != "trained":
        raise InputError(f"{run}: a run of kind {kind!r}: give a run made by structviews train")
    if not (run / COMPONENTS).exists():
        raise InputError(f"{run}: training has not finished: resume it with structviews train --resume {run}")
    config, parsed = load_run(run)
    if CONTEXTUAL in config.words.channels:
        raise InputError(f"{run}: reads states of an encoder, which cannot be packed: share it with structviews push")
    vocabularies = load_vocabularies(run, config, parsed)
    if config.data.init_from and words < len(vocabularies.get(TRAINED, ())) - 1:
        raise InputError(
            f"{run}: its words are not sorted by frequency, because it started from {config.data.init_from}: keep all "
            f"with --words {len(vocabularies[TRAINED]) - 1}"
        )
    n_rows = words + 1  # row 0 is for unknown words
    with new_folder(out) as folder:
        notes = stage(run, folder)
        settings = read_settings(folder)
        if about := settings[PARSED]["vectors"]:
            notes += _keep_sub_words(RunVectors.of(run, config, parsed), folder, about)
            about["packed"] = True
        write_settings(folder, settings)
        for scores in folder.glob("results*.json"):  # they belong to the original weights
            scores.unlink()
        save_vocabularies(folder, {name: Vocabulary(each.words[:n_rows]) for name, each in vocabularies.items()})
        write_weights(folder, dict(_packed(run, n_rows)))
        Embedder.load(folder)
    return notes


def _keep_sub_words(vectors: RunVectors | None, folder: Path, about: dict[str, Any]) -> list[str]:
    """Store the sub-words of a run's file in a packed run, and say so ``about`` its vectors; return notes."""
    file = WordVectors.open(vectors.path) if vectors and vectors.available else None
    if file and file.sub_words:
        save_sub_words(folder, file.sub_words)
        about["sub_words"] = True
    if vectors is None or vectors.available:
        return []
    return [f"{vectors.path}: not there, or changed: if it has sub-words, they are left out, and further words unknown"]


def _packed(run: Path, n_rows: int) -> Iterator[tuple[str, Tensor]]:
    """A run's weights by name, rounded; only the first rows of what has one for each word."""
    weights = read_weights(run)
    if TABLE in weights and SCALE not in weights:  # else the run was packed before
        rows, scales = quantise(weights[TABLE].numpy())
        weights |= {TABLE: torch.from_numpy(rows), SCALE: torch.from_numpy(scales)}
    for name, weight in weights.items():
        packed = weight[:n_rows] if ".words." in name else weight
        packed = packed if name in (TABLE, SCALE) else packed.half()
        if not torch.isfinite(packed).all():
            raise InputError(f"{run}: {name} overflows half precision: train with a lower --lr")
        yield name, packed


def keep(run: Path, out: Path, words: int) -> None:
    """Pack a run, and say what is left out."""
    for note in pack(run, out, words):
        print(note, file=sys.stderr)


def ship(options: argparse.Namespace) -> None:
    """Create the folder of a bundled model: a packed run with its sources, scores and model card, and nothing else."""
    sections = [text_of(file).strip() for file in options.about]
    if options.before:
        sections.insert(0, roles(options.before, options.packed))
    if options.stages:
        sections.insert(0, took(json.loads(text_of(options.stages)), options.machine, options.cores))
    about = {"baselines": options.baselines, "published": PUBLISHED, "about": "\n\n".join(sections)}
    with new_folder(options.out) as folder:
        stage(options.packed, folder)
        if options.sources:
            write_sources(folder / SOURCES, [row for file in options.sources for row in read_sources(file)])
        embedder = Embedder.load(folder, precision="fp32")
        card = model_card(folder, options.out.name, embedder, LICENCE, bundled=True, **about)
        (folder / CARD).write_text(card, "utf-8")


def roles(before: Path, after: Path) -> str:
    """The card's section on who did what to whom: cosines of ten sentences with their altered forms."""
    head, *rows = (line.split("\t") for line in text_lines(ROLES))
    found = [Embedder.load(run, precision="fp32").for_similarity() for run in (before, after)]
    cosines = []
    for embedder in found:
        first, *others = (embedder.encode([row[i] for row in rows]) for i in range(len(head)))
        of_kinds = torch.stack([cosines_of_pairs(first, each) for each in others], dim=1)
        cosines.append(torch.cat([of_kinds, of_kinds.mean(dim=0, keepdim=True)]))
    lines = [head, ["---", *["--:"] * (len(head) - 1)]]
    for name, *each in zip([*(row[0] for row in rows), "mean"], *cosines, strict=True):
        lines.append([name, *(f"{old:.3f} to **{new:.3f}**" for old, new in zip(*each, strict=True))])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"## Who did what to whom\n\nCosines with ten sentences, by the model before and **this one**:\n\n{table}"


def text_of(file: Path) -> str:
    """A text file's content."""
    return "\n".join(text_lines(file))


def took(seconds: dict[str, float], machine: str, cores: Sequence[int]) -> str:
    """The card's section on time and energy.

    Args:
        seconds: what each stage took, by title.
        machine: what they ran on.
        cores: how many of its cores each part of ``WORK`` used.
    """
    hours = [
        sum(taken for title, taken in seconds.items() if title.startswith(first)) / 3600 for first in WORK.values()
    ]
    parts = list(zip(WORK, hours, cores, strict=True))
    rows = [f"| {work} | {each:.1f} | {n} | {each * n:.1f} |" for work, each, n in parts if each]
    place = f" on {machine}" if machine else ""
    return "\n".join(
        [
            "## What it took\n",
            "| | hours | cores | core-hours |",
            "|---|--:|--:|--:|",
            *rows,
            f"| all | {sum(hours):.1f} | | {sum(each * n for _, each, n in parts):.1f} |\n",
            f"By the clock{place}, without the trials before it. The machine does not report its energy.",
        ]
    )


if __name__ == "__main__":
    main()
