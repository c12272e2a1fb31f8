"""`forebay bench run` as a user meets it: results on disk after every measurement, and nothing left behind.

Two brokers of ours stand in for the rivals, so that a run takes seconds and needs no JVM.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from peers.broker import forebay_binary
from peers.process import die_with_parent, wait_until

EXPERIMENT = """
name = "tiny"
about = "Two brokers of ours: one syncs, one does not."
targets = ["forebay", "unsynced"]
limits = false
repetitions = 2

[target.unsynced]
kind = "forebay"
settings = { durability = "replicated" }

[[device]]
name = "disk"
kind = "disk"

[[phase]]
name = "produce"
[phase.load]
seconds = 0.5
interval_seconds = 0.25
bytes_max = 100_000_000
topics = { count = 1, partitions = 2 }
produce = { producers = 2, record = 1000, batch_bytes = 100_000, acks = -1, in_flight_max = 2 }
[[phase.sweep]]
name = "record"
set = ["produce.record"]
values = [1000, 10_000]

[[phase]]
name = "consume"
reads = "produce"
[phase.load]
seconds = 5
interval_seconds = 0.25
topics = { count = 1, partitions = 2 }
consume = { consumers = 2, from = "earliest", max_bytes = 10_000_000, partition_max_bytes = 1_000_000 }
"""


class Bench:
    """One run in a directory of its own, with a cache directory of its own."""

    def __init__(self, home):
        self.home = home
        self.out = home / "out"
        self.file = home / "tiny.toml"
        self.file.write_text(EXPERIMENT)
        self.env = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}

    def argv(self, *arguments):
        return [str(part) for part in (forebay_binary(), "bench", *arguments)]

    def call(self, *arguments, seconds=120):
        return subprocess.run(
            self.argv(*arguments), env=self.env, capture_output=True, text=True, timeout=seconds, check=False,
            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def run(self, *arguments):
        return self.call("run", self.file, "--out", self.out, *arguments)

    def spawn(self, *arguments):
        with open(self.home / "output", "wb") as output:
            return subprocess.Popen(
                self.argv("run", self.file, "--out", self.out, *arguments), env=self.env, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, preexec_fn=die_with_parent)

    def output(self):
        return (self.home / "output").read_text()

    def results(self):
        return json.loads((self.out / "run.json").read_text())

    def cells(self):
        try:
            return len(self.results()["cells"])
        except (FileNotFoundError, KeyError):
            return 0

    def brokers(self):
        """Processes that have their data below this run's directory."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if any(part.startswith(f"log.dirs={self.home}".encode()) for part in command):
                    found.append(int(entry.name))
        return found

    def leftovers(self):
        """What a run must have removed: data, mounts, processes, registered devices."""
        data = [path for path in self.out.rglob("data-*")] if self.out.exists() else []
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.home) in line]
        devices = self.home / "cache/forebay/devices"
        return data + mounts + self.brokers() + (list(devices.iterdir()) if devices.exists() else [])


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_a_run_measures_everything_in_pairs_and_leaves_only_results(bench):
    done = bench.run()
    assert done.returncode == 0, done.stderr
    run = bench.results()
    assert run["aborted"] is None
    assert run["experiment"] == "tiny" and run["order"] == ["forebay", "unsynced"]
    # Two sizes, two repetitions, two phases, two targets; who is first changes from pair to pair.
    cells = [(c["phase"], c["parameters"]["record"], c["repetition"], c["target"]) for c in run["cells"]]
    assert len(cells) == 16
    pairs = [(one[:3] == other[:3], one[3] != other[3]) for one, other in zip(cells[::2], cells[1::2])]
    assert pairs == [(True, True)] * 8
    assert [target for phase, *_, target in cells if phase == "produce"][::2] == ["forebay", "unsynced"] * 2
    for cell in run["cells"]:
        outcome = cell["outcome"]
        assert outcome["errors"] == {} and outcome["aborted"] is None, cell
        side = outcome["produce" if cell["phase"] == "produce" else "consume"]
        assert side["bytes"] > 0 and side["latency"], cell
        assert outcome["broker"]["resident_bytes_max"] > 1_000_000
        assert outcome["client"]["cpu_seconds"] > 0
    assert "not synced" in run["targets"]["unsynced"]["durability"]
    assert "durability=replicated" in run["targets"]["unsynced"]["command"]
    assert dict(run["machine"])["cores"] == str(os.cpu_count())
    assert "16 measurements; the report is in" in done.stderr
    assert list(bench.out.glob("*.html")), list(bench.out.iterdir())
    assert bench.leftovers() == []


def test_a_reader_reads_no_more_than_was_written(bench):
    done = bench.run("--repetitions", "1", "--only", "consume/record=1000")
    assert done.returncode == 0, done.stderr
    cells = bench.results()["cells"]
    assert [cell["phase"] for cell in cells] == ["produce", "produce", "consume", "consume"]
    written = {c["target"]: c["outcome"]["produce"]["records"] for c in cells[:2]}
    for cell in cells[2:]:
        read = cell["outcome"]["consume"]["records"]
        # An answer holds whole batches, and records of the warm-up lie before those that count.
        assert read >= written[cell["target"]] * 0.9, cell
        assert cell["outcome"]["seconds"] < 4.5, cell


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_in_order_with_what_it_has(bench, sent, code):
    process = bench.spawn("--set", "repetitions=50")
    wait_until(lambda: bench.cells() >= 2 or process.poll() is not None, "two measurements")
    assert process.poll() is None, bench.output()
    assert len(bench.brokers()) == 2
    process.send_signal(sent)
    assert process.wait(30) == code, bench.output()
    run = bench.results()
    assert run["aborted"].startswith(f"ended by {sent.name}; {len(run['cells'])} of 400 measurements")
    assert len(run["cells"]) >= 2
    assert list(bench.out.glob("*.html"))
    assert bench.leftovers() == []


