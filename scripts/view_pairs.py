"""Do two different structures teach each other more than one seen twice? The study, from the texts to its pages.

    python scripts/view_pairs.py budget --texts modern-*.txt.zst novels-*.txt.zst --senteval senteval -o work
    python scripts/view_pairs.py run    --texts modern-*.txt.zst novels-*.txt.zst --senteval senteval -o work
    python scripts/view_pairs.py pages
    python scripts/view_pairs.py --quick

`budget` measures each kind of run for a few steps, and prints what all of it will take. `run` trains and scores
everything, one run after another. If it is stopped, run the same command again to resume; several processes with the
same command share the runs. What a run scores is kept in docs/results/view-pairs/, and a run whose scores are there is
not run again. `pages` makes the pages and pictures of docs/results/ from them. Texts may also be parsed corpora.

`--quick` does all of it at a hundredth of the size, within its folder, by default with the samples of data/.
"""

import argparse
from pathlib import Path

from pairs.budget import budget
from pairs.pages import readme_rows, write_pages
from pairs.plan import FULL, QUICK, Plan
from pairs.runs import errors_as_exits, run_all
from pairs.work import Work, keep_agreement

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("budget", "run", "pages")


def main() -> None:
    """Do the steps."""
    options = arguments()
    work = work_of(options)
    steps = [options.step] if options.step else list(STEPS)
    with errors_as_exits():
        if "budget" in steps:
            print("\n".join(budget(work)))
        if "run" in steps:
            run_all(work, options.only, lambda: keep_agreement(work, work.plan.quality))
        if "pages" in steps:
            for path in write_pages(work.plan, work.kept, options.out / "docs" if options.quick else ROOT / "docs"):
                print(path)
            print("\nFor the README:\n", *readme_rows(work.plan, work.kept), sep="\n")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", nargs="?", choices=STEPS, help="what to do; all of it if left out")
    parser.add_argument("--texts", type=Path, nargs="+", help="texts with one sentence per line, or parsed corpora")
    parser.add_argument("--senteval", type=Path, help="folder with SentEval's tasks")
    parser.add_argument("--vectors", type=Path, help="word vectors; by default learnt on the texts")
    parser.add_argument("--only", default="*", help="names of the runs to do, as in 'dep-const*,sif'")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    parser.add_argument("-o", "--out", type=Path, default=Path("view-pairs"), help="folder for all that is made")
    options = parser.parse_args()
    if options.quick:
        options.texts = options.texts or [ROOT / "data" / "corpus.txt"]
        options.senteval = options.senteval or ROOT / "data" / "senteval"
    elif options.step != "pages" and not (options.texts and options.senteval):
        parser.error("give --texts and --senteval, or --quick")
    return options


def work_of(options: argparse.Namespace) -> Work:
    """The places and settings."""
    kept = options.out / "kept" if options.quick else ROOT / "docs" / "results" / "view-pairs"
    plan = Plan.of(QUICK if options.quick else FULL)
    texts = tuple(options.texts or ())
    return Work(options.out, kept, texts, options.senteval or Path(), options.vectors, plan, options.quick)


if __name__ == "__main__":
    main()
