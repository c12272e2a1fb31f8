"""Compaction as clients and Kafka see it: the last value of every key is there, the rest goes, and each side reads,
serves and goes on compacting what the other has compacted.
"""

import itertools

import pytest

from clients.client import CODECS, Client, ClientError, record
from clients.test_oracle import complaints, dump, files, restarted
from peers.kafka import Kafka
from peers.process import wait_until

# A compaction within seconds. Kafka wants a megabyte for each of its threads.
QUICK = {"log.cleaner.backoff.ms": 200, "log.cleaner.dedupe.buffer.size": 4_000_000}
# Segments of a second, so that there is something behind the active one.
TOPIC = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01",
         "delete.retention.ms": "100"}
KEYS, ROUNDS = 40, 12
GROUPS = (f"reader-{i}" for i in itertools.count())


def fill(client, topic, name):
    """Writes every key in each round, a tenth of them as tombstones; the sizes of the last values by key."""
    last = {}
    for turn in range(ROUNDS):
        sizes = {f"k{key}": None if key % 10 == turn % 10 else 300 + turn for key in range(KEYS)}
        batch = [record(0, f"{name}/{turn}", size, key=key) for key, size in sizes.items()]
        client.produce(topic=topic, records=batch, codec=CODECS[turn % len(CODECS)], idempotent=turn % 2 == 0)
        last = sizes
    return {key: size for key, size in last.items() if size is not None}


def compacted_below(broker, topic):
    """What the broker's own checkpoint says."""
    path = broker.data / "cleaner-offset-checkpoint"
    rows = path.read_text().splitlines()[2:] if path.exists() else []
    return next((int(row.split()[2]) for row in rows if row.split()[:2] == [topic, "0"]), 0)


def wait_for_compaction(broker, client, topic):
    """Keeps writing, since only writing rolls segments, until all that is there now is compacted."""
    end = client.watermarks(topic=topic, partition=0)[1]

    def compacted():
        client.produce(topic=topic, records=[record(0, "tick", 10, key="tick")])
        return compacted_below(broker, topic) >= end

    wait_until(compacted, f"{topic} to be compacted below {end}", every=0.3)


def read(address, topic):
    """What a consumer gets from the start on, without the records that only keep time."""
    client = Client("librdkafka", address)
    (mark,) = client.produce(topic=topic, records=[record(0, "mark", 10, key="tick")])
    client.close()
    member = Client("librdkafka", address)
    member.become_member(group=next(GROUPS), topic=topic)
    member.collect(lambda me: any(r["offset"] == mark for r in me.records), "the last record")
    found = [r for r in member.records if r["key"] != "tick"]
    member.leave()
    offsets = [r["offset"] for r in found]
    assert offsets == sorted(set(offsets)), "each once, in order"
    return found


def values(found):
    state = {r["key"]: r["size"] for r in found}
    return {key: size for key, size in state.items() if size is not None}


def compacted(make_broker, kind=None):
    """A broker with a compacted topic, and what is to be in it."""
    broker = make_broker(kind, properties=QUICK).start()
    client = Client("librdkafka", broker.address)
    client.create_topic(topic="latest", partitions=1, configs=TOPIC)
    wait_until(lambda: "latest" in client.topics(), "the topic")
    expected = fill(client, "latest", "first")
    wait_for_compaction(broker, client, "latest")
    client.close()
    return broker, expected


def goes_on(broker, expected):
    """The broker serves what is there, takes more, and compacts all of it."""
    assert values(read(broker.address, "latest")) == expected
    client = Client("librdkafka", broker.address)
    expected = fill(client, "latest", "second")
    wait_for_compaction(broker, client, "latest")
    client.close()
    found = read(broker.address, "latest")
    assert values(found) == expected
    assert len(found) < 3 * KEYS, "most of what was written has gone"
    return expected


def test_the_last_value_of_every_key_stays(make_broker):
    broker, expected = compacted(make_broker)
    expected = goes_on(broker, expected)
    client = Client("librdkafka", broker.address)
    with pytest.raises(ClientError, match="INVALID_RECORD|invalid|Broker: "):
        client.produce(topic="latest", records=[record(0, "no key", 10)])
    client.close()
    broker.kill()
    again = restarted(make_broker, None, broker.data, properties=QUICK)
    assert values(read(again.address, "latest")) == expected, "also after a kill"
    again.stop()


def test_kafka_reads_what_we_compacted_and_goes_on(make_broker):
    broker, expected = compacted(make_broker)
    broker.stop()
    output = dump(files(broker.data, "latest-0/*.log"), "--deep-iteration", "--print-data-log")
    assert complaints(output) == []
    for suffix in ("index", "timeindex"):
        output = dump(files(broker.data, f"latest-0/*.{suffix}"), "--index-sanity-check")
        assert complaints(output.replace("passed sanity check", "")) == []
        output = dump(files(broker.data, f"latest-0/*.{suffix}"), "--verify-index-only")
        assert complaints(output) == []
    theirs = restarted(make_broker, Kafka, broker.data, properties=QUICK)
    expected = goes_on(theirs, expected)
    theirs.stop()
    ours = restarted(make_broker, None, theirs.data, properties=QUICK)
    goes_on(ours, expected)
    ours.stop()


def test_we_serve_what_kafka_compacted_and_go_on(make_broker):
    theirs, expected = compacted(make_broker, Kafka)
    theirs.stop()
    ours = restarted(make_broker, None, theirs.data, properties=QUICK)
    goes_on(ours, expected)
    ours.stop()