def test_a_run_that_is_killed_leaves_no_broker_and_the_next_cleans_up(bench):
    memory = "[[device]]\nname = \"ram\"\nkind = \"memory\"\nsize = 800_000_000\n"
    text = EXPERIMENT.replace('[[device]]\nname = "disk"\nkind = "disk"\n', memory)
    bench.file.write_text(text)
    process = bench.spawn("--set", "repetitions=50")
    wait_until(lambda: bench.cells() >= 1 or process.poll() is not None, "a measurement")
    assert process.poll() is None, bench.output()
    process.kill()
    process.wait()
    wait_until(lambda: not bench.brokers(), "the brokers to end with the run")
    listed = bench.call("device", "list").stdout
    assert "ram-" in listed and "left by a run that is gone" in listed
    bench.out = bench.home / "again"
    done = bench.run("--repetitions", "1", "--only", "produce/record=1000")
    assert done.returncode == 0, done.stderr
    assert "removed device ram-" in done.stderr
    assert bench.call("device", "list").stdout == ""
    assert bench.leftovers() == []


def test_results_are_never_written_over(bench):
    bench.out.mkdir()
    (bench.out / "run.json").write_text("{}")
    done = bench.run()
    assert done.returncode == 1
    assert "holds the results of another run" in done.stderr
    assert (bench.out / "run.json").read_text() == "{}"


def test_what_does_not_fit_is_refused_before_anything_is_made(bench):
    done = bench.run("--set", "bytes_max=100_000_000_000_000", "--set", "seconds=1000000")
    assert done.returncode == 1
    assert "tiny does not fit this machine" in done.stderr
    assert "of disk are needed" in done.stderr and "are free" in done.stderr
    assert not bench.out.exists()


def test_a_wrong_file_is_named_with_the_line(bench):
    bench.file.write_text(EXPERIMENT.replace("repetitions = 2", "repetition = 2"))
    done = bench.run()
    assert done.returncode == 1
    assert "tiny.toml" in done.stderr and "line 6" in done.stderr and "`repetitions`" in done.stderr


def test_a_broker_that_does_not_start_is_quoted(bench):
    done = bench.run("--set", "target.unsynced.settings.log.segment.bytes=many")
    assert done.returncode == 1
    assert "starting unsynced" in done.stderr and "log.segment.bytes" in done.stderr
    assert "0 of 16 measurements" in bench.results()["aborted"]
    assert bench.leftovers() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="a rate-limited disk needs root")
def test_a_slow_disk_is_made_held_to_its_rate_and_removed(bench):
    at = bench.home / "slow"
    size, rate = 200_000_000, 20_000_000
    made = bench.call("device", "create", "limited", "slow", "--size", size, "--rate", rate, "--at", at)
    if "kernel offers no limit" in made.stderr or "no loop devices" in made.stderr:
        pytest.skip(made.stderr)
    try:
        assert made.returncode == 0, made.stderr
        assert made.stdout.splitlines()[0] == str(at)
        assert "slow" in bench.call("device", "list").stdout
        if "cgroup.procs" not in made.stdout:
            begun = time.monotonic()
            with open(at / "file", "wb", buffering=0) as file:
                for _ in range(40):
                    file.write(bytes(1_000_000))
                os.fsync(file.fileno())
            # 40 MB at 20 MB/s; the kernel lets a little through at once.
            assert time.monotonic() - begun > 1.5
    finally:
        removed = bench.call("device", "remove", "slow")
    assert removed.returncode == 0, removed.stderr
    assert bench.leftovers() == []
    assert not at.exists() and not at.with_suffix(".image").exists()


def test_hosts_share_every_measurement(bench, tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    ssh.chmod(0o755)
    hosts = ("--hosts", "north,south", "--ssh", ssh, "--remote-forebay", forebay_binary())
    refused = bench.run(*hosts)
    assert refused.returncode != 0 and "--broker-host" in refused.stderr, refused.stderr
    only = ("--repetitions", 1, "--only", "/record=1000")
    done = bench.run(*only, *hosts, "--broker-host", "127.0.0.1")
    assert done.returncode == 0, done.stderr
    run = bench.results()
    assert "north (clock" in dict(run["machine"])["hosts"]
    assert [(cell["phase"], cell["target"]) for cell in run["cells"]] == [
        ("produce", "forebay"), ("produce", "unsynced"), ("consume", "forebay"), ("consume", "unsynced")]
    for cell in run["cells"]:
        outcome = cell["outcome"]
        assert outcome["errors"] == {} and outcome["aborted"] is None, cell
        assert [host["name"] for host in outcome["hosts"]] == ["north", "south"]
        side = outcome["produce" if cell["phase"] == "produce" else "consume"]
        assert side["bytes"] > 0 and side["latency"], cell
    assert bench.leftovers() == []
