"""A study, from its plan to its pages in docs/results/.

    python scripts/study.py view-pairs run --inputs view-pairs --senteval senteval -o runs
    python scripts/study.py view-pairs page
    python scripts/study.py transformers page

`run` trains and scores the rows of the study's plan, one run after another. If it is stopped, run the same command
again to resume. What a run scores is stored in docs/results/STUDY/, and a run whose scores are there is not run again.
studies/driver.py says which files the inputs are. `page` makes the pages and pictures of docs/results/ from what is
stored. The runs of `transformers`, and the corpora of `view-pairs` with noise in their trees, were made by scripts that
are no longer here (in the project's history, at commit 971d152).
"""

import argparse
from pathlib import Path

from studies import transformers, view_pairs, view_pairs_plan
from studies.driver import Work, errors_as_exits, run_all

ROOT = Path(__file__).resolve().parents[1]
PLANS = {
    "view-pairs": view_pairs_plan.Plan.of(view_pairs_plan.FULL),
    "transformers": transformers.Plan.of(transformers.FULL),
}
PAGES = {"view-pairs": view_pairs.write_pages, "transformers": transformers.write_pages}


def main() -> None:
    """Do a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=PLANS)
    parser.add_argument("step", choices=("run", "page"), help="what to do")
    parser.add_argument("--inputs", type=Path, help="folder with what the runs read")
    parser.add_argument("--senteval", type=Path, help="folder with SentEval's tasks")
    parser.add_argument("--only", default="*", help="names of the runs to do, as in 'dep-const*,sif'")
    parser.add_argument("-o", "--out", type=Path, help="folder of the runs")
    options = parser.parse_args()
    plan, stored = PLANS[options.study], ROOT / "docs" / "results" / options.study
    with errors_as_exits():
        if options.step == "page":
            for path in PAGES[options.study](plan, stored, ROOT / "docs"):
                print(path)
        elif options.study == "transformers" or not (options.inputs and options.senteval and options.out):
            parser.error("give --inputs, --senteval and --out; the runs of transformers cannot be made again here")
        else:
            run_all(Work(options.out, stored, options.inputs, options.senteval, plan), options.only)


if __name__ == "__main__":
    main()
