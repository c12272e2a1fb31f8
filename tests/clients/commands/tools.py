"""The same facts twice: from Kafka's own tools, and from our commands. Each pair is asked of one broker.

A fact is a mapping of plain values; whose tool says it, is all that differs.
"""

import json
import re

from peers import kafka


class Pair:
    """A broker, asked by Kafka's tools and by our commands."""

    def __init__(self, broker, cli, home):
        self.broker, self.cli, self.home = broker, cli, home

    def tool(self, name, *arguments):
        return kafka.run(name, "--bootstrap-server", self.broker.address, *arguments)

    def ours(self, *arguments):
        return self.cli.json(*arguments)


def table(text, first):
    """The rows of a table of Kafka's tools, whose head begins with `first`."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    start = next(index for index, row in enumerate(rows) if row[0] == first)
    return [dict(zip(rows[start], row, strict=False)) for row in rows[start + 1:]]


def topics(pair):
    """Partitions, leaders, replicas, in-sync replicas and settings of all topics."""
    text = pair.tool("topics", "--describe")
    theirs = {}
    for line in text.splitlines():
        fields = dict(re.findall(r"(\w+): ?([^\t]*)", line))
        name = fields["Topic"]
        if "TopicId" in fields:
            theirs[name] = {"id": fields["TopicId"], "count": int(fields["PartitionCount"])}
        else:
            theirs[name, int(fields["Partition"])] = [fields[key].strip() for key in ("Leader", "Replicas", "Isr")]
    ours = {}
    # Those that begin with `_` a pattern does not select: they are named.
    names = [one["name"] for one in pair.ours("topic", "list", "--internal")]
    for one in pair.ours("topic", "describe", *names):
        ours[one["name"]] = {"id": one["id"], "count": len(one["partitions"])}
        for p in one["partitions"]:
            ours[one["name"], p["partition"]] = [str(p["leader"]), *(",".join(map(str, p[key])) for key in ("replicas", "isr"))]
    return theirs, ours


def settings(pair):
    """What is set of a topic."""
    text = pair.tool("configs", "--describe", "--entity-type", "topics", "--entity-name", "trucks")
    theirs = dict(re.findall(r"^\s+(\S+?)=(.*?) sensitive=", text, re.MULTILINE))
    (one,) = pair.ours("topic", "describe", "trucks")
    return theirs, {s["name"]: s["value"] for s in one["settings"] if s["source"] == "topic"}


def offsets(pair):
    """First and next offsets of all partitions."""
    theirs = {}
    for which, time in (("start", "earliest"), ("end", "latest")):
        for line in pair.tool("get-offsets", "--time", time, "--exclude-internal-topics").split():
            topic, partition, offset = line.rsplit(":", 2)
            theirs[which, topic, int(partition)] = int(offset)
    ours = {(which, one["name"], p["partition"]): p[f"{which}_offset"]
            for one in pair.ours("topic", "describe", "*") for p in one["partitions"] for which in ("start", "end")}
    return theirs, ours


def groups(pair):
    """Positions and lags of every group, and its state."""
    theirs = {(row["GROUP"], row["TOPIC"], int(row["PARTITION"])): [row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]]
              for group in ("readers", "others") for row in table(pair.tool("groups", "--describe", "--group", group), "GROUP")
              if row["GROUP"] == group}
    theirs |= {row["GROUP"]: row["STATE"] for row in table(pair.tool("groups", "--list", "--state"), "GROUP")}
    ours = {(one["name"], p["topic"], p["partition"]): [str(p[key]) for key in ("position", "end_offset", "lag")]
            for one in pair.ours("group", "describe", "readers", "others") for p in one["partitions"]}
    ours |= {one["name"]: one["state"] for one in pair.ours("group", "list")}
    return theirs, ours


def log_dirs(pair):
    """Where each log is, and its size."""
    text = pair.tool("log-dirs", "--describe")
    (broker,) = json.loads(next(line for line in text.splitlines() if line.startswith("{")))["brokers"]
    theirs = {(one["logDir"], p["partition"]): p["size"] for one in broker["logDirs"] for p in one["partitions"]}
    ours = {(one["dir"], f"{p['topic']}-{p['partition']}"): p["size_bytes"]
            for one in pair.ours("logdir", "describe") for p in one["partitions"]}
    return theirs, ours


def features(pair):
    """Levels in effect, and the range that the broker supports."""
    text = pair.tool("features", "describe")
    keys = ("SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel")
    theirs = {}
    for line in text.splitlines():
        if line.startswith("Feature:"):
            fields = dict(re.findall(r"(\w+): (\S+)", line))
            theirs[fields["Feature"]] = [fields[key] for key in keys]
    ours = {name: [str(one["supported_min"]), str(one["supported_max"]), str(one["level"] or 0)]
            for name, one in pair.ours("feature", "describe").items()}
    # The tool shows versions of metadata by name, and features that are off as level 0.
    for name in ("metadata.version",):
        theirs.pop(name, None)
        ours.pop(name, None)
    return theirs, ours


def client_metrics(pair):
    """What is set of subscriptions."""
    text = pair.tool("client-metrics", "--describe")
    theirs = dict(re.findall(r"^\s+(\S+?)=(.*?)(?: sensitive=.*)?$", text, re.MULTILINE))
    (one,) = pair.ours("client-metrics", "describe")
    ours = {s["name"]: s["value"] for s in one["settings"] if s["source"] == "client metrics"}
    return theirs, ours


def acls(pair):
    """All ACLs."""
    theirs, resource = set(), None
    for line in pair.tool("acls", "--list").splitlines():
        if found := re.search(r"ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)", line):
            resource = found.groups()
        elif found := re.search(r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)", line):
            theirs.add((*resource, *found.groups()))
    keys = ("resource_type", "name", "pattern", "principal", "host", "operation", "permission")
    ours = {tuple(one[key] for key in keys) for one in pair.ours("acl", "list")}
    return dict.fromkeys(theirs, True), dict.fromkeys(ours, True)


def transactions(pair):
    """Transactional ids, and the producers of the partition in which one writes."""
    theirs = {row["TransactionalId"]: [row["Coordinator"], row["ProducerId"], row["TransactionState"]]
              for row in table(pair.tool("transactions", "list"), "TransactionalId")}
    text = pair.tool("transactions", "describe-producers", "--topic", "bikes", "--partition", 0)
    for row in table(text, "ProducerId"):
        start = row["CurrentTransactionStartOffset"]
        theirs[int(row["ProducerId"])] = [row["ProducerEpoch"], row["LastSequence"], None if start == "None" else int(start)]
    ours = {one["transactional_id"]: [str(one["coordinator"]), str(one["producer_id"]), one["state"]]
            for one in pair.ours("txn", "list")}
    for one in pair.ours("txn", "producers", "bikes", "-p", 0):
        ours[one["producer_id"]] = [str(one["producer_epoch"]), str(one["last_sequence"]), one["transaction_start_offset"]]
    return theirs, ours


def quotas_and_users(pair):
    """Quotas of users and client ids, and the passwords that there are."""
    theirs = {}
    for kinds in (["users"], ["users", "clients"], ["ips"]):
        types = [word for kind in kinds for word in ("--entity-type", kind)]
        for line in pair.tool("configs", "--describe", *types).splitlines():
            if found := re.match(r"Quota configs for (.*) are (.*)", line):
                parts = re.sub(r"the default (\S+)", r"\1 ''", found[1])
                who = {kind.removesuffix("-principal"): name or None for kind, name in re.findall(r"(\S+) '(.*?)'", parts)}
                theirs[json.dumps(who, sort_keys=True)] = {
                    key: float(value) for key, value in (pair.split("=") for pair in found[2].split(", "))}
            elif found := re.match(r"SCRAM credential configs for user-principal '(.*)' are (.*)", line):
                theirs[found[1]] = sorted(re.findall(r"(SCRAM-SHA-\d+)=iterations=(\d+)", found[2]))
    # The tool asks for users, which leaves out those of a client id alone: there are none.
    ours = {json.dumps({part["type"]: part["name"] for part in one["entity"]}, sort_keys=True): one["values"]
            for one in pair.ours("quota", "describe")}
    for one in pair.ours("user", "list"):
        ours[one["name"]] = sorted((c["mechanism"], str(c["iterations"])) for c in one["credentials"])
    return theirs, ours


def cluster(pair):
    """Whose cluster it is, and who leads its metadata."""
    (id_,) = re.findall(r"Cluster ID: (\S+)", kafka.run("cluster", "cluster-id", "--bootstrap-server", pair.broker.address))
    text = pair.tool("metadata-quorum", "describe", "--status")
    (leader,) = re.findall(r"LeaderId:\s+(\d+)", text)
    (epoch,) = re.findall(r"LeaderEpoch:\s+(\d+)", text)
    replicas = {int(row["NodeId"]): row["Status"].lower() for row in
                table(pair.tool("metadata-quorum", "describe", "--replication"), "NodeId")}
    overview, quorum = pair.ours("cluster", "info"), pair.ours("cluster", "quorum")
    assert quorum["leader"] == overview["controller"]
    theirs = {"id": id_, "leader": int(leader), "epoch": int(epoch), "replicas": replicas}
    return theirs, {"id": overview["id"], "leader": quorum["leader"], "epoch": quorum["epoch"],
                    "replicas": {one["id"]: one["role"] for one in quorum["replicas"]}}


def deleted_records(pair):
    """Where a partition begins after records were deleted, by the tool and by our command."""
    wanted = pair.home / "delete.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": "cars", "partition": 0, "offset": 3}]}))
    text = pair.tool("delete-records", "--offset-json-file", wanted)
    theirs = {0: int(re.search(r"low_watermark: (\d+)", text)[1]), 1: 3}
    pair.ours("topic", "trim", "cars", "-o", 3, "-p", 1, "--execute")
    (one,) = pair.ours("topic", "describe", "cars")
    return theirs, {p["partition"]: p["start_offset"] for p in one["partitions"] if p["partition"] < 2}


# In this order: the last one deletes.
FACTS = [topics, settings, offsets, groups, log_dirs, features, client_metrics, acls, transactions, quotas_and_users, cluster,
         deleted_records]
