"""The client half of our command line (topic, group, cluster, quota, .., profile), against whatever broker is the target."""

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios

import pytest
from confluent_kafka import Consumer, Producer

from clients.cli import Cli, binary
from peers import kafka
from peers.process import die_with_parent, free_port, wait_until


@pytest.fixture
def cli(broker, tmp_path):
    return Cli(broker.address, tmp_path)


@pytest.fixture
def own_topic(cli, name):
    """A topic of three partitions that keeps old timestamps."""
    cli("topic", "create", name, "--partitions", 3, "--set", "retention.ms=-1")
    # A Kafka's new partitions have no leader for a moment, which the command says.
    wait_until(lambda: cli.run("topic", "describe", name).returncode == 0, "leaders")
    yield name
    cli("topic", "delete", name, "--if-exists")


def rows(text):
    """A table by the words of its head."""
    head, *lines = [line.split() for line in text.strip().splitlines()]
    return [dict(zip(head, line, strict=False)) for line in lines]


def test_topics_from_their_making_to_their_end(cli, name):
    assert "would be created" in cli("topic", "create", name, "--dry-run")
    assert name not in [topic["name"] for topic in cli.json("topic", "list")]
    made = cli.json("topic", "create", name, "-p", 2, "-r", 1, "-s", "segment.bytes=1048576")
    assert made == [{"name": name, "done": True}]
    wait_until(lambda: name in [topic["name"] for topic in cli.json("topic", "list")], "the topic")
    assert {"NAME": name, "PARTITIONS": "2", "REPLICAS": "1"} in rows(cli("topic", "list"))

    assert "TOPIC_ALREADY_EXISTS" in cli.refusal("topic", "create", name)
    assert "there already" in cli("topic", "create", name, "--if-not-exists")
    assert "INVALID_REPLICATION_FACTOR" in cli.refusal("topic", "create", f"{name}-2", "-r", 30)

    cli("topic", "alter", name, "-p", 3, "-s", "cleanup.policy=compact", "--unset", "segment.bytes")
    cli("topic", "alter", name, "--append", "cleanup.policy=delete")
    wait_until(lambda: len(cli.json("topic", "describe", name)[0]["partitions"]) == 3, "the third partition")
    (described,) = cli.json("topic", "describe", name)
    settings = {one["name"]: (one["value"], one["source"]) for one in described["settings"]}
    assert settings["cleanup.policy"] == ("compact,delete", "topic")
    assert "segment.bytes" not in settings
    first = described["partitions"][0]
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert len(described["id"]) == 22
    assert first["replicas"] == first["isr"] == [first["leader"]] and first["offline"] == []
    assert "INVALID_CONFIG" in cli.refusal("topic", "alter", name, "-s", "segment.bytes=none")
    assert "INVALID_PARTITIONS" in cli.refusal("topic", "alter", name, "-p", 1)
    assert "nothing to change" in cli.refusal("topic", "alter", name)

    assert "deleted" in cli("topic", "delete", name)
    wait_until(lambda: name not in cli("topic", "list"), "the topic to be gone")
    gone = cli.refusal("topic", "describe", name)
    assert f"topic {name}" in gone and "UNKNOWN_TOPIC_OR_PARTITION" in gone
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cli.refusal("topic", "delete", name)
    assert "not there" in cli("topic", "delete", name, "--if-exists")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_written(cli, own_topic, codec):
    written = cli.lines("topic", "produce", own_topic, "-p", 1, "-z", codec, "-H", "a=1", "-H", "b=", "-t", 1_700_000_000_000,
                        "-K", ":", stdin="k1:v1\nno key\nk3:v:3\n")
    assert written == [{"topic": own_topic, "partition": 1, "offset": offset} for offset in range(3)]
    read = cli.lines("topic", "consume", own_topic, "-e")
    headers = [{"key": "a", "value": "1"}, {"key": "b", "value": ""}]
    assert read == [
        {"topic": own_topic, "partition": 1, "offset": offset, "timestamp": 1_700_000_000_000, "key": key, "value": value,
         "headers": headers}
        for offset, (key, value) in enumerate([("k1", "v1"), (None, "no key"), ("k3", "v:3")])
    ]
    # What consume writes, produce reads: bytes that are no text, tombstones, everything.
    odd = {"partition": 2, "key": "gone", "value": None, "timestamp": 1_600_000_000_000,
           "headers": [{"key": "h", "value_base64": "/wA="}]}
    bytes_ = {"partition": 2, "key_base64": "gA==", "value": "x"}
    lines = "".join(json.dumps(line) + "\n" for line in [*read, odd, bytes_])
    cli("topic", "produce", own_topic, "--input", "json", "-q", stdin=lines)
    again = cli.lines("topic", "consume", own_topic, "-e", "-p", "1", "-o", 3)
    assert [{**line, "offset": line["offset"] - 3} for line in again] == read
    two = cli.lines("topic", "consume", own_topic, "-e", "-p", "2")
    assert [(line["key"], line["value"]) for line in two] == [("gone", None), (None, "x")]
    assert two[0]["headers"] == [{"key": "h", "value": None, "value_base64": "/wA="}] and two[1]["key_base64"] == "gA=="


