"""Push runs to the Hugging Face Hub and pull them: tensors, words, settings and a card; nothing executable."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.hub.card import model_card
from structviews.hub.portable import CARD, PATTERNS, check_arrived, stage, vectors_left
from structviews.runs import RUNS
from structviews.runs.bundled import is_bundled, or_bundled, run_folder
from structviews.runtime.documents import write_json
from structviews.runtime.files import new_folder
from structviews.runtime.machine import require
from structviews.runtime.wording import network_reason

PULLED = "pulled.json"
"""File in a pulled run that says where it came from."""
TOKEN = "log in with `hf auth login`, or set HF_TOKEN"


@dataclass(frozen=True)
class Pushed:
    """What ``push`` has uploaded, or would: the commit's URL, the card, sizes of the other files by name, and notes."""

    url: str
    card: str
    files: dict[str, int]
    notes: list[str]


def push(
    run: Path, repo: str, *, private: bool = False, licence: str = "", card: Path | None = None, dry_run: bool = False
) -> Pushed:
    """Upload a run to a repository on the Hub, which is created if necessary.

    Files of an earlier run in the repository are deleted; files that do not belong to a run are kept. Raises InputError
    if the run cannot be shared, or the Hub cannot be reached or refuses the upload.

    Args:
        run: a trained or random run, or a join of such runs.
        repo, private: OWNER/NAME, and whether it is private if it is new.
        licence, card: licence identifier of the Hub for the card; or a file with a card of one's own.
        dry_run: upload nothing.
    """
    api = _api(repo, writes=not dry_run)
    with TemporaryDirectory(prefix="structviews-") as temporary:
        folder = Path(temporary) / repo.rpartition("/")[2]
        notes = [*stage(run, folder), *vectors_left(run)]
        try:
            text = card.read_text("utf-8") if card else ""
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{card}: not readable ({error}): give a Markdown file") from None
        text = text if card else model_card(folder, repo, Embedder.load(folder, precision="fp32"), licence)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        sizes = {str(path.relative_to(folder)): path.stat().st_size for path in files}
        (folder / CARD).write_text(text, "utf-8")
        if dry_run:
            return Pushed("", text, sizes, notes)
        with hub_errors(repo):
            name = api.create_repo(repo, private=private or None, exist_ok=True).repo_id
            title = f"Push {run.resolve().name}"
            sent = api.upload_folder(repo_id=name, folder_path=folder, commit_message=title, delete_patterns=PATTERNS)
        return Pushed(str(sent.commit_url), text, sizes, notes)


def pull(repo: str, out: Path | None = None, *, revision: str | None = None) -> Path:
    """Download a run from a repository on the Hub, or copy a bundled model; return its folder.

    Only the data files of a run are downloaded: settings, words, tensors. The run is test-loaded before the folder
    appears. The folder's ``pulled.json`` names the repository and the commit. Raises InputError if ``out`` exists, the
    Hub cannot be reached, or there is no such revision or no valid run.

    Args:
        repo: OWNER/NAME; or the name of a bundled model, such as ``default``, which needs no network.
        out: folder to create; ``runs/NAME`` by default.
        revision: a branch, a tag or a commit; the newest commit by default.
    """
    out = out or RUNS / repo.rpartition("/")[2]
    if is_bundled(source := run_folder(repo)):
        if revision is not None:
            raise InputError(f"--revision {revision}: bundled models have no revisions: leave it out")
        with new_folder(out) as folder:
            stage(source, folder)
            shutil.copyfile(source / CARD, folder / CARD)
        return out
    if "/" not in repo:  # the Hub has old repositories without an owner, none of them a run
        raise InputError(f"{repo}: not a repository name: give OWNER/NAME{or_bundled()}")
    api = _api(repo)
    with new_folder(out) as folder:
        with hub_errors(repo):
            commit = str(api.model_info(repo, revision=revision).sha)
            api.snapshot_download(repo, revision=commit, local_dir=folder, allow_patterns=PATTERNS)
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # download metadata of huggingface_hub
        try:
            check_arrived(folder)
            Embedder.load(folder)
        except InputError as error:
            reason = str(error).replace(f"{folder}/", "").replace(f"{folder}: ", "")
            raise InputError(f"{repo}: this repository does not hold a valid run: {reason}") from None
        write_json(folder / PULLED, {"repository": repo, "commit": commit})
    return out


def _api(repo: str, *, writes: bool = False) -> Any:
    """The Hub's client, for the repository of a valid name; ``writes`` needs a token."""
    require("huggingface_hub", "the Hugging Face Hub", "hub")
    from huggingface_hub import HfApi, get_token, utils  # noqa: PLC0415 - an extra

    with hub_errors(repo):
        utils.validate_repo_id(repo)
    if writes and not get_token():
        raise InputError(f"no token for the Hugging Face Hub: {TOKEN}")
    return HfApi(library_name="structviews")


@contextmanager
def hub_errors(repo: str) -> Iterator[None]:
    """Convert errors of the Hub and the network to InputError."""
    from huggingface_hub import errors  # noqa: PLC0415 - an extra

    try:
        yield
    except errors.HFValidationError:
        raise InputError(f"{repo}: not a repository name: give OWNER/NAME") from None
    except errors.RepositoryNotFoundError:
        raise InputError(f"{repo}: no such repository, or no access to it: check the name, or {TOKEN}") from None
    except errors.RevisionNotFoundError:
        raise InputError(f"{repo}: no such --revision: give a branch, a tag or a commit of this repository") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        reason = _line(error.server_message or error)
        remedy = f": {TOKEN}, with a token that permits this" if status in (401, 403) else ": try again later"
        raise InputError(f"{repo}: the Hub refused the request ({status}, {reason}){remedy}") from None
    except (errors.HTTPError, errors.EntryNotFoundError, ConnectionError) as error:
        reason = network_reason(error) or _line(error)
        raise InputError(f"{repo}: the Hub cannot be reached ({reason}): check the network") from None


def _line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:200]
