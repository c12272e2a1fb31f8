"""Tiers as their operator sees them: segments go down, are read from there, are there after a restart; the commands."""

import json
import struct
import subprocess
import urllib.error
import urllib.request

import pytest

from clients.client import Client, assert_same, record
from peers.broker import Forebay, forebay_binary
from peers.process import free_port, wait_until
from peers.rawwire import Connection

MIB = 1 << 20
TOPIC = "tiered"
# 24 MiB in segments of 1 MiB; half of 8 MiB may stay on the fast tier.
COUNT, SIZE = 240, 100_000


@pytest.fixture(autouse=True)
def only_ours(request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("about our own process")


class Tiered:
    """A broker with two tiers, and its admin endpoint."""

    def __init__(self, make_broker, home, **more):
        self.fast, self.bulk = home / "fast", home / "bulk"
        self.admin = f"127.0.0.1:{free_port()}"
        self.broker = make_broker(Forebay, data=self.fast, properties={
            "admin.listener": self.admin,
            "storage.tiers": "fast,bulk",
            "storage.tier.fast.paths": self.fast,
            "storage.tier.fast.capacity": "8MiB",
            "storage.tier.bulk.paths": self.bulk,
            "storage.tier.bulk.capacity": "200MiB",
            "storage.migrate.hysteresis": "0.3",
            "storage.migrate.residency.ms": 0,
            "storage.migrate.heat.ms": 0,
            "log.segment.bytes": MIB,
            "num.shards": 1,
            # Little stays in memory: what is read comes from the tiers.
            "log.cache.bytes": MIB,
            **more,
        }).start()

    def tier(self, *arguments):
        return subprocess.run([forebay_binary(), "tier", "--admin", self.admin, *map(str, arguments)],
                              capture_output=True, text=True, timeout=60, check=False)

    def json(self, *arguments):
        done = self.tier("--format", "json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def status(self, name):
        return next(tier for tier in self.json("status")["tiers"] if tier["name"] == name)

    def on(self, tier):
        return [segment for segment in self.json("segments", TOPIC) if segment["tier"] == tier]

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith(name + "{")}


@pytest.fixture
def tiered(make_broker, tmp_path):
    return lambda **more: Tiered(make_broker, tmp_path, **more)


def produce(client, first=0, count=COUNT):
    records = [record(0, f"{i}", SIZE) for i in range(first, first + count)]
    return records, client.produce(topic=TOPIC, records=records)


DESCRIBE_LOG_DIRS = 35


class Reader:
    """Numbers and texts of an answer, one after the other."""

    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def take(self, form):
        (value,) = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        length = self.take(">h")
        self.at += length
        return self.raw[self.at - length:self.at].decode()


def log_dirs(port):
    """Bytes of the topic by directory, as DescribeLogDirs (version 1) says."""
    with Connection(port) as connection:
        answer = Reader(connection.request(DESCRIBE_LOG_DIRS, 1, struct.pack(">i", -1)))
    answer.take(">i")
    found = {}
    for _ in range(answer.take(">i")):
        assert answer.take(">h") == 0
        directory = answer.text()
        found[directory] = 0
        for _ in range(answer.take(">i")):
            topic = answer.text()
            for _ in range(answer.take(">i")):
                _, size, _, _ = (answer.take(form) for form in (">i", ">q", ">q", ">?"))
                found[directory] += size if topic == TOPIC else 0
    return found


def settled(tiers):
    """Nothing above the threshold is left to move."""
    fast = tiers.status("fast")
    return fast["backlog_bytes"] == 0 and not any(path["leaving_bytes"] for path in fast["paths"])


def read_all(client, records, offsets):
    consumed = []
    while len(consumed) < len(records):
        consumed += client.consume(topic=TOPIC, partition=0, offset=len(consumed), count=len(records) - len(consumed))
    assert_same(consumed, records, offsets)


def test_segments_move_down_are_read_and_survive(tiered):
    tiers = tiered()
    client = Client("librdkafka", tiers.broker.address)
    client.create_topic(topic=TOPIC, partitions=1, configs={})
    records, offsets = produce(client)
    wait_until(lambda: settled(tiers), "the fast tier to be at its threshold", 60)

    fast, bulk = tiers.on("fast"), tiers.on("bulk")
    assert fast and bulk, "both tiers hold segments"
    assert max(segment["base_offset"] for segment in fast) > max(segment["base_offset"] for segment in bulk)
    assert tiers.status("bulk")["paths"][0]["moved_down_bytes"] > 0
    assert list((tiers.bulk / f"{TOPIC}-0").glob("*.log"))
    assert tiers.metric("forebay_tier_segments")["bulk"] >= len(bulk)
    assert tiers.metric("forebay_tier_moved_down_bytes_total")["bulk"] > 0
    by_dir = log_dirs(tiers.broker.port)
    assert by_dir.keys() == {str(tiers.fast), str(tiers.bulk)} and all(by_dir.values())
    assert COUNT * SIZE <= sum(by_dir.values()) < 1.1 * COUNT * SIZE
    read_all(client, records, offsets)

    why = tiers.tier("why", f"{TOPIC}-0")
    assert why.returncode == 0 and "it is being written to" in why.stdout
    assert "neither retention.ms nor retention.bytes is exceeded" in why.stdout
    assert "all sound" in tiers.tier("verify", TOPIC).stdout

    before = {(segment["base_offset"], segment["next_offset"]) for segment in tiers.json("segments", TOPIC)}
    assert tiers.broker.stop() == 0
    tiers.broker.start()
    after = {(segment["base_offset"], segment["next_offset"]) for segment in tiers.json("segments", TOPIC)}
    assert before <= after | {max(before)}
    read_all(client, records, offsets)
    more, more_offsets = produce(client, first=COUNT, count=20)
    read_all(client, records + more, offsets + more_offsets)
    client.close()


def test_a_topic_is_pinned_to_a_tier(tiered):
    tiers = tiered()
    client = Client("librdkafka", tiers.broker.address)
    client.create_topic(topic=TOPIC, partitions=1, configs={"storage.tier.min": "bulk"})
    records, offsets = produce(client, count=40)
    assert {segment["tier"] for segment in tiers.json("segments", TOPIC)} == {"bulk"}
    read_all(client, records, offsets)
    with pytest.raises(AssertionError, match="String must be one of: fast, bulk"):
        client.create_topic(topic="other", partitions=1, configs={"storage.tier.max": "tape"})
    client.close()


def test_orders(tiered):
    """With movement off nothing moves but what is asked for: a move, and a drain of the whole fast path."""
    tiers = tiered(**{"storage.migrate.threshold": -1})
    client = Client("librdkafka", tiers.broker.address)
    client.create_topic(topic=TOPIC, partitions=1, configs={})
    records, offsets = produce(client, count=50)
    sealed = [segment for segment in tiers.on("fast") if segment["sealed_ms"] is not None]
    assert sealed and not tiers.on("bulk")
    assert sealed[0]["rule"] == "movement-off"

    moved = tiers.tier("move", f"{TOPIC}-0", "bulk", "--base", sealed[0]["base_offset"])
    assert moved.returncode == 0 and moved.stdout.startswith("1 sealed segments"), moved.stderr
    wait_until(lambda: len(tiers.on("bulk")) == 1, "the segment to be moved", 60)
    assert tiers.on("bulk")[0]["base_offset"] == sealed[0]["base_offset"]

    assert tiers.tier("drain", tiers.fast).returncode == 0
    wait_until(lambda: not any(segment["sealed_ms"] for segment in tiers.on("fast")), "the path to be empty", 60)
    assert tiers.status("fast")["paths"][0]["state"] == "draining"
    more, more_offsets = produce(client, first=50, count=30)
    read_all(client, records + more, offsets + more_offsets)
    assert tiers.tier("drain", "--stop", tiers.fast).returncode == 0
    assert tiers.status("fast")["paths"][0]["state"] == "open"
    client.close()


def test_wrong_orders_are_refused(tiered):
    tiers = tiered()
    for arguments, said in (
        (("move", TOPIC, "tape"), "to=tape: must be one of fast, bulk"),
        (("drain", "/elsewhere"), "path=/elsewhere: must be one of"),
        (("why", "nobody-0"), "no segments of nobody-0"),
    ):
        refused = tiers.tier(*arguments)
        assert refused.returncode != 0 and said in refused.stderr, refused
    # A page in somebody's browser can send an order only without this header.
    order = urllib.request.Request(f"http://{tiers.admin}/tiers/verify", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(order, timeout=10)


def test_without_tiers_there_is_nothing_to_show(make_broker):
    admin = f"127.0.0.1:{free_port()}"
    make_broker(Forebay, properties={"admin.listener": admin}).start()
    asked = subprocess.run([forebay_binary(), "tier", "--admin", admin, "status"], capture_output=True, text=True,
                           timeout=60, check=False)
    assert asked.returncode != 0 and "there are no tiers: storage.tiers is not set" in asked.stderr
