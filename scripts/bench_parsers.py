"""Compare the parsers' rates at published sizes, with random weights, and estimate the time for 40 million sentences.

    python scripts/bench_parsers.py corpus.txt                          # 300 sentences, one thread
    python scripts/bench_parsers.py corpus.txt --sentences 1000 --parsers builtin,spacy --json

The models are generated (``benchmarks.parser_models``), since rates do not depend on weights. The exception is stanza's
constituency parser, whose number of steps does: it follows the built-in parser's trees. stanza's lemmatiser is left
out. The parsers take turns on the same sentences. On a CPU, the processor time of one thread is counted, which other
jobs disturb less. Results are medians over the rounds, and medians of the ratio to the built-in parser in the same
round.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from benchmarks import parser_models
from benchmarks.measure import machine, median_ratio

from structviews.corpus.sentence import ParsedSentence
from structviews.parsing import text, tokenising
from structviews.parsing.parser import DEPENDENCY, Options, Parser, Unparsed
from structviews.parsing.specification import load

CORPUS = 40_000_000
LONGEST = 60
HOUR = 3600


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="one sentence per line")
    parser.add_argument(
        "--sentences", type=int, default=300, help=f"number of sentences, the first of at most {LONGEST} tokens"
    )
    parser.add_argument("--parsers", default=",".join(CONTENDERS), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=16, help="cores per machine, one worker per core")
    parser.add_argument("--machines", default="1,10,100", help="comma-separated numbers of machines")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tiny", action="store_true", help="tiny models, to try the script")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = [name for name in CONTENDERS if name == "builtin" or name in args.parsers.split(",")]
    found = measure(names, args)
    print(json.dumps(found, indent=1) if args.json else describe(found))


def measure(names: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Rates of the parsers, with the conditions of the measurement."""
    sentences = sample(args.text, args.sentences)
    tokens = [sentence.tokens for sentence in sentences]
    device = torch.device(args.device)
    with tempfile.TemporaryDirectory() as folder:
        options = Options(models=Path(folder), device=args.device)
        parsers = {name: CONTENDERS[name](sentences, options, args.tiny) for name in names}
        runs = {name: lambda each=each: parse_all(each, tokens) for name, each in parsers.items()}
        times = turns(runs, args.rounds, device)
    return {
        "sentences": len(tokens),
        "tokens": sum(map(len, tokens)),
        "machine": machine(device),
        "cores": args.cores,
        "parsers": {
            name: {
                "sentences/s": len(tokens) / median(seconds),
                "slower than builtin": median_ratio(seconds, times["builtin"]),
                "hours": {
                    number: CORPUS / len(tokens) * median(seconds) / HOUR / args.cores / int(number)
                    for number in args.machines.split(",")
                },
            }
            for name, seconds in times.items()
        },
    }


def parse_all(parser: Parser, sentences: list[tuple[str, ...]]) -> None:
    """Parse sentences; every one must get its trees."""
    for parsed in parser.parse(sentences):
        if isinstance(parsed, Unparsed):
            raise RuntimeError(f"not parsed: {parsed.reason}")


def turns(runs: dict[str, Callable[[], Any]], rounds: int, device: torch.device) -> dict[str, list[float]]:
    """Seconds of each run in each round, after a warm-up round."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    for number in range(rounds + 1):
        for name, run in runs.items():
            began = clock()
            run()
            if number:
                times[name].append(clock() - began)
            print(f"{name}: {clock() - began:.1f} s", file=sys.stderr, flush=True)
    return times


def sample(path: Path, count: int) -> list[ParsedSentence]:
    """The first sentences of a text that are not too long, with the built-in parser's trees."""
    raw = (sentence.text for sentence in text.read_sentences(path, "lines", tokenised=False, language="en"))
    tokens = (tokenising.tokenise(each) for each in raw)
    chosen = list(islice((each for each in tokens if len(each) <= LONGEST), count))
    return [each for each in load("builtin").parse(chosen) if isinstance(each, ParsedSentence)]


def builtin(sentences: list[ParsedSentence], options: Options, tiny: bool) -> Parser:
    """The parser that ships."""
    return load("builtin")


def stanza_dependencies(sentences: list[ParsedSentence], options: Options, tiny: bool) -> Parser:
    """Tags and dependencies of stanza's English default."""
    make_stanza(sentences, options, tiny)
    return load("stanza", Options(models=options.models, device=options.device, wanted=frozenset({DEPENDENCY})))


def stanza(sentences: list[ParsedSentence], options: Options, tiny: bool) -> Parser:
    """The same, and constituents."""
    make_stanza(sentences, options, tiny)
    parser = load("stanza", options)
    parser_models.follow(parser.parser.pipeline.processors["constituency"]._model, sentences)
    return parser


def make_stanza(sentences: list[ParsedSentence], options: Options, tiny: bool) -> None:
    """Its models, once."""
    if not (options.models / "resources.json").exists():
        parser_models.stanza_models(options.models, sentences, tiny=tiny)


def benepar_t5(sentences: list[ParsedSentence], options: Options, tiny: bool) -> Parser:
    """benepar with T5-small, like its English default."""
    folder = options.models / "t5"
    parser_models.benepar_t5(folder, sentences, tiny=tiny)
    return load(f"benepar:{folder}", options)


def benepar_characters(sentences: list[ParsedSentence], options: Options, tiny: bool) -> Parser:
    """benepar without a pretrained transformer."""
    file = options.models / "characters.pt"
    parser_models.benepar_model(file, sentences, tiny=tiny)
    return load(f"benepar:{file}", options)


def spacy(sentences: list[ParsedSentence], options: Options, tiny: bool) -> Parser:
    """A pipeline of the size of en_core_web_sm's tagger and parser."""
    folder = options.models / "pipeline"
    parser_models.spacy_pipeline(folder, sentences, tiny=tiny)
    return load(f"spacy:{folder}", options)


CONTENDERS: dict[str, Callable[[list[ParsedSentence], Options, bool], Parser]] = {
    "builtin": builtin,
    "spacy": spacy,
    "stanza-dependencies": stanza_dependencies,
    "stanza": stanza,
    "benepar-characters": benepar_characters,
    "benepar-t5": benepar_t5,
}


def describe(found: dict[str, Any]) -> str:
    """The table for docs/performance.md."""
    numbers = list(found["parsers"]["builtin"]["hours"])
    heads = [f"{number} machine{'s' * (number != '1')}" for number in numbers]
    lines = [
        f"{found['sentences']} sentences, {found['tokens']} tokens; {found['machine']['processor']}; one thread. "
        f"40M sentences on machines of {found['cores']} cores, one worker a core.",
        "",
        f"| | sentences/s | builtin is faster by | {' | '.join(heads)} |",
        f"|---|--:|--:|{'--:|' * len(heads)}",
    ]
    for name, row in found["parsers"].items():
        hours = " | ".join(duration(row["hours"][number]) for number in numbers)
        lines.append(f"| {name} | {row['sentences/s']:,.0f} | {row['slower than builtin']:.1f} | {hours} |")
    return "\n".join(lines)


def duration(hours: float) -> str:
    """Format hours, as days if there are many."""
    return f"{hours / 24:,.0f} d" if hours >= 72 else f"{hours:,.1f} h"


if __name__ == "__main__":
    main()
