"""Records: written, read by consumers and by followers, looked up, deleted; whose they are."""

from clients.differential.exchange import CLOSED
from clients.differential.script.records import STAMP, some, write
from clients.differential.script.rights.things import ABSENT, TOPICS, each
from peers.rawwire import Closed

ALL = [*TOPICS, *ABSENT]


def ask(u):
    written(u)
    fetched(u)
    looked_up(u)
    deleted(u)


def batches(u, records, transactional=None, acks=-1, names=ALL):
    return lambda v: {"TransactionalId": transactional, "Acks": acks, "TimeoutMs": 5000,
                      "TopicData": each(u, names, v >= 13, PartitionData=[{"Index": 0, "Records": records}])}


def written(u):
    served = range(3, 99)
    u.ask("Produce", "a batch", batches(u, some(1)), versions=served)
    u.ask("Produce", "acks 1", batches(u, some(1), acks=1), versions=served)
    u.ask("Produce", "broken batches", batches(u, some(crc=1)), versions=served)
    in_transaction = some(producer=(4711, 0, 0), attributes=0x10)
    u.ask("Produce", "in a transaction without an id", batches(u, in_transaction), versions=served)
    u.ask("Produce", "in a transaction of others", batches(u, in_transaction, "foreign"), versions=served)
    u.ask("Produce", "to a partition that is not there", {"Acks": -1, "TimeoutMs": 5000, "TopicData": [
        {"Name": name, "PartitionData": [{"Index": 9, "Records": some()}]} for name in ("granted", "foreign")]}, versions=range(3, 13))
    unacknowledged(u)


def unacknowledged(u):
    """Who asks for no answer and is refused loses the connection."""
    for name in ("granted", "foreign", "forbidden"):
        u.asking = "Produce", "acks 0", 9
        answer = CLOSED
        u.close()
        version = u.few("Produce", range(9, 13))[0]
        try:
            u.silent("Produce", version, write(u.ids, name, some(), acks=0)(version))
            answer = {"codes": u.once("ApiVersions", 3, {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"})["ErrorCode"]}
        except (Closed, KeyError):
            u.close()
        u.answers["Produce", f"{u.name}: acks 0, {name}", version] = answer


def fetched(u):
    u.ask("Fetch", "topics", fetch(u, ALL))
    u.ask("Fetch", "of topics that one may not read", fetch(u, ["foreign", "forbidden"]))
    u.ask("Fetch", "a partition that is not there", fetch(u, ["granted", "foreign"], partition=9), patient=False)
    u.ask("Fetch", "as a follower", fetch(u, ALL, replica=77), patient=False)


def fetch(u, names, partition=0, replica=-1, session=(0, -1), offset=0, forgotten=()):
    def values(version):
        part = {"Partition": partition, "CurrentLeaderEpoch": -1, "FetchOffset": offset, "LogStartOffset": -1, "PartitionMaxBytes": 1 << 20}
        about = {"ReplicaId": replica} if version < 15 else {} if replica < 0 else {"ReplicaState": {"ReplicaId": replica, "ReplicaEpoch": -1}}
        return {"MaxWaitMs": 0, "MinBytes": 1, "MaxBytes": 1 << 25, **about, "SessionId": session[0], "SessionEpoch": session[1],
                "Topics": each(u, names, version >= 13, "Topic", Partitions=[part]),
                "ForgottenTopicsData": each(u, forgotten, version >= 13, "Topic", Partitions=[0])}

    return values


def looked_up(u):
    def at(time, partition=0):
        return {"ReplicaId": -1, "Topics": [{"Name": name, "Partitions": [{"PartitionIndex": partition, "Timestamp": time}]} for name in [*ALL, "bad name"]]}

    for what, time in {"the end": -1, "the start": -2, "by time": STAMP}.items():
        u.ask("ListOffsets", what, at(time))
    u.ask("ListOffsets", "a partition that is not there", at(-1, 9))
    ended = {"ReplicaId": -1, "Topics": [{"Topic": name, "Partitions": [{"Partition": 0, "CurrentLeaderEpoch": -1, "LeaderEpoch": 1000}]} for name in ALL]}
    u.ask("OffsetForLeaderEpoch", "of topics", ended)


def deleted(u):
    def up_to(offset):
        return {"Topics": [{"Name": name, "Partitions": [{"PartitionIndex": 0, "Offset": offset}]} for name in ALL], "TimeoutMs": 5000}

    u.ask("DeleteRecords", "nothing", up_to(0))
    u.ask("DeleteRecords", "too many", up_to(10_000))
    u.ask("DescribeProducers", "of topics", {"Topics": [{"Name": name, "PartitionIndexes": [0, 9]} for name in [*ALL, "bad name"]]}, patient=False)
