import io
import os
import signal
import subprocess
import sys
import warnings
from functools import partial

import pytest
import torch
from chain_parser import ChainParser, chain
from jobs import IN_PROCESS, SLOWLY, command, contents, needs_proc, stat, text_source, wait_until

from structviews.corpus.layout import Skipped
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.parsing import pipeline
from structviews.parsing.sources import TakeTrees, TreebankSource, output_name
from structviews.runtime.files import temporary_name, writing

SHARD_WITH_SKIPS = "Short one.\nstop here\nThis one is much too long.\nbell\x07\nLast one.\n\nOther document.\n"


def treebank_source(folder, sentences=25, max_tokens=10):
    """A treebank whose work is done in this process."""
    path = folder / "t.conllu"
    lines = [f"# sent_id = doc{i // 10}-{i}\n1\tword{i}\t_\t_\tUH\t_\t0\troot\t_\t_\n\n" for i in range(sentences)]
    path.write_text("".join(lines))
    return TreebankSource([path], TakeTrees(max_tokens))


def parse_treebank(source, name="t.parsed"):
    """A corpus of three shards."""
    corpus, already = pipeline.parse_corpus(source, source.paths[0].with_name(name), sentences_per_shard=10)
    assert not already
    return contents(corpus.path)


def test_the_corpus_keeps_places_and_counts_skips(tmp_path):
    (tmp_path / "a.txt").write_text(SHARD_WITH_SKIPS)
    corpus, _ = pipeline.parse_corpus(text_source(tmp_path / "a.txt"), tmp_path / "a.parsed")
    assert [(r.document, r.position, r.line, r.sentence) for r in corpus] == [
        (0, 0, 1, chain(["Short", "one", "."])),
        (0, 4, 5, chain(["Last", "one", "."])),
        (1, 0, 7, chain(["Other", "document", "."])),
    ]
    reasons = ["says stop", "more than 5 tokens", "control character U+0007"]
    assert corpus.skipped == [Skipped(0, i, i + 1, reason) for i, reason in enumerate(reasons, 1)]
    assert pipeline.summary(corpus) == ("3 skipped: 1 says stop, 1 more than 5 tokens, 1 control character U+0007")
    settings = {"format": "lines", "tokenised": False, "max_tokens": 5}
    assert corpus.manifest["settings"] == settings | {"sentences_per_shard": 1000, "compression": None}
    assert corpus.parser["name"] == "chain"


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_job_leaves_no_worker_goes_on_and_ends_the_same(long_text, undisturbed, tmp_path, number):
    out, pids = tmp_path / "x.parsed", tmp_path / "pids"
    pids.mkdir()
    process = command(long_text, *SLOWLY, "--workers", "2", "-o", out, folder=tmp_path, PIDS=str(pids))
    wait_until(lambda: list(out.glob("*.arrow")), process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.kill()
    output, _ = process.communicate(timeout=60)
    wait_until(lambda: all(stat(path.name)[0] == "Z" for path in pids.iterdir()))
    assert str(process.pid) not in os.listdir(pids)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert output.splitlines()[-1] == "stopped; run the same command again to resume"
        assert "Traceback" not in output
    with pytest.raises(InputError, match="is unfinished"):
        ParsedCorpus.open(out)
    pipeline.parse_corpus(text_source(long_text, **IN_PROCESS), out)
    assert contents(out) == contents(undisturbed)


@pytest.mark.parametrize(
    ("file", "change", "sound", "warned"),
    [
        ("shard-00001.arrow", lambda content: content.replace(b"word15", b"word51"), [0, 2], 1),
        ("shard-00001.arrow", None, [0, 2], 0),
        ("finished.jsonl", lambda content: content[:-40], [0, 1], 0),  # cut short by a kill
        ("finished.jsonl", None, [], 0),
    ],
)
def test_only_sound_shards_of_an_interrupted_job_are_kept(tmp_path, interrupted, file, change, sound, warned):
    source, out = treebank_source(tmp_path), tmp_path / "t.parsed"
    whole = parse_treebank(source, "whole.parsed")
    interrupted(parse_treebank, source)
    if change:
        (out / file).write_bytes(change((out / file).read_bytes()))
    else:
        (out / file).unlink()
    times = {number: (out / f"shard-{number:05d}.arrow").stat().st_mtime_ns for number in sound}
    with warnings.catch_warnings(record=True) as caught:
        assert parse_treebank(source) == whole
    assert [str(each.message).rpartition(": ")[2] for each in caught] == ["it is parsed again"] * warned
    assert all("t.parsed: shard-00001.arrow: " in str(each.message) for each in caught)
    assert {number: (out / f"shard-{number:05d}.arrow").stat().st_mtime_ns for number in sound} == times


def test_a_finished_or_unfinished_job_is_left_alone_by_another_one(tmp_path, interrupted):
    out = tmp_path / "t.parsed"
    for parse in (partial(interrupted, parse_treebank), parse_treebank):
        parse(treebank_source(tmp_path))
        with pytest.raises(InputError, match=r"differs in settings \(max_tokens was 10, is 9\): .*--out.*delete"):
            parse_treebank(treebank_source(tmp_path, max_tokens=9))
        with pytest.raises(InputError, match="differs in sources: "):
            parse_treebank(treebank_source(tmp_path, sentences=24))
    (out / "job.json").write_text("{}")  # as after a kill between manifest and the job file's end
    before = (out / "manifest.json").stat().st_mtime_ns
    _, already = pipeline.parse_corpus(treebank_source(tmp_path), out, sentences_per_shard=10)
    assert already
    assert (out / "manifest.json").stat().st_mtime_ns == before
    assert not (out / "job.json").exists()


def test_a_folder_with_other_files_or_another_job_is_refused(tmp_path):
    source, out = treebank_source(tmp_path), tmp_path / "t.parsed"
    with pytest.raises(InputError, match="holds other files"):
        pipeline.parse_corpus(source, tmp_path)
    assert source.paths[0].exists()
    out.mkdir()
    with writing(out), pytest.raises(InputError, match=rf"being written by process {os.getpid()} on .*wait"):
        parse_treebank(source)
    with subprocess.Popen(["true"]) as dead:  # what a job leaves that was killed before it wrote anything
        pass
    ours = temporary_name(out / "job.json").name
    (out / ours.replace(f"-{os.getpid()}.", f"-{dead.pid}.")).write_bytes(b"cut")
    assert {"manifest.json", *(f"shard-0000{i}.arrow" for i in range(3))} == parse_treebank(source).keys()


def test_a_corpus_without_a_sentence_is_an_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("A sentence too long.\nstop here\n")
    message = "no sentence could be parsed: 2 skipped: 1 more than 3 tokens, 1 says stop"
    with pytest.raises(InputError, match=message):
        pipeline.parse_corpus(text_source(path, max_tokens=3), tmp_path / "t.parsed")
    assert not (tmp_path / "t.parsed").exists()


def test_output_names():
    names = ["a.txt", "d/b.txt.zst", "c.gz", "x.y.txt", "-", "gum.conllu"]
    expected = [f"{name}.parsed" for name in ("a", "b", "c", "x.y", "corpus", "gum")]
    assert [output_name(name) for name in names] == expected


def test_standard_input_gives_the_same(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text(SHARD_WITH_SKIPS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SHARD_WITH_SKIPS.encode())))
    pipeline.parse_corpus(text_source(tmp_path / "a.txt"), tmp_path / "a.parsed")
    pipeline.parse_corpus(text_source("-"), tmp_path / "piped.parsed")
    assert contents(tmp_path / "a.parsed") == contents(tmp_path / "piped.parsed")


