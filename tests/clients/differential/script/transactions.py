"""Transactions: producers, what is in a transaction, its end; and strangers to all of it."""

from clients.differential.script.groups import wanted
from clients.differential.script.records import read, some, write
from clients.differential.script.topics import TOPIC, make


def begin(id_, timeout=600_000, producer=-1, epoch=-1):
    return {"TransactionalId": id_, "TransactionTimeoutMs": timeout, "ProducerId": producer, "ProducerEpoch": epoch}


def add(id_, producer, epoch, *places, verify=False):
    def values(version):
        topics = [{"Name": name, "Partitions": parts} for name, *parts in places]
        if version < 4:
            return {"V3AndBelowTransactionalId": id_, "V3AndBelowProducerId": producer, "V3AndBelowProducerEpoch": epoch, "V3AndBelowTopics": topics}
        return {"Transactions": [{"TransactionalId": id_, "ProducerId": producer, "ProducerEpoch": epoch, "VerifyOnly": verify, "Topics": topics}]}

    return values


def end(id_, producer, epoch, commit=True):
    return {"TransactionalId": id_, "ProducerId": producer, "ProducerEpoch": epoch, "Committed": commit}


def offsets(id_, producer, epoch, group="in-transactions", name=TOPIC):
    return {"TransactionalId": id_, "GroupId": group, "ProducerId": producer, "ProducerEpoch": epoch, "Topics": [
        {"Name": name, "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 1, "CommittedMetadata": ""}]}]}


def ask(r):
    ids = {TOPIC: make(r, TOPIC), "transacted": make(r, "transacted", partitions=1)}
    strangers(r)
    first_version(r, ids)
    second_version(r, ids)
    described(r)


def strangers(r):
    r.ask("InitProducerId", "without an id", begin(None))
    r.ask("InitProducerId", "an empty id", begin(""))
    r.ask("InitProducerId", "no timeout", begin("id", timeout=0))
    r.ask("InitProducerId", "too long a timeout", begin("id", timeout=2**31 - 1))
    r.ask("InitProducerId", "a producer out of nowhere", begin("nowhere", producer=77, epoch=3), versions=range(3, 99))
    r.ask("InitProducerId", "a producer without an epoch", begin("nowhere", producer=77), versions=range(3, 99))
    r.ask("AddPartitionsToTxn", "of nobody", add("nobody", 1, 0, (TOPIC, 0)))
    r.ask("AddPartitionsToTxn", "no id", add("", 1, 0, (TOPIC, 0)))
    r.ask("AddOffsetsToTxn", "of nobody", {"TransactionalId": "nobody", "ProducerId": 1, "ProducerEpoch": 0, "GroupId": "g"})
    r.ask("AddOffsetsToTxn", "no id", {"TransactionalId": "", "ProducerId": 1, "ProducerEpoch": 0, "GroupId": "g"})
    r.ask("EndTxn", "of nobody", end("nobody", 1, 0))
    r.ask("EndTxn", "no id", end("", 1, 0))
    r.ask("TxnOffsetCommit", "of nobody", offsets("nobody", 1, 0), versions=range(0, 5))
    r.ask("TxnOffsetCommit", "to a topic that is not there", offsets("nobody", 1, 0, name="missing"), versions=range(0, 5), patient=False)
    r.ask("TxnOffsetCommit", "no group", offsets("nobody", 1, 0, group=""))


def first_version(r, ids):
    """Partitions are added one by one; the epoch stays."""
    id_ = "first-version"
    mine = r.newest("InitProducerId", "begins", begin(id_))
    who = (id_, mine["ProducerId"], mine["ProducerEpoch"])
    epoch, producer = who[2], who[1]
    r.ask("EndTxn", "commits nothing", end(*who), versions=range(0, 5))
    r.ask("AddPartitionsToTxn", "adds", add(*who, ("transacted", 0)), versions=range(0, 4))
    r.ask("AddPartitionsToTxn", "adds what is not there", add(*who, ("transacted", 0, 9), ("missing", 0)), versions=range(0, 4), patient=False)
    r.ask("AddPartitionsToTxn", "of another epoch", add(id_, producer, epoch + 5, ("transacted", 0)), versions=range(0, 4))
    r.ask("AddPartitionsToTxn", "of another producer", add(id_, producer + 999, epoch, ("transacted", 0)), versions=range(0, 4))
    r.ask("AddPartitionsToTxn", "is it in it", add(*who, ("transacted", 0), verify=True), versions=range(4, 99))
    r.ask("AddPartitionsToTxn", "are they in it", add(*who, ("transacted", 0), (TOPIC, 1), verify=True), versions=range(4, 99))
    written = some(2, producer=(producer, epoch, 0), attributes=0x10)
    r.ask("Produce", "in the transaction", write(ids, "transacted", written, transactional=id_), versions=range(11, 12))
    r.ask("Produce", "in the transaction again", write(ids, "transacted", written, transactional=id_), versions=range(11, 12))
    ahead = some(1, producer=(producer, epoch, 9), attributes=0x10)
    r.ask("Produce", "out of order", write(ids, "transacted", ahead, transactional=id_), versions=range(11, 12))
    older = some(1, producer=(producer, epoch - 1, 2), attributes=0x10)
    r.ask("Produce", "of an older epoch", write(ids, "transacted", older, transactional=id_), versions=range(11, 12))
    r.ask("Fetch", "while it is open", read(ids, "transacted", 0, isolation=1))
    r.ask("Fetch", "all while it is open", read(ids, "transacted", 0))
    r.ask("AddOffsetsToTxn", "adds a group", {"TransactionalId": id_, "ProducerId": producer, "ProducerEpoch": epoch, "GroupId": "in-transactions"})
    r.ask("TxnOffsetCommit", "a position", offsets(*who), versions=range(0, 5))
    r.ask("TxnOffsetCommit", "of another epoch", offsets(id_, producer, epoch - 1), versions=range(0, 5))
    place = "in-transactions", [(TOPIC, [0])]
    r.ask("OffsetFetch", "what is not decided", wanted(r, *place), versions=range(8, 99))
    r.ask("OffsetFetch", "what is not decided, stable", wanted(r, *place, stable=True), versions=range(8, 99))
    r.ask("DescribeProducers", "one with a transaction", {"Topics": [{"Name": "transacted", "PartitionIndexes": [0, 9]}, {"Name": "missing", "PartitionIndexes": [0]}, {"Name": "bad name", "PartitionIndexes": [0]}]}, patient=False)
    r.ask("DescribeTransactions", "one under way", {"TransactionalIds": [id_]})
    r.ask("ListTransactions", "one under way", {"StateFilters": ["Ongoing"]})
    r.ask("EndTxn", "of another epoch", end(id_, producer, epoch + 5), versions=range(0, 5))
    r.ask("EndTxn", "of another producer", end(id_, producer + 999, epoch), versions=range(0, 5))
    version = 4
    r.ask("EndTxn", "aborts", end(*who, commit=False), versions=[version])
    r.until("DescribeTransactions", {"TransactionalIds": [id_]}, lambda a: a["TransactionStates"][0]["TransactionState"] == "CompleteAbort")
    r.ask("EndTxn", "aborts again", end(*who, commit=False), versions=[version])
    r.ask("EndTxn", "commits what was aborted", end(*who), versions=[version])
    r.ask("Fetch", "what was aborted", read(ids, "transacted", 0, isolation=1), versions=range(4, 99))
    for version in range(0, 4):
        r.ask("AddPartitionsToTxn", "adds again", add(*who, ("transacted", 0)), versions=[version])
        r.ask("EndTxn", "commits", end(*who), versions=[version])
    r.ask("DescribeProducers", "one without a transaction", {"Topics": [{"Name": "transacted", "PartitionIndexes": [0]}]})


def second_version(r, ids):
    """Partitions come in by being written to; the epoch rises at each end."""
    id_ = "second-version"
    mine = r.newest("InitProducerId", "begins the second", begin(id_))
    producer, epoch = mine["ProducerId"], mine["ProducerEpoch"]
    batch = some(1, producer=(producer, epoch, 0), attributes=0x10)
    r.newest("Produce", "begins by writing", write(ids, "transacted", batch, transactional=id_))
    r.newest("TxnOffsetCommit", "begins by storing", offsets(id_, producer, epoch, group="second"))
    r.newest("DescribeTransactions", "begun by writing", {"TransactionalIds": [id_]})
    ended = r.newest("EndTxn", "raises the epoch", end(id_, producer, epoch))
    r.newest("EndTxn", "the same again", end(id_, producer, epoch))
    r.newest("EndTxn", "with nothing in it", end(id_, ended["ProducerId"], ended["ProducerEpoch"]))
    r.newest("EndTxn", "aborts with nothing in it", end(id_, ended["ProducerId"], ended["ProducerEpoch"] + 1, commit=False))
    r.newest("InitProducerId", "begins again", begin(id_))
    r.newest("InitProducerId", "goes on after an error", begin(id_, producer=producer, epoch=epoch))


def described(r):
    r.ask("DescribeTransactions", "several", {"TransactionalIds": ["first-version", "nobody", ""]})
    r.ask("DescribeTransactions", "none", {"TransactionalIds": []})
    r.ask("ListTransactions", "all", {})
    r.ask("ListTransactions", "by a state that is not there", {"StateFilters": ["Bogus", "Empty"]})
    r.ask("ListTransactions", "by a producer", {"ProducerIdFilters": [987654]})
    r.ask("ListTransactions", "by duration", {"DurationFilter": 1}, versions=range(1, 99))
    r.ask("ListTransactions", "by expression", {"TransactionalIdPattern": "first-.*"}, versions=range(2, 99))
    r.ask("ListTransactions", "by no expression", {"TransactionalIdPattern": "(["}, versions=range(2, 99))
    r.ask("DescribeProducers", "none", {"Topics": []})
    marked(r)


def marker(producer=4711, epoch=0, protocol=0, commit=False, coordinator=0, places=(("transacted", [0, 9]), ("missing", [0]))):
    """A marker as another broker's coordinator would send it."""
    return lambda v: {"Markers": [{"ProducerId": producer, "ProducerEpoch": epoch, "TransactionResult": commit, "CoordinatorEpoch": coordinator,
                                   "TransactionVersion": protocol, "Topics": [{"Name": name, "PartitionIndexes": parts} for name, parts in places]}]}


def marked(r):
    """Markers as another broker's coordinator would send them."""
    def ask(what, **options):
        r.ask("WriteTxnMarkers", what, marker(**options), patient=False)

    ask("of a producer that is not there")
    ask("of a protocol below", protocol=-1)
    ask("of the second protocol", protocol=2, epoch=1)
    ask("of an epoch before", epoch=0)
    ask("of an older coordinator", epoch=1, coordinator=-5)
    r.ask("WriteTxnMarkers", "none", {"Markers": []})
    id_ = "marked"
    mine = r.newest("InitProducerId", "begins the third", begin(id_))
    who = mine["ProducerId"], mine["ProducerEpoch"]
    batch = some(1, producer=(*who, 0), attributes=0x10)
    r.newest("Produce", "what is marked", write(r.ids, "transacted", batch, transactional=id_))
    here = {"producer": who[0], "places": [("transacted", [0])]}
    newest = r.range("WriteTxnMarkers")[-1:]
    for what, options in {"in the same epoch": {"epoch": who[1], "protocol": 2}, "in the next epoch": {"epoch": who[1] + 1, "protocol": 2},
                          "the same again": {"epoch": who[1] + 1, "protocol": 2}}.items():
        r.ask("WriteTxnMarkers", what, marker(**here, **options), versions=newest, patient=False)
    r.newest("EndTxn", "what was marked", end(id_, *who))
