"""Apache Kafka's own command-line tools, unmodified, as a user runs them."""

import json
import re

import pytest

from clients.client import CODECS, record
from peers import kafka
from peers.process import wait_until


@pytest.fixture
def tool(broker):
    """Runs a tool against the broker."""

    def run(name, *args, **options):
        return kafka.run(name, "--bootstrap-server", broker.address, *args, **options)

    return run


@pytest.fixture
def own_topic(clients, name):
    admin = clients["librdkafka"]
    admin.create_topic(topic=name, partitions=3, configs={})
    wait_until(lambda: name in admin.topics(), "the topic")
    yield name
    admin.delete_topic(topic=name)


def rows(output, first):
    """The rows of a table a tool prints: the header line starts with `first`."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    start = next(i for i, line in enumerate(lines) if line[0] == first)
    return [dict(zip(lines[start], line)) for line in lines[start + 1 :] if len(line) >= len(lines[start])]


def test_topics(tool, name):
    assert f"Created topic {name}." in tool(
        "topics", "--create", "--topic", name, "--partitions", 2, "--config", "segment.bytes=1048576")
    assert name in tool("topics", "--list").split()
    described = tool("topics", "--describe", "--topic", name)
    assert re.search(r"PartitionCount:\s*2\s+ReplicationFactor:\s*1\s+Configs:.*segment.bytes=1048576", described)
    assert re.search(r"TopicId:\s*[\w-]{22}\b", described)
    assert len(re.findall(r"Partition:\s*\d+\s+Leader:\s*1\s+Replicas:\s*1\s+Isr:\s*1", described)) == 2
    tool("topics", "--alter", "--topic", name, "--partitions", 4)
    assert "PartitionCount: 4" in tool("topics", "--describe", "--topic", name)
    assert "already exists" in tool("topics", "--create", "--topic", name, check=False)
    tool("topics", "--delete", "--topic", name)
    wait_until(lambda: name not in tool("topics", "--list").split(), "the topic to be gone")


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_and_consumer(tool, own_topic, codec):
    lines = [f"key{i}\tline {i} {'x' * (i * 37 % 2000)}" for i in range(500)]
    tool("console-producer", "--topic", own_topic, "--compression-codec", codec, "--property", "parse.key=true",
         stdin="\n".join(lines) + "\n")
    read = tool("console-consumer", "--topic", own_topic, "--from-beginning", "--max-messages", 500, "--timeout-ms", 30_000,
                "--property", "print.key=true")
    assert sorted(line for line in read.splitlines() if line.startswith("key")) == sorted(lines)


@pytest.mark.parametrize(("size", "count", "acks"), [(1000, 20_000, "all"), (240_000, 400, "all"), (1000, 20_000, "1")])
def test_perf_tools(broker, tool, own_topic, size, count, acks):
    written = kafka.run(
        "producer-perf", "--topic", own_topic, "--num-records", count, "--record-size", size, "--throughput", -1,
        "--producer-props", f"bootstrap.servers={broker.address}", f"acks={acks}", "batch.size=1000000", "linger.ms=5",
        heap="-Xmx512m")
    assert re.search(rf"^{count} records sent", written, re.MULTILINE), written
    read = tool("consumer-perf", "--topic", own_topic, "--num-records", count, "--timeout", 30_000, heap="-Xmx512m")
    totals = read.strip().splitlines()[1].split(", ")
    assert int(totals[4]) >= count, read
    ends = dict(line.split(":")[1:] for line in tool("get-offsets", "--topic", own_topic).split())
    assert sum(map(int, ends.values())) == count


def test_groups(tool, clients, own_topic, name):
    group = f"group-{name}"
    clients["librdkafka"].produce(topic=own_topic, records=[record(p, f"{p}/{i}", 10) for p in range(3) for i in range(10)])
    tool("console-consumer", "--topic", own_topic, "--group", group, "--from-beginning", "--max-messages", 30,
         "--timeout-ms", 30_000)
    assert group in tool("groups", "--list").split()

    def described():
        return rows(tool("groups", "--describe", "--group", group), "GROUP")

    assert [(r["PARTITION"], r["CURRENT-OFFSET"], r["LOG-END-OFFSET"], r["LAG"]) for r in described()] == [
        (str(p), "10", "10", "0") for p in range(3)]
    state = tool("groups", "--describe", "--group", group, "--state")
    assert "Empty" in state
    tool("groups", "--reset-offsets", "--group", group, "--topic", f"{own_topic}:0", "--to-earliest", "--execute")
    tool("groups", "--reset-offsets", "--group", group, "--topic", f"{own_topic}:1", "--shift-by", -3, "--execute")
    assert [(r["PARTITION"], r["CURRENT-OFFSET"], r["LAG"]) for r in described()] == [("0", "0", "10"), ("1", "7", "3"), ("2", "10", "0")]
    again = tool("console-consumer", "--topic", own_topic, "--group", group, "--max-messages", 13, "--timeout-ms", 30_000)
    assert "Processed a total of 13 messages" in again
    tool("groups", "--delete-offsets", "--group", group, "--topic", f"{own_topic}:2")
    assert [r["PARTITION"] for r in described() if r["CURRENT-OFFSET"] != "-"] == ["0", "1"]
    tool("groups", "--delete", "--group", group)
    assert group not in tool("groups", "--list").split()


def test_configs(tool, own_topic):
    entity = ("--entity-type", "topics", "--entity-name", own_topic)
    tool("configs", *entity, "--alter", "--add-config", "retention.ms=7200000,max.message.bytes=2000000")
    described = tool("configs", *entity, "--describe")
    assert "retention.ms=7200000" in described and "max.message.bytes=2000000" in described
    tool("configs", *entity, "--alter", "--delete-config", "retention.ms")
    described = tool("configs", *entity, "--describe")
    assert "retention.ms" not in described and "max.message.bytes=2000000" in described
    everything = tool("configs", *entity, "--describe", "--all")
    assert "retention.ms=604800000" in everything
    refused = tool("configs", *entity, "--alter", "--add-config", "retention.ms=soon", check=False)
    assert "InvalidConfiguration" in refused or "Invalid value" in refused
    broker = tool("configs", "--entity-type", "brokers", "--entity-name", 1, "--describe", "--all")
    assert "message.max.bytes=33554432" in broker


def test_offsets_and_deleted_records(tool, clients, own_topic, tmp_path):
    at = 1_700_000_000_000
    clients["librdkafka"].alter_config(topic=own_topic, name="retention.ms", value="-1")
    clients["librdkafka"].produce(topic=own_topic, records=[record(0, str(i), 10, timestamp=at + i) for i in range(10)])

    def offsets(time):
        return tool("get-offsets", "--topic", own_topic, "--time", time).split()

    assert offsets("latest") == [f"{own_topic}:0:10", f"{own_topic}:1:0", f"{own_topic}:2:0"]
    assert offsets("earliest")[0] == f"{own_topic}:0:0"
    assert offsets(at + 5)[0] == f"{own_topic}:0:5"
    assert offsets("max-timestamp")[0] == f"{own_topic}:0:9"
    wanted = tmp_path / "delete.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": own_topic, "partition": 0, "offset": 6}]}))
    assert "low_watermark: 6" in tool("delete-records", "--offset-json-file", wanted)
    assert offsets("earliest")[0] == f"{own_topic}:0:6"


def test_log_dirs(tool, clients, own_topic):
    clients["librdkafka"].produce(topic=own_topic, records=[record(0, "x", 100_000)])
    output = tool("log-dirs", "--describe", "--topic-list", own_topic)
    described = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    (directory,) = described["brokers"][0]["logDirs"]
    assert directory["error"] is None
    sizes = {p["partition"]: p["size"] for p in directory["partitions"]}
    assert set(sizes) == {f"{own_topic}-{p}" for p in range(3)}
    assert 100_000 < sizes[f"{own_topic}-0"] < 101_000


def test_api_versions(tool):
    output = tool("api-versions")
    for api in ("Produce(0)", "Fetch(1)", "CreateTopics(19)", "InitProducerId(22)", "DescribeTopicPartitions(75)"):
        line = next(line for line in output.splitlines() if api in line)
        assert "UNSUPPORTED" not in line, line


def test_verifiable_producer_and_consumer(broker, tool, own_topic, name, tmp_path):
    config = tmp_path / "idempotent.properties"
    config.write_text("enable.idempotence=true\nretries=10\n")
    output = tool("verifiable-producer", "--topic", own_topic, "--max-messages", 1000, "--acks", -1,
                  "--command-config", config)
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    sent = {e["value"]: (e["partition"], e["offset"]) for e in events if e["name"] == "producer_send_success"}
    assert sorted(map(int, sent)) == list(range(1000))

    consumer = kafka.spawn("verifiable-consumer", "--bootstrap-server", broker.address, "--topic", own_topic, "--group-id",
                           f"group-{name}", "--reset-policy", "earliest", "--verbose", "--max-messages", 1000,
                           log=tmp_path / "consumer")

    def read():
        lines = (tmp_path / "consumer").read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return {e["value"]: (e["partition"], e["offset"]) for e in found if e["name"] == "record_data"}

    wait_until(lambda: len(read()) >= 1000 or not consumer.alive(), "1000 records")
    consumer.stop()
    assert read() == sent


def test_client_quotas(broker, tool, own_topic, name):
    """Set, shown, felt by a producer and by a consumer, and removed."""
    entity = ("--entity-type", "clients", "--entity-name", name)
    tool("configs", *entity, "--alter", "--add-config", "producer_byte_rate=50000,consumer_byte_rate=60000")
    described = tool("configs", *entity, "--describe")
    assert f"Quota configs for client-id '{name}' are" in described
    assert "producer_byte_rate=50000.0" in described and "consumer_byte_rate=60000.0" in described

    def throttled():
        # Ten seconds' worth may come at once; these are eleven.
        output = kafka.run(
            "producer-perf", "--topic", own_topic, "--num-records", 110, "--record-size", 5000, "--throughput", -1,
            "--print-metrics", "--producer-props", f"bootstrap.servers={broker.address}", f"client.id={name}", "batch.size=5000")
        longest = re.search(r"produce-throttle-time-max:\{client-id=.*\}\s*:\s*([\d.]+)", output)
        return float(longest.group(1)) > 0

    assert throttled()
    refused = tool("configs", *entity, "--alter", "--add-config", "producer_byte_rate=-1", check=False)
    assert "must be greater than 0" in refused
    tool("configs", *entity, "--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate")
    assert "producer_byte_rate" not in tool("configs", *entity, "--describe")
    assert not throttled()


def test_features_and_quorum(tool):
    described = tool("features", "describe")
    assert re.search(r"Feature: transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2", described)
    assert "group.version" in described
    refused = tool("features", "upgrade", "--feature", "transaction.version=9", check=False)
    assert "Could not upgrade transaction.version to 9." in refused and "only supports versions 0-2" in refused
    tool("features", "upgrade", "--feature", "group.version=1", "--dry-run")
    status = tool("metadata-quorum", "describe", "--status")
    assert re.search(r"LeaderId:\s+1\b", status)
    highest = int(re.search(r"HighWatermark:\s+(\d+)", status).group(1))
    replicas = tool("metadata-quorum", "describe", "--replication")
    (row,) = [line.split() for line in replicas.splitlines() if "Leader" in line and "LogEndOffset" not in line]
    assert row[0] == "1" and int(row[2]) >= highest > 0


def test_elections_and_reassignments(tool, own_topic, tmp_path):
    """On one node there is nothing to elect and nowhere to go; the tools say so instead of failing."""
    partitions = [{"topic": own_topic, "partition": 0}]
    chosen = tmp_path / "election.json"
    chosen.write_text(json.dumps({"partitions": partitions}))
    output = tool("leader-election", "--election-type", "preferred", "--path-to-json-file", chosen)
    assert f"Valid replica already elected for partitions {own_topic}-0" in output
    plan = tmp_path / "plan.json"

    def reassign(replicas, step, **options):
        plan.write_text(json.dumps({"version": 1, "partitions": [{**partitions[0], "replicas": replicas}]}))
        return tool("reassign-partitions", "--reassignment-json-file", plan, step, **options)

    assert f"Successfully started partition reassignment for {own_topic}-0" in reassign([1], "--execute")
    assert f"Reassignment of partition {own_topic}-0 is completed." in reassign([1], "--verify")
    assert "No partition reassignments found." in tool("reassign-partitions", "--list")
    assert "no such broker is registered" in reassign([77], "--execute", check=False) or "Unknown broker" in reassign([77], "--execute", check=False)


def test_client_metrics_and_users(tool, name):
    tool("client-metrics", "--alter", "--name", name, "--metrics", "org.apache.kafka.consumer.", "--interval", 10_000,
         "--match", "client_id=a.*")
    described = tool("client-metrics", "--describe", "--name", name)
    assert "interval.ms=10000" in described and "match=client_id=a.*" in described
    assert name in tool("client-metrics", "--list").split()
    refused = tool("client-metrics", "--alter", "--name", name, "--match", "client_age=3", check=False)
    assert "Illegal client matching pattern: client_age=3" in refused
    tool("client-metrics", "--delete", "--name", name)
    assert name not in tool("client-metrics", "--list").split()
    entity = ("--entity-type", "users", "--entity-name", name)
    tool("configs", *entity, "--alter", "--add-config", "request_percentage=200")
    assert "request_percentage=200.0" in tool("configs", *entity, "--describe")
    tool("configs", *entity, "--alter", "--delete-config", "request_percentage")


def test_what_one_node_without_logins_does_not_have(broker, tool, tmp_path):
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in tool("acls", "--list", check=False)
    config = tmp_path / "client.properties"
    config.write_text("")
    refused = tool("delegation-tokens", "--describe", "--command-config", config, check=False)
    assert "Delegation Token requests are not allowed on PLAINTEXT" in refused
    refused = kafka.run("cluster", "unregister", "--bootstrap-server", broker.address, "--id", 77, check=False)
    assert "Broker ID 77 is not currently registered" in refused
    # Kafka's own broker would go; it comes back with a restart only.
    if broker.name == "forebay":
        refused = kafka.run("cluster", "unregister", "--bootstrap-server", broker.address, "--id", 1, check=False)
        assert "only node of this cluster" in refused
