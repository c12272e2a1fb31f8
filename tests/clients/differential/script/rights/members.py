"""Groups of the consumer protocol (KIP-848): what a member may read is asked with every subscription."""

from clients.differential.script.consumer_groups import JOINING, beat
from clients.differential.script.rights.things import GROUPS, READERS

MEMBER = "M" * 22


def ask(u):
    for version in u.range("ConsumerGroupHeartbeat"):
        alone(u, version)
    for group in [*GROUPS, "mine-reader", "foreign-reader"]:
        u.ask("ConsumerGroupHeartbeat", f"a stranger in {group!r}", beat(group, MEMBER, epoch=5))
    by_expression(u)
    u.ask("ConsumerGroupDescribe", "groups", {"GroupIds": [*READERS, *GROUPS, "nobody", ""]})
    u.ask("ConsumerGroupDescribe", "groups with what one may do", {"GroupIds": [*READERS, "team"], "IncludeAuthorizedOperations": True})
    u.ask("ConsumerGroupDescribe", "of others", {"GroupIds": ["foreign-reader"]})


def alone(u, version):
    """A group of its own for each version and each subscription, left at once."""
    for what, names in {"granted": ["granted"], "some": ["granted", "mine-a", "mine-secret-1", "public", "here"], "hidden": ["hidden"],
                        "foreign": ["granted", "foreign"], "forbidden": ["forbidden"], "missing": ["missing"], "mine-missing": ["mine-missing"]}.items():
        group = f"mine-{what}-{version}-{u.name}"
        joined = u.ask("ConsumerGroupHeartbeat", f"joins to read {what}", beat(group, MEMBER, **JOINING | {"SubscribedTopicNames": names}), versions=[version])
        again = beat(group, MEMBER, joined["MemberEpoch"] or 1, SubscribedTopicNames=["granted", "foreign"])
        u.ask("ConsumerGroupHeartbeat", f"reads {what} and others'", again, versions=[version])
        u.ask("ConsumerGroupHeartbeat", f"leaves after {what}", beat(group, MEMBER, epoch=-1), versions=[version])
    u.ask("ConsumerGroupHeartbeat", "joins others", beat("foreign", MEMBER, **JOINING | {"SubscribedTopicNames": ["granted"]}), versions=[version])


def by_expression(u):
    """An expression is found among what the member may describe."""
    group = f"mine-by-expression-{u.name}"
    by = {"SubscribedTopicNames": None, "SubscribedTopicRegex": "granted|mine-.*|foreign|forbidden|hidden|private|public|describable"}
    joined = u.ask("ConsumerGroupHeartbeat", "joins by expression", beat(group, MEMBER, **JOINING | by), versions=range(1, 99))
    if joined["ErrorCode"]:
        return
    held = {"epoch": joined["MemberEpoch"], "parts": []}

    def given(answer):
        if answer["ErrorCode"]:
            return True
        held["epoch"] = answer["MemberEpoch"]
        return bool(answer["Assignment"] and answer["Assignment"]["TopicPartitions"])

    def values():
        return beat(group, MEMBER, held["epoch"])

    u.eventually("ConsumerGroupHeartbeat", "is given what fits", values, given)
    u.newest("ConsumerGroupHeartbeat", "leaves after an expression", beat(group, MEMBER, epoch=-1))
