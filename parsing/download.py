"""Download models for the parser libraries, each with the library's own downloader."""

from pathlib import Path

from structviews.errors import InputError
from structviews.parsing.backends.benepar import model_name
from structviews.parsing.backends.stanza import Catalogue
from structviews.parsing.libraries import library
from structviews.parsing.parser import Options
from structviews.runtime.wording import network_reason, reason


def download(name: str, model: str, options: Options) -> None:
    """Download the models of a library's parser, one of ``DOWNLOADERS``: to a folder if ``options`` have one.

    The model is a stanza package, a benepar model or a spaCy pipeline; empty for the language's default, which spaCy
    does not have. Raises InputError if there is no such library or model, or it cannot be reached or written.
    """
    if name not in DOWNLOADERS:
        raise InputError(f"{name!r} is not a library with models to download: choose one of {', '.join(DOWNLOADERS)}")
    try:
        DOWNLOADERS[name](model, options)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        why = "see above" if isinstance(error, SystemExit) else network_reason(error) or reason(error)
        raise InputError(
            f"{name}: download failed ({why}): check the model's name and the network, or run the command on a machine "
            "with a connection and give the folder with the models with --models"
        ) from None


def _stanza(package: str, options: Options) -> None:
    """stanza's models for a language: what its parsers use of the package, instead of all that is in it."""
    stanza = library("stanza")
    from stanza.resources import common  # noqa: PLC0415

    folder = options.models or Path(common.DEFAULT_MODEL_DIR)
    common.download_resources_json(str(folder))
    catalogue = Catalogue(folder)
    language = catalogue.language(options.language)
    processors = catalogue.processors(language, package)
    stanza.download(language, model_dir=str(folder), package=None, processors=processors)


def _benepar(model: str, options: Options) -> None:
    benepar = library("benepar")
    folder = str(options.models) if options.models else None
    benepar.download(model_name(model, options.language), download_dir=folder, raise_on_error=True)


def _spacy(name: str, options: Options) -> None:
    """A spaCy pipeline, installed by pip, in the user's folder if one is given."""
    library("spacy")
    from spacy.cli.download import download as spacy_download  # noqa: PLC0415

    if not name:
        raise InputError("no pipeline given: name one, for example: structviews parser download spacy en_core_web_sm")
    into = ["--no-deps", "--target", str(options.models)] if options.models else []
    spacy_download(name, False, False, None, *into)


DOWNLOADERS = {"stanza": _stanza, "benepar": _benepar, "spacy": _spacy}
