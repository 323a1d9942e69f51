"""Train a small masked language model of English (BERT; Devlin et al., 2019) on open text, for studies of transformers.

    python scripts/small_encoder.py --texts modern-*.txt.zst --sources modern-sources.tsv -o small-encoder

The texts have one sentence per line and an empty line after each document, in random order. WordPiece is learnt on
their first sentences; then the model reads them once. The state of the work is kept beside the folder, in
small-encoder.unfinished. If it is stopped, run the same command again to resume: on one thread each, an interrupted run
and a whole one give the same weights. At the end the folder holds a model of transformers, its tokeniser, and a model
card with its figures on documents that were held out. Needs the extra ``contextual``.
"""

import argparse
import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import transformers
from masked.card import card
from masked.texts import SPECIAL, prepared, rows_of
from masked.training import Score, Settings, new_model, score, score_of_counts, train
from tokenizers import Tokenizer
from transformers import BertForMaskedLM, PreTrainedTokenizerFast

from structviews.errors import InputError
from structviews.hub.portable import read_sources, write_sources
from structviews.runtime.files import creating, holds_something, new_folder, write_bytes
from structviews.runtime.machine import keep_freed_memory
from structviews.runtime.processes import Interrupted

# In the configuration of the finished model, as in BERT's.
DROPOUT = 0.1


def main() -> None:
    """Train, unless something is wrong."""
    options = arguments()
    keep_freed_memory()
    transformers.utils.logging.disable_progress_bar()
    try:
        make(options.texts, options.out, options.words, options.sources)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as stop:
        print(f"{stop}: run the same command again to resume", file=sys.stderr)
        sys.exit(128 + stop.signal)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--texts", type=Path, nargs="+", required=True, help="one sentence per line, an empty line after each document"
    )
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder to create")
    parser.add_argument("--words", type=positive, help="millions of words to read, in whole documents; default: all")
    parser.add_argument("--sources", type=Path, nargs="+", default=(), help="tables of the texts, for the card")
    return parser.parse_args()


def positive(text: str) -> float:
    """A finite number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number above 0")
    return number


def make(
    paths: Sequence[Path],
    out: Path,
    words: float | None = None,
    tables: Sequence[Path] = (),
    settings: Settings = Settings(),  # noqa: B008 - frozen
) -> None:
    """Go through all of the work, or what is left of it.

    Raises:
        InputError: if a file cannot be read, or ``out`` exists.
        Interrupted: on SIGINT or SIGTERM while it trains.
    """
    if holds_something(out):
        raise InputError(f"{out}: already exists: give another folder with --out")
    sources = [row for table in tables for row in read_sources(table)]
    work = out.with_name(f"{out.name}.unfinished")
    with creating(work):
        work.mkdir(exist_ok=True)
        texts, tokeniser = prepared(work, paths, words, asdict(settings))
        training, held_out = rows_of(texts, settings.positions)
        if not len(training.starts):
            raise InputError(f"{paths[0]}: a single document, which is held out: give more")
        model = new_model(settings, tokeniser.get_vocab_size())
        print(f"{texts.told()}; {model.num_parameters():,} parameters", flush=True)
        steps = train(work, model, texts.pieces, training, settings)
        scores = {
            "this model": score(model, texts.pieces, held_out, settings),
            "how frequent pieces are": score_of_counts(texts, held_out, tokeniser.get_vocab_size(), settings),
        }
        with new_folder(out) as folder:
            save(folder, model, tokeniser, settings)
            if sources:
                write_sources(folder / "sources.tsv", sources)
            write_bytes(folder / "README.md", card(out.name, model, settings, texts, steps, scores, sources).encode())
        shutil.rmtree(work)
    tell(out, scores)


def save(folder: Path, model: BertForMaskedLM, tokeniser: Tokenizer, settings: Settings) -> None:
    """Write model and tokeniser as ``from_pretrained`` reads them; who trains the model further has dropout again."""
    model.config.update({"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT})
    model.save_pretrained(folder)
    names = {f"{name}_token": piece for name, piece in SPECIAL.items()}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokeniser, model_max_length=settings.positions, **names)
    fast.save_pretrained(folder)


def tell(out: Path, scores: dict[str, Score]) -> None:
    """Print the figures."""
    for what, found in scores.items():
        print(f"held out, guessed by {what}: accuracy {found.accuracy:.1%}, perplexity {found.perplexity:,.1f}")
    print(f"{out}: {sum(path.stat().st_size for path in out.iterdir()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
