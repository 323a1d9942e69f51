"""Shards are parsed on a cluster as they are here."""

import os
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from jobs import DRIVER, SLOWLY, command, contents, needs_proc, stat, text_source, wait_until

from structviews.errors import InputError
from structviews.parsing import engines, pipeline

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}
# A dead node is noticed soon, and not after the usual half a minute.
HEALTH = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 200, "health_check_failure_threshold": 3}


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


def session(leader):
    """Ids of the running processes of a session."""
    fields = {int(pid): stat(pid) for pid in os.listdir("/proc") if pid.isdigit()}
    return [pid for pid, (state, _, _, sid) in fields.items() if int(sid) == leader and state != "Z"]


@pytest.fixture
def text(tmp_path):
    (tmp_path / "a.txt").write_text("A sentence.\n")
    return tmp_path / "a.txt"


def shards_of(folder):
    return len(list(folder.glob("x.parsed/*.arrow")))


@needs_proc
def test_a_node_that_dies_changes_nothing(cluster, pids, long_text, undisturbed, tmp_path):
    node = cluster.add_node(**NODE)
    raylet = node.all_processes["raylet"][0].process.pid
    on_cluster = ("--engine", "ray", "--address", cluster.address)
    process = command(long_text, *SLOWLY, *on_cluster, "-o", "x.parsed", folder=tmp_path)
    # Until the node runs a parser.
    wait_until(lambda: any(int(stat(path.name)[1]) == raylet for path in pids.iterdir()), process)
    cluster.remove_node(node, allow_graceful=False)
    shards = shards_of(tmp_path)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert shards < 3
    assert contents(tmp_path / "x.parsed") == contents(undisturbed)


@needs_proc
def test_ray_here_keeps_to_itself_ends_with_a_killed_job_and_goes_on(cluster, long_text, undisturbed, tmp_path):
    arguments = (long_text, *SLOWLY, "--engine", "ray", "--workers", "2", "-o", "x.parsed")
    killed = command(*arguments, folder=tmp_path)
    wait_until(lambda: shards_of(tmp_path), killed)
    killed.kill()
    killed.wait()
    wait_until(lambda: not session(killed.pid))
    shards = shards_of(tmp_path)
    process = command(*arguments, folder=tmp_path)
    wait_until(lambda: shards_of(tmp_path) > shards, process)
    hosts = listening(session(process.pid))
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert hosts == {"127.0.0.1"}
    *bar, last = output.splitlines()
    assert all(line.startswith("parsing") for line in bar)
    assert last.startswith("x.parsed: ")
    assert contents(tmp_path / "x.parsed") == contents(undisturbed)
    wait_until(lambda: not session(process.pid))


def listening(pids):
    """IPv4 addresses at which processes accept connections; 0.0.0.0 is any."""
    sockets = {os.readlink(file) for pid in pids for file in Path(f"/proc/{pid}/fd").iterdir()}
    tables = [Path(f"/proc/net/{name}").read_text().splitlines() for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    hosts = [line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets]
    return {str(IPv4Address(int.from_bytes(bytes.fromhex(host[-8:]), "little"))) for host in hosts}


def test_a_shard_that_kills_every_worker_is_one_line(cluster, text, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "RETRIES", 0)
    source = text_source(text, parser="dying")
    with pytest.raises(InputError, match=r"Ray gave up on a shard \(.*same command again to resume"):
        pipeline.parse_corpus(source, tmp_path / "a.parsed", engine="ray", address=cluster.address)


def test_workers_with_another_parser_are_refused(text):
    work = text_source(text).work
    job = work.describe() | {"parser": {"version": "2"}}
    with pytest.raises(InputError, match=r"workers differ in their parser .*'version': '2'"):
        pipeline.parse_shard(work, job, [])