def test_values_as_arguments_and_templates(cli, own_topic):
    said = cli("topic", "produce", own_topic, "one", "", "-k", "key", "-Z", "--acks", "1", "-p", 0)
    assert said == "partition 0, offset 0\npartition 0, offset 1\n"
    cli("topic", "produce", own_topic, "-p", 0, "--input", "whole", "-q", stdin="two\nlines\n")
    assert cli("topic", "consume", own_topic, "-p", 0, "-e") == "one\n\ntwo\nlines\n\n"
    template = "%t/%p/%o %k=%s (%K,%S)%%\\n"
    assert cli("topic", "consume", own_topic, "-p", 0, "-n", 2, "-f", template) == (
        f"{own_topic}/0/0 key=one (3,3)%\n{own_topic}/0/1 key= (3,-1)%\n")
    assert cli("topic", "produce", own_topic, "lost?", "--acks", "0", "-p", 1) == "partition 1\n"
    wait_until(lambda: cli("topic", "consume", own_topic, "-p", 1, "-e") == "lost?\n", "what nobody acknowledged")


def test_the_same_key_goes_where_other_clients_send_it(cli, own_topic, clients):
    keys = [f"key-{number}" for number in range(30)]
    cli("topic", "produce", own_topic, "-K", "=", "-q", stdin="".join(f"{key}=\n" for key in keys))
    ours = {line["key"]: line["partition"] for line in cli.lines("topic", "consume", own_topic, "-e")}
    # kafka-python's partitioner is the Java client's.
    from kafka.partitioner.default import murmur2

    assert ours == {key: (murmur2(key.encode()) & 0x7FFFFFFF) % 3 for key in keys}


def test_where_reading_begins_and_ends(cli, own_topic):
    records = [{"partition": 0, "timestamp": 1_700_000_000_000 + number * 1000, "value": str(number)} for number in range(10)]
    cli("topic", "produce", own_topic, "--input", "json", "-q", stdin="\n".join(map(json.dumps, records)))

    def read(*arguments):
        return cli("topic", "consume", own_topic, "-e", *arguments).split()

    assert read() == [str(number) for number in range(10)]
    assert read("-o", "end") == read("-o", "newest") == read("-o", "latest") == []
    assert read("-o", "oldest") == read("-o", "beginning") == read("-o", "earliest") == read()
    assert read("-o", "-3") == ["7", "8", "9"]
    assert read("-o", "-300") == read()
    assert read("-o", 4, "-n", 2) == ["4", "5"]
    assert read("-o", 400) == []
    assert read("-o", "@1700000006500") == ["7", "8", "9"]
    assert read("-o", "@2023-11-14T22:13:28Z") == ["8", "9"]
    assert read("-o", "@2033-01-01") == []
    assert "has no partition 9" in cli.refusal("topic", "consume", own_topic, "-p", 9)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cli.refusal("topic", "consume", f"{own_topic}-not", "-e")
    wrong = cli.run("topic", "consume", own_topic, "-o", "middle")
    assert wrong.returncode == 2 and "middle" in wrong.stderr


