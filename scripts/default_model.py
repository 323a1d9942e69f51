"""Make the model that comes with the package out of a trained run.

    python scripts/default_model.py pack runs/dep-const -o packed/default --words 40000
    structviews eval packed/default --senteval senteval --tasks MR,SUBJ,TREC,SICK-R,STS-B
    python scripts/default_model.py ship packed/default --baseline runs/average --search search.md

The first step rounds the weights to half precision and keeps the most frequent words; the scores are those of what is
left; the last one, which needs the extra ``hub``, puts it into the package with its scores and a model card.
docs/default-model.md has the steps before.
"""

import argparse
import sys
from pathlib import Path

from structviews import shipped
from structviews.errors import InputError
from structviews.hub.packing import pack, ship


def main() -> None:
    """Pack a run, or ship a packed one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    packing = steps.add_parser("pack", help="make a run small")
    packing.add_argument("run", type=Path, help="trained to its end")
    packing.add_argument("-o", "--out", type=Path, required=True, help="folder to make; scores bear its name")
    packing.add_argument("--words", type=int, required=True, help="that each channel keeps, the most frequent ones")
    shipping = steps.add_parser("ship", help="put a packed run into the package")
    shipping.add_argument("packed", type=Path, help="what pack made and eval has scored")
    shipping.add_argument("-o", "--out", type=Path, default=shipped.FOLDER, help="folder to make; the package's own")
    shipping.add_argument("--baseline", type=Path, help="a run whose scores stand beside its own in the card")
    shipping.add_argument("--search", type=Path, help="Markdown for the card: how the settings were found")
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
