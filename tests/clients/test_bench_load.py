"""`forebay bench load` against the target: what it says it wrote and read is what the broker has."""

import json
import subprocess

import pytest

from peers.broker import forebay_binary

FIELDS = ["--seconds", "30", "--interval", "0.5", "--producers", "3"]


@pytest.fixture
def bench(broker, tmp_path):
    """Runs a load and gives its outcome."""

    def run(*flags):
        outcome = tmp_path / "outcome.json"
        command = [forebay_binary(), "bench", "load", "--bootstrap", broker.address, "--json", outcome, *FIELDS, *flags]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(outcome.read_text())

    return run


@pytest.mark.parametrize("flags", [
    "--record 1KB --bytes 3MB",
    "--record 240KB --bytes 24MB --acks 1",
    "--record 10..5KB --bytes 3MB --keys random:20 --idempotent",
    "--record 1KB --bytes 3MB --compression lz4 --entropy 3 --idempotent",
    "--record 100 --bytes 1MB --batch 16KB --rate 2MB --linger 5",
])
def test_acknowledged_is_what_the_broker_has(bench, clients, topic, flags):
    outcome = bench("--existing", "--topic", topic, "--consumers", 2, "--groups", 2, *flags.split())
    assert outcome["errors"] == {} and outcome["aborted"] is None
    produced, consumed = outcome["produce"], outcome["consume"]
    ends = [clients["librdkafka"].watermarks(topic=topic, partition=partition)[1] for partition in range(2)]
    assert produced["records"] == sum(ends) > 0
    assert consumed["records"] == 2 * produced["records"]
    assert consumed["bytes"] == 2 * produced["bytes"]


def test_every_record_is_checked_and_its_topic_is_gone(bench, clients, name):
    outcome = bench("--topic", name, "--record", "1KB", "--bytes", "2MB", "--consumers", 1, "--verify")
    verified = outcome["verified"]
    assert verified["acknowledged"] == verified["read"] == outcome["produce"]["records"] == 2000
    faults = [verified[fault] for fault in ("lost", "duplicated", "disordered", "damaged")]
    assert faults == [0, 0, 0, 0]
    assert f"{name}-0" not in clients["librdkafka"].topics()
