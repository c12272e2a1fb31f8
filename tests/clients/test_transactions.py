"""Transactions by real clients: what is committed counts, what is aborted does not, positions of groups go with them."""

import re

import pytest

from clients.client import ClientError
from peers import kafka
from peers.process import wait_until

ROUNDS = [
    {"value": f"round {n}", "partitions": 2, "commit": n % 3 != 1, "position": n + 1} for n in range(6)
]
COMMITTED = [one["value"] for one in ROUNDS if one["commit"]]
POSITION = max(one["position"] for one in ROUNDS if one["commit"])


def settled(reader, topic, partition, count):
    """A decision is answered before its markers are everywhere: readers see it a moment later."""
    return wait_until(
        lambda: (lambda found: found if len(found) >= count else None)(reader.read_committed(topic=topic, partition=partition)),
        f"{count} committed records")


def transact(writer, **request):
    """kafkajs does not come back when a coordinator is still loading."""
    def done():
        try:
            writer.transact(**request)
            return True
        except ClientError as error:
            if "oordinator" not in str(error):
                raise
            return False

    wait_until(done, "transactions")


def test_committed_records_count_and_aborted_ones_do_not(clients, client, topic, name):
    reader, group = clients["librdkafka"], f"group-{name}"
    transact(clients[client], topic=topic, identity=f"id-{name}", group=group, rounds=ROUNDS)
    for partition in range(2):
        assert settled(reader, topic, partition, len(COMMITTED)) == COMMITTED
    if client != "franzgo":
        wait_until(lambda: reader.group_offsets(group=group, topic=topic) == {"0": POSITION}, f"position {POSITION}")


def test_a_successor_shuts_out_its_predecessor(clients, topic, name):
    """The same transactional id again: a new epoch, and what was committed before stays."""
    writer, reader = clients["librdkafka"], clients["librdkafka"]
    for _ in range(2):
        transact(writer, topic=topic, identity=f"id-{name}", group=f"group-{name}", rounds=ROUNDS[:3])
    committed = [one["value"] for one in ROUNDS[:3] if one["commit"]]
    assert settled(reader, topic, 0, 2 * len(committed)) == committed * 2


@pytest.fixture
def tool(broker):
    return lambda name, *args, **options: kafka.run(name, "--bootstrap-server", broker.address, *args, **options)


def test_the_java_tools_see_them(clients, tool, topic, name):
    writer = clients["librdkafka"]
    transact(writer, topic=topic, identity=f"id-{name}", group=f"group-{name}", rounds=ROUNDS)
    listed = tool("transactions", "list")
    assert re.search(rf"id-{name}\s+\S+\s+\d+\s+(Complete|Prepare)", listed), listed
    described = tool("transactions", "describe", "--transactional-id", f"id-{name}")
    assert "CompleteCommit" in described or "PrepareCommit" in described, described
    settled(clients["librdkafka"], topic, 1, len(COMMITTED))
    read = tool("console-consumer", "--topic", topic, "--partition", 1, "--from-beginning", "--timeout-ms", 15_000,
                "--max-messages", len(COMMITTED), "--isolation-level", "read_committed")
    assert read.split("\n")[: len(COMMITTED)] == COMMITTED


def test_the_java_copier_copies_exactly_once(broker, clients, tool, topic, name):
    """Kafka's own consume-transform-produce program, with positions in the transaction."""
    lines = [f"line {i}" for i in range(500)]
    source, copy = topic, f"{name}-copy"
    clients["librdkafka"].create_topic(topic=copy, partitions=2, configs={})
    tool("console-producer", "--topic", source, stdin="\n".join(lines) + "\n")
    count = sum(clients["librdkafka"].watermarks(topic=source, partition=p)[1] for p in range(2))
    assert count == len(lines)
    for partition in range(2):
        end = clients["librdkafka"].watermarks(topic=source, partition=partition)[1]
        if end:
            kafka.run("txn-copier", "--broker-list", broker.address, "--input-topic", source, "--input-partition", partition,
                      "--output-topic", copy, "--max-messages", end, "--transaction-size", 60, "--group-mode",
                      "--consumer-group", f"group-{name}-{partition}", "--transactional-id", f"copier-{name}-{partition}",
                      "--use-group-metadata", check=False, seconds=90)
    found = wait_until(lambda: (lambda all: all if len(all) >= len(lines) else None)(
        [value for p in range(2) for value in clients["librdkafka"].read_committed(topic=copy, partition=p)]), "all copies")
    assert sorted(found) == sorted(lines)
    clients["librdkafka"].delete_topic(topic=copy)