def test_several_topics_are_read_by_names_and_patterns(cli, name):
    topics = [f"{name}-{number}" for number in (1, 2, 33)]
    cli("topic", "create", *topics, "-p", 2)
    for topic in topics:
        wait_until(lambda of=topic: cli.run("topic", "produce", of, of, "-p", 1, "-q").returncode == 0, "a leader")

    def read(*arguments):
        return sorted(cli("topic", "consume", *arguments, "-e").split())

    assert read(f"{name}-*") == topics == read(*topics, topics[0])
    assert read(f"/{name}-[0-9]/") == topics[:2]
    assert read(f"{name}-*", "-p", 0) == []
    assert read(f"{name}-*", "-f", "%t/%p\\n") == [f"{topic}/1" for topic in topics]
    assert [one["topic"] for one in cli.lines("topic", "consume", f"{name}-3*", "-e")] == topics[2:]
    assert read(f"{name}-*", "-g", f"group-{name}") == topics
    # The group has a position in every partition, also where there was nothing to read.
    assert positions_of(cli, f"group-{name}") == {(topic, partition): partition for topic in topics for partition in (0, 1)}
    assert f"no topic matches {name}x*" in cli.refusal("topic", "consume", f"{name}x*", "-e")
    assert f"topic {topics[0]} has no partition 7" in cli.refusal("topic", "consume", f"{name}-*", "-p", 7)
    cli("topic", "delete", *topics)


def test_what_cannot_be_written_is_said(cli, own_topic):
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cli.refusal("topic", "produce", f"{own_topic}-not", "x", "--timeout", 2)
    assert "there is no 3" in cli.refusal("topic", "produce", own_topic, "x", "-p", 3)
    cli("topic", "alter", own_topic, "-s", "max.message.bytes=1000")
    large = cli.refusal("topic", "produce", own_topic, "x" * 5000)
    assert "1 records were not written" in large and "large" in large.lower()
    assert "line 2" in cli.refusal("topic", "produce", own_topic, "--input", "json", stdin='{"value":"x"}\nx\n')
    wrong = cli.refusal("topic", "produce", own_topic, "x", "-X", "no.such=1")
    assert "no.such" in wrong


def test_a_topic_that_is_made_by_being_written_to(cli, make_broker, tmp_path, name):
    flag = "--allow-auto-topic-creation"
    refused = cli.refusal("topic", "produce", name, "x", flag, "--timeout", 1)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refused, "the broker does not allow it"
    with make_broker(properties={"auto.create.topics.enable": "true"}) as other:
        there = Cli(other.address, tmp_path)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in there.refusal("topic", "produce", name, "x")
        there("topic", "produce", name, "x", flag, "-p", 0)
        assert there("topic", "consume", name, "-e") == "x\n"


def group_of(cli, group):
    (described,) = cli.json("group", "describe", group)
    return described


def positions_of(cli, group):
    return {(one["topic"], one["partition"]): one["position"] for one in group_of(cli, group)["partitions"]}


@pytest.mark.parametrize(("ours", "kafkas"), [("start", ["--from-beginning"]), ("end", [])])
def test_a_group_has_the_positions_that_kafkas_console_consumer_stores(cli, broker, name, ours, kafkas):
    """Of every partition that a member has, where the policy has it begin included (Kafka: allConsumed)."""
    topics = [f"{name}-{number}" for number in (1, 2)]
    cli("topic", "create", *topics, "-p", 3)
    wait_until(lambda: cli.run("topic", "produce", topics[0], "x", "-p", 1, "-q").returncode == 0, "a leader")
    read = cli("topic", "consume", *topics, "-g", f"ours-{name}", "-o", ours, "-e").split()
    assert read == (["x"] if ours == "start" else [])
    kafka.run("console-consumer", "--bootstrap-server", broker.address, "--include", "|".join(topics), "--group", f"kafkas-{name}",
              *kafkas, "--timeout-ms", 8000, check=False)
    there = positions_of(cli, f"kafkas-{name}")
    assert len(there) == 6 and there[topics[0], 1] == 1 and there[topics[1], 0] == 0
    assert positions_of(cli, f"ours-{name}") == there
    cli("topic", "delete", *topics)


