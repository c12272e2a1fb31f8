"""Groups of the classic protocol: positions, members, and what is refused to whom."""

from clients.differential.script.topics import TOPIC, UNKNOWN_ID, make

GROUP = "readers"


def ask(r):
    r.names[make(r, TOPIC)] = "id of first"
    coordinators(r)
    positions(r)
    strangers(r)
    member(r)
    alone(r)
    listed(r)
    deleted(r)


def coordinators(r):
    def of(kind, *keys):
        return lambda v: {"KeyType": kind, **({"CoordinatorKeys": list(keys)} if v >= 4 else {"Key": keys[0]})}

    r.ask("FindCoordinator", "of a group", of(0, GROUP))
    r.ask("FindCoordinator", "of a transactional id", of(1, "id"))
    r.ask("FindCoordinator", "of a kind that is not there", of(7, GROUP))
    r.ask("FindCoordinator", "of a share", of(2, f"{GROUP}:{UNKNOWN_ID}:0"))
    r.ask("FindCoordinator", "of no name", of(0, ""))
    r.ask("FindCoordinator", "of several", of(0, GROUP, "b", GROUP), versions=range(4, 99))
    r.ask("FindCoordinator", "of none", {"CoordinatorKeys": []}, versions=range(4, 99))


def store(r, group=GROUP, member="", generation=-1, offset=3, note="note", name=TOPIC, partition=0):
    """A position; its topic by name, or by id in the versions that have it so."""
    return {"GroupId": group, "GenerationIdOrMemberEpoch": generation, "MemberId": member, "Topics": [
        {"Name": name, "TopicId": r.ids.get(name, UNKNOWN_ID),
         "Partitions": [{"PartitionIndex": partition, "CommittedOffset": offset, "CommittedMetadata": note}]}]}


def wanted(r, group, topics, stable=False):
    """Asks for positions of topics, by name or by id; for all if there are none."""
    def values(version):
        listed = None if topics is None else [
            {"Name": name, "PartitionIndexes": parts, **({"TopicId": r.ids.get(name, UNKNOWN_ID)} if version >= 8 else {})} for name, parts in topics]
        if version < 8:
            return {"GroupId": group, "Topics": [] if listed is None and version < 2 else listed, "RequireStable": stable}
        return {"Groups": [{"GroupId": group, "Topics": listed}], "RequireStable": stable}

    return values


def positions(r):
    r.ask("OffsetCommit", "one", store(r))
    r.ask("OffsetCommit", "a partition that is not there", store(r, partition=9), patient=False)
    r.ask("OffsetCommit", "a topic that is not there", store(r, name="missing"), patient=False)
    r.ask("OffsetCommit", "no words", store(r, note=None))
    r.ask("OffsetCommit", "too many words", store(r, note="x" * 5000))
    r.ask("OffsetCommit", "a member that is not there", store(r, member="who", generation=5))
    r.ask("OffsetCommit", "no group", store(r, group=""))
    r.ask("OffsetCommit", "an offset below", store(r, offset=-7, partition=1))
    r.ask("OffsetCommit", "nothing", {"GroupId": GROUP, "GenerationIdOrMemberEpoch": -1, "Topics": []})

    def of(*arguments, **options):
        return wanted(r, *arguments, **options)

    r.ask("OffsetFetch", "some", of(GROUP, [(TOPIC, [0, 1, 9]), ("missing", [0])]))
    r.ask("OffsetFetch", "all", of(GROUP, None))
    r.ask("OffsetFetch", "stable ones", of(GROUP, [(TOPIC, [0])], stable=True))
    r.ask("OffsetFetch", "of a group that is not there", of("nobody", [(TOPIC, [0])]))
    r.ask("OffsetFetch", "all of a group that is not there", of("nobody", None))
    r.ask("OffsetFetch", "no group", of("", [(TOPIC, [0])]))
    r.ask("OffsetFetch", "several groups", {"Groups": [{"GroupId": one, "Topics": None} for one in (GROUP, "nobody", GROUP)]}, versions=range(8, 99))
    r.ask("OffsetFetch", "a member that is not there", {"Groups": [{"GroupId": GROUP, "MemberId": "who", "MemberEpoch": 3, "Topics": None}]},
          versions=range(9, 99))


def join(group="joined", member="", session=600_000, protocols=(("range", b"x"),), kind="consumer", instance=None):
    return {"GroupId": group, "SessionTimeoutMs": session, "RebalanceTimeoutMs": 600_000, "MemberId": member, "ProtocolType": kind,
            "GroupInstanceId": instance, "Protocols": [{"Name": name, "Metadata": about} for name, about in protocols]}


def strangers(r):
    for what, values in {
        "no group": join(group=""), "too short a session": join(session=1), "too long a session": join(session=2**31 - 1),
        "a member that is not there": join(member="who"), "no protocols": join(protocols=()), "no kind": join(kind=""),
    }.items():
        r.ask("JoinGroup", what, values)
    r.ask("JoinGroup", "without an id", join(), versions=range(4, 99))
    for group in (GROUP, "nobody", ""):
        r.ask("Heartbeat", f"a stranger in {group!r}", {"GroupId": group, "GenerationId": 1, "MemberId": "who"})
        r.ask("SyncGroup", f"a stranger in {group!r}", {"GroupId": group, "GenerationId": 1, "MemberId": "who", "Assignments": []})
        r.ask("LeaveGroup", f"a stranger in {group!r}",
              lambda v, group=group: {"GroupId": group, **({"Members": [{"MemberId": "who"}]} if v >= 3 else {"MemberId": "who"})})
    r.ask("LeaveGroup", "nobody leaves", {"GroupId": GROUP, "Members": []}, versions=range(3, 99))


