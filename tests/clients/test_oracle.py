"""Kafka judges our files, and each side serves what the other wrote.

`DumpLogSegments` reads every file of a data directory after a clean stop. A directory moves from Kafka to us and from
us to Kafka, and every record, offset, setting and committed offset is where it was.
"""

import re
import shutil
from pathlib import Path

import pytest

from clients import workload
from clients.client import Client, record
from peers import kafka
from peers.kafka import Kafka

# What DumpLogSegments says when something is wrong. It ends with success even then.
COMPLAINTS = re.compile(
    r"isvalid: false|mismatch|exception|corrupt|out of order|not found|could not|invalid|fail|"
    r"negative|larger than|extra bytes|unknown|warn|error", re.IGNORECASE)


# The tests of one written directory stay together, whatever else runs beside them.
ON_ONE_WORKER = pytest.mark.xdist_group("written")


def dump(files, *options):
    return kafka.run("dump-log", "--files", ",".join(map(str, files)), *options, heap="-Xmx512m", seconds=240)


def complaints(output):
    return [line[:300] for line in output.splitlines() if COMPLAINTS.search(line)]


def files(data: Path, pattern):
    return sorted(path for path in data.glob(pattern) if not path.parent.name.endswith("-delete"))


@pytest.fixture(scope="module")
def written(make_broker):
    """The directory of the target after the workload and a clean stop, and what its clients had seen."""
    broker = make_broker().start()
    workload.run(broker.address)
    seen = workload.state(broker.address)
    broker.stop()
    return broker.data, seen


@ON_ONE_WORKER
def test_workload_left_what_it_should(written):
    data, seen = written
    assert set(seen["topics"]) == {"mixed", "large", "trimmed", "old", "stamped", "exact"}
    committed = [one["value"] for one in workload.ROUNDS if one["commit"]]
    assert [found["committed"] for found in seen["topics"]["exact"]["partitions"]] == [committed] * 2
    assert seen["topics"]["trimmed"]["partitions"][0]["low"] == 321
    assert seen["groups"].keys() == {"set", "read", "exact"}
    assert len(files(data, "mixed-*/*.log")) > 6, "segments have been rolled"


@ON_ONE_WORKER
def test_logs_are_read_without_complaint(written):
    data, seen = written
    logs = [path for path in files(data, "*/*.log") if not path.parent.name.startswith("__")]
    output = dump(logs, "--deep-iteration", "--max-message-size", 40_000_000)
    assert complaints(output) == []
    counted = {}
    current = None
    for line in output.splitlines():
        if line.startswith("Dumping "):
            current = Path(line.removeprefix("Dumping ")).parent.name
        elif re.match(r"\| offset: \d+", line):
            counted.setdefault(current, []).append(int(line.split()[2]))
    for topic, found in seen["topics"].items():
        for partition, wanted in enumerate(found["partitions"]):
            offsets = [o for o in counted.get(f"{topic}-{partition}", []) if o >= wanted["low"]]
            # Three records and three markers in each partition.
            assert offsets == list(range(wanted["low"], wanted["high"])), f"{topic}-{partition}"


@ON_ONE_WORKER
def test_record_contents_are_printed(written):
    data, seen = written
    output = dump(files(data, "old-0/*.log"), "--print-data-log")
    assert complaints(output) == []
    from clients.drivers.protocol import payload

    for i in range(300):
        assert f"payload: {payload(str(i), 100).decode()}" in output


@ON_ONE_WORKER
@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_indexes_agree_with_the_logs(written, option, suffix):
    data, _ = written
    indexes = files(data, f"*/*.{suffix}")
    assert len(indexes) > 10
    output = dump(indexes, option, "--max-message-size", 40_000_000)
    assert complaints(output.replace("passed sanity check", "")) == []


@ON_ONE_WORKER
@pytest.mark.parametrize("suffix", ["snapshot", "txnindex"])
def test_producer_state_is_read(written, suffix):
    data, _ = written
    found = [path for path in files(data, f"*/*.{suffix}") if not path.parent.name.startswith("__")]
    assert found, f"a {suffix} that says something"
    output = dump(found)
    assert complaints(output) == []
    if suffix == "snapshot":
        assert "producerId:" in output


@ON_ONE_WORKER
def test_committed_offsets_are_read(written):
    data, _ = written
    output = dump(files(data, "__consumer_offsets-*/*.log"), "--offsets-decoder")
    assert complaints(output) == []
    assert re.search(r'"group":"set","topic":"mixed","partition":2.*"offset":33\b', output)
    assert re.search(r'"group":"read","topic":"old","partition":0.*"offset":300\b', output)
    assert re.search(r'"group":"dropped".*payload: ?(null|<DELETE>|$)', output, re.MULTILINE), "the tombstone of a deleted group"


@ON_ONE_WORKER
def test_transactions_are_read(written):
    data, _ = written
    output = dump(files(data, "__transaction_state-*/*.log"), "--transaction-log-decoder")
    assert complaints(output) == []
    states = re.findall(r"transactionalId=exact.*?state=(\w+)", output) or re.findall(r'"transactionStatus":(\d)', output)
    assert len(states) >= 10, output
    indexes = files(data, "exact-*/*.txnindex")
    aborted = dump([path for path in indexes if path.stat().st_size])
    assert complaints(aborted) == [] and "producerId:" in aborted and "firstOffset:" in aborted, aborted


