"""Members of one protocol that come to a group of the other, where groups may not change their protocol."""

from clients.differential.script.consumer_groups import JOINING, MEMBER, SUBSCRIPTION, beat, classic_strangers
from clients.differential.script.groups import GROUP, join, store
from clients.differential.script.topics import TOPIC, make

MODERN, CLASSIC = "modern", "classic"
RANGE = (("range", SUBSCRIPTION),)


def ask(r):
    r.names[make(r, TOPIC)] = "id of first"
    # Until the coordinator is there.
    r.patiently("FindCoordinator", r.range("FindCoordinator")[-1], {"KeyType": 0, "CoordinatorKeys": [GROUP]})
    r.patiently("OffsetCommit", 9, store(r))
    to_the_newer(r)
    to_the_older(r)


def to_the_newer(r):
    """A consumer group takes in whoever speaks the classic protocol, and stays one."""
    epoch = r.newest("ConsumerGroupHeartbeat", "joins", beat(MODERN, **JOINING))["MemberEpoch"]
    r.until("ConsumerGroupHeartbeat", beat(MODERN, epoch=epoch), lambda a: a["ErrorCode"] or a["Assignment"] is None)
    for what, values in classic_strangers(MODERN).items():
        r.ask("JoinGroup", what, values)
    given = r.newest("JoinGroup", "is given an id", join(MODERN, protocols=RANGE))["MemberId"]
    r.names[given] = "who speaks the other protocol"
    r.newest("JoinGroup", "joins the other protocol", join(MODERN, given, protocols=RANGE))
    r.newest("JoinGroup", "joins again", join(MODERN, given, protocols=RANGE))
    r.ask("DescribeGroups", "of the other protocol", {"Groups": [MODERN]})
    r.newest("ConsumerGroupHeartbeat", "leaves", beat(MODERN, MEMBER, epoch=-1))
    r.ask("DescribeGroups", "with the other protocol only", {"Groups": [MODERN]})
    r.ask("ListGroups", "of either type", {}, versions=range(5, 99))


def to_the_older(r):
    """A classic group refuses who speaks the consumer protocol, while it has members."""
    given = r.once("JoinGroup", r.range("JoinGroup")[-1], join(CLASSIC, protocols=RANGE))["MemberId"]
    r.names[given] = "who speaks the classic protocol"
    r.newest("JoinGroup", "the only member", join(CLASSIC, given, protocols=RANGE))
    r.ask("ConsumerGroupHeartbeat", "to a classic group", beat(CLASSIC, **JOINING))
    r.ask("DescribeGroups", "after a stranger came", {"Groups": [CLASSIC]})
    r.newest("LeaveGroup", "leaves", {"GroupId": CLASSIC, "Members": [{"MemberId": given}]})
    r.newest("ConsumerGroupHeartbeat", "to a classic group without members", beat(CLASSIC, **JOINING))
