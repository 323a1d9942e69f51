import errno
import os
import signal
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import chain_parser
import pytest
import torch
from chain_parser import ChainParser
from jobs import DRIVER, IN_PROCESS, SLOWLY, command, contents, run, wait_until

from structviews.corpus.format import Skipped
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.parsing import pipeline
from structviews.parsing.sources import TextSource, TreebankSource, open_source, output_name
from structviews.runtime.files import temporary_name, writing

SHARD_WITH_SKIPS = "Short one.\nstop here\nThis one is much too long.\nbell\x07\nLast one.\n\nOther document.\n"


def text_source(path, **options):
    options = {"parser": "chain", "layout": "lines", "tokenised": False, "max_tokens": 5} | options
    return TextSource(str(path), **options)


def treebank_source(folder, sentences=25, **options):
    """A treebank whose work is done in this process."""
    lines = []
    for i in range(sentences):
        lines += [f"# sent_id = doc{i // 10}-{i}", "\t".join(f"1 word{i} _ _ UH _ 0 root _ _".split()), ""]
    path = folder / "t.conllu"
    path.write_text("\n".join(lines) + "\n")
    return treebank_source_at(path, **options)


def treebank_source_at(path, **options):
    return TreebankSource([path], **{"max_tokens": 10} | options)


def test_the_corpus_keeps_places_and_counts_skips(tmp_path):
    (tmp_path / "a.txt").write_text(SHARD_WITH_SKIPS)
    corpus, already = pipeline.parse_corpus(text_source(tmp_path / "a.txt"), tmp_path / "a.parsed")
    assert not already
    assert [(r.document, r.position, r.line, r.sentence) for r in corpus] == [
        (0, 0, 1, chain_parser.chain(["Short", "one", "."])),
        (0, 4, 5, chain_parser.chain(["Last", "one", "."])),
        (1, 0, 7, chain_parser.chain(["Other", "document", "."])),
    ]
    assert corpus.skipped == [
        Skipped(0, 1, 2, "says stop"),
        Skipped(0, 2, 3, "more than 5 tokens"),
        Skipped(0, 3, 4, "control character U+0007"),
    ]
    assert pipeline.summary(corpus) == ("3 skipped: 1 says stop, 1 more than 5 tokens, 1 control character U+0007")
    settings = {"format": "lines", "tokenised": False, "max_tokens": 5}
    assert corpus.manifest["settings"] == settings | {"sentences_per_shard": 1000, "compression": None}
    assert corpus.parser["name"] == "chain"


@pytest.mark.slow
def test_a_killed_job_goes_on_and_ends_the_same(long_text, undisturbed, tmp_path):
    out = tmp_path / "killed.parsed"
    arguments = (long_text, *SLOWLY, "--workers", "2", "-o", out)
    for shards in (0, 1, 4):
        process = command(*arguments, folder=tmp_path)
        wait_until(lambda n=shards: (out / "job.json").exists() and len(list(out.glob("*.arrow"))) >= n, process)
        process.kill()
        process.wait()
        assert not (out / "manifest.json").exists()
        with pytest.raises(InputError, match="is unfinished"):
            ParsedCorpus.open(out)
    leave_temporary(out / "shard-00005.arrow")
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("*.arrow")}
    code, output = run(*arguments, folder=tmp_path)
    assert code == 0, output
    assert contents(out) == contents(undisturbed)
    assert len(kept) >= 4
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == kept


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the states of processes in /proc")
def test_workers_do_not_outlive_a_killed_job(long_text, tmp_path):
    def runs(pid):
        stat = Path(f"/proc/{pid}/stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"

    pids = tmp_path / "pids"
    pids.mkdir()
    process = command(long_text, *SLOWLY, "--workers", "2", "-o", "x.parsed", folder=tmp_path, PIDS=str(pids))
    wait_until(lambda: len(list(pids.iterdir())) == 2, process)
    workers = sorted(path.name for path in pids.iterdir())
    assert str(process.pid) not in workers
    assert [pid for pid in workers if runs(pid)] == workers
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(runs, workers)))
    assert [pid for pid in workers if runs(pid)] == []


def test_an_interrupt_ends_with_one_line(long_text, undisturbed, tmp_path):
    process = command(long_text, *SLOWLY, "--workers", "2", "-o", "x.parsed", folder=tmp_path)
    wait_until(lambda: list(tmp_path.glob("x.parsed/*.arrow")), process)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output.splitlines()[-1] == "stopped; run the same command again to resume"
    assert "Traceback" not in output
    corpus, _ = pipeline.parse_corpus(TextSource(str(long_text), **IN_PROCESS), tmp_path / "x.parsed")
    assert contents(corpus.path) == contents(undisturbed)