def test_groups(cli, own_topic, name):
    group = f"group-{name}"
    cli("topic", "produce", own_topic, "-p", 0, "-q", *map(str, range(10)))
    assert "does not exist" in cli.refusal("group", "describe", group)
    read = cli("topic", "consume", own_topic, "-g", group, "-n", 4).split()
    assert read == ["0", "1", "2", "3"]
    # It went on where it had stopped, and left: nobody is in the group.
    assert cli("topic", "consume", own_topic, "-g", group, "-n", 2).split() == ["4", "5"]
    wait_until(lambda: group_of(cli, group)["state"] == "Empty", "the group to be empty")

    listed = {one["name"]: one for one in cli.json("group", "list")}
    assert listed[group]["type"].lower() == "classic" and listed[group]["state"] == "Empty"
    assert group not in [one["name"] for one in cli.json("group", "list", "--state", "stable")]
    described = group_of(cli, group)
    assert described["lag"] == 4 and described["members"] == []
    positions = {one["partition"]: (one["position"], one["end_offset"], one["lag"]) for one in described["partitions"]}
    assert positions[0] == (6, 10, 4)
    assert "TOTAL-LAG    4\n" in cli("group", "describe", group)

    dry = cli.run("group", "reset", group, "--to", "start")
    assert dry.returncode == 0 and "--execute" in dry.stderr
    zero = [row for row in rows(dry.stdout) if row["PARTITION"] == "0"]
    assert zero == [{"TOPIC": own_topic, "PARTITION": "0", "PRIOR-OFFSET": "6", "NEW-OFFSET": "0", "STATUS": "would"}]
    assert group_of(cli, group)["lag"] == 4

    for where, position in [(["--to", "start"], 0), (["--shift-by", "7"], 7), (["--shift-by", "-2"], 5), (["--to", "-1"], 9),
                            (["--to", "99"], 10), (["--to", "2"], 2)]:
        moved = cli.json("group", "reset", group, *where, "-t", f"{own_topic}:0", "--execute")
        assert [(one["partition"], one["to"], one["executed"]) for one in moved] == [(0, position, True)]
        assert {one["partition"]: one["position"] for one in group_of(cli, group)["partitions"]}[0] == position
    assert cli("topic", "consume", own_topic, "-g", group, "-n", 1).split() == ["2"]
    assert "does not exist" in cli.refusal("group", "reset", f"{group}-not", "--to", "start")
    assert "has no partition 8" in cli.refusal("group", "reset", group, "--to", "start", "-t", f"{own_topic}:8")

    wait_until(lambda: group_of(cli, group)["state"] == "Empty", "the group to be empty")
    assert "deleted" in cli("group", "delete", group)
    assert "does not exist" in cli.refusal("group", "describe", group)
    assert "GROUP_ID_NOT_FOUND" in cli.refusal("group", "delete", group)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members(cli, broker, own_topic, name, protocol):
    group = f"group-{name}"
    cli("topic", "produce", own_topic, "-p", 1, "-q", "a", "b")
    settings = {"bootstrap.servers": broker.address, "group.id": group, "group.protocol": protocol,
                "auto.offset.reset": "earliest", "client.id": "someone"}
    member = Consumer(settings)
    try:
        member.subscribe([own_topic])
        read = []

        def more():
            message = member.poll(0.1)
            if message is not None and not message.error():
                read.append(message.value())
            return len(read) == 2

        wait_until(more, "two records")
        member.commit(asynchronous=False)
        described = group_of(cli, group)
        assert described["type"] == protocol and described["state"] == "Stable" and described["lag"] == 0
        assert [(one["client"], len(one["partitions"])) for one in described["members"]] == [("someone", 3)]
        assert {one["member"] for one in described["partitions"]} == {described["members"][0]["id"]}
        refused = cli.refusal("group", "reset", group, "--to", "start", "--execute")
        assert "is Stable with 1 members" in refused
        assert "NON_EMPTY_GROUP" in cli.refusal("group", "delete", group)
    finally:
        member.close()
    wait_until(lambda: group_of(cli, group)["state"] == "Empty", "the group to be empty")
    cli("group", "reset", group, "--to", "start", "--execute")
    assert group_of(cli, group)["lag"] == 2
    read = cli("topic", "consume", own_topic, "-g", group, "--group-protocol", protocol, "-n", 2).split()
    assert read == ["a", "b"]
    wait_until(lambda: group_of(cli, group)["state"] == "Empty", "the group to be empty")
    cli("group", "delete", group)


