"""Speed of encoding, side by side with transformers of published sizes, and its share of the hardware's ceiling.

    python scripts/bench_encode.py                                              # data/corpus.txt, some minutes
    python scripts/bench_encode.py --text my.txt --words 5 10 20 40 --batches 1 32 256 1024 4096 --threads 1 2
    python scripts/bench_encode.py --encoders default all-MiniLM-L6-v2 --precisions bf16 --json race.json

Encoders take turns on different sentences of the same number of words (between white space), from raw text or from
sentences that were prepared: tokenised and, for trees, parsed. The transformers have the sizes of the models that they
are named after and random weights. They run as in sentence-transformers: sorted by length, mean pooling, vectors of
length 1. Their tokeniser is BERT's kind with a vocabulary of the same size learnt from the text, a stand-in whose
pieces a word are printed; give the real one's tokenizer.json if you have it. Other runs than `default` have random
weights, its words and its sizes. int8 is PyTorch's dynamic quantisation of linear layers. With several threads, the
bundled model also encodes in as many processes.

Rates are medians over the rounds, by wall and processor time. Ratios are to the best rate of the transformer of
all-MiniLM-L6-v2's size in the same precision, whatever the size of its batches. Ratios and shares are by processor time
with one thread, which other jobs disturb less, otherwise by wall time. The ceiling is one large matrix product in the
same precision: an encoder's share of it is the operations of its own necessary products over those that the large
product makes in the same time. Necessary (benchmarks/forward_flops.py) are products without padding, and of what is
the same in a call, such as equal subtrees, only the first. Batches of 1 are single calls, whose times in milliseconds
are printed.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from bench import describe
from benchmarks.encoder_race import Settings, race
from benchmarks.encoder_tables import compare, tables
from benchmarks.encoders import NAMES, PRECISIONS, encoders
from benchmarks.measure import machine
from benchmarks.spending import Meter
from benchmarks.texts import of_length, pieces_per_word, read_lines, tokeniser

TEXT = Path(__file__).resolve().parents[1] / "data/corpus.txt"
QUICK = {"words": [5], "batches": [1, 8], "rounds": 1, "seconds": 0.01, "sentences": 8, "calls": 2, "ceiling": 64}
"""Settings that show that everything runs."""


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=TEXT, help="one sentence per line")
    parser.add_argument("--tokeniser", type=Path, help="tokenizer.json of the transformers")
    parser.add_argument("--encoders", nargs="+", default=NAMES, choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS), choices=PRECISIONS)
    parser.add_argument("--words", nargs="+", type=int, default=[20], help="lengths of sentences")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32, 256], help="sizes of batches")
    parser.add_argument("--threads", nargs="+", type=int, default=[1], help="numbers of threads")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each encoder")
    parser.add_argument("--seconds", type=float, default=2, help="of a turn, unless --sentences come first")
    parser.add_argument("--sentences", type=int, default=4096, help="most sentences of a turn, unless a batch has more")
    parser.add_argument("--longest", type=float, default=20, help="leave out who takes longer for a batch, in seconds")
    parser.add_argument("--calls", type=int, default=150, help="calls with one sentence")
    parser.add_argument("--ceiling", type=int, default=2048, help="rows of the large product")
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    parser.add_argument("--json", type=Path, help="also write all results to this file")
    args = parser.parse_args()
    return argparse.Namespace(**vars(args) | QUICK) if args.quick else args


def main() -> None:
    """Measure, print, and write JSON."""
    args = arguments()
    settings = Settings(**{name: getattr(args, name) for name in Settings.__dataclass_fields__})
    meter, lines, about = Meter(), read_lines(args.text), machine(torch.device("cpu"))
    pieces = tokeniser(args.tokeniser, lines)
    pools = [of_length(lines, words, settings.pool) for words in args.words]
    results: dict[str, Any] = {"machine": about, "command": sys.argv, "pieces": len(pieces), "rows": []}
    results["texts"] = [
        {"words": pool.words, "sentences": len(pool.texts), "cut": pool.cut, "pieces": pieces_per_word(pieces, pool)}
        for pool in pools
    ]
    print(f"# {' '.join(sys.argv)}\n\n{describe(about)}\n\n{about_texts(results)}\n", flush=True)
    if not meter.tells_energy:
        print("The machine does not tell what energy it uses: no joules.\n")
    with encoders(args.encoders, args.precisions, args.threads, pieces) as raced:
        for row in race(settings, raced, pools, meter):
            results["rows"] = compare([*results["rows"], row])
            if args.json:
                args.json.write_text(json.dumps(results, indent=1) + "\n")
    print(tables(results["rows"]))


def about_texts(results: dict[str, Any]) -> str:
    """The sentences, and the pieces that transformers read."""
    lines = [
        f"- {each['words']} words: {each['sentences']:,} sentences, of which {each['cut']:,} are the beginnings of "
        f"longer ones; {each['pieces']:.2f} pieces a word, and two more a sentence"
        for each in results["texts"]
    ]
    return "\n".join([f"The transformers' vocabulary has {results['pieces']:,} pieces.", "", *lines])


if __name__ == "__main__":
    main()