def interrupt(*_):
    raise KeyboardInterrupt


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("file", "change", "sound", "warned"),
    [
        ("shard-00001.arrow", flipped, [0, 2], 1),
        ("shard-00001.arrow", None, [0, 2], 0),
        ("finished.jsonl", lambda content: content[:-40], [0, 1], 0),  # cut short by a kill
        ("finished.jsonl", None, [], 0),
    ],
)
def test_only_sound_shards_of_an_interrupted_job_are_kept(tmp_path, monkeypatch, file, change, sound, warned):
    source, out = treebank_source(tmp_path), tmp_path / "t.parsed"
    whole = contents(pipeline.parse_corpus(source, tmp_path / "whole.parsed", sentences_per_shard=10)[0].path)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_manifest", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pipeline.parse_corpus(source, out, sentences_per_shard=10)
    if change:
        (out / file).write_bytes(change((out / file).read_bytes()))
    else:
        (out / file).unlink()
    times = {number: (out / f"shard-{number:05d}.arrow").stat().st_mtime_ns for number in sound}
    with warnings.catch_warnings(record=True) as caught:
        pipeline.parse_corpus(source, out, sentences_per_shard=10)
    assert [str(each.message).rpartition(": ")[2] for each in caught] == ["it is parsed again"] * warned
    assert all("t.parsed: shard-00001.arrow: " in str(each.message) for each in caught)
    assert contents(out) == whole
    assert {number: (out / f"shard-{number:05d}.arrow").stat().st_mtime_ns for number in sound} == times


def test_a_finished_corpus_is_left_alone(tmp_path):
    source, out = treebank_source(tmp_path), tmp_path / "t.parsed"
    pipeline.parse_corpus(source, out)
    (out / "job.json").write_text("{}")  # as after a kill between manifest and the job file's end
    before = (out / "manifest.json").stat().st_mtime_ns
    _, already = pipeline.parse_corpus(source, out)
    assert already
    assert (out / "manifest.json").stat().st_mtime_ns == before
    assert not (out / "job.json").exists()


def test_another_job_is_refused(tmp_path, monkeypatch):
    out = tmp_path / "t.parsed"
    for finished in (False, True):
        with monkeypatch.context() as patch:
            if not finished:
                patch.setattr(pipeline, "write_manifest", interrupt)
            with nullcontext() if finished else pytest.raises(KeyboardInterrupt):
                pipeline.parse_corpus(treebank_source(tmp_path), out)
        with pytest.raises(InputError, match=r"differs in settings \(max_tokens was 10, is 9\): .*--out.*delete"):
            pipeline.parse_corpus(treebank_source(tmp_path, max_tokens=9), out)
        with pytest.raises(InputError, match="differs in sources: "):
            pipeline.parse_corpus(treebank_source(tmp_path, sentences=24), out)


def test_a_folder_with_other_files_or_another_job_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="holds other files"):
        pipeline.parse_corpus(treebank_source(tmp_path), tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "precious"
    out = tmp_path / "t.parsed"
    out.mkdir()
    with writing(out), pytest.raises(InputError, match=rf"being written by process {os.getpid()} on .*wait"):
        pipeline.parse_corpus(treebank_source(tmp_path), out)
    pipeline.parse_corpus(treebank_source(tmp_path), out)


def leave_temporary(path):
    """What a killed writer of a file leaves."""
    with subprocess.Popen(["true"]) as dead:
        pass
    ours = temporary_name(path).name
    path.with_name(ours.replace(f"-{os.getpid()}.", f"-{dead.pid}.")).write_bytes(b"cut")


def test_a_job_killed_before_it_wrote_anything_starts_over(tmp_path):
    out = tmp_path / "t.parsed"
    out.mkdir()
    leave_temporary(out / "job.json")
    assert len(pipeline.parse_corpus(treebank_source(tmp_path), out)[0]) == 25
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "shard-00000.arrow"]


@pytest.mark.parametrize("name", ["write_bytes", "write_json", "write_manifest"])
def test_a_full_disk_is_one_line(tmp_path, monkeypatch, name):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pipeline, name, full)
    with pytest.raises(InputError, match=r"t\.parsed cannot be written \(No space left on device\)"):
        pipeline.parse_corpus(treebank_source(tmp_path), tmp_path / "t.parsed")
    monkeypatch.undo()
    assert len(pipeline.parse_corpus(treebank_source(tmp_path), tmp_path / "t.parsed")[0]) == 25


