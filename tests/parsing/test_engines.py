"""Shards are parsed on a cluster as they are here."""

import os
import random
import sys
import time
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from jobs import DRIVER, SLOWLY, command, contents, wait_until

from structviews.errors import InputError
from structviews.parsing import engines, pipeline
from structviews.parsing.sources import TextSource, TreebankSource

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}
# A dead node is noticed soon, and not after the usual half a minute.
HEALTH = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 200, "health_check_failure_threshold": 3}
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def pids(tmp_path_factory):
    """Where slow parsers leave the ids of their processes."""
    return tmp_path_factory.mktemp("pids")


@pytest.fixture(scope="module")
def cluster(pids):
    """A Ray cluster of one node; tests add others."""
    pytest.importorskip("ray", reason="needs the extra structviews[ray]")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PIDS", str(pids))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(DRIVER.parent), os.environ.get("PYTHONPATH", "")]))
        with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
            # Where Ray notes the address of a cluster; it does not make that folder.
            patch.setenv("RAY_TMPDIR", folder)
            (Path(folder) / "ray").mkdir()
            settings = {"include_dashboard": False, "temp_dir": folder, "_system_config": HEALTH}
            cluster = Cluster(True, head_node_args=NODE | settings)
            yield cluster
            cluster.shutdown()


def alive(pids, raylet):
    """Ids of the slow parsers' processes that a node runs."""
    return [path.name for path in pids.iterdir() if int(stat(path.name)[1]) == raylet]


def stat(pid):
    """State, parent, group and session of a process; zeros for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return "Z000"


@needs_proc
def test_a_node_that_dies_changes_nothing(cluster, pids, long_text, undisturbed, tmp_path):
    node = cluster.add_node(**NODE)
    raylet = node.all_processes["raylet"][0].process.pid
    on_cluster = ("--engine", "ray", "--address", cluster.address)
    process = command(long_text, *SLOWLY, *on_cluster, "-o", "x.parsed", folder=tmp_path)
    wait_until(lambda: alive(pids, raylet), process)
    cluster.remove_node(node, allow_graceful=False)
    shards = len(list(tmp_path.glob("x.parsed/*.arrow")))
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert shards < 6
    assert contents(tmp_path / "x.parsed") == contents(undisturbed)


def test_a_job_killed_ten_times_goes_on_with_either_engine(cluster, long_text, undisturbed, tmp_path):
    choice = random.Random(1)
    on_cluster = ("--engine", "ray", "--address", cluster.address)
    for attempt in range(11):
        engine = on_cluster if attempt % 2 else ("--workers", "2")
        process = command(long_text, *SLOWLY, *engine, "-o", "x.parsed", folder=tmp_path)
        if attempt < 10:
            time.sleep(choice.uniform(0.5, 2))
            process.kill()
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert contents(tmp_path / "x.parsed") == contents(undisturbed)


@needs_proc
def test_ray_on_this_machine_keeps_to_itself_ends_with_a_killed_job_and_goes_on(
    cluster, long_text, undisturbed, tmp_path
):
    arguments = (long_text, *SLOWLY, "--engine", "ray", "--workers", "2", "-o", "x.parsed")
    killed = command(*arguments, folder=tmp_path)
    wait_until(lambda: list(tmp_path.glob("x.parsed/*.arrow")), killed)
    killed.kill()
    killed.wait()
    wait_until(lambda: not session(killed.pid))
    shards = len(list(tmp_path.glob("x.parsed/*.arrow")))
    process = command(*arguments, folder=tmp_path)
    wait_until(lambda: len(list(tmp_path.glob("x.parsed/*.arrow"))) > shards, process)
    hosts = listening(session(process.pid))
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert hosts == {"127.0.0.1"}
    *bar, last = output.splitlines()
    assert all(line.startswith("parsing") for line in bar)
    assert last.startswith("x.parsed: ")
    assert contents(tmp_path / "x.parsed") == contents(undisturbed)
    wait_until(lambda: not session(process.pid))


def session(leader):
    """Ids of the running processes of a session."""
    fields = {int(pid): stat(pid) for pid in os.listdir("/proc") if pid.isdigit()}
    return [pid for pid, (state, _, _, sid) in fields.items() if int(sid) == leader and state != "Z"]


def listening(pids):
    """IPv4 addresses at which processes accept connections; 0.0.0.0 is any."""
    sockets = {os.readlink(file) for pid in pids for file in Path(f"/proc/{pid}/fd").iterdir()}
    tables = [Path(f"/proc/net/{name}").read_text().splitlines() for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    hosts = [line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets]
    return {str(IPv4Address(int.from_bytes(bytes.fromhex(host[-8:]), "little"))) for host in hosts}


def text_source(folder, parser):
    (folder / "a.txt").write_text("A sentence.\n")
    return TextSource(str(folder / "a.txt"), parser=parser, layout="lines", tokenised=False, max_tokens=5)


def test_a_shard_that_kills_every_worker_is_one_line(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "RETRIES", 0)
    source = text_source(tmp_path, "dying")
    with pytest.raises(InputError, match=r"Ray gave up on a shard \(.*same command again to resume"):
        pipeline.parse_corpus(source, tmp_path / "a.parsed", engine="ray", address=cluster.address)


def test_workers_with_another_parser_are_refused(tmp_path):
    work = text_source(tmp_path, "chain").work
    job = work.describe()
    job["parser"] = job["parser"] | {"version": "2"}
    with pytest.raises(InputError, match=r"workers differ in their parser .*'version': '2'"):
        pipeline.parse_shard(work, job, [])


def test_ray_that_is_missing_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    source = text_source(tmp_path, "chain")
    with pytest.raises(InputError, match=r"--engine ray needs Ray: pip install 'structviews\[ray\]'"):
        pipeline.parse_corpus(source, tmp_path / "a.parsed", engine="ray")
    assert not (tmp_path / "a.parsed").exists()


def test_engines_that_do_not_fit(tmp_path):
    (tmp_path / "t.conllu").write_text("1\tNo\t_\t_\tUH\t_\t0\troot\t_\t_\n\n")
    work = TreebankSource([tmp_path / "t.conllu"], max_tokens=10).work
    with pytest.raises(InputError, match=r"--engine ray: treebank files already have trees"):
        engines.open_engine("ray", work, workers=None, address=None)
    with pytest.raises(InputError, match=r"--address head:6379 .* add --engine ray"):
        engines.open_engine("local", work, workers=None, address="head:6379")
