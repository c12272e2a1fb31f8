"""The cluster: brokers, features, the quorum, elections, reassignments, directories, metrics of clients, credentials."""

import uuid

from clients.differential.script.topics import TOPIC


def ask(r):
    r.ask("ApiVersions", "with a name", {"ClientSoftwareName": "differential", "ClientSoftwareVersion": "1"})
    r.ask("DescribeCluster", "brokers", {"EndpointType": 1})
    r.ask("DescribeCluster", "with what one may do", {"IncludeClusterAuthorizedOperations": True, "EndpointType": 1})
    r.ask("DescribeCluster", "controllers", {"EndpointType": 2}, versions=range(1, 99))
    r.ask("DescribeCluster", "a kind that is not there", {"EndpointType": 7}, versions=range(1, 99))
    r.ask("DescribeCluster", "with fenced ones", {"EndpointType": 1, "IncludeFencedBrokers": True}, versions=range(2, 99))
    directories(r)
    leaders(r)
    r.ask("DescribeQuorum", "the log", {"Topics": [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]})
    r.ask("DescribeQuorum", "another topic", {"Topics": [{"TopicName": TOPIC, "Partitions": [{"PartitionIndex": 0}]}]})
    r.ask("DescribeQuorum", "another partition", {"Topics": [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 5}]}]})
    r.ask("DescribeQuorum", "none", {"Topics": []})
    features(r)
    r.ask("DescribeUserScramCredentials", "all", {"Users": None})
    credentials(r)
    r.ask("DescribeUserScramCredentials", "some", {"Users": [{"Name": "u"}, {"Name": ""}]})
    r.ask("DescribeUserScramCredentials", "one twice", {"Users": [{"Name": "u"}, {"Name": "u"}]})
    r.ask("GetTelemetrySubscriptions", "at first", {"ClientInstanceId": uuid.UUID(int=0)})
    r.ask("PushTelemetry", "of nobody", {"ClientInstanceId": uuid.UUID(int=0)})


def credentials(r):
    def put(name="u", mechanism=1, iterations=4096, salt=b"salt", password=b"x" * 32):
        return {"Name": name, "Mechanism": mechanism, "Iterations": iterations, "Salt": salt, "SaltedPassword": password}

    def to(*upsertions, deletions=()):
        return {"Upsertions": list(upsertions), "Deletions": [{"Name": name, "Mechanism": mechanism} for name, mechanism in deletions]}

    for what, values in {
        "too few rounds": to(put(iterations=1)), "too many rounds": to(put(iterations=2**31 - 1)), "no mechanism": to(put(mechanism=0)),
        "a mechanism that is not there": to(put(mechanism=9)), "no name": to(put(name="")), "twice": to(put(), put()),
        "sets and removes": to(put(), deletions=[("u", 1)]), "removes what is not there": to(deletions=[("u", 2)]), "removes of nobody": to(deletions=[("", 1)]),
        "a good one beside a bad one": to(put("v"), put("w", iterations=1)),
    }.items():
        r.ask("AlterUserScramCredentials", what, values)
    r.ask("AlterUserScramCredentials", "sets two", to(put("one"), put("two", mechanism=2, password=b"y" * 64)))
    two = {"Users": [{"Name": "one"}, {"Name": "two"}]}
    r.until("DescribeUserScramCredentials", two, lambda a: all(one["ErrorCode"] == 0 for one in a["Results"]))
    r.ask("DescribeUserScramCredentials", "two that were set", two)
    r.ask("AlterUserScramCredentials", "removes one", to(deletions=[("one", 1)]))
    r.until("DescribeUserScramCredentials", two, lambda a: any(one["ErrorCode"] for one in a["Results"]))
    r.ask("DescribeUserScramCredentials", "one that was removed", two)


def directories(r):
    r.ask("DescribeLogDirs", "some", {"Topics": [{"Topic": TOPIC, "Partitions": [0, 9]}, {"Topic": "missing", "Partitions": [0]}]})
    r.ask("DescribeLogDirs", "none", {"Topics": []})
    where = {"Dirs": [{"Path": "/not/there", "Topics": [{"Name": TOPIC, "Partitions": [0]}, {"Name": "missing", "Partitions": [0]}]}]}
    r.ask("AlterReplicaLogDirs", "to nowhere", where, patient=False)
    r.ask("AlterReplicaLogDirs", "none", {"Dirs": []})
    here = {"Dirs": [{"Path": str(r.broker.data), "Topics": [{"Name": TOPIC, "Partitions": [0]}, {"Name": "missing", "Partitions": [0]}]}]}
    r.ask("AlterReplicaLogDirs", "to where it is", here, patient=False)


def leaders(r):
    for kind in (0, 1, 7):
        for what, topics in {"one": [(TOPIC, [0])], "what is not there": [("missing", [0]), (TOPIC, [9])], "none": []}.items():
            wanted = [{"Topic": name, "Partitions": parts} for name, parts in topics]
            r.ask("ElectLeaders", f"{what}, kind {kind}", {"ElectionType": kind, "TopicPartitions": wanted, "TimeoutMs": 5000})
        r.ask("ElectLeaders", f"all, kind {kind}", {"ElectionType": kind, "TopicPartitions": None, "TimeoutMs": 5000})

    def to(name, part, replicas):
        return {"TimeoutMs": 5000, "Topics": [{"Name": name, "Partitions": [{"PartitionIndex": part, "Replicas": replicas}]}]}

    for what, values in {"where it is": to(TOPIC, 0, [1]), "to nobody": to(TOPIC, 0, [9]), "to none": to(TOPIC, 0, []), "cancels": to(TOPIC, 0, None),
                         "twice": to(TOPIC, 0, [1, 1]), "what is not there": to("missing", 0, [1]), "a partition that is not there": to(TOPIC, 9, [1]),
                         "nothing": {"Topics": [], "TimeoutMs": 5000}}.items():
        r.ask("AlterPartitionReassignments", what, values)
    for what, topics in {"all": None, "some": [{"Name": TOPIC, "PartitionIndexes": [0]}], "what is not there": [{"Name": "missing", "PartitionIndexes": [0]}], "none": []}.items():
        r.ask("ListPartitionReassignments", what, {"Topics": topics, "TimeoutMs": 5000})


def features(r):
    def to(name, level, kind=1):
        return lambda v: {"timeoutMs": 5000, "FeatureUpdates": [{"Feature": name, "MaxVersionLevel": level, **({"UpgradeType": kind} if v >= 1 else {})}],
                          **({"ValidateOnly": True} if v >= 1 else {})}

    for what, name, level, kind in [("one that is not there", "no.such", 1, 1), ("too high", "metadata.version", 999, 1), ("below", "metadata.version", -1, 1),
                                    ("down without saying so", "group.version", 0, 1), ("down to an older log", "metadata.version", 7, 2),
                                    ("down to an older log, whatever is lost", "metadata.version", 7, 3), ("no name", "", 1, 1), ("a way that is not there", "group.version", 1, 9)]:
        r.ask("UpdateFeatures", what, to(name, level, kind), versions=range(0 if kind == 1 else 1, 99))
    r.ask("UpdateFeatures", "what it is", to("group.version", 1))
    r.ask("UpdateFeatures", "none", {"timeoutMs": 5000, "FeatureUpdates": []})
