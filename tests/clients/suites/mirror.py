"""MirrorMaker 2 from Apache Kafka into the broker: records with their keys, headers and partitions, topic settings, and
the positions of a group, while its own state (compacted topics, exactly-once writes) is in the broker as well."""

from clients.client import Client, assert_same, record
from clients.suites import jvm
from clients.suites.outcome import Outcome
from peers import secured
from peers.kafka import Kafka
from peers.process import wait_until

PROGRAM = "org.apache.kafka.connect.mirror.MirrorMaker"
RECORDS = 3000
CHECKS = ("records with keys, headers and order", "settings of the topic", "position of a group", "records written later")


def config(path, theirs, ours):
    once = {"replication.factor": 1, "offset-syncs.topic.replication.factor": 1, "heartbeats.topic.replication.factor": 1,
            "checkpoints.topic.replication.factor": 1, "offset.storage.replication.factor": 1,
            "status.storage.replication.factor": 1, "config.storage.replication.factor": 1}
    return jvm.properties(path, **{
        "clusters": "theirs, ours", "theirs.bootstrap.servers": theirs.address, **secured.java(ours, "ours."),
        "theirs->ours.enabled": "true", "theirs->ours.topics": "mirrored", "theirs->ours.groups": "readers",
        "ours->theirs.enabled": "false", "ours.exactly.once.source.support": "enabled",
        "emit.checkpoints.interval.seconds": 1, "sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": 1,
        "refresh.topics.interval.seconds": 5, "refresh.groups.interval.seconds": 2, "offset.lag.max": 0,
        "dedicated.mode.enable.internal.rest": "false", **once})


def sample(start, partition):
    return [record(partition, f"{partition}/{i}", 100 + i % 300, key=f"key {i}", headers=[["number", str(i)]])
            for i in range(start, start + RECORDS)]


def mirror(broker, log, short):
    outcome, folder = Outcome("mirror"), log.parent / "mirror-work"
    folder.mkdir(parents=True, exist_ok=True)
    with Kafka(home=folder / "kafka") as theirs:
        there, here = Client("librdkafka", theirs.address), Client("librdkafka", broker.address)
        there.create_topic(topic="mirrored", partitions=2, configs={"retention.ms": "-1", "max.message.bytes": "2000000"})
        sent = [sample(0, 0), sample(0, 1)]
        for part in sent:
            there.produce(topic="mirrored", records=part)
        maker = jvm.spawn(PROGRAM, config(folder / "mirror.properties", theirs, broker), log=log)
        try:
            check(outcome, CHECKS[0], lambda: arrived(maker, here, sent))
            check(outcome, CHECKS[1], lambda: configured(here))
            there.reset_group(group="readers", topic="mirrored", offsets={"0": RECORDS, "1": RECORDS})
            check(outcome, CHECKS[2], lambda: positioned(here))
            more = [sample(RECORDS, 0), sample(RECORDS, 1)]
            for part in more:
                there.produce(topic="mirrored", records=part)
            check(outcome, CHECKS[3], lambda: arrived(maker, here, [a + b for a, b in zip(sent, more, strict=True)]))
        finally:
            maker.kill()
            there.close()
            here.close()
    return outcome.judge()


def check(outcome, name, body):
    try:
        body()
        outcome.say(name, "pass")
    except (AssertionError, TimeoutError) as error:
        outcome.say(f"{name}: {str(error)[:300]}", "fail")


def arrived(maker, here, sent):
    """Each partition holds what was sent, in order. Transaction markers lie between, so that offsets are not the same."""

    def there_yet():
        assert maker.alive(), maker.tail()
        return "theirs.mirrored" in here.topics() and all(
            here.watermarks(topic="theirs.mirrored", partition=p)[1] >= len(part) for p, part in enumerate(sent))

    wait_until(there_yet, "all records", 240, every=0.5)
    for partition, part in enumerate(sent):
        got = here.consume(topic="theirs.mirrored", partition=partition, offset=0, count=len(part))
        assert_same(got, part, [one["offset"] for one in got])
        assert [one["offset"] for one in got] == sorted({one["offset"] for one in got})


def configured(here):
    def same():
        found = here.configs(topic="theirs.mirrored")
        return (found["retention.ms"], found["max.message.bytes"]) == ("-1", "2000000")

    wait_until(same, "the settings", 60, every=0.5)


def positioned(here):
    """The group stands behind what was mirrored when its position was set there."""

    def moved():
        found = here.group_offsets(group="readers", topic="theirs.mirrored")
        return set(found) == {"0", "1"} and all(offset >= RECORDS for offset in found.values())

    wait_until(moved, "the group's position", 120, every=0.5)
