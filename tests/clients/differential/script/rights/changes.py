"""Rights that come and go while a client is at work: nothing that it was once let do is remembered."""

from clients.differential.exchange import User
from clients.differential.script.consumer_groups import JOINING, beat
from clients.differential.script.groups import join
from clients.differential.script.records import some
from clients.differential.script.rights import given
from clients.differential.script.rights.records import batches, fetch

READER = "L" * 22


def ask(r, port):
    u = User(r, "late", port)
    given.give(r, "what one may do at first", [
        *given.acls(given.TOPIC, "late", {"granted": [given.READ, given.WRITE], "public": [given.DESCRIBE]}),
        *given.acls(given.GROUP, "late", {"late*": [given.READ]})])
    sessions(u, r)
    members(u, r)
    u.close()


def sessions(u, r):
    """An incremental Fetch names no partition, and all of the session's are judged anew."""
    denied = given.acl(given.TOPIC, "granted", "late", given.READ, given.DENY)
    for version in (12, u.range("Fetch")[-1]):
        one, old = [version], f"{version}: "
        opened = u.ask("Fetch", f"{old}opens", fetch(u, ["granted", "public", "foreign"], session=(0, 0)), versions=one)
        session = opened["SessionId"]

        def go_on(what, epoch, names=(), forgotten=(), version=version, session=session):
            u.ask("Fetch", f"{version}: {what}", fetch(u, names, session=(session, epoch), forgotten=forgotten), versions=[version])

        go_on("nothing new", 1)
        u.newest("Produce", f"{old}something new", batches(u, some(1), names=["granted"]))
        go_on("something new", 2)
        given.give(r, f"{old}reads no more", [denied])
        go_on("forbidden meanwhile", 3)
        go_on("forbidden still", 4)
        given.take(r, f"{old}reads again", denied)
        go_on("allowed again", 5)
        go_on("without what is forbidden anyway", 6, forgotten=["foreign"])
        go_on("with it again", 7, names=["foreign"])


def members(u, r):
    """Members of both protocols lose their group, and find it again."""
    joined = u.newest("ConsumerGroupHeartbeat", "joins", beat("late-modern", READER, **JOINING | {"SubscribedTopicNames": ["granted"]}))
    given_id = u.newest("JoinGroup", "is given an id", join("late-classic"))["MemberId"]
    r.names[given_id] = "the member of late-classic"
    answer = u.newest("JoinGroup", "joins", join("late-classic", given_id))
    about = {"GroupId": "late-classic", "GenerationId": answer["GenerationId"], "MemberId": given_id}
    sync = {**about, "ProtocolType": "consumer", "ProtocolName": "range", "Assignments": [{"MemberId": given_id, "Assignment": b"all"}]}
    u.newest("SyncGroup", "gives out", sync)

    def both(what):
        u.newest("ConsumerGroupHeartbeat", what, beat("late-modern", READER, joined["MemberEpoch"]))
        u.newest("Heartbeat", what, about)
        u.newest("SyncGroup", what, {**sync, "Assignments": []})

    both("as a member")
    groups = given.acl(given.GROUP, "late", "late", given.READ, given.DENY, given.PREFIXED)
    given.give(r, "no groups", [groups])
    both("without its group")
    u.newest("JoinGroup", "again, without its group", join("late-classic", given_id))
    u.newest("LeaveGroup", "without its group", {"GroupId": "late-classic", "Members": [{"MemberId": given_id}]})
    given.take(r, "its groups again", groups)
    both("as before")
    topic = given.acl(given.TOPIC, "granted", "late", given.ALL, given.DENY)
    given.give(r, "no topic", [topic])
    both("without its topic")
    u.newest("ConsumerGroupHeartbeat", "subscribes again", beat("late-modern", READER, joined["MemberEpoch"], SubscribedTopicNames=["granted"]))
    given.take(r, "its topic again", topic)
    u.newest("ConsumerGroupHeartbeat", "leaves", beat("late-modern", READER, epoch=-1))
    u.newest("LeaveGroup", "leaves", {"GroupId": "late-classic", "Members": [{"MemberId": given_id}]})
