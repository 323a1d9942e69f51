"""Compare the parsers' rates at published sizes, with random weights, and estimate the time for 40 million sentences.

    python scripts/bench.py parsers corpus.txt                          # 300 sentences, one thread
    python scripts/bench.py parsers corpus.txt --sentences 1000 --parsers builtin,spacy --json parsers.json

The models are generated (``benchmarks.parser_models``), since rates do not depend on weights. The exception is stanza's
constituency parser, whose number of steps does: it follows the built-in parser's trees. stanza's lemmatiser is left
out. The parsers take turns on the same sentences. The processor time of one thread is counted, which other jobs
disturb less. Results are medians over the rounds, and medians of the ratio to the built-in parser in the same
round.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks import parser_models
from benchmarks.measure import median_ratio, race, table
from structviews.corpus.sentence import ParsedSentence
from structviews.parsing import text, tokenising
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, KINDS, Options, Parser, Unparsed
from structviews.parsing.specification import load

# The estimate: its sentences, and machines with so many cores, each of which has a worker.
CORPUS, CORES, MACHINES = 40_000_000, 16, (1, 10, 100)
LONGEST = 60
HOUR = 3600
# Makes a parser of the sentences that it will be given, with tiny models or not.
Contender = Callable[[list[ParsedSentence], Options, bool], Parser]


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("text", type=Path, help="one sentence per line")
    parser.add_argument(
        "--sentences", type=int, default=300, help=f"number of sentences, the first of at most {LONGEST} tokens"
    )
    parser.add_argument("--parsers", default=",".join(CONTENDERS), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="tiny models, to try the script")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Rates of the parsers, with the conditions of the measurement."""
    torch.set_num_threads(1)
    names = [name for name in CONTENDERS if name == "builtin" or name in options.parsers.split(",")]
    sentences = sample(options.text, options.sentences)
    tokens = [sentence.tokens for sentence in sentences]
    with tempfile.TemporaryDirectory() as folder:
        given = Options(models=Path(folder), device="cpu")
        parsers = {name: CONTENDERS[name](sentences, given, options.tiny) for name in names}
        runs = {name: lambda _, each=each: parse_all(each, tokens) for name, each in parsers.items()}
        times = race(runs, options.rounds, clock=time.process_time)
    hours = {name: CORPUS / len(tokens) * median(seconds) / HOUR / CORES for name, seconds in times.items()}
    return {
        "sentences": len(tokens),
        "tokens": sum(map(len, tokens)),
        "parsers": {
            name: {
                "sentences/s": len(tokens) / median(seconds),
                "slower than builtin": median_ratio(seconds, times["builtin"]),
                "hours": {f"{number}": hours[name] / number for number in MACHINES},
            }
            for name, seconds in times.items()
        },
    }


def parse_all(parser: Parser, sentences: list[tuple[str, ...]]) -> None:
    """Parse sentences; every one must get its trees."""
    for parsed in parser.parse(sentences):
        if isinstance(parsed, Unparsed):
            raise RuntimeError(f"not parsed: {parsed.reason}")


def sample(path: Path, count: int) -> list[ParsedSentence]:
    """The first sentences of a text that are not too long, with the built-in parser's trees."""
    raw = (sentence.text for sentence in text.read_sentences(path, "lines", tokenised=False, language="en"))
    tokens = (tokenising.tokenise_all([each], "en")[0] for each in raw)
    chosen = list(islice((each for each in tokens if len(each) <= LONGEST), count))
    return [each for each in load("builtin").parse(chosen) if isinstance(each, ParsedSentence)]


def with_model(library: str, file: str, make: Callable[..., None]) -> Contender:
    """A contender that reads a model of its own, which ``make`` writes to a file or folder."""

    def contender(sentences: list[ParsedSentence], options: Options, tiny: bool) -> Parser:
        make(options.models / file, sentences, tiny=tiny)
        return load(f"{library}:{options.models / file}", options)

    return contender


def stanza(
    sentences: list[ParsedSentence], options: Options, tiny: bool, wanted: frozenset[str] = frozenset(KINDS)
) -> Parser:
    """stanza's English default, or a part of it; the models are made once."""
    if not (options.models / "resources.json").exists():
        parser_models.stanza_models(options.models, sentences, tiny=tiny)
    parser = load("stanza", replace(options, wanted=wanted))
    if CONSTITUENCY in wanted:
        parser_models.follow(parser.parser.pipeline.processors["constituency"]._model, sentences)
    return parser


CONTENDERS: dict[str, Contender] = {
    "builtin": lambda sentences, options, tiny: load("builtin"),
    "spacy": with_model("spacy", "pipeline", parser_models.spacy_pipeline),  # the size of en_core_web_sm's
    "stanza-dependencies": partial(stanza, wanted=frozenset({DEPENDENCY})),
    "stanza": stanza,
    "benepar-characters": with_model("benepar", "characters.pt", parser_models.benepar_model),
    "benepar-t5": with_model("benepar", "t5", parser_models.benepar_t5),  # T5-small, like its English default
}


def tables(found: dict[str, Any]) -> str:
    """The table for docs/performance.md."""
    head = ["", "sentences/s", "builtin is faster by", *(f"{n} machine{'s' * (n > 1)}" for n in MACHINES)]
    rows = [
        [name, f"{row['sentences/s']:,.0f}", f"{row['slower than builtin']:.1f}", *map(duration, row["hours"].values())]
        for name, row in found["parsers"].items()
    ]
    return (
        f"{found['sentences']} sentences, {found['tokens']} tokens; one thread. 40M sentences on machines of "
        f"{CORES} cores, one worker a core.\n\n{table(head, rows)}"
    )


def duration(hours: float) -> str:
    """Format hours, as days if there are many."""
    return f"{hours / 24:,.0f} d" if hours >= 72 else f"{hours:,.1f} h"
