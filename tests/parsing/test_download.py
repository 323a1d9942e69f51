"""Fetching models: what is offered, and that nothing happens before it was agreed to. No network is used."""

import json
import socket
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.errors import InputError
from structviews.parsing.download import Offer, fetch, offer
from structviews.parsing.parser import Options


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("library", "model"), [("stanza", ""), ("benepar", ""), ("spacy", "en_core_web_sm")])
def test_without_a_network_there_is_one_line(library, model, no_network, tmp_path, capfd):
    pytest.importorskip(library, reason=f"{library} is not installed: pip install 'structviews[parsers]'")
    with pytest.raises(InputError) as caught:
        offer(library, model, Options(models=tmp_path))
    message = str(caught.value)
    assert "\n" not in message
    assert "download failed" in message
    assert "--models" in message
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_an_unknown_library():
    with pytest.raises(InputError, match="choose one of stanza, benepar, spacy"):
        offer("corenlp", "", Options())


def test_spacy_has_no_default():
    with pytest.raises(InputError, match="no pipeline given"):
        offer("spacy", "", Options())


def test_a_failed_download_is_one_line():
    def fail():
        raise SystemExit("pip\nfailed")

    with pytest.raises(InputError, match=r"^https://x: download failed \(pip failed\)"):
        fetch(Offer(["m"], "https://x", "here", None, "", fail))


def test_stanza_offers_its_files(tiny_models, tmp_path, monkeypatch):
    _, folder = tiny_models("stanza")
    import huggingface_hub
    import stanza
    from stanza.resources import common

    def copy_index(target, *_, **__):
        resources = json.loads((folder / "resources.json").read_text())
        resources["url"] = "https://hub/stanza-{lang}/resolve/v{resources_version}/models/{filename}"
        (Path(target) / "resources.json").write_text(json.dumps(resources))

    asked, called = [], []

    def metadata(url):
        asked.append(url)
        return SimpleNamespace(size=1_000_000)

    monkeypatch.setattr(common, "download_resources_json", copy_index)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", metadata)
    card = SimpleNamespace(card_data=SimpleNamespace(license="apache-2.0"))
    monkeypatch.setattr(huggingface_hub, "model_info", lambda name: card)
    monkeypatch.setattr(stanza, "download", lambda *args, **options: called.append((args, options)))
    offered = offer("stanza", "", Options(models=tmp_path / "models"))
    kinds = {"tokenize", "pos", "depparse", "constituency", "pretrain"}
    assert {url.split("/models/")[1] for url in asked} == {f"{kind}/random.pt" for kind in kinds}
    assert offered.source == "https://hub/stanza-en"
    assert (offered.size, offered.licence) == (5_000_000, "apache-2.0")
    assert "5 MB" in str(offered)
    assert not called
    fetch(offered)
    ((language,), options) = called[0]
    assert (language, options["model_dir"]) == ("en", str(tmp_path / "models"))
    assert set(options["processors"]) == {"tokenize", "pos", "lemma", "depparse", "constituency"}


def test_benepar_offers_what_its_index_says(tmp_path, monkeypatch):
    pytest.importorskip("benepar", reason="benepar is not installed: pip install 'structviews[parsers]'")
    from benepar.integrations.downloader import get_downloader

    called = []
    info = SimpleNamespace(url="https://k/benepar_de2.zip", size=42_000_000, license=None)
    monkeypatch.setattr(get_downloader(), "info", lambda name: info)
    monkeypatch.setattr(get_downloader(), "download", lambda *args, **options: called.append((args, options)))
    offered = offer("benepar", "", Options(language="de", models=tmp_path))
    assert offered.models == ["benepar_de2"]
    assert str(offered).splitlines()[1:] == [
        "  from    https://k/benepar_de2.zip",
        f"  to      {tmp_path / 'models'}",
        "  size    42 MB",
        "  licence not stated there",
    ]
    fetch(offered)
    assert called == [(("benepar_de2",), {"download_dir": str(tmp_path), "raise_on_error": True})]


def test_spacy_goes_to_the_folder_without_its_dependencies(tmp_path, monkeypatch):
    import requests

    # Its name in spacy.cli is that of a function.
    download = import_module("spacy.cli.download")
    called = []
    monkeypatch.setattr(download, "get_latest_version", lambda name: "3.8.0")
    monkeypatch.setattr(requests, "head", lambda *_, **__: SimpleNamespace(headers={"content-length": "12800000"}))
    monkeypatch.setattr(download, "download", lambda *args: called.append(args))
    offered = offer("spacy", "en_core_web_sm", Options(models=tmp_path))
    assert offered.source.endswith("/en_core_web_sm-3.8.0/en_core_web_sm-3.8.0-py3-none-any.whl")
    assert offered.size == 12_800_000
    fetch(offered)
    assert called == [("en_core_web_sm", False, False, None, "--no-deps", "--target", str(tmp_path))]


@pytest.mark.parametrize(("answer", "fetched"), [("y\n", True), ("n\n", False), ("", False)])
def test_the_command_asks_once(answer, fetched, monkeypatch):
    called = []
    chosen = Offer(["a model"], "https://x", "here", 2_000_000, "MIT", lambda: called.append(True))
    monkeypatch.setattr("structviews.parsing.download.offer", lambda *_: chosen)
    result = CliRunner().invoke(app, ["parser", "download", "stanza"], input=answer)
    assert bool(called) == fetched
    for part in ("a model", "https://x", "here", "2 MB", "MIT"):
        assert part in result.output
    assert result.output.count("[y/N]") == 1


def test_the_command_does_not_ask_with_yes(monkeypatch):
    called = []
    chosen = Offer(["m"], "https://x", "here", None, "", lambda: called.append(True))
    monkeypatch.setattr("structviews.parsing.download.offer", lambda *_: chosen)
    result = CliRunner().invoke(app, ["parser", "download", "spacy", "m", "--yes"])
    assert result.exit_code == 0
    assert called
