"""Makes the pages and pictures of a study in docs/results/ from what its runs scored, in docs/results/STUDY/.

    python scripts/study.py view-pairs
    python scripts/study.py transformers

The scripts that made the runs are in the project's history, at commit 971d152.
"""

import argparse
from pathlib import Path

from studies import transformers, view_pairs

ROOT = Path(__file__).resolve().parents[1]
STUDIES = {study.NAME: study.write_pages for study in (view_pairs, transformers)}


def main() -> None:
    """Make the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    study = parser.parse_args().study
    for path in STUDIES[study](ROOT / "docs" / "results" / study, ROOT / "docs"):
        print(path)


if __name__ == "__main__":
    main()
