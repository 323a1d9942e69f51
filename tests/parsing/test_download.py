"""Fetching models, by the libraries' own downloaders. No network is used."""

import importlib
import shutil
import socket

import pytest
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.errors import InputError
from structviews.parsing import download
from structviews.parsing.parser import Options


@pytest.mark.parametrize(("library", "model"), [("stanza", ""), ("benepar", ""), ("spacy", "en_core_web_sm")])
def test_without_a_network_there_is_one_line(library, model, monkeypatch, tmp_path):
    pytest.importorskip(library, reason=f"{library} is not installed: pip install 'structviews[parsers]'")

    def refuse(*_, **__):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match=rf"^{library}: download failed \(.*--models$") as caught:
        download.download(library, model, Options(models=tmp_path / "models"))
    assert "\n" not in str(caught.value)


def test_what_cannot_be_downloaded(monkeypatch):
    for library, message in (("corenlp", "choose one of stanza, benepar, spacy"), ("spacy", "no pipeline given")):
        with pytest.raises(InputError, match=message):
            download.download(library, "", Options())

    def leave(*_):
        raise SystemExit(1)

    monkeypatch.setitem(download.DOWNLOADERS, "spacy", leave)
    with pytest.raises(InputError, match=r"^spacy: download failed \(see above\)"):
        download.download("spacy", "m", Options())


def test_stanza_fetches_what_its_parsers_use(tiny_models, tmp_path, monkeypatch):
    _, folder = tiny_models("stanza")
    import stanza
    from stanza.resources import common

    called = []
    monkeypatch.setattr(
        common, "download_resources_json", lambda target: shutil.copy(folder / "resources.json", target)
    )
    monkeypatch.setattr(stanza, "download", lambda *args, **options: called.append((args, options)))
    download.download("stanza", "", Options(models=tmp_path))
    ((language,), options) = called[0]
    assert (language, options["model_dir"]) == ("en", str(tmp_path))
    assert set(options["processors"]) == {"tokenize", "pos", "lemma", "depparse", "constituency"}


def test_benepar_fetches_the_languages_model(tmp_path, monkeypatch):
    benepar = pytest.importorskip("benepar", reason="benepar is not installed: pip install 'structviews[parsers]'")
    called = []
    monkeypatch.setattr(benepar, "download", lambda *args, **options: called.append((args, options)))
    download.download("benepar", "", Options(language="de", models=tmp_path))
    assert called == [(("benepar_de2",), {"download_dir": str(tmp_path), "raise_on_error": True})]


@pytest.mark.parametrize(("given", "pip"), [([], ()), (["--models", "x"], ("--no-deps", "--target", "x"))])
def test_the_command_has_spacy_install_a_pipeline(given, pip, monkeypatch):
    called = []
    monkeypatch.setattr(importlib.import_module("spacy.cli.download"), "download", lambda *args: called.append(args))
    result = CliRunner().invoke(app, ["parser", "download", "spacy", "en_core_web_sm", *given])
    assert (result.exit_code, result.output) == (0, "downloaded\n")
    assert called == [("en_core_web_sm", False, False, None, *pip)]
