"""Consumer groups: members come, die and go; commits hold; offsets are reset; the group is deleted."""

import pytest

from clients.client import record
from peers.process import wait_until

PARTITIONS = 4


def batch(tag, count=10):
    return [record(p, f"{tag}/{p}/{i}", 50) for p in range(PARTITIONS) for i in range(count)]


def seen(*members):
    return sorted((r["partition"], r["offset"]) for m in members for r in m.records)


def everything(low, high):
    return [(p, o) for p in range(PARTITIONS) for o in range(low, high)]


@pytest.fixture
def wide_topic(clients, name):
    admin = clients["librdkafka"]
    admin.create_topic(topic=name, partitions=PARTITIONS, configs={})
    wait_until(lambda: name in admin.topics(), "the topic")
    yield name
    admin.delete_topic(topic=name)


def settle(members, shares):
    """Waits until the members own all partitions, with these numbers each."""
    def settled(_):
        for one in members:
            one.collect(lambda me: True, "events")
        owned = sorted(p for m in members for p in m.assigned)
        return owned == list(range(PARTITIONS)) and sorted(len(m.assigned) for m in members) == shares

    wait_until(lambda: settled(None), f"shares {shares}; now {[m.assigned for m in members]}", 60)


def wait_consumed(members, low, high):
    """Waits until the members have seen and committed these offsets of every partition."""
    wanted = set(everything(low, high))

    def done():
        for one in members:
            one.collect(lambda me: True, "events")
        return wanted <= {x for m in members for x in m.committed}

    wait_until(done, f"offsets {low}..{high}; now {[m.summary() for m in members]}", 60)


def test_group_life(clients, client, wide_topic, member, name):
    """Two join, one dies, one resumes from the commits, offsets are reset, the group is deleted."""
    topic, group, admin = wide_topic, f"group-{name}", clients[client]
    writer = clients["librdkafka"]

    first = member(client, group, topic)
    settle([first], [4])
    second = member(client, group, topic)
    settle([first, second], [2, 2])
    assert admin.describe_group(group=group) == {"state": "Stable", "members": 2}
    assert group in admin.groups()

    writer.produce(topic=topic, records=batch("one"))
    wait_consumed([first, second], 0, 10)
    assert seen(first, second) == everything(0, 10)

    first.kill()
    settle([second], [4])
    writer.produce(topic=topic, records=batch("two"))
    wait_consumed([second], 10, 20)
    assert seen(first, second) == everything(0, 20), "nothing lost, nothing twice: all had been committed"
    for partition in range(PARTITIONS):
        order = [r["offset"] for r in second.records if r["partition"] == partition]
        assert order == sorted(order)

    second.leave()
    wait_until(lambda: admin.describe_group(group=group) == {"state": "Empty", "members": 0}, "an empty group")
    assert admin.group_offsets(group=group, topic=topic) == {str(p): 20 for p in range(PARTITIONS)}

    writer.produce(topic=topic, records=batch("three", 1))
    third = member(client, group, topic)
    wait_consumed([third], 20, 21)
    assert seen(third) == everything(20, 21), "resumes where the group had committed"
    third.leave()

    wait_until(lambda: admin.describe_group(group=group)["state"] == "Empty", "an empty group")
    admin.reset_group(group=group, topic=topic, offsets={str(p): p for p in range(PARTITIONS)})
    fourth = member(client, group, topic)
    wanted = [(p, o) for p in range(PARTITIONS) for o in range(p, 21)]
    fourth.collect(lambda me: len(me.committed) >= len(wanted), "the records after the reset")
    assert seen(fourth) == wanted
    fourth.leave()

    wait_until(lambda: admin.describe_group(group=group)["state"] == "Empty", "an empty group")
    admin.delete_group(group=group)
    assert group not in admin.groups()


def test_static_member_keeps_its_partitions(clients, wide_topic, member, name):
    """A static member that is restarted within its session gets its partitions back without a rebalance of the others."""
    group = f"group-{name}"
    stay = member("librdkafka", group, wide_topic, instance="stay", session_ms=20_000)
    settle([stay], [4])
    restart = member("librdkafka", group, wide_topic, instance="restart", session_ms=20_000)
    settle([stay, restart], [2, 2])
    mine, rebalances = restart.assigned, len(stay.events)
    restart.kill()
    again = member("librdkafka", group, wide_topic, instance="restart", session_ms=20_000)
    again.collect(lambda me: me.assigned, "its partitions")
    assert again.assigned == mine
    clients["librdkafka"].produce(topic=wide_topic, records=batch("static"))
    wait_consumed([stay, again], 0, 10)
    assert [e for e in stay.events[rebalances:] if e["event"] == "assigned"] == []


def test_cooperative_members(clients, wide_topic, member, name):
    """With the cooperative protocol a second member takes half without the first giving up everything."""
    group = f"group-{name}"
    first = member("librdkafka", group, wide_topic, strategy="cooperative-sticky")
    settle([first], [4])
    second = member("librdkafka", group, wide_topic, strategy="cooperative-sticky")
    settle([first, second], [2, 2])
    assert [] not in [e["partitions"] for e in first.events if e["event"] == "assigned"][1:]
    clients["librdkafka"].produce(topic=wide_topic, records=batch("coop"))
    wait_consumed([first, second], 0, 10)


def test_clients_of_different_libraries_share_a_group(clients, wide_topic, member, name):
    """librdkafka and kafka-python both offer the range assignor: one group holds both."""
    group = f"group-{name}"
    first = member("librdkafka", group, wide_topic)
    settle([first], [4])
    second = member("kafkapython", group, wide_topic)
    settle([first, second], [2, 2])
    clients["librdkafka"].produce(topic=wide_topic, records=batch("mixed"))
    wait_consumed([first, second], 0, 10)
    assert seen(first, second) == everything(0, 10)
