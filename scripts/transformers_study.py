"""What does syntax add to a pretrained transformer? The study, from the texts to its page.

    python scripts/small_encoder.py --texts modern-*.txt.zst --sources modern-sources.tsv --words 40 \\
        -o small-encoder
    python scripts/transformers_study.py run --texts modern-00[0-4].txt.zst --senteval senteval --encoder small-encoder
    python scripts/transformers_study.py page

`run` parses the texts, draws a corpus from them, chooses learning rates on development data, and trains and scores
everything, one run after another: the encoder as it is, the encoder trained further by itself (SimCSE) or beside
another view, and trees above its states. If it is stopped, run the same command again to resume; several processes with
the same command share the runs. What a run scores is kept in docs/results/transformers/, and a run whose scores are
there is not run again. `page` makes docs/results/transformers.md from them. Texts may also be parsed corpora. Needs the
extras ``contextual`` and ``sentence-transformers``.
"""

import argparse
from pathlib import Path

from encoders.pages import NAME, write_page
from encoders.plan import FULL, TASKS, Plan, Sizes
from encoders.work import EncoderWork
from pairs.runs import errors_as_exits, run_all
from pairs.work import keep_agreement

from structviews.errors import InputError
from structviews.pretrained.states import FrozenEncoder
from structviews.words.word_settings import MEAN

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("run", "page")


def main() -> None:
    """Do the steps."""
    options = arguments()
    kept, docs = ROOT / "docs" / "results" / NAME, ROOT / "docs"
    with errors_as_exits():
        if options.step == "run":
            work = work_of(options, FULL, kept)
            run_all(work, options.only, lambda: keep_agreement(work, ()))
        else:
            print(write_page(Plan.of(FULL), kept, docs))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=STEPS, help="what to do")
    parser.add_argument("--texts", type=Path, nargs="+", help="texts with one sentence per line, or parsed corpora")
    parser.add_argument("--senteval", type=Path, help="folder with SentEval's tasks")
    parser.add_argument("--encoder", type=Path, help="folder of the pretrained encoder")
    parser.add_argument("--vectors", type=Path, help="word vectors; by default learnt on the texts")
    parser.add_argument("--only", default="*", help="names of the runs to do, as in 'dep-const*,mean'")
    parser.add_argument("-o", "--out", type=Path, default=Path(NAME), help="folder for all that is made")
    options = parser.parse_args()
    if options.step == "run" and not (options.texts and options.senteval and options.encoder):
        parser.error("give --texts, --senteval and --encoder")
    return options


def work_of(options: argparse.Namespace, sizes: Sizes, kept: Path, *, quick: bool = False) -> EncoderWork:
    """The places and settings.

    Raises:
        InputError: if the encoder is missing, or has another dimension than the study's views.
    """
    if not options.encoder.is_dir():
        raise InputError(f"{options.encoder}: no such folder: give the folder of an encoder")
    dim = FrozenEncoder.open(str(options.encoder), MEAN).dim
    if dim != sizes.hidden:
        raise InputError(f"{options.encoder}: has {dim} dimensions: give an encoder of {sizes.hidden}")
    texts, encoder = tuple(options.texts), str(options.encoder.absolute())
    return EncoderWork(
        options.out, kept, texts, options.senteval, options.vectors, Plan.of(sizes), quick, TASKS, encoder
    )


if __name__ == "__main__":
    main()
