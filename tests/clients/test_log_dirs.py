"""A log that moves between log directories with Kafka's own tools, while it is written and over a restart."""

import json

import pytest

from clients.client import Client, assert_same, record
from peers import kafka
from peers.process import wait_until

TOPIC, COUNT, SIZE = "moved", 60, 100_000


@pytest.fixture
def dirs(tmp_path):
    return [tmp_path / "one", tmp_path / "two"]


@pytest.fixture
def two_directories(make_broker, dirs, tmp_path):
    return make_broker(home=tmp_path / "home", data=dirs[0], properties={
        "log.dirs": ",".join(map(str, dirs)), "log.segment.bytes": 1 << 20, "log.segment.delete.delay.ms": 1000}).start()


def described(broker):
    """Directory and state of each replica of the topic that `kafka-log-dirs` prints."""
    output = kafka.run("log-dirs", "--bootstrap-server", broker.address, "--describe", "--topic-list", TOPIC)
    found = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    return [(entry["logDir"], partition["isFuture"]) for entry in found["brokers"][0]["logDirs"]
            for partition in entry["partitions"]]


def test_reassignment_to_another_directory(two_directories, dirs, tmp_path):
    broker = two_directories
    client = Client("librdkafka", broker.address)
    client.create_topic(topic=TOPIC, partitions=1, configs={"retention.ms": "-1"})
    wait_until(lambda: TOPIC in client.topics(), "the topic")
    sent = [record(0, str(i), SIZE) for i in range(COUNT)]
    client.produce(topic=TOPIC, records=sent)
    ((home, _),) = described(broker)
    other = next(str(path) for path in dirs if str(path) != home)
    plan = tmp_path / "plan.json"

    def reassign(step, directory, *options):
        partition = {"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": [str(directory)]}
        plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        return kafka.run("reassign-partitions", "--bootstrap-server", broker.address, "--reassignment-json-file", plan, step,
                         *options, check=False)

    started = reassign("--execute", other, "--replica-alter-log-dirs-throttle", 1_000_000_000)
    assert "The replica-alter-dir throttle limit was set to 1000000000 B/s" in started, started
    assert f"Successfully started moving log directory to {other} for replica {TOPIC}-0 with broker 1" in started, started
    more = [record(0, f"more {i}", SIZE) for i in range(5)]
    client.produce(topic=TOPIC, records=more)
    wait_until(lambda: described(broker) == [(other, False)], "the log to be in the other directory")
    finished = reassign("--verify", other)
    assert f"Reassignment of replica {TOPIC}-0-1 completed successfully." in finished, finished
    assert "Clearing broker-level throttles on broker 1" in finished, finished
    missing = reassign("--execute", tmp_path / "nowhere")
    assert "LogDirNotFound" in missing or "was not found" in missing, missing
    assert_same(client.consume(topic=TOPIC, partition=0, offset=0, count=COUNT + 5), sent + more, range(COUNT + 5))
    client.close()
    broker.stop()
    broker.start()
    assert described(broker) == [(other, False)]
    client = Client("librdkafka", broker.address)
    assert_same(client.consume(topic=TOPIC, partition=0, offset=0, count=COUNT + 5), sent + more, range(COUNT + 5))
    client.close()
    broker.stop()
