"""Consumer groups with the new protocol (KIP-848): the server assigns, members reconcile; groups change protocol online."""

import re

import pytest

from clients.client import record
from clients.test_groups import PARTITIONS, batch, everything, seen, settle, wait_consumed, wide_topic  # noqa: F401
from clients.test_java_tools import rows, tool  # noqa: F401
from peers import kafka
from peers.process import wait_until


def group_type(tool, group):  # noqa: F811
    found = re.findall(rf"^{group}\s+(\S+)", tool("groups", "--list", "--type"), re.MULTILINE)
    return found[0].lower() if found else None


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_two_join_and_one_dies(clients, wide_topic, member, name, assignor):  # noqa: F811
    topic, group, writer = wide_topic, f"group-{name}", clients["librdkafka"]
    options = {"protocol": "consumer", "assignor": assignor}
    first = member("librdkafka", group, topic, **options)
    settle([first], [4])
    writer.produce(topic=topic, records=batch("one"))
    wait_consumed([first], 0, 10)
    second = member("librdkafka", group, topic, **options)
    settle([first, second], [2, 2])
    writer.produce(topic=topic, records=batch("two"))
    wait_consumed([first, second], 10, 20)
    assert seen(first, second) == everything(0, 20), "nothing is read twice, as everything was committed"
    assert clients["librdkafka"].describe_group(group=group) == {"state": "Stable", "members": 2}
    second.kill()
    settle([first], [4])
    writer.produce(topic=topic, records=batch("three"))
    wait_consumed([first, second], 20, 30)
    first.leave()
    offsets = clients["librdkafka"].group_offsets(group=group, topic=topic)
    assert offsets == {str(p): 30 for p in range(PARTITIONS)}
    wait_until(lambda: clients["librdkafka"].describe_group(group=group)["state"] == "Empty", "the group to be empty")
    clients["librdkafka"].delete_group(group=group)
    assert group not in clients["librdkafka"].groups()


def test_regular_expressions_find_topics_that_come_later(clients, member, name):
    admin, group = clients["librdkafka"], f"group-{name}"
    for number in (1, 2):
        admin.create_topic(topic=f"{name}-{number}", partitions=2, configs={})
        if number == 1:
            reader = member("librdkafka", group, f"^{name}-[0-9]+")
            reader.kill()
            reader = member("librdkafka", group, f"^{name}-[0-9]+", protocol="consumer")
            reader.collect(lambda me: me.assigned == [0, 1], "the first topic")
    # A new topic is looked for every ten seconds at most.
    reader.collect(lambda me: me.assigned == [0, 0, 1, 1], "the second topic", 60)
    admin.produce(topic=f"{name}-2", records=[record(0, "later", 10)])
    reader.collect(lambda me: len(me.records) == 1, "its record")
    reader.leave()


def test_a_static_member_that_comes_back_has_what_it_had(clients, wide_topic, member, name):  # noqa: F811
    group = f"group-{name}"
    options = {"protocol": "consumer", "instance": "one"}
    first = member("librdkafka", group, wide_topic, **options)
    other = member("librdkafka", group, wide_topic, protocol="consumer", instance="two")
    settle([first, other], [2, 2])
    had, kept = first.assigned, other.assigned
    first.leave()
    again = member("librdkafka", group, wide_topic, **options)
    again.collect(lambda me: me.assigned == had, f"its partitions {had}")
    assert other.assigned == kept, "nobody else noticed"


def test_from_classic_to_consumer_and_back_while_members_read(clients, wide_topic, member, name, tool):  # noqa: F811
    topic, group, writer = wide_topic, f"group-{name}", clients["librdkafka"]
    # The cooperative assignor of librdkafka keeps data of its own in assignments, which Kafka refuses to drop.
    classic = {"strategy": "range"}
    new = {"protocol": "consumer"}
    first = member("librdkafka", group, topic, **classic)
    second = member("librdkafka", group, topic, **classic)
    settle([first, second], [2, 2])
    assert group_type(tool, group) == "classic"
    writer.produce(topic=topic, records=batch("one"))
    wait_consumed([first, second], 0, 10)

    third = member("librdkafka", group, topic, **new)
    settle([first, second, third], [1, 1, 2])
    assert group_type(tool, group) == "consumer"
    writer.produce(topic=topic, records=batch("two"))
    wait_consumed([first, second, third], 10, 20)
    first.leave()
    second.leave()
    settle([third], [4])
    writer.produce(topic=topic, records=batch("three"))
    wait_consumed([first, second, third], 20, 30)

    fourth = member("librdkafka", group, topic, **classic)
    settle([third, fourth], [2, 2])
    third.leave()
    settle([fourth], [4])
    wait_until(lambda: group_type(tool, group) == "classic", "the group to be classic again")
    writer.produce(topic=topic, records=batch("four"))
    wait_consumed([first, second, third, fourth], 30, 40)
    assert set(seen(first, second, third, fourth)) == set(everything(0, 40))
    fourth.leave()


