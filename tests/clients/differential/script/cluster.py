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
    r.ask("DescribeUserScramCredentials", "some", {"Users": [{"Name": "u"}, {"Name": ""}]})
    r.ask("DescribeUserScramCredentials", "one twice", {"Users": [{"Name": "u"}, {"Name": "u"}]})
    r.ask("GetTelemetrySubscriptions", "at first", {"ClientInstanceId": uuid.UUID(int=0)})
    r.ask("PushTelemetry", "of nobody", {"ClientInstanceId": uuid.UUID(int=0)})


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
                                    ("down without saying so", "group.version", 0, 1), ("no name", "", 1, 1), ("a way that is not there", "group.version", 1, 9)]:
        r.ask("UpdateFeatures", what, to(name, level, kind), versions=range(1, 99))
    r.ask("UpdateFeatures", "none", {"timeoutMs": 5000, "FeatureUpdates": []})