def test_patterns_of_names(cli, name):
    topics = [f"{name}-{number}" for number in (1, 22, 3)]
    cli("topics", "create", *topics, "-p", 1)
    wait_until(lambda: len(cli.json("topic", "list", f"{name}-*")) == 3, "the topics")
    names = [one["name"] for one in cli.json("topics", "ls", f"/{name}-[0-9]/")]
    assert names == [topics[0], topics[2]]
    assert len(cli.json("topic", "describe", f"{name}-*2", topics[0])) == 2
    assert f"no topic matches {name}x*" in cli.refusal("topic", "describe", f"{name}x*")
    assert cli.run("topic", "describe", "/(/").returncode == 2
    planned = cli.run("topic", "delete", f"{name}-*")
    assert planned.returncode == 0 and "--execute" in planned.stderr and planned.stdout.count("would be deleted") == 3
    assert len(cli.json("topic", "list", f"{name}-*")) == 3
    # Neither does a pattern change anything before it is confirmed.
    planned = cli.run("topic", "alter", f"{name}-*", "-s", "retention.ms=1")
    assert planned.returncode == 0 and "--execute" in planned.stderr and planned.stdout.count("would be changed") == 3
    planned = cli.run("topic", "add-partitions", f"{name}-*", "-n", 1)
    assert planned.returncode == 0 and "--execute" in planned.stderr and "1 more partitions" in planned.stdout
    described = cli.json("topic", "describe", topics[0])[0]
    assert len(described["partitions"]) == 1 and "retention.ms" not in [one["name"] for one in described["settings"]]
    assert cli.run("topic", "alter", f"{name}-*", "-p", 2, "--dry-run", "--execute").returncode == 2
    assert "INVALID_CONFIG" in cli.refusal("topic", "alter", f"{name}-*", "-s", "segment.bytes=none", "--dry-run")
    cli("topic", "alter", f"{name}-*", "-s", "retention.ms=86400000", "--execute")
    cli("topic", "delete", f"{name}-*", "--execute")
    wait_until(lambda: cli.json("topic", "list", f"{name}-*") == [], "the topics to be gone")
    assert "__consumer_offsets" not in [one["name"] for one in cli.json("topic", "list", "*")]


def test_a_pattern_selects_no_topic_of_another_program(cli, name):
    cli("topic", "create", f"_{name}", f"{name}_")
    wait_until(lambda: len(cli.json("topic", "list", f"*{name}*")) == 2, "the topics")
    planned = cli.json("topic", "delete", f"*{name}*")
    assert [one["name"] for one in planned] == [f"{name}_"]
    cli("topic", "delete", f"_{name}", f"{name}_")


def test_records_before_a_position_are_deleted(cli, own_topic):
    cli("topic", "produce", own_topic, "-p", 0, "-q", *map(str, range(10)))

    def start():
        return cli.json("topic", "describe", own_topic)[0]["partitions"][0]["start_offset"]

    planned = cli.run("topic", "trim", own_topic, "-o", -3)
    assert planned.returncode == 0 and "--execute" in planned.stderr and "7 offsets would be deleted" in planned.stdout
    assert start() == 0
    trimmed = cli.json("topic", "trim", own_topic, "-o", 4, "-p", 0, "--execute")
    assert trimmed == [{"topic": own_topic, "partition": 0, "from": 0, "to": 4, "end": 10, "executed": True}]
    assert start() == 4 and cli("topic", "consume", own_topic, "-p", 0, "-e", "-n", 1) == "4\n"
    cli("topic", "trim", own_topic, "-o", "newest", "--execute")
    assert start() == 10
    assert "has no partition 9" in cli.refusal("topic", "trim", own_topic, "-o", "end", "-p", 9)


def test_a_time_after_the_last_record_trims_nothing(cli, own_topic):
    records = [{"partition": partition, "timestamp": 1_700_000_000_000 + 1000 * second, "value": "x"}
               for partition, second in [(0, 0), (0, 9), (1, 0)]]
    cli("topic", "produce", own_topic, "--input", "json", "-q", stdin="\n".join(map(json.dumps, records)))
    # Partition 1 has no record that recent, partition 2 has none at all; partition 0 is trimmed nevertheless.
    trimmed = cli.run("topic", "trim", own_topic, "-o", "@1700000005000", "--execute", "--format", "json")
    assert trimmed.returncode == 1
    rows_ = {one["partition"]: one for one in json.loads(trimmed.stdout)}
    assert (rows_[0]["to"], rows_[0]["executed"]) == (1, True)
    assert rows_[1]["to"] is None and not rows_[1]["executed"] and "-o end" in rows_[1]["error"]
    assert "error" not in rows_[2]
    assert [p["start_offset"] for p in cli.json("topic", "describe", own_topic)[0]["partitions"]] == [1, 0, 0]


def test_partitions_are_added(cli, own_topic):
    assert "would have 5 partitions, before 3" in cli("topic", "add-partitions", own_topic, "-n", 2, "--dry-run")
    cli("topic", "add-partitions", own_topic, "-n", 2)
    wait_until(lambda: len(cli.json("topic", "describe", own_topic)[0]["partitions"]) == 5, "the partitions")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cli.refusal("topic", "add-partitions", f"{own_topic}-not", "-n", 1)


