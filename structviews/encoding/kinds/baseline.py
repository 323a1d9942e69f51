"""Baselines: averaged word vectors, or another model."""

from pathlib import Path

from structviews.encoding.kinds import KINDS, sentence_transformer
from structviews.encoding.kinds.sentence_transformer import TransformerBaseline
from structviews.encoding.kinds.word_average import WordBaseline
from structviews.encoding.pooled import PooledEmbedder
from structviews.errors import InputError
from structviews.parsing.parser import Parser
from structviews.runs.folder import CONFIG
from structviews.runs.settings_file import PARSED, read_parsed, read_settings
from structviews.runs.which_vectors import Representation

BASELINE = "baseline"


@KINDS.register(BASELINE)
class Baseline:
    """Opens baselines."""

    @staticmethod
    def open(run: Path, parser: Parser | None = None) -> PooledEmbedder:
        """Load a run that ``make_baseline`` made from word vectors or a model; ``parser`` is ignored.

        Raises:
            InputError: if the vectors, the model or a file of the run is missing or has changed.
        """
        settings = read_settings(run)
        try:
            kind, parsed = settings[BASELINE], read_parsed(settings[PARSED], run / CONFIG)
            own = Representation.from_table(settings["representation"], str(run / CONFIG))
            embedder: WordBaseline | TransformerBaseline
            if kind == sentence_transformer.KIND:
                embedder = TransformerBaseline.open(run, settings, parsed)
            else:
                embedder = WordBaseline.open(run, kind, settings, parsed)
        except (KeyError, TypeError) as error:
            place = run / CONFIG
            raise InputError(f"{place}: not of a run made by structviews baseline ({error}): make it again") from None
        embedder.representation = own
        embedder.read_components(run)
        return embedder
