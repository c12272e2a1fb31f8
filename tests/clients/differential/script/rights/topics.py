"""Topics: listed, described, made, made by being asked for, grown, deleted."""

import uuid

from clients.differential.script.rights.things import ABSENT, TOPICS, dying, seen
from clients.differential.script.topics import UNKNOWN_ID, create, named, settled, topic

NO_ID = uuid.UUID(int=0)
EVERYTHING = {"IncludeTopicAuthorizedOperations": True, "IncludeClusterAuthorizedOperations": True}


def ask(u):
    listed(u)
    described(u)
    grown(u)
    made(u)
    asked_for(u)
    deleted(u)


def listed(u):
    # Versions before 4 make what is not there.
    u.ask("Metadata", "topics", named(*TOPICS, *ABSENT), versions=range(4, 99))
    u.ask("Metadata", "topics that are there", named(*TOPICS))
    u.ask("Metadata", "topics with what one may do", lambda v: {
        **named(*TOPICS, *ABSENT), **{key: True for key in EVERYTHING if v <= 10 or "Topic" in key}}, versions=range(8, 99))
    u.ask("Metadata", "all", lambda v: {"Topics": None if v >= 1 else []})
    u.ask("Metadata", "all with what one may do", {"Topics": None, "IncludeTopicAuthorizedOperations": True}, versions=range(8, 99))
    u.ask("Metadata", "none", {"Topics": []}, versions=range(1, 99))
    ids = [u.ids[name] for name in TOPICS]
    u.ask("Metadata", "by id", {"Topics": [{"TopicId": id_, "Name": None} for id_ in [*ids, UNKNOWN_ID]], "IncludeTopicAuthorizedOperations": True},
          versions=range(12, 99))
    u.ask("Metadata", "bad names", named("bad name", "x" * 300), versions=range(4, 99))


def described(u):
    def of(*names, **more):
        return {"Topics": [{"Name": name} for name in names], "ResponsePartitionLimit": 2000, **more}

    u.ask("DescribeTopicPartitions", "topics", of(*TOPICS, *ABSENT, "bad name"))
    u.ask("DescribeTopicPartitions", "all", of())
    u.ask("DescribeTopicPartitions", "all from one", of(Cursor={"TopicName": "growable", "PartitionIndex": 0}))
    u.ask("DescribeTopicPartitions", "a page of all", of(ResponsePartitionLimit=2))
    u.ask("DescribeTopicPartitions", "the first", of(*TOPICS, ResponsePartitionLimit=1))


def grown(u):
    def more(count):
        return {"Topics": [{"Name": name, "Count": count, "Assignments": None} for name in [*TOPICS, *ABSENT, "bad name"]], "TimeoutMs": 5000, "ValidateOnly": True}

    u.ask("CreatePartitions", "would", more(3))
    u.ask("CreatePartitions", "would not", more(0))
    u.ask("CreatePartitions", "none", {"Topics": [], "TimeoutMs": 5000, "ValidateOnly": True})
    u.ask("CreatePartitions", "twice", {"Topics": [{"Name": "growable", "Count": 3, "Assignments": None}] * 2, "TimeoutMs": 5000, "ValidateOnly": True})


def made(u):
    who = u.name
    settings = [("retention.ms", "90000")]
    names = [f"new-{who}", f"mine-new-{who}", f"other-{who}", "granted", "hidden", "foreign", "mine-a", "bad name", "__cluster_metadata"]
    u.ask("CreateTopics", "would", create(*(topic(name, 1, configs=settings) for name in names), check=True))
    u.ask("CreateTopics", "twice", create(topic(f"mine-new-{who}"), topic(f"mine-new-{who}"), topic("other"), topic("other"), check=True))
    u.ask("CreateTopics", "with wrong settings", create(topic(f"mine-{who}", configs=[("no.such", "1")]), topic("other", configs=[("no.such", "1")]), check=True))
    for version in u.few("CreateTopics"):
        names = [f"new-{who}-{version}", f"mine-new-{who}-{version}", f"other-{who}-{version}"]
        answer = u.ask("CreateTopics", "does", create(*(topic(name, 1, configs=settings) for name in names)), versions=[version])
        seen(u, made=[one["Name"] for one in answer["Topics"] if one["ErrorCode"] == 0])


def asked_for(u):
    for kind in ("auto", "auto-seen", "auto-made"):
        name = f"{kind}-{u.name}"
        wanted = {"Topics": [{"Name": name}], "AllowAutoTopicCreation": True}
        if (u.name, kind) in MAKE:
            u.eventually("Metadata", f"made by asking: {kind}", wanted, lambda a: settled(a["Topics"][0]))
        else:
            u.ask("Metadata", f"not made by asking: {kind}", wanted)
        u.recorder.newest("Metadata", f"after {u.name} asked for {kind}", named(name))


# Who has the rights for it. Others are refused, or told that there is no such topic.
MAKE = {("some", "auto"), *(("every", kind) for kind in ("auto", "auto-seen", "auto-made"))}


def deleted(u):
    def by_name(*names):
        return lambda v: {"TimeoutMs": 5000, **(
            {"Topics": [{"Name": name, "TopicId": NO_ID} for name in names]} if v >= 6 else {"TopicNames": list(names)})}

    def by_id(*ids):
        return {"Topics": [{"Name": None, "TopicId": id_} for id_ in ids], "TimeoutMs": 5000}

    # Nobody who is asked may delete these, and what is not there is said, or not. Who may delete all of the cluster's is not asked.
    kept = {"every": [], "maker": []}.get(u.name, ["granted", "hidden", "elsewhere", "describable", "private", "foreign", "forbidden"])
    absent = [*ABSENT, "bad name"]
    u.ask("DeleteTopics", "does not", by_name(*kept, *absent))
    # By id it is enough that one may delete it, see below.
    u.ask("DeleteTopics", "does not, by id", by_id(*(u.ids[name] for name in kept if name != "hidden"), UNKNOWN_ID), versions=range(6, 99))
    *by_names, id_, two, unseen = dying(u, u.name)
    for version in u.few("DeleteTopics"):
        name = f"dies-{u.name}-{version}"
        assert name in by_names, name
        gone(u, [name], u.ask("DeleteTopics", "does", by_name(name), versions=[version]))
    gone(u, [id_], u.newest("DeleteTopics", "does, by id", by_id(u.ids[id_])))
    gone(u, [two], u.newest("DeleteTopics", "one by id, one by name", {"TimeoutMs": 5000, "Topics": [
        {"Name": None, "TopicId": u.ids[two]}, {"Name": "missing", "TopicId": NO_ID}]}))
    gone(u, [unseen], u.newest("DeleteTopics", "what one may not see", by_name(unseen)(6)))
    gone(u, [unseen], u.newest("DeleteTopics", "what one may not see, by id", by_id(u.ids[unseen])))
    u.newest("DeleteTopics", "name and id", {"TimeoutMs": 5000, "Topics": [{"Name": "foreign", "TopicId": u.ids["foreign"]}]})


def gone(u, names, answer):
    """Waits for what the answer says was deleted."""
    seen(u, gone=names if answer["Responses"][0]["ErrorCode"] == 0 else [])
