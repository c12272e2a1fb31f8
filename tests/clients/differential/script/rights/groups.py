"""Groups of the classic protocol, and the positions of groups."""

from clients.differential.script.groups import join
from clients.differential.script.rights.things import ABSENT, GROUPS, IDS, READERS, TOPICS, doomed, each
from clients.differential.script.topics import UNKNOWN_ID

ALL = [*TOPICS, *ABSENT]


def ask(u):
    found(u)
    membership(u)
    committed(u)
    fetched(u)
    described(u)
    deleted(u)


def found(u):
    def of(kind, *keys):
        return lambda v: {"KeyType": kind, **({"CoordinatorKeys": list(keys)} if v >= 4 else {"Key": keys[0]})}

    u.ask("FindCoordinator", "of groups", of(0, *GROUPS, ""), versions=range(4, 99))
    u.ask("FindCoordinator", "of ids", of(1, *IDS, ""), versions=range(4, 99))
    for kind, name in [(0, "team"), (0, "foreign"), (1, "payments"), (1, "foreign"), (7, "team"), (7, "foreign")]:
        u.ask("FindCoordinator", f"of {name!r}, kind {kind}", of(kind, name))
    # No key that could be: Kafka would make a topic for it.
    u.ask("FindCoordinator", "of a share", of(2, f"team:{UNKNOWN_ID}:0"), versions=range(6, 99))


def membership(u):
    for group in [*GROUPS, "nobody", ""]:
        stranger = {"GroupId": group, "GenerationId": 1, "MemberId": "who"}
        u.ask("JoinGroup", f"a stranger in {group!r}", join(group, "who"))
        u.ask("SyncGroup", f"a stranger in {group!r}", {**stranger, "ProtocolType": "consumer", "ProtocolName": "range", "Assignments": []})
        u.ask("Heartbeat", f"a stranger in {group!r}", stranger)
        u.ask("LeaveGroup", f"a stranger in {group!r}",
              lambda v, group=group: {"GroupId": group, **({"Members": [{"MemberId": "who"}]} if v >= 3 else {"MemberId": "who"})})


def committed(u):
    def to(group, names, member="", generation=-1):
        part = {"PartitionIndex": 0, "CommittedOffset": 3, "CommittedMetadata": "note"}
        return lambda v: {"GroupId": group, "GenerationIdOrMemberEpoch": generation, "MemberId": member,
                          "Topics": each(u, names, v >= 10, Partitions=[part])}

    for group in ("team", "mine-g", "watched", "elsewhere", "foreign", ""):
        u.ask("OffsetCommit", f"of {group!r}", to(group, ALL))
    u.ask("OffsetCommit", "of topics that one may not read", to("team", ["foreign", "forbidden", "missing"]))
    u.ask("OffsetCommit", "of nothing", to("foreign", []))
    u.ask("OffsetCommit", "by a stranger", to("team", ["granted", "foreign"], "who", 5))


def fetched(u):
    def of(group, names):
        def values(version):
            listed = None if names is None else each(u, names, version >= 10, PartitionIndexes=[0])
            if version >= 8:
                return {"Groups": [{"GroupId": group, "Topics": listed}]}
            return {"GroupId": group, "Topics": [] if listed is None and version < 2 else listed}

        return values

    for group in [*GROUPS, "nobody", ""]:
        u.ask("OffsetFetch", f"of {group!r}", of(group, ALL))
        u.ask("OffsetFetch", f"all of {group!r}", of(group, None))
    u.ask("OffsetFetch", "of groups", {"Groups": [{"GroupId": group, "Topics": None} for group in [*GROUPS, "nobody"]]}, versions=range(8, 99))
    u.ask("OffsetFetch", "of groups by topics", lambda v: {"Groups": [
        {"GroupId": group, "Topics": each(u, ["granted", "foreign"], v >= 10, PartitionIndexes=[0, 9])} for group in GROUPS]}, versions=range(8, 99))


def described(u):
    u.ask("DescribeGroups", "groups", {"Groups": [*GROUPS, *READERS, "nobody", ""]})
    u.ask("DescribeGroups", "groups with what one may do", {"Groups": [*GROUPS, *READERS, "nobody"], "IncludeAuthorizedOperations": True}, versions=range(3, 99))
    u.ask("ListGroups", "all", {})
    u.ask("ListGroups", "by state", {"StatesFilter": ["Empty"]}, versions=range(4, 99))
    u.ask("ListGroups", "by type", {"TypesFilter": ["consumer"]}, versions=range(5, 99))


def deleted(u):
    for group in ("mine-g", "team", "watched", "elsewhere", "foreign", "nobody", ""):
        u.ask("OffsetDelete", f"of {group!r}", {"GroupId": group, "Topics": [
            {"Name": name, "Partitions": [{"PartitionIndex": 0}]} for name in ("here", "hidden", "forbidden", "missing")]}, patient=False)
    u.ask("OffsetDelete", "of nothing", {"GroupId": "foreign", "Topics": []})
    assert len(doomed(u, u.name)) == len(u.range("DeleteGroups"))
    # What nobody who is asked may delete; `every` may delete all.
    kept = [] if u.name == "every" else ["team", "elsewhere", "foreign"]
    u.ask("DeleteGroups", "does", lambda v: {"GroupsNames": [f"doomed-{u.name}-{v}", "nobody", *kept]})
