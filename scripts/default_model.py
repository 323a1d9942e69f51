"""Make the bundled model from a trained run.

    python scripts/default_model.py pack runs/dep-const -o packed/default --words 40000
    structviews eval packed/default --senteval senteval --tasks MR,SUBJ,TREC,SICK-R,STS-B
    python scripts/default_model.py ship packed/default --baseline runs/average --search search.md

The first step rounds fixed word vectors to 8 bits a number and other weights to half precision, and keeps the most
frequent words; the second scores the result; the third, which needs the extra ``hub``, puts it into the package with
its scores and a model card.
docs/default-model.md describes the steps before.
"""

import argparse
import sys
from pathlib import Path

from structviews.errors import InputError
from structviews.hub.packing import pack, ship
from structviews.runs import bundled


def main() -> None:
    """Pack a run, or ship a packed one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    packing = steps.add_parser("pack", help="make a run small")
    packing.add_argument("run", type=Path, help="a fully trained run")
    packing.add_argument("-o", "--out", type=Path, required=True, help="folder to create; scores carry its name")
    packing.add_argument(
        "--words", type=int, required=True, help="number of most frequent words that each channel keeps"
    )
    shipping = steps.add_parser("ship", help="put a packed run into the package")
    shipping.add_argument("packed", type=Path, help="folder made by pack and scored by eval")
    shipping.add_argument(
        "-o", "--out", type=Path, default=bundled.FOLDER, help="folder to create; default: the package's own"
    )
    shipping.add_argument("--baseline", type=Path, help="a run whose scores the card shows for comparison")
    shipping.add_argument("--search", type=Path, help="Markdown for the card on how the settings were found")
    options = parser.parse_args()
    try:
        if options.step == "pack":
            for note in pack(options.run, options.out, options.words):
                print(note, file=sys.stderr)
        else:
            ship(options.packed, options.out, options.baseline, options.search)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"{options.out}: {sum(path.stat().st_size for path in options.out.iterdir()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
