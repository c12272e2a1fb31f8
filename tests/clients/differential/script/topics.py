"""Topics: made, described, grown, deleted, and every way in which that can be refused."""

import uuid

TOPIC = "first"
UNKNOWN_ID = uuid.UUID(int=0x123456789ABCDEF)


def topic(name, partitions=2, replicas=1, assignments=(), configs=()):
    return {"Name": name, "NumPartitions": partitions, "ReplicationFactor": replicas,
            "Assignments": [{"PartitionIndex": index, "BrokerIds": ids} for index, ids in enumerate(assignments)],
            "Configs": [{"Name": key, "Value": value} for key, value in configs]}


def create(*topics, check=False):
    return {"Topics": list(topics), "timeoutMs": 10_000, "validateOnly": check}


def make(r, name, **options):
    """A topic for what follows; waits until its partitions answer."""
    r.until("CreateTopics", create(topic(name, **options)), lambda a: a["Topics"][0]["ErrorCode"] in (0, 36))
    found = r.until("Metadata", named(name), lambda a: settled(a["Topics"][0]))
    r.names[found["Topics"][0]["TopicId"]] = f"id of {name}"
    r.ids[name] = found["Topics"][0]["TopicId"]
    parts = [{"PartitionIndex": one["PartitionIndex"], "Timestamp": -1} for one in found["Topics"][0]["Partitions"]]
    r.until("ListOffsets", {"ReplicaId": -1, "Topics": [{"Name": name, "Partitions": parts}]},
            lambda a: all(p["ErrorCode"] == 0 for p in a["Topics"][0]["Partitions"]))
    return found["Topics"][0]["TopicId"]


def settled(topic):
    return topic["ErrorCode"] == 0 and topic["Partitions"] and all(p["ErrorCode"] == 0 for p in topic["Partitions"])


def named(*names):
    return {"Topics": [{"Name": name} for name in names], "AllowAutoTopicCreation": False}


def ask(r):
    made(r)
    described(r)
    grown(r)
    deleted(r)


def made(r):
    r.ask("CreateTopics", "makes one", lambda v: create(topic(f"made-{v}", 2, configs=[("retention.ms", "1000"), ("segment.bytes", "1048576")])))
    r.ask("CreateTopics", "has it", lambda v: create(topic(f"made-{v}")))
    r.ask("CreateTopics", "would make one", create(topic("not-made"), check=True))
    r.ask("CreateTopics", "is told where", lambda v: create(topic(f"placed-{v}", -1, -1, [[1], [1]])))
    r.ask("CreateTopics", "leaves the numbers to the broker", lambda v: create(topic(f"plain-{v}", -1, -1)), versions=range(4, 99))
    r.ask("CreateTopics", "nothing", create())
    wrong = [
        topic("bad name"), topic(""), topic("."), topic("x" * 250), topic("none", 0), topic("below", -5), topic("many", 1, 3),
        topic("zero", 1, 0), topic("both", 1, 1, [[1]]), topic("nowhere", -1, -1, [[99]]), topic("twice", -1, -1, [[1, 1]]),
        topic("empty", -1, -1, [[]]), topic("key", configs=[("no.such", "1")]), topic("value", configs=[("segment.bytes", "-5")]),
        topic("word", configs=[("cleanup.policy", "burn")]), topic("null", configs=[("retention.ms", None)]),
        topic("made.7"), topic("made_7"),
    ]
    for one in wrong:
        r.ask("CreateTopics", f"refuses {one['Name'][:8]!r}", create(one, check=True))
    r.ask("CreateTopics", "the same name twice", create(topic("double"), topic("double"), check=True))
    gap = {**topic("gap", -1, -1), "Assignments": [{"PartitionIndex": 1, "BrokerIds": [1]}]}
    r.ask("CreateTopics", "a gap in the partitions", create(gap, check=True))
    make(r, TOPIC)