@ON_ONE_WORKER
def test_metadata_is_read(written):
    data, _ = written
    logs = files(data, "__cluster_metadata-0/*.log")
    assert logs
    output = dump(logs, "--cluster-metadata-decoder")
    assert complaints(output) == []
    for kind in ("TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "REMOVE_TOPIC_RECORD", "FEATURE_LEVEL_RECORD"):
        assert f'"type":"{kind}"' in output, kind
    assert '"name":"mixed"' in output
    checkpoints = files(data, "__cluster_metadata-0/*.checkpoint")
    if checkpoints:
        assert complaints(dump(checkpoints, "--cluster-metadata-decoder")) == []


def restarted(make_broker, kind, data, **options):
    """A broker of this kind on a copy of the directory: the original stays for the other tests."""
    broker = make_broker(kind, **options)
    shutil.copytree(data, broker.data, symlinks=True)
    # The copy of a running directory's lock belongs to nobody.
    (broker.data / ".lock").unlink(missing_ok=True)
    return broker.start()


def goes_on(address, seen):
    """The broker takes new records where the old ones end, and a group resumes."""
    client = Client("librdkafka", address)
    for topic in ("mixed", "trimmed"):
        high = seen["topics"][topic]["partitions"][0]["high"]
        assert client.produce(topic=topic, records=[record(0, "more", 1000)], idempotent=True) == [high]
    client.transact(topic="exact", identity="exact", group="exact", rounds=workload.ROUNDS)
    for partition in range(2):
        assert workload.settled(client, partition, 2) == 2 * seen["topics"]["exact"]["partitions"][0]["committed"]
    client.create_topic(topic="later", partitions=1, configs={})
    member = Client("librdkafka", address)
    member.become_member(group="read", topic="old")
    client.produce(topic="old", records=[record(0, "resumed", 10)])
    member.collect(lambda me: me.committed, "the record after the commit")
    assert [r["offset"] for r in member.records] == [300]
    member.leave()
    client.close()


@ON_ONE_WORKER
def test_kafka_serves_our_directory(written, make_broker):
    """What we wrote and stopped cleanly; and what Kafka then adds to it is served by us again."""
    data, seen = written
    theirs = restarted(make_broker, Kafka, data)
    assert workload.differences(workload.state(theirs.address), seen) == []
    goes_on(theirs.address, seen)
    after = workload.state(theirs.address)
    theirs.stop()
    ours = restarted(make_broker, None, theirs.data)
    assert workload.differences(workload.state(ours.address), after) == []
    ours.stop()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_we_serve_a_directory_of_kafka(make_broker, end):
    theirs = make_broker(Kafka).start()
    workload.run(theirs.address)
    seen = workload.state(theirs.address)
    getattr(theirs, end)()
    ours = restarted(make_broker, None, theirs.data)
    assert workload.differences(workload.state(ours.address), seen) == []
    goes_on(ours.address, seen)
    ours.stop()


def in_a_consumer_group(address, low, instance):
    """A static member of the group `new` reads what is written from `low` on, commits, and dies in the group."""
    client = Client("librdkafka", address)
    if "new" not in client.topics():
        client.create_topic(topic="new", partitions=2, configs={})
    member = Client("librdkafka", address)
    member.become_member(group="new", topic="new", protocol="consumer", instance=instance)
    client.produce(topic="new", records=[record(p, f"{low}/{p}/{i}", 10) for p in range(2) for i in range(10)])
    wanted = {(p, low + i) for p in range(2) for i in range(10)}
    member.collect(lambda me: me.committed >= wanted, f"offsets from {low}")
    assert {(r["partition"], r["offset"]) for r in member.records} == wanted, "from where the group stood"
    member.kill()
    assert client.describe_group(group="new")["members"] >= 1
    by_expression = Client("librdkafka", address)
    by_expression.become_member(group="matching", topic="^ne.*", protocol="consumer")
    by_expression.collect(lambda me: me.assigned == [0, 1], "what the expression matches")
    by_expression.kill()
    client.close()


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_consumer_groups_move_between_kafka_and_us(make_broker, first):
    """A directory with consumer groups and members in them goes from one to the other and back."""
    kinds = [None, Kafka, None] if first == "ours" else [Kafka, None, Kafka]
    broker = make_broker(kinds[0]).start()
    in_a_consumer_group(broker.address, 0, "one")
    broker.stop()
    for turn, kind in enumerate(kinds[1:], 1):
        output = dump(files(broker.data, "__consumer_offsets-*/*.log"), "--offsets-decoder")
        # An empty expression and a null assignor are no complaint.
        assert complaints(output) == []
        for key in ("3", "5", "6", "7", "8", "16"):
            assert re.search(rf'"type":"{key}","data":{{"groupId":"(new|matching)"', output), f"records of type {key}"
        assert re.search(r'"type":"5".*"groupId":"new".*"instanceId":"\w+".*"subscribedTopicNames":\["new"\]', output)
        assert re.search(r'"type":"16".*"regularExpression":"\(?\^ne.\*\)?".*"topics":\["new"\]', output)
        broker = restarted(make_broker, kind, broker.data)
        # Asked before the coordinator is there, librdkafka ends the process (its issue 5040); this one asks again.
        patient = Client("kafkapython", broker.address)
        assert patient.group_offsets(group="new", topic="new") == {"0": 10 * turn, "1": 10 * turn}
        patient.close()
        client = Client("librdkafka", broker.address)
        assert client.group_offsets(group="new", topic="new") == {"0": 10 * turn, "1": 10 * turn}
        assert kafka.run("groups", "--bootstrap-server", broker.address, "--list", "--type").count("Consumer") == 2
        client.close()
        in_a_consumer_group(broker.address, 10 * turn, f"one-{turn}")
        broker.stop()