def member(r):
    """One member that joins, is given everything, and leaves; in every version of each request by itself."""
    group, newest = "joined", lambda api: r.range(api)[-1]
    given = r.once("JoinGroup", newest("JoinGroup"), join(group))["MemberId"]
    answer = r.newest("JoinGroup", "the only member", join(group, given))
    generation = answer["GenerationId"]
    about = {"GroupId": group, "GenerationId": generation, "MemberId": given}
    r.ask("Heartbeat", "before it is given anything", about)
    r.newest("SyncGroup", "gives out", {**about, "ProtocolType": "consumer", "ProtocolName": "range",
                                        "Assignments": [{"MemberId": given, "Assignment": b"all"}]})
    r.ask("SyncGroup", "asks again", {**about, "Assignments": []}, versions=range(0, 5))
    r.ask("SyncGroup", "of another protocol", {**about, "ProtocolType": "consumer", "ProtocolName": "other", "Assignments": []}, versions=range(5, 99))
    r.ask("SyncGroup", "of another generation", {**about, "GenerationId": 77, "Assignments": []})
    r.ask("Heartbeat", "in time", about)
    r.ask("Heartbeat", "of another generation", {**about, "GenerationId": 77})
    r.ask("Heartbeat", "of an instance that is not there", {**about, "GroupInstanceId": "instance"}, versions=range(3, 99))
    r.ask("OffsetCommit", "by the member", store(r, group, given, generation))
    r.ask("OffsetCommit", "by nobody while there are members", store(r, group))
    r.ask("OffsetCommit", "of another generation", store(r, group, given, 77))
    r.ask("DescribeGroups", "with a member", {"Groups": [group, GROUP]})
    r.ask("JoinGroup", "another kind", join(group, kind="connect"))
    r.ask("JoinGroup", "no protocol in common", join(group, protocols=(("other", b""),)))
    r.ask("DeleteGroups", "with a member", {"GroupsNames": [group]})
    r.ask("OffsetDelete", "while it is subscribed", {"GroupId": group, "Topics": [{"Name": TOPIC, "Partitions": [{"PartitionIndex": 0}]}]})
    r.newest("LeaveGroup", "leaves", {"GroupId": group, "Members": [{"MemberId": given}, {"MemberId": "who"}]})
    r.ask("Heartbeat", "after it left", about)


def alone(r):
    """A group of its own for every version, joined and left in it."""
    for version in r.range("JoinGroup"):
        group = f"alone-{version}"
        # From version 4 on a member is given its id first, and comes again with it.
        given = r.once("JoinGroup", version, join(group))["MemberId"] if version >= 4 else ""
        joined = r.ask("JoinGroup", "alone", join(group, given), versions=[version])
        id_ = joined["MemberId"]
        left = min(version, r.range("LeaveGroup")[-1])
        r.ask("LeaveGroup", f"alone since {version}", {"GroupId": group, **({"Members": [{"MemberId": id_}]} if left >= 3 else {"MemberId": id_})}, versions=[left])


def listed(r):
    r.ask("DescribeGroups", "several", {"Groups": [GROUP, "nobody", ""]})
    r.ask("DescribeGroups", "with what one may do", {"Groups": [GROUP], "IncludeAuthorizedOperations": True}, versions=range(3, 99))
    r.ask("DescribeGroups", "none", {"Groups": []})
    r.ask("ListGroups", "all", {})
    r.ask("ListGroups", "by state", {"StatesFilter": ["Empty"]}, versions=range(4, 99))
    r.ask("ListGroups", "by a state in small letters", {"StatesFilter": ["empty"]}, versions=range(4, 99))
    r.ask("ListGroups", "by a state that is not there", {"StatesFilter": ["Bogus"]}, versions=range(4, 99))
    r.ask("ListGroups", "by type", {"TypesFilter": ["classic"]}, versions=range(5, 99))
    r.ask("ListGroups", "by a type that is not there", {"TypesFilter": ["bogus"]}, versions=range(5, 99))


def deleted(r):
    def of(group, *places):
        return {"GroupId": group, "Topics": [{"Name": name, "Partitions": [{"PartitionIndex": part} for part in parts]} for name, *parts in places]}

    r.ask("OffsetDelete", "of a group that is not there", of("nobody", (TOPIC, 0)))
    r.ask("OffsetDelete", "of no group", of("", (TOPIC, 0)))
    r.ask("OffsetDelete", "one", of(GROUP, (TOPIC, 1)))
    r.ask("OffsetDelete", "several", of(GROUP, (TOPIC, 1, 9), ("missing", 0)), patient=False)
    r.ask("DeleteGroups", "that are not there", {"GroupsNames": ["nobody", ""]})
    r.ask("DeleteGroups", "none", {"GroupsNames": []})
    for version in r.range("DeleteGroups"):
        r.once("OffsetCommit", 9, store(r, f"dying-{version}"))
    r.ask("DeleteGroups", "does it", lambda v: {"GroupsNames": [f"dying-{v}"]})
