"""Topics, their settings and their partitions, through every client's admin interface."""

import pytest

from clients.client import ClientError, record
from peers.process import wait_until


def test_topic_life(clients, client, name):
    """Create, list, describe, grow, write to the new partition, delete, create again empty."""
    one = clients[client]
    one.create_topic(topic=name, partitions=3, configs={"retention.ms": "3600000"})
    wait_until(lambda: name in one.topics(), "the topic to be listed")
    assert one.describe_topic(topic=name) == {"partitions": 3}
    one.add_partitions(topic=name, total=5)
    wait_until(lambda: one.describe_topic(topic=name) == {"partitions": 5}, "five partitions")
    assert one.produce(topic=name, records=[record(4, "x", 10)]) == [0]
    one.delete_topic(topic=name)
    wait_until(lambda: name not in one.topics(), "the topic to be gone")

    one.create_topic(topic=name, partitions=1, configs={})
    wait_until(lambda: name in one.topics(), "the topic to be listed again")
    assert one.watermarks(topic=name, partition=0) == [0, 0]
    assert one.produce(topic=name, records=[record(0, "y", 10)]) == [0]
    one.delete_topic(topic=name)


def test_topic_exists(clients, client, topic):
    if client == "kafkajs":
        pytest.skip("kafkajs reports an existing topic as success")
    with pytest.raises(ClientError, match="(?i)exist"):
        clients[client].create_topic(topic=topic, partitions=1, configs={})


@pytest.mark.parametrize("bad", ["a b", "..", "x" * 250])
def test_bad_topic_name(clients, client, bad):
    with pytest.raises(ClientError, match="(?i)invalid|illegal|topic"):
        clients[client].create_topic(topic=bad, partitions=1, configs={})


def test_configs(clients, client, topic):
    one = clients[client]
    before = one.configs(topic=topic)
    assert before["max.message.bytes"] == "33554432"
    assert before["cleanup.policy"] == "delete"
    one.alter_config(topic=topic, name="retention.ms", value="86400000")
    wait_until(lambda: one.configs(topic=topic)["retention.ms"] == "86400000", "the new retention")
    expected = "33554432" if client != "kafkajs" else "33554432"
    # kafkajs replaces the whole set: what it does not name goes back to the broker's value (33554432 as well here).
    assert one.configs(topic=topic)["max.message.bytes"] == expected


@pytest.mark.parametrize("entry", [("retention.ms", "soon"), ("no.such.setting", "1"), ("cleanup.policy", "burn")])
def test_bad_config(clients, client, topic, entry):
    key, value = entry
    before = clients[client].configs(topic=topic)
    with pytest.raises(ClientError):
        clients[client].alter_config(topic=topic, name=key, value=value)
    assert clients[client].configs(topic=topic) == before


def test_delete_records(clients, client, topic):
    one = clients[client]
    one.produce(topic=topic, records=[record(0, f"d{i}", 100) for i in range(10)])
    assert one.delete_records(topic=topic, partition=0, offset=4) == 4
    assert one.watermarks(topic=topic, partition=0) == [4, 10]
    (first,) = one.consume(topic=topic, partition=0, offset=4, count=1)
    assert first["offset"] == 4
