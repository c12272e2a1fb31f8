"""Groups of the consumer protocol (KIP-848)."""

from clients.differential.script.groups import GROUP, join, store
from clients.differential.script.topics import TOPIC

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"


def beat(group="modern", member=MEMBER, epoch=0, **more):
    return {"GroupId": group, "MemberId": member, "MemberEpoch": epoch, **more}


JOINING = {"RebalanceTimeoutMs": 600_000, "SubscribedTopicNames": [TOPIC], "TopicPartitions": []}


# To nothing, in the classic protocol.
SUBSCRIPTION = b"\0\0\0\0\0\0\xff\xff\xff\xff"


def classic_strangers(group):
    """Joins of the classic protocol that a consumer group refuses, whatever may become of it."""
    return {
        "of another kind to the other protocol": join(group, member="who", kind="connect"),
        "without protocols to the other protocol": join(group, member="who", protocols=()),
        "unreadable to the other protocol": join(group, member="who", protocols=(("range", b"x"),)),
    }


def ask(r):
    refused = {
        "no group": beat(""), "no member": beat(member=""), "nothing said": beat(), "no subscription": beat(**JOINING | {"SubscribedTopicNames": None}),
        "no timeout": beat(**JOINING | {"RebalanceTimeoutMs": -1}), "partitions at once": beat(**JOINING | {"TopicPartitions": [{"Partitions": [0]}]}),
        "an epoch below": beat(epoch=-9), "an epoch of nowhere": beat(epoch=4), "a static member that is not there": beat(epoch=-2, InstanceId="instance"),
        "an assignor that is not there": beat(**JOINING, ServerAssignor="other"), "leaves a group that is not there": beat(epoch=-1),
        "an empty instance": beat(**JOINING, InstanceId=""), "an empty rack": beat(**JOINING, RackId=""),
    }
    for what, values in refused.items():
        r.ask("ConsumerGroupHeartbeat", what, values)
    r.ask("ConsumerGroupHeartbeat", "no regular expression", beat(**JOINING | {"SubscribedTopicNames": None}, SubscribedTopicRegex="(["), versions=range(1, 99))

    joined = r.newest("ConsumerGroupHeartbeat", "joins", beat(**JOINING))
    epoch = r.until("ConsumerGroupHeartbeat", beat(epoch=joined["MemberEpoch"]),
                    lambda a: a["ErrorCode"] or a["Assignment"] is None)["MemberEpoch"]
    held = [{"TopicId": one["TopicId"], "Partitions": one["Partitions"]} for one in (joined["Assignment"] or {"TopicPartitions": []})["TopicPartitions"]]
    r.newest("ConsumerGroupHeartbeat", "has what it was given", beat(epoch=epoch, TopicPartitions=held))
    r.ask("ConsumerGroupHeartbeat", "in time", beat(epoch=epoch))
    r.ask("ConsumerGroupHeartbeat", "of the future", beat(epoch=epoch + 50))
    r.ask("ConsumerGroupHeartbeat", "somebody else", beat(member="BBBBBBBBBBBBBBBBBBBBBB", epoch=epoch))
    r.ask("ConsumerGroupDescribe", "several", {"GroupIds": ["modern", GROUP, "nobody", ""]})
    r.ask("ConsumerGroupDescribe", "with what one may do", {"GroupIds": ["modern"], "IncludeAuthorizedOperations": True})
    r.ask("ConsumerGroupDescribe", "none", {"GroupIds": []})
    r.ask("DescribeGroups", "of the other protocol", {"Groups": ["modern"]})
    r.ask("ListGroups", "with one of the other protocol", {"TypesFilter": ["consumer"]}, versions=range(5, 99))
    for what, values in classic_strangers("modern").items():
        r.ask("JoinGroup", what, values)
    subscription = SUBSCRIPTION
    for version in (0, 1):
        joined = r.ask("JoinGroup", "of the other protocol", join("modern", protocols=(("range", subscription),)), versions=[version])
        r.names[joined["MemberId"]] = "who speaks the other protocol"
        r.newest("LeaveGroup", f"leaves again, {version}", {"GroupId": "modern", "Members": [{"MemberId": joined["MemberId"]}]})
    epoch = r.until("ConsumerGroupHeartbeat", beat(epoch=epoch), lambda a: a["ErrorCode"] == 0)["MemberEpoch"]
    r.ask("OffsetCommit", "by the member", position(r, epoch))
    r.ask("OffsetCommit", "of another epoch", position(r, epoch + 7))
    r.ask("OffsetCommit", "by nobody", position(r, -1, ""))
    fetched = {"Groups": [{"GroupId": "modern", "MemberId": MEMBER, "MemberEpoch": epoch, "Topics": None}]}
    r.ask("OffsetFetch", "by the member", fetched, versions=range(9, 99))
    stale = {"Groups": [{"GroupId": "modern", "MemberId": MEMBER, "MemberEpoch": epoch + 9, "Topics": None}]}
    r.ask("OffsetFetch", "of another epoch", stale, versions=range(9, 99))
    r.newest("DeleteGroups", "with a member of the other protocol", {"GroupsNames": ["modern"]})
    r.newest("ConsumerGroupHeartbeat", "leaves", beat(epoch=-1))
    r.newest("ConsumerGroupHeartbeat", "after it left", beat(epoch=epoch))
    r.newest("ConsumerGroupDescribe", "after it left", {"GroupIds": ["modern"]})


def position(r, epoch, member=MEMBER):
    return store(r, "modern", member, epoch, offset=0, note="")