def test_a_parser_has_one_thread_and_leaves_the_others_to_the_process(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("A sentence.\n")
    seen, parse, before = [], ChainParser.parse, torch.get_num_threads()

    def parse_and_look(parser, sentences):
        seen.append(torch.get_num_threads())
        return parse(parser, sentences)

    monkeypatch.setattr(ChainParser, "parse", parse_and_look)
    torch.set_num_threads(2)
    try:
        pipeline.parse_corpus(text_source(tmp_path / "a.txt"), tmp_path / "a.parsed")
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def after_each_shard(monkeypatch, act):
    write = pipeline.write_whole

    def write_and_act(path, content):
        write(path, content)
        if path.suffix == ".arrow":
            act()

    monkeypatch.setattr(pipeline, "write_whole", write_and_act)


def test_a_text_that_changes_meanwhile_is_refused_but_not_one_that_is_only_touched(tmp_path, monkeypatch):
    source, out = treebank_source(tmp_path), tmp_path / "t.parsed"
    path = source.paths[0]
    before = path.read_text()
    with monkeypatch.context() as patch:
        after_each_shard(patch, lambda: path.write_text(before))
        whole = parse_treebank(source, "whole.parsed")
    with monkeypatch.context() as patch:
        after_each_shard(patch, lambda: path.write_text(before.replace("word19", "word91")))
        with pytest.raises(InputError, match=r"t\.conllu changed during this run: .*delete .*t\.parsed to start over"):
            parse_treebank(source)
    assert sorted(path.name for path in out.iterdir()) == ["finished.jsonl", "job.json", "shard-00000.arrow"]
    with pytest.raises(InputError, match=r"differs in sources: .*delete .*to start over"):
        parse_treebank(TreebankSource([path], TakeTrees(10)))
    assert parse_treebank(treebank_source(tmp_path)) == whole


@pytest.mark.parametrize("workers", [1, 2])
def test_the_bar_moves_within_the_first_shard(tmp_path, monkeypatch, workers):
    (tmp_path / "a.txt").write_text("".join(f"sentence number {i} .\n" for i in range(300)) + "\n\n")
    shown = []
    monkeypatch.setattr(pipeline.Bar, "__call__", lambda bar, done, total, rate="": shown.append((done, total)))
    source = text_source(tmp_path / "a.txt", parser="builtin")
    pipeline.parse_corpus(source, tmp_path / "a.parsed", workers=workers)
    assert len(shown) > 3
    assert shown == sorted(shown)
    assert 0 < shown[0][0] < 300  # before the only shard was finished
    assert shown[-1] == (302, 302)