def described(r):
    known = r.until("Metadata", named(TOPIC), lambda a: settled(a["Topics"][0]))["Topics"][0]["TopicId"]
    r.ask("Metadata", "one", named(TOPIC))
    r.ask("Metadata", "one that is not there", named("missing"))
    r.ask("Metadata", "a name that cannot be", named("bad name", ""))
    r.ask("Metadata", "none", {"Topics": []})
    r.ask("Metadata", "several", named(TOPIC, "missing", TOPIC))
    r.ask("Metadata", "with what one may do", {**named(TOPIC), "IncludeTopicAuthorizedOperations": True}, versions=range(8, 99))
    r.ask("Metadata", "by id", {"Topics": [{"TopicId": known, "Name": None}, {"TopicId": UNKNOWN_ID, "Name": None}]}, versions=range(12, 99))
    r.ask("Metadata", "by id and name", {"Topics": [{"TopicId": known, "Name": TOPIC}]}, versions=range(10, 99))
    r.ask("DescribeTopicPartitions", "several", {"Topics": [{"Name": TOPIC}, {"Name": "missing"}, {"Name": "bad name"}], "ResponsePartitionLimit": 100})
    r.ask("DescribeTopicPartitions", "a page", {"Topics": [{"Name": TOPIC}], "ResponsePartitionLimit": 1})
    r.ask("DescribeTopicPartitions", "the next page", {
        "Topics": [{"Name": TOPIC}], "ResponsePartitionLimit": 1, "Cursor": {"TopicName": TOPIC, "PartitionIndex": 1}})
    r.ask("DescribeTopicPartitions", "a cursor below", {
        "Topics": [{"Name": TOPIC}], "ResponsePartitionLimit": 1, "Cursor": {"TopicName": TOPIC, "PartitionIndex": -1}})
    r.ask("DescribeTopicPartitions", "no limit", {"Topics": [{"Name": TOPIC}], "ResponsePartitionLimit": 0})


def grown(r):
    def more(name, count, assignments=None, check=True):
        return {"Topics": [{"Name": name, "Count": count, "Assignments": assignments}], "TimeoutMs": 5000, "ValidateOnly": check}

    for what, count, assignments in [("fewer", 1, None), ("as many", 2, None), ("none", 0, None), ("below", -1, None),
                                     ("one more", 3, None), ("one more here", 3, [{"BrokerIds": [1]}]), ("nowhere", 3, [{"BrokerIds": [9]}]),
                                     ("too few places", 4, [{"BrokerIds": [1]}]), ("an empty place", 3, [{"BrokerIds": []}])]:
        r.ask("CreatePartitions", what, more(TOPIC, count, assignments))
    r.ask("CreatePartitions", "of nothing", more("missing", 3))
    twice = {"Topics": [{"Name": TOPIC, "Count": 3, "Assignments": None}] * 2, "TimeoutMs": 5000, "ValidateOnly": True}
    r.ask("CreatePartitions", "twice", twice)
    make(r, "growing", partitions=1)
    r.ask("CreatePartitions", "does it", lambda v: more("growing", 2 + v, check=False))


def deleted(r):
    def by_name(*names):
        return lambda v: {"TimeoutMs": 5000, **(
            {"Topics": [{"Name": name, "TopicId": uuid.UUID(int=0)} for name in names]} if v >= 6 else {"TopicNames": list(names)})}

    r.ask("DeleteTopics", "of nothing", by_name("missing"))
    r.ask("DeleteTopics", "a bad name", by_name("bad name"))
    r.ask("DeleteTopics", "none", by_name())
    r.ask("DeleteTopics", "twice the same", by_name("missing", "missing"))
    for version in r.range("DeleteTopics"):
        make(r, f"dying-{version}", partitions=1)
    r.ask("DeleteTopics", "does it", lambda v: by_name(f"dying-{v}")(v))
    r.ask("DeleteTopics", "an id of nothing", {"Topics": [{"Name": None, "TopicId": UNKNOWN_ID}], "TimeoutMs": 5000}, versions=range(6, 99))
    r.ask("DeleteTopics", "neither name nor id", {"Topics": [{"Name": None, "TopicId": uuid.UUID(int=0)}], "TimeoutMs": 5000}, versions=range(6, 99))
    known = make(r, "dying", partitions=1)
    r.newest("DeleteTopics", "name and id", {"Topics": [{"Name": "dying", "TopicId": known}], "TimeoutMs": 5000})
    r.newest("DeleteTopics", "by id", {"Topics": [{"Name": None, "TopicId": known}], "TimeoutMs": 5000})
