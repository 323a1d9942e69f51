"""Fetching models, by the libraries' own downloaders. No network is used."""

import importlib
import shutil
import socket
from functools import partial

import pytest

from structviews.errors import InputError
from structviews.parsing import download
from structviews.parsing.parser import Options


@pytest.mark.parametrize(("library", "model"), [("stanza", ""), ("benepar", ""), ("spacy", "en_core_web_sm")])
def test_without_a_network_there_is_one_line(library, model, monkeypatch, tmp_path, one_line):
    pytest.importorskip(library, reason=f"{library} is not installed: pip install 'structviews[parsers]'")

    def refuse(*_, **__):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with one_line(rf"^{library}: download failed \(.*--models$"):
        download.download(library, model, Options(models=tmp_path / "models"))


def test_what_cannot_be_downloaded(monkeypatch):
    def leave(*_):
        raise SystemExit(1)

    monkeypatch.setitem(download.DOWNLOADERS, "benepar", leave)
    for library, message in (
        ("corenlp", "choose one of stanza, benepar, spacy"),
        ("spacy", "no pipeline given"),
        ("benepar", r"^benepar: download failed \(see above\)"),
    ):
        with pytest.raises(InputError, match=message):
            download.download(library, "", Options())


def calls_of_download(module, monkeypatch):
    """The arguments with which a library's own downloader is called."""
    called = []
    monkeypatch.setattr(module, "download", lambda *args, **options: called.append((args, options)))
    return called


def test_stanza_fetches_what_its_parsers_use(tiny_models, tmp_path, monkeypatch):
    _, folder = tiny_models("stanza")
    import stanza
    from stanza.resources import common

    copy = partial(shutil.copy, folder / "resources.json")
    monkeypatch.setattr(common, "download_resources_json", copy)
    called = calls_of_download(stanza, monkeypatch)
    download.download("stanza", "", Options(models=tmp_path))
    ((language,), options) = called[0]
    assert (language, options["model_dir"]) == ("en", str(tmp_path))
    assert set(options["processors"]) == {"tokenize", "pos", "lemma", "depparse", "constituency"}


@pytest.mark.parametrize(("options", "pip"), [([], ()), (["--models", "x"], ("--no-deps", "--target", "x"))])
def test_the_command_has_spacy_install_a_pipeline(command, options, pip, monkeypatch):
    called = calls_of_download(importlib.import_module("spacy.cli.download"), monkeypatch)
    assert command("parser", "download", "spacy", "en_core_web_sm", *options)[:2] == (0, "downloaded\n")
    assert called == [(("en_core_web_sm", False, False, None, *pip), {})]
