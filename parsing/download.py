"""Download models for the parser libraries, each with the library's own downloader."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structviews.errors import InputError
from structviews.parsing.backends.benepar import model_name
from structviews.parsing.backends.stanza import DEFAULT_PACKAGE, Catalogue
from structviews.parsing.libraries import library, one_line
from structviews.parsing.parser import Options
from structviews.runtime.wording import network_reason


@dataclass(frozen=True)
class Offer:
    """What would be downloaded.

    Attributes:
        models: names of the models.
        source: where they come from.
        target: where they are stored.
        size: size of the download in bytes; None if the source does not state it.
        licence: as stated by the source; empty if it does not state one.
        fetch: downloads the models.
    """

    models: list[str]
    source: str
    target: str
    size: int | None
    licence: str
    fetch: Callable[[], Any]

    def __str__(self) -> str:
        size = f"{self.size / 1e6:,.0f} MB" if self.size else "of unknown size"
        licence = self.licence or "not stated there"
        return (
            f"{', '.join(self.models)}\n  from    {self.source}\n  to      {self.target}\n"
            f"  size    {size}\n  licence {licence}"
        )


def offer(name: str, model: str, options: Options) -> Offer:
    """What ``structviews parser download`` would fetch.

    Args:
        name: the library, one of ``OFFERS``.
        model: a stanza package, a benepar model or a spaCy pipeline; empty for the language's default, which
            spaCy does not have.
        options: the language, and the folder to write to; the library's own folder if None.

    Raises:
        InputError: if the model does not exist, or its source cannot be reached.
    """
    if name not in OFFERS:
        raise InputError(f"{name!r} is not a library with models to download: choose one of {', '.join(OFFERS)}")
    return OFFERS[name](model, options)


def fetch(chosen: Offer) -> None:
    """Download what was offered.

    Raises:
        InputError: if the source cannot be reached, or the folder cannot be written.
    """
    try:
        chosen.fetch()
    except (Exception, SystemExit) as error:
        raise unreachable(chosen.source, error) from None


def unreachable(source: str, error: BaseException) -> InputError:
    """The error for a failed download."""
    return InputError(
        f"{source}: download failed ({network_reason(error) or one_line(error)}): run the command on a machine with a "
        "network connection, and give the folder with the models with --models"
    )


def stanza_offer(package: str, options: Options) -> Offer:
    """stanza's models for a language: tokeniser, tagger, lemmatiser, parsers, and the models that these use."""
    stanza = library("stanza")
    from stanza.resources import common  # noqa: PLC0415

    folder = options.models or Path(common.DEFAULT_MODEL_DIR)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            common.download_resources_json(scratch)
        except Exception as error:
            raise unreachable(common.DEFAULT_RESOURCES_URL, error) from None
        catalogue = Catalogue(Path(scratch))
    language = catalogue.language(options.language)
    processors = catalogue.processors(language, package or DEFAULT_PACKAGE)
    models = catalogue.models(language, processors)
    version = common.DEFAULT_RESOURCES_VERSION
    template = common.expand_model_url(catalogue.resources, common.DEFAULT_MODEL_URL)
    urls = [
        template.format(resources_version=version, lang=language, filename=f"{kind}/{name}.pt") for kind, name in models
    ]
    return Offer(
        models=[f"stanza {version} {language}: {', '.join(f'{kind} {name}' for kind, name in models)}"],
        source=urls[0].partition("/resolve/")[0],
        target=str(folder),
        size=total_size(urls),
        licence=hub_licence(f"stanfordnlp/stanza-{language}"),
        fetch=lambda: stanza.download(language, model_dir=str(folder), package=None, processors=processors),
    )


def total_size(urls: list[str]) -> int | None:
    """Total size in bytes of files on the Hugging Face Hub; None if unknown."""
    from huggingface_hub import get_hf_file_metadata  # noqa: PLC0415

    try:
        sizes = [get_hf_file_metadata(url).size for url in urls]
    except Exception:
        return None
    return sum(size for size in sizes if size) if all(sizes) else None


def hub_licence(repository: str) -> str:
    """The licence on a model's Hugging Face Hub page; empty if there is none."""
    from huggingface_hub import model_info  # noqa: PLC0415

    try:
        card = model_info(repository).card_data
    except Exception:
        return ""
    return str(getattr(card, "license", "") or "")


def benepar_offer(model: str, options: Options) -> Offer:
    """A benepar model."""
    library("benepar")
    from benepar.integrations.downloader import BENEPAR_SERVER_INDEX, get_downloader  # noqa: PLC0415

    name = model_name(model, options.language)
    downloader = get_downloader()
    try:
        info = downloader.info(name)
    except ValueError as error:
        raise InputError(f"{BENEPAR_SERVER_INDEX}: {one_line(error)}: benepar has no model {name}") from None
    except Exception as error:
        raise unreachable(BENEPAR_SERVER_INDEX, error) from None
    folder = str(options.models or downloader.default_download_dir())
    return Offer(
        models=[name],
        source=info.url,
        target=os.path.join(folder, "models"),
        size=info.size,
        licence=info.license or "",
        fetch=lambda: downloader.download(name, download_dir=folder, raise_on_error=True),
    )


def spacy_offer(name: str, options: Options) -> Offer:
    """A spaCy pipeline, installed by pip, in the user's folder if one is given."""
    library("spacy")
    import requests  # noqa: PLC0415
    from spacy import about  # noqa: PLC0415
    from spacy.cli.download import download, get_latest_version, get_model_filename  # noqa: PLC0415

    if not name:
        raise InputError("no pipeline given: name one, for example: structviews parser download spacy en_core_web_sm")
    try:
        version = get_latest_version(name)
        url = f"{about.__download_url__}/{get_model_filename(name, version)}"
        answer = requests.head(url, allow_redirects=True, timeout=30)
    except SystemExit:
        raise InputError(f"spaCy {about.__version__} has no pipeline {name!r}: see https://spacy.io/models") from None
    except Exception as error:
        raise unreachable(about.__download_url__, error) from None
    into = ["--no-deps", "--target", str(options.models)] if options.models else []
    return Offer(
        models=[f"{name} {version}"],
        source=url,
        target=str(options.models) if options.models else "this Python environment",
        size=int(answer.headers.get("content-length", 0)) or None,
        licence=f"see https://spacy.io/models/{name.partition('_')[0]}#{name}",
        fetch=lambda: download(name, False, False, None, *into),
    )


OFFERS: dict[str, Callable[[str, Options], Offer]] = {
    "stanza": stanza_offer,
    "benepar": benepar_offer,
    "spacy": spacy_offer,
}