def test_the_lag_of_groups_and_positions_that_are_deleted(cli, own_topic, name):
    group = f"group-{name}"
    cli("topic", "produce", own_topic, "-p", 0, "-q", *map(str, range(10)))
    cli("topic", "consume", own_topic, "-g", group, "-n", 4)
    wait_until(lambda: group_of(cli, group)["state"] == "Empty", "the group to be empty")
    (lag,) = cli.json("group", "lag", group)
    assert (lag["name"], lag["lag"], lag["members"], lag["state"]) == (group, 6, 0, "Empty")
    assert {"topic": own_topic, "partition": 0, "position": 4, "end_offset": 10, "lag": 6} in lag["partitions"]
    assert group in [one["name"] for one in cli.json("groups", "lag")]
    assert "6 in 0" in cli("group", "lag", f"group-{name}*", "-t", f"{own_topic}*")
    assert cli.json("group", "lag", f"{group}*", "-t", "other") == []
    both = cli.run("group", "lag", group, f"{group}-not", "--format", "json")
    assert both.returncode == 1
    assert [(one["name"], one["lag"], one.get("error")) for one in json.loads(both.stdout)] == [
        (group, 6, None), (f"{group}-not", None, "does not exist")]
    assert lag["unknown_partitions"] == 0
    assert "does not exist" in cli.refusal("group", "lag", f"{group}-not")
    assert cli.lines("group", "lag", group, "--watch", "--every", 1, "--times", 2) == [[lag], [lag]]

    assert "no position in partition" in cli.refusal("group", "offset-delete", group, "-t", f"{own_topic}:9")
    assert "deleted, was 4" in cli("group", "offset-delete", group, "-t", f"{own_topic}:0")
    left = {one["partition"] for one in cli.json("group", "describe", group)[0]["partitions"]}
    assert 0 not in left
    planned = cli.run("group", "delete", f"{group}*")
    assert planned.returncode == 0 and "would be deleted" in planned.stdout
    cli("group", "delete", f"{group}*", "--execute")
    assert "does not exist" in cli.refusal("group", "describe", group)


