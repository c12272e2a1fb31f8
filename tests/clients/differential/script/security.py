"""Who may do what, tokens, logging in, and who belongs to the cluster: what a broker without any of it answers."""

import uuid

FILTER = {"ResourceTypeFilter": 2, "ResourceNameFilter": None, "PatternTypeFilter": 1, "PrincipalFilter": None, "HostFilter": None,
          "Operation": 1, "PermissionType": 1}
ACL = {"ResourceType": 2, "ResourceName": "t", "ResourcePatternType": 3, "Principal": "User:a", "Host": "*", "Operation": 3, "PermissionType": 3}


def ask(r):
    acls(r)
    tokens(r)
    for mechanism in ("PLAIN", "SCRAM-SHA-256", ""):
        r.ask("SaslHandshake", f"by {mechanism!r}", {"Mechanism": mechanism})
    for what, said in {"nothing": b"", "a name": b"\0user\0secret"}.items():
        r.ask("SaslAuthenticate", what, {"AuthBytes": said})
    voters(r)
    for broker in (77, -1):
        r.ask("UnregisterBroker", f"broker {broker}", {"BrokerId": broker})


def acls(r):
    r.ask("DescribeAcls", "of topics", FILTER)
    r.ask("DescribeAcls", "of kinds that are not there", {**FILTER, "ResourceTypeFilter": 99, "Operation": 99, "PermissionType": 99})
    r.ask("CreateAcls", "several", {"Creations": [ACL, ACL, {**ACL, "ResourceType": 99}, {**ACL, "Principal": "nobody"}]})
    r.ask("CreateAcls", "none", {"Creations": []})
    r.ask("DeleteAcls", "several", {"Filters": [FILTER, FILTER]})
    r.ask("DeleteAcls", "none", {"Filters": []})


def tokens(r):
    r.ask("CreateDelegationToken", "for oneself", {"MaxLifetimeMs": 1000})
    r.ask("CreateDelegationToken", "for a group", {"Renewers": [{"PrincipalType": "Group", "PrincipalName": "g"}], "MaxLifetimeMs": -1})
    for what, kind, name in [("for somebody", "User", "u"), ("for a name", None, "u"), ("for a kind", "User", None), ("for a group's", "Group", "g"),
                             ("for no name", "User", "")]:
        r.ask("CreateDelegationToken", what, {"OwnerPrincipalType": kind, "OwnerPrincipalName": name, "MaxLifetimeMs": 1000}, versions=range(3, 99))
    r.ask("RenewDelegationToken", "one that is not there", {"Hmac": b"x", "RenewPeriodMs": 1000})
    r.ask("ExpireDelegationToken", "one that is not there", {"Hmac": b"x", "ExpiryTimePeriodMs": -1})
    r.ask("DescribeDelegationToken", "all", {"Owners": None})
    r.ask("DescribeDelegationToken", "none", {"Owners": []})
    r.ask("DescribeDelegationToken", "somebody's", {"Owners": [{"PrincipalType": "User", "PrincipalName": "u"}]})


def voters(r):
    there = [{"Name": "CONTROLLER", "Host": "localhost", "Port": 9}]
    some = {"ClusterId": None, "TimeoutMs": 1000, "VoterId": 2, "VoterDirectoryId": uuid.UUID(int=5), "Listeners": there}
    for what, change in {"another": {}, "of another cluster": {"ClusterId": "other"}, "an id below": {"VoterId": -2}, "no directory": {"VoterDirectoryId": uuid.UUID(int=0)},
                         "nowhere": {"Listeners": []}, "the same": {"VoterId": 1}}.items():
        voter = {**some, **change}
        r.ask("AddRaftVoter", what, voter)
        if what != "nowhere":
            r.ask("RemoveRaftVoter", what, {field: voter[field] for field in ("ClusterId", "VoterId", "VoterDirectoryId")})