def test_tools(clients, wide_topic, member, name, tool, broker):  # noqa: F811
    topic, group, writer = wide_topic, f"group-{name}", clients["librdkafka"]
    writer.produce(topic=topic, records=batch("one"))
    read = tool("console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", 40,
                "--timeout-ms", 30_000, "--consumer-property", "group.protocol=consumer")
    assert "Processed a total of 40 messages" in read
    described = rows(tool("groups", "--describe", "--group", group), "GROUP")
    assert [(r["PARTITION"], r["CURRENT-OFFSET"], r["LAG"]) for r in described] == [(str(p), "10", "0") for p in range(4)]
    reader = member("librdkafka", group, topic, protocol="consumer")
    settle([reader], [4])
    assert group_type(tool, group) == "consumer"
    state = rows(tool("groups", "--describe", "--group", group, "--state"), "GROUP")
    assert "Stable" in str(state) and "uniform" in str(state), state
    members = tool("groups", "--describe", "--group", group, "--members", "--verbose")
    assert re.search(rf"{topic}:0,1,2,3", members), members
    refused = tool("groups", "--delete", "--group", group, check=False)
    assert "not empty" in refused.lower()
    reader.leave()
    wait_until(lambda: "Empty" in tool("groups", "--describe", "--group", group, "--state"), "the group to be empty")
    tool("groups", "--delete", "--group", group)
    assert group_type(tool, group) is None

    entity = ("--entity-type", "groups", "--entity-name", group)
    tool("configs", *entity, "--alter", "--add-config", "consumer.session.timeout.ms=5000,consumer.heartbeat.interval.ms=400")
    described = tool("configs", *entity, "--describe")
    assert "consumer.session.timeout.ms=5000" in described and "consumer.heartbeat.interval.ms=400" in described
    bad = tool("configs", *entity, "--alter", "--add-config", "consumer.heartbeat.interval.ms=99", check=False)
    assert "must be greater than or equal to group.consumer.min.heartbeat.interval.ms" in bad
    unknown = tool("configs", *entity, "--alter", "--add-config", "no.such.setting=1", check=False)
    assert "no.such.setting" in unknown
    tool("configs", *entity, "--alter", "--delete-config", "consumer.session.timeout.ms,consumer.heartbeat.interval.ms")
    assert "consumer.session.timeout.ms=" not in tool("configs", *entity, "--describe")


def test_verifiable_consumers_share_what_is_written(broker, wide_topic, name, tmp_path):  # noqa: F811
    group = f"group-{name}"
    where = ("--bootstrap-server", broker.address, "--topic", wide_topic)
    kafka.run("verifiable-producer", *where, "--max-messages", 2000)
    consumers = [
        kafka.spawn("verifiable-consumer", *where, "--group-id", group, "--group-protocol", "consumer",
                    "--reset-policy", "earliest", log=tmp_path / f"{number}.log")
        for number in (1, 2)
    ]
    logs = [tmp_path / f"{number}.log" for number in (1, 2)]

    def count():
        found = re.findall(r'"name":"records_consumed".*?"count":(\d+)|"count":(\d+).*?"name":"records_consumed"',
                           "\n".join(log.read_text() for log in logs))
        return sum(int(a or b) for a, b in found)

    try:
        wait_until(lambda: count() >= 2000, f"all records; now {count()}", 60)
        wait_until(lambda: all('"partitions_assigned"' in log.read_text() for log in logs), "both to have partitions", 60)
    finally:
        for one in consumers:
            one.stop()
    assert count() == 2000, "each record once"