def test_quotas(cli, name):
    who = ["--user", f"user-{name}", "--client-id", "app"]

    def described(*arguments):
        return cli.json("quota", "describe", "--user", f"user-{name}", *arguments)

    assert "would be changed" in cli("quota", "alter", *who, "-s", "producer_byte_rate=1000", "--dry-run")
    cli("quota", "alter", *who, "-s", "producer_byte_rate=1000", "-s", "request_percentage=12.5")
    entity = [{"type": "user", "name": f"user-{name}"}, {"type": "client-id", "name": "app"}]
    values = {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    wait_until(lambda: described() == [{"entity": entity, "values": values}], "the quota")
    assert described("--strict") == [] and described("--any", "client-id", "--strict") == described()
    assert f"user=user-{name}, client-id=app" in cli("quotas", "ls")
    cli("quota", "alter", *who, "--unset", "producer_byte_rate", "--unset", "request_percentage")
    wait_until(lambda: described() == [], "the quota to be gone")
    assert cli.refusal("quota", "alter", *who, "-s", "beans=1")
    assert "must be a number" in cli.refusal("quota", "alter", *who, "-s", "producer_byte_rate=much")


def test_subscriptions_to_metrics_of_clients(cli, name):
    def names():
        return [one["name"] for one in cli.json("client-metrics", "list")]

    cli("client-metrics", "alter", name, "-s", "interval.ms=60000", "-s", "match=client_id=nobody")
    wait_until(lambda: name in names(), "the subscription")
    (described,) = cli.json("client-metrics", "describe", name)
    settings = {one["name"]: (one["value"], one["source"]) for one in described["settings"]}
    assert settings["interval.ms"] == ("60000", "client metrics")
    assert "does not exist" in cli.refusal("client-metrics", "describe", f"{name}-not")
    assert "would be deleted" in cli("client-metrics", "delete", f"{name}*")
    cli("client-metrics", "delete", name)
    wait_until(lambda: name not in names(), "the subscription to be gone")
    assert "RESOURCE_NOT_FOUND" in cli.refusal("client-metrics", "delete", name)


def test_health_log_directories_and_features(cli, own_topic):
    cli("topic", "produce", own_topic, "-p", 0, "-q", "x")
    wait_until(lambda: cli.run("cluster", "health").returncode == 0, "the cluster to be healthy")
    health = cli.json("cluster", "health")
    assert health["healthy"] and health["problems"] == [] and health["partitions"] >= 3
    assert health["controller"] == cli.json("cluster", "info")["controller"]
    (one,) = cli.json("logdir", "describe", own_topic)
    assert [log["partition"] for log in one["partitions"]] == [0, 1, 2] and "error" not in one
    assert own_topic in cli("logdirs", "describe", "-p") and "in service" in cli("logdirs", "ls")
    feature = cli.json("features", "describe")["metadata.version"]
    assert 0 < feature["level"] <= feature["supported_max"]
    assert cli.refusal("feature", "upgrade", "metadata.version=32000", "--dry-run")


def test_what_is_nearly_right_is_answered_with_what_is(cli):
    option = cli.run("topic", "list", "--internl")
    assert option.returncode == 2 and "--internal" in option.stderr
    verb = cli.run("topic", "descibe", "x")
    assert verb.returncode == 2 and "describe" in verb.stderr


def test_a_table_fits_the_terminal(cli, name):
    topics = [f"{name}.{'long-' * 15}{number}" for number in range(2)]
    cli("topic", "create", *topics)
    wait_until(lambda: len(cli.json("topic", "list", f"{name}.*")) == 2, "the topics")
    lines = on_terminal(cli, 50, "topic", "list", f"{name}.*")
    assert max(map(len, lines)) <= 50 and len(lines) > 3
    # Nothing is left out: the names go on below, and a pipe gets them whole.
    assert "".join(line[: lines[0].index("PARTITIONS")].strip() for line in lines[1:]) == "".join(topics)
    assert [row["NAME"] for row in rows(cli("topic", "list", f"{name}.*"))] == topics
    cli("topic", "delete", *topics)


def on_terminal(cli, columns, *arguments):
    """The lines that a terminal of this width shows."""
    control, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [binary(), *arguments, "--brokers", cli.address]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, timeout=60, check=False,
                          preexec_fn=die_with_parent)
    os.close(terminal)
    assert done.returncode == 0, done.stderr
    shown = b""
    with contextlib.suppress(OSError):
        while more := os.read(control, 65536):
            shown += more
    os.close(control)
    return shown.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize(("typed", "offered"), [
    ("forebay topic add", "add-partitions"), ("forebay gr", "group groups"), ("forebay topics con", "consume"),
    ("forebay group lag --wa", "--watch"), ("forebay client-metrics des", "describe")])
def test_bash_completes_commands_and_options(tmp_path, typed, offered):
    script = tmp_path / "forebay.bash"
    script.write_text(subprocess.run([binary(), "completion", "bash"], capture_output=True, text=True, check=True, timeout=60).stdout)
    words = typed.split()
    asked = (f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; "
             f"_forebay forebay '{words[-1]}' '{words[-2]}'; echo ${{COMPREPLY[@]}}")
    done = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == offered, done.stderr


def test_the_cluster_and_its_settings(cli, broker):
    overview = cli.json("cluster", "info")
    assert [f"{one['host']}:{one['port']}" for one in overview["brokers"]] == [broker.address]
    broker_id = overview["brokers"][0]["id"]
    assert len(overview["id"]) == 22 and overview["controller"] == broker_id
    assert overview["features"]["metadata.version"] > 0
    assert f"{broker_id}*" in cli("cluster", "info")
    quorum = cli.json("cluster", "quorum")
    assert quorum["leader"] == broker_id and quorum["high_watermark"] > 0
    assert {one["role"]: one["lag"] for one in quorum["replicas"]}["leader"] == 0

    own = {one["name"]: one for one in cli.json("cluster", "config")}
    assert own["message.max.bytes"]["value"] == "33554432" and own["message.max.bytes"]["source"] == "broker, at its start"
    everything = {one["name"] for one in cli.json("cluster", "config", "--all")}
    assert everything > set(own)
    (one,) = cli.json("cluster", "config", "log.retention.ms", "--broker", broker_id)
    before = one["value"]
    cli("cluster", "config", "--set", "log.retention.ms=123456789")

    def now():
        (one,) = cli.json("cluster", "config", "log.retention.ms")
        return one["value"], one["source"]

    wait_until(lambda: now() == ("123456789", "all brokers, dynamic"), "the setting")
    cli("cluster", "config", "--unset", "log.retention.ms")
    wait_until(lambda: now()[0] == before, "the setting to be gone")
    assert cli.refusal("cluster", "config", "--set", "log.retention.ms=soon")
    assert "no broker 77" in cli.refusal("cluster", "config", "--broker", 77)


