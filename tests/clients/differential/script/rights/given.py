"""Who may do what. Two lists: first that of clients with some rights or none, then one that lets all do everything but one thing."""

import time

TOPIC, GROUP, CLUSTER, ID, TOKEN, USER = range(2, 8)
(ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS,
 DESCRIBE_TOKENS, TWO_PHASE_COMMIT) = range(2, 16)
DENY, ALLOW = 2, 3
ANY, MATCH, LITERAL, PREFIXED = range(1, 5)
THE_CLUSTER = "kafka-cluster"

# Answers that say that somebody may not.
REFUSALS = {29, 30, 31, 53, 65}

# `none` has no ACL, `some` has many, `shown` may describe all, `maker` may create topics and delete them.
LIMITED = ["none", "some", "shown", "maker"]
UNLIMITED = "every"
# Who may write to any topic, or without one.
WRITERS = ["starred", "dominated", "undone", "prefixed", "elsewhere", "lonely"]
USERS = [*LIMITED, UNLIMITED, *WRITERS, "late"]


def acl(kind, name, who, operation, permission=ALLOW, pattern=LITERAL, host="*"):
    return {"ResourceType": kind, "ResourceName": name, "ResourcePatternType": pattern, "Principal": f"User:{who}", "Host": host,
            "Operation": operation, "PermissionType": permission}


def acls(kind, who, rights, **more):
    """By name: operations. A name that ends with a star is a prefix, one that begins with a bang is forbidden."""
    made = []
    for name, operations in rights.items():
        options = dict(more)
        if name.startswith("!"):
            name, options["permission"] = name[1:], DENY
        if name != "*" and name.endswith("*"):
            name, options["pattern"] = name[:-1], PREFIXED
        made += [acl(kind, name, who, operation, **options) for operation in operations]
    return made


SOME = [
    *acls(TOPIC, "some", {
        "granted": [READ, WRITE, DESCRIBE_CONFIGS], "mine-*": [ALL], "!mine-b": [WRITE], "!mine-secret*": [READ],
        "hidden": [READ, WRITE, DELETE, ALTER, CREATE, DESCRIBE_CONFIGS], "!hidden": [DESCRIBE], "private": [ALL],
        "writable": [WRITE], "settable": [ALTER_CONFIGS], "growable": [ALTER], "deletable": [DELETE], "describable": [DESCRIBE],
        "new-*": [CREATE], "dies-some*": [DELETE], "unseen*": [DELETE], "!unseen*": [DESCRIBE],
        "auto-some*": [CREATE, DESCRIBE], "auto-seen*": [DESCRIBE], "auto-made*": [CREATE]}),
    *acls(TOPIC, "some", {"elsewhere": [ALL]}, host="10.9.9.9"),
    *acls(TOPIC, "some", {"here": [READ]}, host="127.0.0.1"),
    *acls(TOPIC, "some", {"!here": [READ]}, host="10.9.9.9"),
    *acls(TOPIC, "*", {"public": [READ], "!private": [ALL]}),
    *acls(GROUP, "some", {"team": [READ], "mine-*": [ALL], "!mine-denied": [READ], "watched": [DESCRIBE], "doomed-some*": [DELETE],
                          "settable": [ALTER_CONFIGS, DESCRIBE_CONFIGS]}),
    *acls(GROUP, "some", {"elsewhere": [ALL]}, host="10.9.9.9"),
    *acls(ID, "some", {"payments": [WRITE], "mine-*": [ALL], "!mine-denied": [WRITE], "watched": [DESCRIBE], "open": [DESCRIBE]}),
    *acls(ID, "some", {"elsewhere": [ALL]}, host="10.9.9.9"),
    *acls(USER, "some", {"User:somebody": [CREATE_TOKENS, DESCRIBE_TOKENS]}),

    *acls(TOPIC, "shown", {"*": [DESCRIBE], "!mine-secret*": [DESCRIBE]}),
    *acls(GROUP, "shown", {"*": [DESCRIBE]}),
    *acls(CLUSTER, "shown", {THE_CLUSTER: [DESCRIBE]}),
    *acls(ID, "shown", {"*": [DESCRIBE]}),

    *acls(CLUSTER, "maker", {THE_CLUSTER: [CREATE, DELETE, ALTER_CONFIGS]}),

    *acls(TOPIC, "starred", {"*": [WRITE], "!foreign": [WRITE]}),
    *acls(TOPIC, "dominated", {"granted-a": [WRITE], "!granted*": [WRITE], "granted-b*": [WRITE]}),
    *acls(TOPIC, "undone", {"granted": [WRITE], "!*": [WRITE]}),
    *acls(TOPIC, "prefixed", {"granted-b*": [ALL], "!granted-bb*": [WRITE]}),
    *acls(TOPIC, "elsewhere", {"granted": [WRITE]}, host="10.9.9.9"),
    *acls(CLUSTER, "lonely", {THE_CLUSTER: [IDEMPOTENT_WRITE]}),
]

ALL_BUT_ONE = [
    *(one for kind, name in [(TOPIC, "*"), (GROUP, "*"), (CLUSTER, THE_CLUSTER), (ID, "*"), (TOKEN, "*"), (USER, "*")]
      for one in acls(kind, "*", {name: [ALL]})),
    # The right to delete anything is one of the cluster, and comes before those of a topic.
    *acls(TOPIC, UNLIMITED, {"!forbidden": [ALL], f"!dies-{UNLIMITED}-of-two": [ALL]}),
]


def the(one):
    """The filter that means this ACL."""
    return {"ResourceTypeFilter": one["ResourceType"], "ResourceNameFilter": one["ResourceName"], "PatternTypeFilter": one["ResourcePatternType"],
            "PrincipalFilter": one["Principal"], "HostFilter": one["Host"], "Operation": one["Operation"], "PermissionType": one["PermissionType"]}


def settle(r, one, there=True):
    """Waits until an ACL counts, or counts no more; and a moment for a controller that is another part of the process."""
    r.until("DescribeAcls", the(one), lambda a: bool(a["Resources"]) == there)
    time.sleep(0.2)


def give(r, what, rights):
    answer = r.newest("CreateAcls", what, {"Creations": rights})
    assert not any(one["ErrorCode"] for one in answer["Results"]), answer
    settle(r, rights[-1])


def take(r, what, right):
    answer = r.newest("DeleteAcls", what, {"Filters": [the(right)]})
    assert len(answer["FilterResults"][0]["MatchingAcls"]) == 1, answer
    settle(r, right, there=False)
