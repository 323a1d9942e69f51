"""A study, from texts to its pages in docs/results/.

    python scripts/study.py view-pairs run --texts modern-*.txt.zst novels-*.txt.zst --senteval senteval -o work
    python scripts/study.py view-pairs page
    python scripts/study.py view-pairs --quick
    python scripts/study.py transformers page

`run` trains and scores all rows of the study's plan, one run after another. If it is stopped, run the same command
again to resume. What a run scores is stored in docs/results/STUDY/, and a run whose scores are there is not run again.
`page` makes the pages and pictures of docs/results/ from them. Texts may also be parsed corpora. Without a step, both
are done. `--quick` does all of it at a hundredth of the size, within its folder, by default with the samples of data/.

The runs of `transformers` were made by scripts that are no longer here; its page is made again from what they scored.
"""

import argparse
from pathlib import Path

from studies import transformers, view_pairs, view_pairs_plan
from studies.driver import Work, errors_as_exits, run_all

ROOT = Path(__file__).resolve().parents[1]
PLANS = {
    "view-pairs": lambda quick: view_pairs_plan.Plan.of(view_pairs_plan.QUICK if quick else view_pairs_plan.FULL),
    "transformers": lambda quick: transformers.Plan.of(transformers.FULL),
}
PAGES = {"view-pairs": view_pairs.write_pages, "transformers": transformers.write_pages}
STEPS = ("run", "page")


def main() -> None:
    """Do the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=PLANS)
    parser.add_argument("step", nargs="?", choices=STEPS, help="what to do; all of it if left out")
    parser.add_argument("--texts", type=Path, nargs="+", help="texts with one sentence per line, or parsed corpora")
    parser.add_argument("--senteval", type=Path, help="folder with SentEval's tasks")
    parser.add_argument("--only", default="*", help="names of the runs to do, as in 'dep-const*,sif'")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    parser.add_argument("-o", "--out", type=Path, default=Path("study"), help="folder for all that is made")
    options = parser.parse_args()
    steps = [options.step] if options.step else list(STEPS)
    if options.study == "transformers" and ("run" in steps or options.quick):
        parser.error("transformers: give the step page: the scripts that made its runs are no longer here")
    if options.quick:
        options.texts = options.texts or [ROOT / "data" / "corpus.txt"]
        options.senteval = options.senteval or ROOT / "data" / "senteval"
    elif "run" in steps and not (options.texts and options.senteval):
        parser.error("give --texts and --senteval, or --quick")
    stored = options.out / "stored" if options.quick else ROOT / "docs" / "results" / options.study
    plan = PLANS[options.study](options.quick)
    with errors_as_exits():
        if "run" in steps:
            work = Work(options.out, stored, tuple(options.texts), options.senteval, plan, options.quick)
            run_all(work, options.only)
        if "page" in steps:
            for path in PAGES[options.study](plan, stored, options.out / "docs" if options.quick else ROOT / "docs"):
                print(path)


if __name__ == "__main__":
    main()
