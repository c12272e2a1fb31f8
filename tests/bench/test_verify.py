"""`forebay bench load --verify`: every record numbered and checked, over crashes of the broker and of the bench.

Areas verified: nothing is lost by kill -9 and restart; what was acknowledged to a run that was killed itself is missed
by the next; records deleted behind its back are reported (so the check can fail); many hosts, ssh replaced by a script.
"""

import json
import signal
import subprocess

import pytest

from clients.client import Client
from peers.broker import Forebay, forebay_binary
from peers.process import die_with_parent, wait_until

FAULTS = ("lost", "duplicated", "disordered", "damaged")


@pytest.fixture(autouse=True)
def only_ours(request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("about our own tool")


@pytest.fixture
def own(make_broker):
    """A broker of its own for a test that kills it."""
    return make_broker(Forebay).start()


class Bench:
    """Runs of `forebay bench` against one broker with one ledger."""

    def __init__(self, broker, home):
        self.broker, self.home = broker, home
        self.ledger, self.json = home / "ledger", home / "outcome.json"

    def start(self, *arguments, seconds=6, record=500):
        load = ["bench", "load", "--bootstrap", self.broker.address, "--topic", "numbered", "--partitions", 3,
                "--producers", 3, "--record", record, "--rate", "1MB", "--idempotent", "--seconds", seconds,
                "--json", self.json, *arguments]
        return subprocess.Popen([forebay_binary(), *map(str, load)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, preexec_fn=die_with_parent)

    def check(self):
        command = [forebay_binary(), "bench", "check", "--bootstrap", self.broker.address, self.ledger]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, check=False)

    def acknowledged(self):
        """Lines of acknowledgements in the ledger."""
        return self.ledger.read_text().count("acknowledged") if self.ledger.exists() else 0

    def wait_for_acknowledgements(self, process, more_than=0):
        def there():
            assert process.poll() is None, process.stdout.read()
            return self.acknowledged() > more_than + 5

        wait_until(there, "acknowledgements in the ledger")

    def outcome(self, process):
        """What a run found that must end well."""
        said, _ = process.communicate(timeout=180)
        assert process.returncode == 0, said
        return json.loads(self.json.read_text())


@pytest.fixture
def bench(own, tmp_path):
    return Bench(own, tmp_path)


def assert_sound(verified):
    assert {fault: verified[fault] for fault in FAULTS} == dict.fromkeys(FAULTS, 0)


def test_nothing_is_lost_when_the_broker_is_killed_and_started_again(bench, own):
    process = bench.start("--ledger", bench.ledger, "--consumers", 2)
    bench.wait_for_acknowledgements(process)
    own.kill()
    before = bench.acknowledged()
    own.start()
    bench.wait_for_acknowledgements(process, more_than=before)
    verified = bench.outcome(process)["verified"]
    assert_sound(verified)
    assert verified["read"] >= verified["acknowledged"] > 0


def test_a_ledger_goes_on_after_the_bench_itself_was_killed(bench, own):
    first = bench.start("--ledger", bench.ledger, seconds=60)
    bench.wait_for_acknowledgements(first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    own.kill()
    own.start()
    second = bench.outcome(bench.start("--ledger", bench.ledger, seconds=1))
    assert_sound(second["verified"])
    assert second["verified"]["acknowledged"] > second["produce"]["records"] > 0
    assert bench.check().returncode == 0


def test_records_deleted_behind_its_back_are_reported_lost(bench, own):
    bench.outcome(bench.start("--ledger", bench.ledger, seconds=1))
    Client("librdkafka", own.address).delete_records(topic="numbered-0", partition=1, offset=100)
    checked = bench.check()
    assert checked.returncode != 0
    assert " 100 lost, 0 duplicated, 0 disordered, 0 damaged" in checked.stderr, checked.stderr
    assert "lost: topic 0 partition 1, producer " in checked.stdout


@pytest.mark.parametrize("driver", ["native", "librdkafka"])
def test_many_hosts_share_a_load_and_every_record_is_checked(bench, tmp_path, driver):
    if driver == "librdkafka":
        built = subprocess.run([forebay_binary(), "bench", "load", "--driver", driver, "--bootstrap", "127.0.0.1:1"], capture_output=True, text=True)
        if "--features librdkafka" in built.stderr:
            pytest.skip("the shipped binary has no librdkafka: cargo build --release -p forebay-server --features librdkafka")
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "Welcome to $1"\nshift\nexec "$@"\n')
    ssh.chmod(0o755)
    process = bench.start("--verify", "--consumers", 2, "--hosts", "north,south", "--ssh", ssh, "--remote-forebay",
                          forebay_binary(), "--driver", driver, seconds=2)
    outcome = bench.outcome(process)
    assert [host["name"] for host in outcome["hosts"]] == ["north", "south"]
    assert outcome["aborted"] is None and outcome["errors"] == {}
    # 2 s of 1 MB in records of 500 bytes, however late, give or take the first of each producer.
    assert 3990 <= outcome["produce"]["records"] <= 4010
    assert_sound(outcome["verified"])
    assert outcome["verified"]["acknowledged"] == outcome["verified"]["read"] == outcome["produce"]["records"]


def test_values_too_small_for_a_number_are_refused_in_words(bench):
    process = bench.start("--verify", record=20)
    said, _ = process.communicate(timeout=60)
    assert process.returncode != 0 and "values need at least 36 bytes: 20 are too few" in said, said
