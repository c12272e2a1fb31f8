"""Transactions: whose ids, with which topics and groups in them."""

from clients.differential.script.records import some
from clients.differential.script.rights.records import batches
from clients.differential.script.rights.things import ABSENT, IDS, TOPICS
from clients.differential.script.transactions import add, begin, end

ALL = [*TOPICS, *ABSENT]
DONE = {"CompleteCommit", "CompleteAbort", "Empty", ""}


def ask(u):
    idempotent(u)
    for id_ in [*IDS, ""]:
        if id_ != "open":
            u.ask("InitProducerId", f"of {id_!r}", begin(id_))
    one(u)
    of_others(u)
    described(u)


def idempotent(u):
    u.ask("InitProducerId", "without an id", begin(None))


def one(u):
    """All of a transaction with an id that only some may use."""
    id_ = f"mine-t-{u.name}"
    begun = u.newest("InitProducerId", "begins", begin(id_))
    if begun["ErrorCode"]:
        # Whatever it sends, it may not.
        begun = {"ProducerId": 4711, "ProducerEpoch": 0}
    who = id_, begun["ProducerId"], begun["ProducerEpoch"]
    old = range(0, 4)
    u.ask("AddPartitionsToTxn", "one", add(*who, ("granted", 0)), versions=old)
    u.ask("AddPartitionsToTxn", "of which one may write some", add(*who, *((name, 0) for name in ALL)), versions=old, patient=False)
    u.ask("AddPartitionsToTxn", "one beside what is not there", add(*who, ("mine-a", 0), ("mine-missing", 0)), versions=old, patient=False)
    u.ask("AddPartitionsToTxn", "those of another broker", add(*who, ("granted", 0), ("foreign", 0), verify=True), versions=range(4, 99), patient=False)
    batch = some(1, producer=(*who[1:], 0), attributes=0x10)
    u.ask("Produce", "in the transaction", batches(u, batch, id_, names=["granted"]), versions=range(11, 12))
    for group in ("team", "mine-g", "mine-denied", "foreign"):
        group_too = {"TransactionalId": id_, "ProducerId": who[1], "ProducerEpoch": who[2], "GroupId": group}
        u.ask("AddOffsetsToTxn", f"of {group!r}", group_too)
        u.ask("TxnOffsetCommit", f"of {group!r}", positions(*who, group), versions=range(0, 5))
    u.ask("EndTxn", "commits", end(*who), versions=range(0, 5))
    u.newest("TxnOffsetCommit", "begins by storing", positions(*who, "team"))
    u.newest("EndTxn", "what was stored", end(*who))
    u.recorder.until("DescribeTransactions", {"TransactionalIds": [id_]},
                     lambda a: a["TransactionStates"][0]["TransactionState"] in DONE)


def positions(id_, producer, epoch, group):
    return {"TransactionalId": id_, "GroupId": group, "ProducerId": producer, "ProducerEpoch": epoch, "Topics": [
        {"Name": name, "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": ""}]} for name in ALL]}


def of_others(u):
    for id_ in ("mine-denied", "watched", "elsewhere", "foreign", ""):
        who = id_, 4711, 0
        u.ask("AddPartitionsToTxn", f"of {id_!r}", add(*who, ("granted", 0)), versions=range(0, 4))
        u.ask("AddOffsetsToTxn", f"of {id_!r}", {"TransactionalId": id_, "ProducerId": 4711, "ProducerEpoch": 0, "GroupId": "team"})
        u.ask("TxnOffsetCommit", f"with {id_!r}", positions(*who, "team"))
        u.ask("EndTxn", f"of {id_!r}", end(*who))
    u.ask("AddPartitionsToTxn", "nothing of others", add("foreign", 4711, 0), versions=range(0, 4))


def described(u):
    u.ask("DescribeTransactions", "ids", {"TransactionalIds": [*IDS, f"mine-t-{u.name}", "nobody", ""]})
    u.ask("ListTransactions", "all", {})
    u.ask("ListTransactions", "under way", {"StateFilters": ["Ongoing"]})
