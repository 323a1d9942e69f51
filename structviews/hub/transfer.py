"""Runs to and from the Hugging Face Hub: tensors, words, settings and a card; nothing that can be executed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from structviews import shipped
from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.hub.card import model_card, model_name
from structviews.hub.portable import CARD, PATTERNS, check_arrived, stage
from structviews.runs import new_run

TOKEN = "log in with `hf auth login`, or set HF_TOKEN"


@dataclass(frozen=True)
class Pushed:
    """What ``push`` has sent, or would.

    Attributes:
        url: of the commit; empty if nothing was sent.
        card: the model card.
        files: names and bytes of what else goes.
        notes: what does not go, and why.
    """

    url: str
    card: str
    files: dict[str, int]
    notes: list[str]


def push(
    run: Path, repo: str, *, private: bool = False, licence: str = "", card: Path | None = None, dry_run: bool = False
) -> Pushed:
    """Send a run to a repository of the Hub, which is made if need be.

    Files that the repository has of an earlier run go; those that are no part of any run stay.

    Args:
        run: trained, random, or a join of such.
        repo: OWNER/NAME.
        private: whether a repository that is made is private.
        licence: for the card, as the Hub names it.
        card: a file with another card.
        dry_run: send nothing.

    Raises:
        InputError: if it is no such run, the Hub cannot be reached or refuses it.
    """
    api = _api(repo, writes=not dry_run)
    with TemporaryDirectory(prefix="structviews-") as temporary:
        folder = Path(temporary) / model_name(repo)
        notes = stage(run, folder)
        text = _read(card) if card else model_card(folder, repo, Embedder.load(folder), licence)
        sizes = {
            str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()
        }
        (folder / CARD).write_text(text, "utf-8")
        if dry_run:
            return Pushed("", text, sizes, notes)
        with hub_errors(repo):
            name = api.create_repo(repo, private=private or None, exist_ok=True).repo_id
            sent = api.upload_folder(
                repo_id=name, folder_path=folder, commit_message=f"Push {run.resolve().name}", delete_patterns=PATTERNS
            )
        return Pushed(str(sent.commit_url), text, sizes, notes)


def _read(card: Path) -> str:
    try:
        return card.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{card}: not readable ({error}): give a card in Markdown") from None


def pull(repo: str, out: Path | None = None) -> Path:
    """Fetch a run from a repository of the Hub, or copy the one that comes with the package.

    Only files that a run has are fetched, and only data: settings, words, tensors. The run is loaded once before
    it gets its name.

    Args:
        repo: OWNER/NAME; ``default`` for the run in the package, for which no network is needed.
        out: folder to make; ``runs/NAME`` by default.

    Returns:
        The folder.

    Raises:
        InputError: if ``out`` is there, the Hub cannot be reached, or what it has is not a run.
    """
    out = out or Path("runs") / model_name(repo)
    if repo == shipped.NAME:
        return _copy_shipped(out)
    api = _api(repo)
    with new_run(out) as folder:
        with hub_errors(repo):
            api.snapshot_download(repo, local_dir=folder, allow_patterns=PATTERNS)
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # the Hub's notes of the transfer
        try:
            check_arrived(folder)
            Embedder.load(folder)
        except InputError as error:
            reason = str(error).replace(f"{folder}/", "").replace(f"{folder}: ", "")
            raise InputError(f"{repo}: what the Hub has there is not a run: {reason}") from None
    return out


def _copy_shipped(out: Path) -> Path:
    with new_run(out) as folder:
        stage(shipped.FOLDER, folder)
        shutil.copyfile(shipped.FOLDER / CARD, folder / CARD)
    return out


def _api(repo: str, *, writes: bool = False) -> Any:
    """The Hub's client.

    Raises:
        InputError: if it is not installed, ``repo`` cannot be a repository's name, or writing wants a token.
    """
    try:
        from huggingface_hub import HfApi, get_token, utils  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("huggingface_hub is not installed: pip install 'structviews[hub]'") from None
    with hub_errors(repo):
        utils.validate_repo_id(repo)
    if writes and not get_token():
        raise InputError(f"no token of the Hugging Face Hub: {TOKEN}")
    return HfApi(library_name="structviews")


@contextmanager
def hub_errors(repo: str) -> Iterator[None]:
    """Errors of the Hub and of the way there, as InputError."""
    from huggingface_hub import errors  # noqa: PLC0415 - an extra

    try:
        yield
    except errors.HFValidationError:
        raise InputError(f"{repo}: not the name of a repository: give OWNER/NAME") from None
    except errors.RepositoryNotFoundError:
        raise InputError(
            f"{repo}: no such repository, or not one that you may see: check the name, or {TOKEN}"
        ) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        reason = _line(error.server_message or error)
        remedy = f": {TOKEN}, with a token that may do this" if status in (401, 403) else ": try again later"
        raise InputError(f"{repo}: the Hub refused it ({status}, {reason}){remedy}") from None
    except (errors.HTTPError, errors.EntryNotFoundError, ConnectionError) as error:
        raise InputError(f"{repo}: the Hub cannot be reached ({_line(error)}): check the network") from None


def _line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
