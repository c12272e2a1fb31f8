"""A little of everything, and the state of a broker as its clients see it, so that two brokers can be compared."""

from clients.client import CODECS, Client, ClientError, record
from peers.process import wait_until

# Small segments and a dense index, so that rolling, sealed files and sparse lookups are all there.
SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}


# Transactions: two of them count.
ROUNDS = [{"value": f"exact {n}", "partitions": 2, "commit": n != 1, "position": n} for n in range(3)]


def run(address):
    """Writes the mixed workload through two client libraries. Returns nothing: ask `state` what there is."""
    one, other = Client("librdkafka", address), Client("kafkapython", address)
    one.create_topic(topic="mixed", partitions=3, configs=SMALL)
    one.create_topic(topic="large", partitions=1, configs={"max.message.bytes": "33554432"})
    one.create_topic(topic="trimmed", partitions=1, configs=SMALL)
    one.create_topic(topic="old", partitions=1, configs={"retention.ms": "-1"})
    one.create_topic(topic="stamped", partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
    one.create_topic(topic="gone", partitions=2, configs={})
    for topic, partitions in {"mixed": 3, "large": 1, "trimmed": 1, "old": 1, "stamped": 1, "gone": 2}.items():
        wait_until(lambda t=topic, n=partitions: _has(one, t, n), f"topic {topic}")

    for turn, codec in enumerate(CODECS * 2):
        small = [record(i % 3, f"{turn}/{i}", 1 + i * 97 % 3000, key=f"k{i % 50}", headers=[("turn", str(turn))]) for i in range(600)]
        one.produce(topic="mixed", records=small, codec=codec, idempotent=turn % 2 == 0)
        other.produce(topic="mixed", records=small[:60], codec=codec)
    one.produce(topic="mixed", records=[record(0, "x", None, key=f"k{i}") for i in range(20)])
    for codec in CODECS:
        one.produce(topic="large", records=[record(0, codec, 3_000_000), record(0, codec, 1)], codec=codec)
    one.produce(topic="trimmed", records=[record(0, f"trim{i}", 10_000) for i in range(500)])
    one.delete_records(topic="trimmed", partition=0, offset=321)
    one.produce(topic="old", records=[record(0, f"{i}", 100, timestamp=1_600_000_000_000 + i * 1000) for i in range(300)])
    one.produce(topic="stamped", records=[record(0, f"{i}", 100, timestamp=1000 + i) for i in range(50)])
    one.produce(topic="gone", records=[record(i % 2, f"{i}", 100) for i in range(50)])
    one.delete_topic(topic="gone")
    one.alter_config(topic="mixed", name="retention.ms", value="987654321")
    one.add_partitions(topic="large", total=2)

    one.create_topic(topic="exact", partitions=2, configs={})
    wait_until(lambda: _has(one, "exact", 2), "topic exact")
    one.transact(topic="exact", identity="exact", group="exact", rounds=ROUNDS)

    one.reset_group(group="set", topic="mixed", offsets={"0": 11, "1": 22, "2": 33})
    one.reset_group(group="dropped", topic="mixed", offsets={"0": 1})
    one.delete_group(group="dropped")
    member = Client("librdkafka", address)
    member.become_member(group="read", topic="old")
    member.collect(lambda me: len(me.committed) == 300, "300 commits")
    member.leave()
    one.close()
    other.close()


def _has(client, topic, partitions):
    """A new topic may take a moment to be known."""
    try:
        return client.describe_topic(topic=topic) == {"partitions": partitions}
    except ClientError:
        return False


def state(address):
    """Every record, offset, setting and committed offset."""
    client = Client("librdkafka", address)
    found = {"topics": {}, "groups": {}}
    for topic in client.topics():
        if topic.startswith("__"):
            continue
        configs = client.configs(topic=topic)
        partitions = []
        for partition in range(client.describe_topic(topic=topic)["partitions"]):
            low, high = client.watermarks(topic=topic, partition=partition)
            if topic == "exact":
                # Some of its offsets are markers.
                values = settled(client, partition)
                partitions.append({"low": low, "high": high, "committed": values})
                continue
            records = client.consume(topic=topic, partition=partition, offset=low, count=high - low)
            assert [r["offset"] for r in records] == list(range(low, high))
            partitions.append({"low": low, "high": high, "records": records})
        found["topics"][topic] = {
            "partitions": partitions,
            "configs": {k: configs[k] for k in ("segment.bytes", "retention.ms", "max.message.bytes", "index.interval.bytes", "message.timestamp.type")},
            # Kafka finds nothing by time as long as it has whole segments below the log start: not compared there.
            "by time": [] if topic == "trimmed" else [client.offset_for_time(topic=topic, partition=0, timestamp=t) for t in (1, 1_600_000_123_000, 4_000_000_000_000)],
        }
    for group in client.groups():
        found["groups"][group] = {topic: client.group_offsets(group=group, topic=topic) for topic in found["topics"]}
    client.close()
    return found


def settled(client, partition, transactions=1):
    """What counts in a partition of `exact`, once nothing is open any more."""
    wanted = transactions * sum(one["commit"] for one in ROUNDS)
    return wait_until(
        lambda: (lambda found: found if len(found) >= wanted else None)(client.read_committed(topic="exact", partition=partition)),
        f"{wanted} transactions")


def differences(one, other, path=""):
    """Where two states differ, as lines."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one for line in differences(one[key], other[key], f"{path}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for i, pair in enumerate(zip(one, other, strict=True)) for line in differences(*pair, f"{path}/{i}")]
    return [] if one == other else [f"{path}: {str(one)[:200]} / {str(other)[:200]}"]
