"""ACLs, as somebody who may do all: made, listed, removed, and what can be wrong with them. Leaves none."""

from clients.differential.script.rights import given
from clients.differential.script.rights.given import (
    ALLOW, ANY, CLUSTER, DENY, DESCRIBE, GROUP, ID, LITERAL, MATCH, PREFIXED, READ, THE_CLUSTER, TOKEN, TOPIC, USER, WRITE, acl, acls,
)

EVERY = {"ResourceTypeFilter": 1, "ResourceNameFilter": None, "PatternTypeFilter": ANY, "PrincipalFilter": None, "HostFilter": None, "Operation": 1,
         "PermissionType": 1}
# What later filters mean some of.
HELD = [
    *acls(TOPIC, "a", {"t": [READ, WRITE], "t*": [READ], "te*": [WRITE], "*": [DESCRIBE], "test": [given.ALL], "!test": [WRITE], "other*": [READ]}),
    *acls(TOPIC, "b", {"t": [READ]}, host="10.0.0.1"),
    acl(TOPIC, "*", "b", READ, pattern=PREFIXED),
    acl(TOPIC, "t", "*", READ), acl(TOPIC, "t", "b", READ, host="::1"), acl(TOPIC, "t", "b", READ, host="not an address"),
    *acls(GROUP, "a", {"t": [READ], "*": [READ]}), *acls(CLUSTER, "a", {THE_CLUSTER: [DESCRIBE]}), *acls(ID, "a", {"t": [WRITE]}),
    *acls(TOKEN, "a", {"t": [DESCRIBE]}), *acls(USER, "a", {"User:t": [given.CREATE_TOKENS]}),
]
ONE = acl(TOPIC, "one", "a", READ)


def ask(r):
    r.ask("DescribeAcls", "none yet", EVERY)
    refused(r)
    given.give(r, "what filters mean", HELD)
    r.ask("CreateAcls", "what there is", {"Creations": [HELD[0], HELD[0], HELD[1]]})
    described(r)
    deleted(r)


def refused(r):
    """Ones that are wrong, alone and beside one that is not; which is removed again."""
    for field, codes in {"ResourceType": [0, 1, 8, 99, -1], "ResourcePatternType": [0, 1, 2, 5, 99], "Operation": [0, 1, 16, 99], "PermissionType": [0, 1, 4, 99]}.items():
        for code in codes:
            make(r, f"{field} {code}", {**ONE, field: code})
    for what, wrong in {
        "no name": {"ResourceName": ""}, "another cluster": {"ResourceType": CLUSTER}, "a prefix of the cluster": {
            "ResourceType": CLUSTER, "ResourceName": "kafka", "ResourcePatternType": PREFIXED},
        "the cluster as a prefix": {"ResourceType": CLUSTER, "ResourceName": THE_CLUSTER, "ResourcePatternType": PREFIXED},
        "no kind of principal": {"Principal": "a"}, "no principal": {"Principal": ""}, "a kind alone": {"Principal": "User:"},
        "no kind before the colon": {"Principal": ":a"}, "two colons": {"Principal": "User:a:b"}, "another kind": {"Principal": "Group:g"},
        "no host": {"Host": ""}, "a host's name": {"Host": "localhost"}, "many hosts": {"Host": "10.0.0.0/8"},
        "a name that no topic has": {"ResourceName": "bad name/"}, "a long name": {"ResourceName": "x" * 300},
        "what topics do not know": {"Operation": given.CLUSTER_ACTION}, "what the cluster does not know": {
            "ResourceType": CLUSTER, "ResourceName": THE_CLUSTER, "Operation": READ},
        "a user without its kind": {"ResourceType": USER, "ResourceName": "a"},
    }.items():
        make(r, what, {**ONE, **wrong})
    r.ask("CreateAcls", "none", {"Creations": []})
    r.ask("CreateAcls", "the same twice", {"Creations": [ONE, ONE]})
    cleared(r)


def make(r, what, wrong):
    r.ask("CreateAcls", what, {"Creations": [wrong]})
    r.ask("CreateAcls", f"{what}, and one beside it", {"Creations": [ONE, wrong]})


def cleared(r):
    """What was made so far, and nothing of it is left."""
    r.newest("DescribeAcls", "what was made", EVERY)
    r.newest("DeleteAcls", "what was made", {"Filters": [EVERY]})
    r.until("DescribeAcls", EVERY, lambda a: not a["Resources"])


def filters():
    def of(**change):
        return {**EVERY, **change}

    yield "all", EVERY
    for kind in range(2, 8):
        yield f"of kind {kind}", of(ResourceTypeFilter=kind)
    for pattern in (LITERAL, PREFIXED, ANY, MATCH):
        yield f"pattern {pattern}", of(PatternTypeFilter=pattern)
        for name in ("t", "test", "tester", "*", "nothing", "", THE_CLUSTER):
            yield f"pattern {pattern}, {name!r}", of(PatternTypeFilter=pattern, ResourceNameFilter=name)
            yield f"a topic, pattern {pattern}, {name!r}", of(ResourceTypeFilter=TOPIC, PatternTypeFilter=pattern, ResourceNameFilter=name)
    for principal in ("User:a", "User:*", "a", "", "User:none", "Group:a"):
        yield f"principal {principal!r}", of(PrincipalFilter=principal)
    for host in ("*", "10.0.0.1", "::1", "0:0:0:0:0:0:0:1", "not an address", ""):
        yield f"host {host!r}", of(HostFilter=host)
    for operation in (given.ALL, READ, WRITE, DESCRIBE, given.ALTER):
        yield f"operation {operation}", of(Operation=operation)
    for permission in (ALLOW, DENY):
        yield f"permission {permission}", of(PermissionType=permission)
    for field, codes in {"ResourceTypeFilter": [0, 8, 99, -1], "PatternTypeFilter": [0, 5, 99], "Operation": [0, 16, 99], "PermissionType": [0, 4, 99]}.items():
        for code in codes:
            yield f"{field} {code}", of(**{field: code})


def described(r):
    for what, values in filters():
        r.ask("DescribeAcls", what, values)


def deleted(r):
    """First filters that mean none or are wrong, in all versions; then those that remove something, all anew before each."""
    wrong = {what: values for what, values in filters() if 0 in values.values() or 99 in values.values() or "nothing" in what}
    for what, values in wrong.items():
        r.ask("DeleteAcls", what, {"Filters": [values]})
    r.ask("DeleteAcls", "none", {"Filters": []})
    r.ask("DeleteAcls", "wrong ones together", {"Filters": [{**EVERY, "ResourceTypeFilter": 99}, {**EVERY, "Operation": 99}]})
    for number, version in enumerate(r.range("DeleteAcls")):
        if number:
            given.give(r, f"anew for {version}", HELD)
        topics = {**EVERY, "ResourceTypeFilter": TOPIC}
        r.ask("DeleteAcls", "a wrong one beside a good one", {"Filters": [
            {**topics, "PatternTypeFilter": MATCH, "ResourceNameFilter": "test"}, {**EVERY, "Operation": 99}]}, versions=[version])
        r.ask("DeleteAcls", "what two mean", {"Filters": [
            {**topics, "ResourceNameFilter": "t"}, {**EVERY, "PrincipalFilter": "User:a"}, {**EVERY, "PermissionType": DENY}]}, versions=[version])
        r.ask("DeleteAcls", "the rest", {"Filters": [EVERY]}, versions=[version])
        r.until("DescribeAcls", EVERY, lambda a: not a["Resources"])