def test_transactions_that_are_under_way_and_the_end_of_one(cli, broker, own_topic, name):
    id_ = f"id-{name}"
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": id_, "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(own_topic, b"open", partition=2)
    producer.flush(60)
    listed = {one["transactional_id"]: one for one in cli.json("txn", "list", "--state", "Ongoing")}
    assert listed[id_]["state"] == "Ongoing"
    assert id_ not in cli("txn", "list", "--state", "Empty")
    assert "no state" in cli.refusal("txn", "list", "--state", "Bogus")
    (described,) = cli.json("txn", "describe", id_)
    assert described["producer_id"] == listed[id_]["producer_id"] and described["timeout_ms"] == 600_000
    assert described["topics"] == [{"topic": own_topic, "partitions": [2]}] and described["running_ms"] >= 0
    assert "TRANSACTIONAL_ID_NOT_FOUND" in cli.refusal("txn", "describe", f"{id_}-not")
    (writer,) = cli.json("txn", "producers", own_topic, "-p", 2)
    assert writer["producer_id"] == described["producer_id"] and writer["transaction_start_offset"] == 0
    # Readers wait behind it, those who ask for it see it.
    cli("topic", "produce", own_topic, "-p", 2, "-q", "after")
    assert cli("topic", "consume", own_topic, "-p", 2, "-e") == ""
    assert cli("topic", "consume", own_topic, "-p", 2, "-e", "--read-uncommitted") == "open\nafter\n"

    where = ["txn", "abort", "--topic", own_topic, "--partition", 2]
    assert "begins at offset 1" in cli.refusal(*where, "--start-offset", 1)
    assert f"transaction of producer {described['producer_id']} aborted" in cli(*where, "--start-offset", 0)
    assert cli("topic", "consume", own_topic, "-p", 2, "-e") == "after\n"
    (writer,) = [one for one in cli.json("txn", "producers", own_topic, "-p", 2) if one["producer_id"] == described["producer_id"]]
    assert writer["transaction_start_offset"] is None
    del producer


def test_profiles(tmp_path):
    cli = Cli("", tmp_path)

    def profile(*arguments):
        return cli("profile", *arguments, brokers=False)

    assert profile("list") == "NAME  BROKERS  FORMAT  ADMIN\n"
    one, two = (f"127.0.0.1:{free_port()}" for _ in range(2))
    profile("set", "one", f"brokers={one}")
    profile("set", "two", f"brokers={two}", "format=json")
    assert f"one*  {one}" in profile("list")
    assert f"broker {one} could not be reached" in cli.refusal("topic", "list", brokers=False)
    assert f"broker {two} could not be reached" in cli.refusal("topic", "list", "--profile", "two", brokers=False)
    profile("use", "two")
    assert f"broker {two} could not be reached" in cli.refusal("group", "list", brokers=False)
    assert [one["in_use"] for one in json.loads(profile("list", "--format", "json"))] == [False, True]
    assert "no profile" in cli.refusal("profile", "use", "three", brokers=False)
    assert "no profile" in cli.refusal("topic", "list", "--profile", "three", brokers=False)
    assert "brokers, admin and format" in cli.refusal("profile", "set", "one", "colour=red", brokers=False)
    admin = f"127.0.0.1:{free_port()}"
    profile("set", "two", f"admin={admin}")
    said = cli.refusal("tier", "status", brokers=False)
    assert admin in profile("list") and f"admin endpoint at {admin}" in said
    assert f"admin endpoint {admin}, of profile two" in said
    assert "of profile" not in cli.refusal("tier", "status", "--admin", admin, brokers=False)
    profile("delete", "two")
    assert "two" not in profile("list")
    (tmp_path / "forebay/profiles.toml").write_text("current = 1\n")
    assert "profiles.toml" in cli.refusal("topic", "list", brokers=False)


def test_who_cannot_be_reached_is_named_and_the_next_is_tried(cli, broker):
    dead = f"127.0.0.1:{free_port()}"
    for command in (["topic", "list"], ["group", "list"], ["cluster", "info"], ["txn", "list"], ["topic", "consume", "x"]):
        said = cli.refusal(*command, "-b", dead, brokers=False)
        assert said.startswith(f"forebay: broker {dead} could not be reached: "), said
    assert cli.json("cluster", "info", "-b", f"{dead},{broker.address}", brokers=False)["brokers"]
