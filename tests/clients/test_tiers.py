"""Tiers as their operator sees them: segments go down, are read from there, are there after a restart; the commands."""

import json
import shutil
import struct
import subprocess
import urllib.error
import urllib.request

import pytest

from clients.client import Client, assert_same, record
from peers import kafka
from peers.broker import Forebay, forebay_binary
from peers.process import free_port, wait_until
from peers.rawbatch import batch, simple_record
from peers.rawbatch import produce as produce_raw
from peers.rawwire import Connection

MIB = 1 << 20
TOPIC = "tiered"
INTERNAL = ("__consumer_offsets", "__transaction_state")
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
    read_bytes = tiers.metric("forebay_tier_read_bytes_total")["bulk"]
    assert read_bytes >= sum(segment["bytes"] for segment in bulk) / 2, "most of it is not in memory"

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


def test_a_reader_of_a_path_that_is_lost_is_told_and_ends(tiered):
    tiers = tiered()
    client = Client("librdkafka", tiers.broker.address)
    client.create_topic(topic=TOPIC, partitions=1, configs={})
    produce(client)
    client.close()
    wait_until(lambda: settled(tiers), "the fast tier to be at its threshold", 60)
    assert tiers.broker.stop() == 0
    # Not mounted: an empty directory is in its place.
    away = tiers.bulk.rename(tiers.bulk.with_name("away"))
    tiers.bulk.mkdir()
    tiers.broker.start()
    consume = [forebay_binary(), "topic", "consume", TOPIC, "--exit", "--timeout", "3", "-f", "%o\n", "--brokers", tiers.broker.address]
    for more in ([], ["--group", "g"]):
        done = subprocess.run([*consume, *more], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1, done.stderr
        assert done.stderr.count("KAFKA_STORAGE_ERROR; trying on") == 1, done.stderr
        assert done.stderr.splitlines()[-1] == f"forebay: partition {TOPIC}-0: KAFKA_STORAGE_ERROR", done.stderr
    assert tiers.broker.stop() == 0
    shutil.rmtree(tiers.bulk)
    away.rename(tiers.bulk)
    tiers.broker.start()
    done = subprocess.run(consume, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == COUNT, done.stderr


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
    # They are sealed in the background.
    sealed = wait_until(lambda: [segment for segment in tiers.on("fast") if segment["sealed_ms"] is not None], "sealed segments")
    assert not tiers.on("bulk")
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

    # A restart goes on with it, and begins nothing new there.
    tiers.broker.kill()
    tiers.broker.start()
    assert tiers.status("fast")["paths"][0]["state"] == "draining"
    wait_until(lambda: not tiers.on("fast"), "the path to be empty again", 60)
    assert tiers.tier("drain", "--stop", tiers.fast).returncode == 0
    assert tiers.status("fast")["paths"][0]["state"] == "open"
    tiers.broker.kill()
    tiers.broker.start()
    assert tiers.status("fast")["paths"][0]["state"] == "open"
    client.close()


KAFKA_STORAGE_ERROR = 56


def fill_up(broker, topic):
    """Produces until it is refused; how many batches were taken, and the refusal."""
    raw = batch([simple_record(0, b"x" * 200_000)])
    for taken in range(1000):
        code = produce_raw(broker, topic, raw)
        if code:
            return taken, code
    raise AssertionError("it never fills up")


def fill_up_for_all(broker, topic, other):
    """Fills up until another topic is refused as well: a segment that is on its way down when the first is refused leaves
    room behind. How many batches of each were taken."""
    taken = small = 0
    for _ in range(100):
        more, code = fill_up(broker, topic)
        assert code == KAFKA_STORAGE_ERROR
        taken += more
        code = produce_raw(broker, other, batch())
        if code:
            assert code == KAFKA_STORAGE_ERROR
            return taken, small
        small += 1
    raise AssertionError("the other topic is never refused")


def test_full_tiers_refuse_until_there_is_room(tiered):
    """The error is one that clients retry on: a producer that meets it goes on by itself when something was deleted."""
    tiers = tiered(**{
        "storage.tier.bulk.capacity": "8MiB", "file.delete.delay.ms": 0, "log.retention.check.interval.ms": 200,
    })
    client, other = (Client("librdkafka", tiers.broker.address) for _ in range(2))
    for topic in (TOPIC, "other"):
        client.create_topic(topic=topic, partitions=1, configs={"file.delete.delay.ms": "0"})
    taken, small = fill_up_for_all(tiers.broker, TOPIC, "other")
    assert taken * 200_000 > 10 * MIB
    # What is there is served.
    assert client.consume(topic=TOPIC, partition=0, offset=0, count=taken)[-1]["offset"] == taken - 1

    client._send("produce", topic="other", records=[record(0, "patience", 1000)])
    assert other.delete_records(topic=TOPIC, partition=0, offset=taken // 2) == taken // 2
    assert client._next(90)["ok"] == [small], "the producer has waited and gone on"
    again, code = fill_up(tiers.broker, TOPIC)
    assert again > 0 and code == KAFKA_STORAGE_ERROR
    other.delete_topic(topic=TOPIC)
    wait_until(lambda: produce_raw(tiers.broker, "other", batch()) == 0, "room after the topic is gone", 60)
    client.close()
    other.close()


def test_what_coordinators_know_survives_moves_and_restarts(tiered):
    """Positions and transactions whose segments have all gone down, after a stop and after a kill."""
    tiers = tiered(**{
        "storage.migrate.threshold": 0, "storage.migrate.hysteresis": 0, "log.roll.ms": 100,
        "offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1,
    })
    client = Client("librdkafka", tiers.broker.address)
    client.create_topic(topic=TOPIC, partitions=1, configs={})
    committed, position = [], 0

    def below(topic):
        return [segment for segment in tiers.json("segments", topic) if segment["tier"] == "bulk"]

    def go_on():
        """A committed and an aborted transaction, and positions with and without one."""
        nonlocal position
        position += 2
        rounds = [{"value": f"{verdict} {position}", "partitions": 1, "commit": verdict == "counts", "position": position + number}
                  for number, verdict in enumerate(("counts", "does not"))]
        client.transact(topic=TOPIC, identity="mover", group="in-transactions", rounds=rounds)
        committed.append(f"counts {position}")
        client.reset_group(group="plain", topic=TOPIC, offsets={"0": position})

    def check():
        wait_until(lambda: client.group_offsets(group="in-transactions", topic=TOPIC) == {"0": position}, "the position")
        assert client.group_offsets(group="plain", topic=TOPIC) == {"0": position}
        wait_until(lambda: client.read_committed(topic=TOPIC, partition=0) == committed, "what was committed")

    for end in (tiers.broker.stop, tiers.broker.kill, tiers.broker.stop):
        before = {topic: len(below(topic)) for topic in INTERNAL}

        def moved():
            go_on()
            return all(len(below(topic)) > before[topic] for topic in INTERNAL)

        wait_until(moved, "segments of the coordinators' topics to go down", 90, every=0.2)
        check()
        end()
        tiers.broker.start()
        # A new process: librdkafka's admin client may not come back to a broker that was away.
        client.close()
        client = Client("librdkafka", tiers.broker.address)
        check()
    go_on()
    check()
    assert "all sound" in tiers.tier("verify").stdout
    assert below(TOPIC) and any(tiers.bulk.glob(f"{TOPIC}-0/*.txnindex")), "aborted transactions are below, too"
    client.close()


def test_the_settings_of_each_tier_are_shown(tiered):
    tiers = tiered()
    shown = kafka.run("configs", "--bootstrap-server", tiers.broker.address, "--describe", "--all", "--entity-type", "brokers",
                      "--entity-name", "1")
    for setting in ("storage.tiers=fast,bulk", f"storage.tier.fast.paths={tiers.fast}", "storage.tier.bulk.medium=file"):
        assert f"  {setting} sensitive=false" in shown, setting


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
