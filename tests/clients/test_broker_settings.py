"""Settings of a broker that real clients change while it runs, each seen by what it does."""

import contextlib
import os
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from peers import kafka, rawwire
from peers.process import wait_until

ASK = rawwire.header(rawwire.API_VERSIONS, 0)
HERE, THERE = "127.0.0.8", "127.0.0.9"


class Admin:
    """librdkafka's admin client, on a connection that it keeps."""

    def __init__(self, broker):
        self.client = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})

    def change(self, name, value):
        """Sets a value of the broker, or with none removes it."""
        what = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
        entry = ConfigEntry(name, value, incremental_operation=what)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        (done,) = self.client.incremental_alter_configs([resource]).values()
        done.result(timeout=60)

    def create(self, topic, partitions, configs=None):
        (done,) = self.client.create_topics([NewTopic(topic, partitions, 1, config=configs or {})]).values()
        done.result(timeout=60)


@pytest.fixture
def running(make_broker, tmp_path):
    """Starts a broker of our own; usage is remembered for two seconds."""

    def start(**settings):
        properties = {"quota.window.num": 2, "quota.window.size.seconds": 1} | settings
        return make_broker(home=tmp_path / "home", properties=properties).start()

    return start


@contextlib.contextmanager
def connections(broker, count, source=HERE):
    """Opens connections from an address and asks something on each; how many were answered."""
    opened = []
    try:
        for _ in range(count):
            one = rawwire.Connection.__new__(rawwire.Connection)
            one.socket = rawwire.socket.create_connection(("127.0.0.1", broker.port), 60, source_address=(source, 0))
            opened.append(one)
        yield sum(answered(one) for one in opened)
    finally:
        for one in opened:
            one.socket.close()


def answered(one):
    try:
        one.send(rawwire.frame(ASK))
        one.receive()
        return True
    except rawwire.Closed:
        return False


def served(broker, count, source=HERE):
    with connections(broker, count, source) as answers:
        return answers


def test_how_many_may_connect(running):
    broker = running()
    admin = Admin(broker)
    admin.change("max.connections.per.ip", "2")
    assert served(broker, 3) == 2
    admin.change("max.connections.per.ip.overrides", f"{THERE}:3")
    wait_until(lambda: served(broker, 5, THERE) == 3, "the earlier ones to have ended")
    admin.change("max.connections.per.ip", None)
    assert served(broker, 5) == 5
    # The client's own connection is one.
    admin.change("max.connections", "1")
    assert served(broker, 1) == 0
    admin.change("max.connections", None)
    assert served(broker, 5) == 5
    assert broker.stop() in (0, 143)


def test_how_fast_connections_come(running):
    broker = running()
    admin = Admin(broker)
    assert served(broker, 40) == 40
    admin.change("max.connection.creation.rate", "5")
    before = time.monotonic()
    assert served(broker, 30) == 30, "they wait, and are served"
    # A second's worth at once, one more whenever two seconds are forgotten, and the rest at the rate.
    assert time.monotonic() - before >= 1.5
    admin.change("max.connection.creation.rate", None)
    assert served(broker, 40) == 40
    broker.stop()


def test_how_fast_they_come_from_an_address(running):
    broker = running()
    entity = ("--bootstrap-server", broker.address, "--alter", "--entity-type", "ips", "--entity-name", THERE)
    kafka.run("configs", *entity, "--add-config", "connection_creation_rate=1")
    wait_until(lambda: served(broker, 20, THERE) < 20, "connections above the quota to be closed")
    assert served(broker, 20) == 20, "another address"
    kafka.run("configs", *entity, "--delete-config", "connection_creation_rate")
    wait_until(lambda: served(broker, 20, THERE) == 20, "the quota to be gone")
    broker.stop()


def test_directories_that_take_nothing_new(running, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    broker = running(**{"log.dirs": f"{one},{two}", "cordoned.log.dirs": one})
    admin = Admin(broker)

    def homes(topic):
        admin.create(topic, 4)
        return {path.parent for path in tmp_path.glob(f"*/{topic}-*")}

    assert homes("by-the-file") == {two}
    admin.change("cordoned.log.dirs", str(two))
    assert homes("at-run-time") == {one}
    admin.change("cordoned.log.dirs", None)
    assert homes("by-the-file-again") == {two}
    broker.stop()


def send(broker, topic, value=b"x", timestamp=0, **settings):
    """Produces one record; the name of the error, or none."""
    producer = Producer({"bootstrap.servers": broker.address, "message.max.bytes": 10_000_000, "retries": 0,
                         "allow.auto.create.topics": False, "log_level": 0} | settings)
    outcome = []
    producer.produce(topic, value, partition=0, timestamp=timestamp, on_delivery=lambda error, _: outcome.append(error and error.name()))
    assert producer.flush(60) == 0
    return outcome[0]


def test_defaults_of_topics(running, tmp_path):
    """What a topic does not say itself the broker says, from one moment to the next; what it says itself stays."""
    broker = running(**{"log.retention.check.interval.ms": 100, "log.dirs": tmp_path / "data"})
    admin = Admin(broker)
    admin.create("t", 1)
    admin.create("own", 1, {"max.message.bytes": "100000", "message.timestamp.after.max.ms": "9223372036854775807",
                            "segment.bytes": "100000000", "retention.ms": "-1", "compression.type": "producer"})
    now, hour = int(time.time() * 1000), 3_600_000
    checks = [("message.max.bytes", "1000", {"value": bytes(5000)}, "MSG_SIZE_TOO_LARGE"),
              ("log.message.timestamp.after.max.ms", "1000", {"timestamp": now + hour}, "INVALID_TIMESTAMP"),
              ("log.message.timestamp.before.max.ms", "1000", {"timestamp": now - hour}, "INVALID_TIMESTAMP")]
    for name, value, record, error in checks:
        before = record | ({"timestamp": now} if error == "INVALID_TIMESTAMP" and "after" in name else {})
        assert send(broker, "t", **before) is None, name
        admin.change(name, value)
        assert send(broker, "t", **record) == error, name
        if "before" not in name:
            assert send(broker, "own", **record) is None, name
        admin.change(name, None)
    admin.change("log.message.timestamp.type", "LogAppendTime")
    admin.change("compression.type", "zstd")
    assert [send(broker, topic, bytes(5000), timestamp=now - hour) for topic in ("t", "own")] == [None, None]
    admin.change("log.segment.bytes", str(1 << 20))
    for _ in range(3):
        assert send(broker, "t", os.urandom(900_000)) is None
    files = sorted((tmp_path / "data/t-0").glob("*.log"))
    assert len(files) > 1
    kinds = [attributes(path) for path in (files[0], *(tmp_path / "data/own-0").glob("*.log"))]
    assert [(kind & 7, kind >> 3 & 1) for kind in kinds] == [(4, 1), (0, 1)]
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
    start = lambda: consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60)[0]  # noqa: E731
    assert start() == 0
    admin.change("log.retention.ms", "1")
    wait_until(lambda: start() > 0, "old segments to go")
    consumer.close()
    broker.stop()


def attributes(path):
    """Of the newest batch of a segment."""
    raw, at, found = path.read_bytes(), 0, 0
    while at + 61 <= len(raw) and (size := int.from_bytes(raw[at + 8:at + 12], "big")):
        found, at = int.from_bytes(raw[at + 21:at + 23], "big"), at + 12 + size
    return found