def test_a_corpus_without_a_sentence_is_an_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("A sentence too long.\nstop here\n")
    message = "no sentence could be parsed: 2 skipped: 1 more than 3 tokens, 1 says stop"
    with pytest.raises(InputError, match=message):
        pipeline.parse_corpus(text_source(path, max_tokens=3), tmp_path / "t.parsed")
    assert not (tmp_path / "t.parsed").exists()


def test_a_worker_that_dies_is_one_line(tmp_path):
    (tmp_path / "a.txt").write_text("A sentence.\nAnother one.\n")
    source = text_source(tmp_path / "a.txt", parser="dying")
    with pytest.raises(InputError, match="a worker process died"):
        pipeline.parse_corpus(source, tmp_path / "a.parsed", workers=2, sentences_per_shard=1)


def test_sources_that_do_not_fit(tmp_path):
    (tmp_path / "a.txt").write_text("A sentence.\n")
    with pytest.raises(InputError, match="unknown parser 'nope': choose one of "):
        text_source(tmp_path / "a.txt", parser="nope")
    with pytest.raises(InputError, match="--max-tokens 0: give a number from 1 to 16384"):
        text_source(tmp_path / "a.txt", max_tokens=0)
    with pytest.raises(InputError, match="--workers 0"):
        pipeline.parse_corpus(treebank_source(tmp_path), tmp_path / "x", workers=0)
    options = {"parser": "chain", "layout": None, "tokenised": False, "max_tokens": 9}
    with pytest.raises(InputError, match="treebank file: add --parser treebank"):
        open_source(["a.conllu"], **options)
    with pytest.raises(InputError, match="2 sources"):
        open_source(["a.txt", "b.txt"], **options)
    with pytest.raises(InputError, match=r"--format, --tokenised, .* only apply to texts"):
        open_source(["a.conllu"], **options | {"parser": "treebank", "tokenised": True})


def test_output_names():
    names = ["a.txt", "d/b.txt.zst", "c.gz", "x.y.txt", "-", "gum.conllu", "plain"]
    assert [output_name(name).removesuffix(".parsed") for name in names] == [
        "a", "b", "c", "x.y", "corpus", "gum", "plain",
    ]  # fmt: skip


@pytest.mark.slow
def test_standard_input_gives_the_same(tmp_path):
    (tmp_path / "a.txt").write_text(SHARD_WITH_SKIPS)
    options = ("--parser", "chain", "--max-tokens", "5", "--format", "lines", "--tokenised")
    assert run("a.txt", *options, folder=tmp_path)[0] == 0
    piped = subprocess.run(
        [sys.executable, DRIVER, "parse", "-", *options], cwd=tmp_path, input=SHARD_WITH_SKIPS.encode(), check=False
    )
    assert piped.returncode == 0
    assert contents(tmp_path / "corpus.parsed") == contents(tmp_path / "a.parsed")


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
    write = pipeline.write_bytes

    def write_and_act(path, content):
        write(path, content)
        if path.suffix == ".arrow":
            act()

    monkeypatch.setattr(pipeline, "write_bytes", write_and_act)


def test_a_text_that_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    source, out = treebank_source(tmp_path), tmp_path / "t.parsed"
    whole = contents(pipeline.parse_corpus(source, tmp_path / "whole.parsed", sentences_per_shard=10)[0].path)
    path = source.paths[0]
    before = path.read_text()
    after_each_shard(monkeypatch, lambda: path.write_text(before.replace("word19", "word91")))
    with pytest.raises(InputError, match=r"t\.conllu changed during this run: .*delete .*t\.parsed to start over"):
        pipeline.parse_corpus(source, out, sentences_per_shard=10)
    monkeypatch.undo()
    assert sorted(path.name for path in out.iterdir()) == ["finished.jsonl", "job.json", "shard-00000.arrow"]
    with pytest.raises(InputError, match=r"differs in sources: .*delete .*to start over"):
        pipeline.parse_corpus(treebank_source_at(path), out, sentences_per_shard=10)
    path.write_text(before)
    pipeline.parse_corpus(treebank_source_at(path), out, sentences_per_shard=10)
    assert contents(out) == whole


def test_a_text_that_is_only_touched_has_not_changed_but_one_that_is_gone_has(tmp_path, monkeypatch):
    source = treebank_source(tmp_path)
    after_each_shard(monkeypatch, lambda: source.paths[0].write_text(source.paths[0].read_text()))
    assert len(pipeline.parse_corpus(source, tmp_path / "t.parsed", sentences_per_shard=10)[0]) == 25
    (tmp_path / "a.txt").write_text("A sentence.\n")
    text = text_source(tmp_path / "a.txt")
    (tmp_path / "a.txt").unlink()
    with pytest.raises(InputError, match=r"a\.txt changed during this run"):
        pipeline.parse_corpus(text, tmp_path / "a.parsed")


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
