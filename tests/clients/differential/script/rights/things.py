"""What there is for everybody to ask about."""

from clients.differential.script import topics as plain
from clients.differential.script.consumer_groups import JOINING, beat
from clients.differential.script.groups import store
from clients.differential.script.rights import given
from clients.differential.script.topics import UNKNOWN_ID, create, named, settled
from clients.differential.script.transactions import add, begin

TOPICS = ["granted", "mine-a", "mine-b", "mine-secret-1", "hidden", "elsewhere", "here", "public", "private", "writable", "settable", "growable",
          "deletable", "describable", "foreign", "forbidden"]
ABSENT = ["missing", "mine-missing"]
GROUPS = ["team", "mine-g", "mine-denied", "watched", "settable", "elsewhere", "foreign"]
IDS = ["payments", "mine-t", "mine-denied", "watched", "open", "elsewhere", "foreign"]
# Groups with a member, by what it reads.
READERS = {"mine-reader": ["granted"], "mine-reader-of-two": ["granted", "foreign"], "foreign-reader": ["public"]}


def dying(r, who):
    """Topics for this client to delete, one in each version in which it does."""
    return [f"dies-{who}-{version}" for version in r.range("DeleteTopics")] + [f"dies-{who}-by-id", f"dies-{who}-of-two", f"unseen-{who}"]


def doomed(r, who):
    return [f"doomed-{who}-{version}" for version in r.range("DeleteGroups")]


def make(r):
    everybody = [*given.LIMITED, given.UNLIMITED]
    make_topics(r, [*TOPICS, *(name for who in everybody for name in dying(r, who))])
    for kind in (0, 1):
        # Makes the topics of coordinators.
        r.patiently("FindCoordinator", 0 if kind == 0 else 1, {"Key": "team", **({"KeyType": kind} if kind else {})})
    version = r.range("OffsetCommit")[0]
    for group in [*GROUPS, *(name for who in everybody for name in doomed(r, who))]:
        for name in ("granted", "foreign", "public"):
            answer = r.patiently("OffsetCommit", version, store(r, group, name=name))
            assert answer["Topics"][0]["Partitions"][0]["ErrorCode"] == 0, (group, name, answer)
    for number, (group, names) in enumerate(READERS.items()):
        member = f"{'R' * 20}-{number}"
        joined = r.newest("ConsumerGroupHeartbeat", f"joins {group}", beat(group, member, **JOINING | {"SubscribedTopicNames": names}))
        r.until("ConsumerGroupHeartbeat", beat(group, member, joined["MemberEpoch"]), lambda a: a["ErrorCode"] == 0 and a["Assignment"] is None)
    mine = r.newest("InitProducerId", "begins what stays open", begin("open"))
    r.patiently("AddPartitionsToTxn", 3, add("open", mine["ProducerId"], mine["ProducerEpoch"], ("public", 0), ("foreign", 0), ("describable", 0))(3))


def make_topics(r, names):
    r.until("CreateTopics", create(*(plain.topic(name, partitions=1) for name in names)),
            lambda a: all(one["ErrorCode"] in (0, 36) for one in a["Topics"]))
    found = r.until("Metadata", named(*names), lambda a: all(map(settled, a["Topics"])))
    for one in found["Topics"]:
        r.names[one["TopicId"]] = f"id of {one['Name']}"
        r.ids[one["Name"]] = one["TopicId"]
    wanted = [{"Name": name, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]} for name in names]
    r.until("ListOffsets", {"ReplicaId": -1, "Topics": wanted}, lambda a: not any(part["ErrorCode"] for one in a["Topics"] for part in one["Partitions"]))


def each(u, names, by_id, field="Name", **more):
    """An entry for every topic, by name; or by id, those that are not there having one together."""
    if not by_id:
        return [{field: name, **more} for name in names]
    ids = dict.fromkeys(u.ids.get(name, UNKNOWN_ID) for name in names)
    return [{"TopicId": id_, **more} for id_ in ids]


def seen(u, made=(), gone=()):
    """Waits until the topics that were just made, or deleted, are for everybody."""
    if made:
        found = u.recorder.until("Metadata", named(*made), lambda a: all(map(settled, a["Topics"])))
        for one in found["Topics"]:
            u.names[one["TopicId"]] = f"id of {one['Name']}"
            u.ids[one["Name"]] = one["TopicId"]
    if gone:
        u.recorder.until("Metadata", named(*gone), lambda a: all(one["ErrorCode"] == 3 for one in a["Topics"]))
