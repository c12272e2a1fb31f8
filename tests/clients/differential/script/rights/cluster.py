"""The cluster: who may see it, change it, act as a part of it; ACLs and credentials of others; logins and tokens."""

import uuid

from clients.differential.script.rights import given
from clients.differential.script.transactions import marker

TOPICS = ["granted", "foreign", "missing"]


def ask(u):
    u.ask("ApiVersions", "with a name", {"ClientSoftwareName": "differential", "ClientSoftwareVersion": "1"})
    u.ask("DescribeCluster", "with what one may do", {"IncludeClusterAuthorizedOperations": True, "EndpointType": 1})
    u.ask("DescribeCluster", "brokers", {"EndpointType": 1})
    u.ask("GetTelemetrySubscriptions", "at first", {"ClientInstanceId": uuid.UUID(int=0)})
    u.ask("PushTelemetry", "of nobody", {"ClientInstanceId": uuid.UUID(int=0)})
    directories(u)
    replicas(u)
    u.ask("DescribeQuorum", "the log", {"Topics": [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]})
    for kind in (0, 1):
        level = {"Feature": "no.such", "MaxVersionLevel": 1}
        u.ask("UpdateFeatures", f"one that is not there, kind {kind}", lambda v, level=level, kind=kind: {
            "timeoutMs": 5000, "FeatureUpdates": [{**level, **({"UpgradeType": kind} if v >= 1 else {})}], **({"ValidateOnly": True} if v >= 1 else {})})
    u.ask("UnregisterBroker", "one that is not there", {"BrokerId": 77})
    voters(u)
    u.ask("WriteTxnMarkers", "of a producer that is not there", marker(places=[("granted", [0]), ("foreign", [0]), ("missing", [0])]), patient=False)
    u.ask("WriteTxnMarkers", "none", {"Markers": []})
    rights(u)
    users(u)
    tokens(u)
    u.ask("SaslHandshake", "again, by a mechanism that is not there", {"Mechanism": "OTHER"}, versions=[1])
    u.ask("SaslAuthenticate", "again", {"AuthBytes": b""})
    u.close()


def directories(u):
    u.ask("DescribeLogDirs", "some", {"Topics": [{"Topic": name, "Partitions": [0]} for name in TOPICS]})
    u.ask("DescribeLogDirs", "none", {"Topics": []})
    u.ask("DescribeLogDirs", "all", {"Topics": None})
    u.ask("AlterReplicaLogDirs", "to nowhere", {"Dirs": [{"Path": "/not/there", "Topics": [{"Name": name, "Partitions": [0]} for name in TOPICS]}]}, patient=False)


def replicas(u):
    wanted = [{"Topic": name, "Partitions": [0]} for name in TOPICS]
    u.ask("ElectLeaders", "some", {"ElectionType": 0, "TopicPartitions": wanted, "TimeoutMs": 5000})
    u.ask("ElectLeaders", "none", {"ElectionType": 0, "TopicPartitions": [], "TimeoutMs": 5000})
    if u.name != "every":
        u.ask("ElectLeaders", "all", {"ElectionType": 0, "TopicPartitions": None, "TimeoutMs": 5000})
    u.ask("AlterPartitionReassignments", "to nobody", {"TimeoutMs": 5000, "Topics": [
        {"Name": name, "Partitions": [{"PartitionIndex": 0, "Replicas": [9]}]} for name in TOPICS]})
    u.ask("ListPartitionReassignments", "all", {"Topics": None, "TimeoutMs": 5000})
    u.ask("ListPartitionReassignments", "some", {"Topics": [{"Name": name, "PartitionIndexes": [0]} for name in TOPICS], "TimeoutMs": 5000})


def voters(u):
    voter = {"ClusterId": None, "VoterId": 2, "VoterDirectoryId": uuid.UUID(int=5)}
    u.ask("AddRaftVoter", "another", {**voter, "TimeoutMs": 1000, "Listeners": [{"Name": "CONTROLLER", "Host": "localhost", "Port": 9}]})
    u.ask("RemoveRaftVoter", "another", voter)


def rights(u):
    mine = given.acl(given.TOPIC, f"rights-of-{u.name}", "late", given.READ)
    u.ask("DescribeAcls", "of topics", {**given.the(mine), "ResourceNameFilter": None, "PrincipalFilter": None, "Operation": given.ANY, "PermissionType": given.ANY})
    u.ask("DescribeAcls", "of a kind that is not there", {**given.the(mine), "ResourceTypeFilter": 99})
    u.ask("CreateAcls", "some", {"Creations": [mine, {**mine, "Principal": "nobody"}, {**mine, "ResourceName": ""}]})
    u.ask("CreateAcls", "none", {"Creations": []})
    u.ask("DeleteAcls", "one", {"Filters": [given.the(mine)]})
    u.ask("DeleteAcls", "one of a kind that is not there", {"Filters": [{**given.the(mine), "ResourceTypeFilter": 99}]})
    u.ask("DeleteAcls", "none", {"Filters": []})


def users(u):
    put = {"Name": f"user-of-{u.name}", "Mechanism": 1, "Iterations": 4096, "Salt": b"salt", "SaltedPassword": b"x" * 32}
    u.ask("AlterUserScramCredentials", "sets", {"Upsertions": [put], "Deletions": []})
    u.ask("AlterUserScramCredentials", "sets one and removes one", {"Upsertions": [put], "Deletions": [{"Name": "nobody", "Mechanism": 1}]})
    u.ask("AlterUserScramCredentials", "nothing", {"Upsertions": [], "Deletions": []})
    u.ask("DescribeUserScramCredentials", "some", {"Users": [{"Name": "nobody"}, {"Name": ""}]})
    u.ask("DescribeUserScramCredentials", "none", {"Users": []})


def tokens(u):
    """There are none: no key is set for them."""
    u.ask("CreateDelegationToken", "for oneself", {"MaxLifetimeMs": 1000})
    for name in ("somebody", "foreign"):
        u.ask("CreateDelegationToken", f"for {name}", {"OwnerPrincipalType": "User", "OwnerPrincipalName": name, "MaxLifetimeMs": 1000}, versions=range(3, 99))
    u.ask("CreateDelegationToken", "for a group", {"Renewers": [{"PrincipalType": "Group", "PrincipalName": "g"}], "MaxLifetimeMs": -1})
    u.ask("RenewDelegationToken", "one that is not there", {"Hmac": b"x", "RenewPeriodMs": 1000})
    u.ask("ExpireDelegationToken", "one that is not there", {"Hmac": b"x", "ExpiryTimePeriodMs": -1})
    u.ask("DescribeDelegationToken", "all", {"Owners": None})
    u.ask("DescribeDelegationToken", "somebody's", {"Owners": [{"PrincipalType": "User", "PrincipalName": "somebody"}]})
