"""Records: written, read, looked up by time and epoch, deleted."""

import gzip
import struct
import uuid

import cramjam
import lz4.frame

from clients.differential.script.topics import TOPIC, UNKNOWN_ID, make
from peers.rawbatch import batch, simple_record, varint

STAMP = 1_700_000_000_000
ZERO = uuid.UUID(int=0)


def some(count=1, **options):
    options.setdefault("timestamp", STAMP)
    return batch([simple_record(index) for index in range(count)], **options)


def write(ids, name, records, partition=0, acks=-1, transactional=None):
    def values(version):
        topic = {"TopicId": ids.get(name, UNKNOWN_ID)} if version >= 13 else {"Name": name}
        return {"TransactionalId": transactional, "Acks": acks, "TimeoutMs": 5000,
                "TopicData": [{**topic, "PartitionData": [{"Index": partition, "Records": records}]}]}

    return values


def read(ids, name, offset, partition=0, wait=0, isolation=0, session=(0, -1), epoch=-1, size=1 << 20, **more):
    def values(version):
        topic = {"TopicId": ids.get(name, UNKNOWN_ID)} if version >= 13 else {"Topic": name}
        part = {"Partition": partition, "CurrentLeaderEpoch": epoch, "FetchOffset": offset, "LogStartOffset": -1, "PartitionMaxBytes": size, **more}
        replica = {} if version >= 15 else {"ReplicaId": -1}
        return {"MaxWaitMs": wait, "MinBytes": 1, "MaxBytes": 1 << 20, "IsolationLevel": isolation, **replica, "SessionId": session[0],
                "SessionEpoch": session[1], "Topics": [{**topic, "Partitions": [part]}]}

    return values


def ask(r):
    ids = {name: make(r, name) for name in (TOPIC, "written", "emptied")}
    compacted = "compacted"
    ids[compacted] = make(r, compacted, partitions=1, configs=[("cleanup.policy", "compact")])
    written(r, ids)
    readers(r, ids)
    offsets(r)
    emptied(r)


def whole(count):
    return b"".join(simple_record(index) for index in range(count))


def packed(codec, raw):
    """A batch that says that it has two records, in this codec."""
    return batch([raw], attributes=codec, count=2, last_delta=1, timestamp=STAMP)


def xerial(raw):
    """Snappy as Java writes it: a header, then blocks with their lengths."""
    block = bytes(cramjam.snappy.compress_raw(raw))
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block


def codecs():
    """By name: the code, and what compresses."""
    return {"gzip": (1, lambda raw: gzip.compress(raw, mtime=0)), "snappy": (2, xerial), "lz4": (3, lambda raw: lz4.frame.compress(raw, block_linked=False)),
            "zstd": (4, lambda raw: bytes(cramjam.zstd.compress(raw)))}


def broken():
    """Compressed batches with something wrong in the stream, or in what it holds."""
    made = {}
    for name, (code, compress) in codecs().items():
        good = compress(whole(2))
        bad = bytearray(good)
        bad[len(bad) // 2] ^= 0xFF
        streams = {
            "garbage": b"garbage that is no stream", "no bytes": b"", "all but its end": good[:-5], "half": good[:len(good) // 2],
            "a wrong byte": bytes(bad), "more bytes": good + b"xyz", "nothing": compress(b""), "more than it says": compress(whole(3)),
            "fewer than it says": compress(whole(1)), "no records": compress(b"\x10garbage!" * 3), "half a record": compress(whole(2)[:-3]),
            "a length that lies": compress(varint(1000) + whole(2)), "a length below": compress(varint(-5) + whole(2)),
            "something behind": compress(whole(2) + b"junk"),
        }
        made |= {f"{name}, {what}": packed(code, stream) for what, stream in streams.items()}
    for code in (5, 6):
        made[f"codec {code}"] = packed(code, whole(2))
    return made


def written(r, ids):
    served = range(3, 99)
    r.ask("Produce", "one batch", write(ids, "written", some(2)), versions=served)
    r.ask("Produce", "acks 1", write(ids, "written", some(1), acks=1), versions=served)
    r.ask("Produce", "acks 2", write(ids, "written", some(1), acks=2), versions=served)
    for what, records in {
        "empty records": b"", "a wrong checksum": some(crc=1), "an old format": some(magic=1), "a future format": some(magic=3),
        "a wrong count": some(count=5), "a wrong last offset": some(last_delta=7), "an unknown codec": some(attributes=7),
        "a control batch": some(attributes=0x20), "two batches": some() + some(), "half a batch": some()[:40],
        "a transaction without a producer": some(attributes=0x10), "a producer out of nowhere": some(producer=(123456, 0, 5)),
        "a producer with an epoch below": some(producer=(123456, -1, 0)), "a log append time": some(attributes=8),
        "a time far ahead": some(timestamp=2**62),
    }.items():
        r.newest("Produce", what, write(ids, TOPIC, records, partition=1))
    for what, records in broken().items():
        r.newest("Produce", what, write(ids, TOPIC, records, partition=1))
    r.ask("Produce", "zstd", write(ids, "written", packed(4, codecs()["zstd"][1](whole(2)))), versions=range(3, 99))
    r.newest("Produce", "a partition that is not there", write(ids, "written", some(), partition=9))
    r.newest("Produce", "a topic that is not there", write(ids, "missing", some()))
    r.ask("Produce", "a topic by a name that is not there", write(ids, "missing", some()), versions=range(3, 13), patient=False)
    r.newest("Produce", "no key on a compacted topic", write(ids, "compacted", some()))
    r.newest("Produce", "a transactional id that is not there", write(ids, TOPIC, some(producer=(77, 0, 0), attributes=0x10), transactional="nobody"))


def readers(r, ids):
    r.ask("Fetch", "from the start", read(ids, "written", 0))
    r.ask("Fetch", "from within a batch", read(ids, "written", 1, size=1))
    r.ask("Fetch", "committed", read(ids, "written", 2, isolation=1))
    r.ask("Fetch", "behind the end", read(ids, "written", 10_000))
    r.ask("Fetch", "below the start", read(ids, "written", -5))
    r.ask("Fetch", "a partition that is not there", read(ids, "written", 0, partition=9))
    r.ask("Fetch", "a topic that is not there", read(ids, "missing", 0), patient=False)
    r.ask("Fetch", "no id", lambda v: {"MaxBytes": 1000, "Topics": [{"TopicId": ZERO, "Partitions": [{"Partition": 0, "PartitionMaxBytes": 100}]}]},
          versions=range(13, 99), patient=False)
    r.ask("Fetch", "an epoch of the future", read(ids, "written", 0, epoch=1000), versions=range(9, 99), patient=False)
    r.ask("Fetch", "a session that is not there", read(ids, "written", 0, session=(12345, 1)), versions=range(7, 99))
    r.ask("Fetch", "a session's epoch without a session", read(ids, "written", 0, session=(0, 5)), versions=range(7, 99))
    r.ask("Fetch", "nothing", {"MaxWaitMs": 0, "SessionEpoch": -1})
    r.ask("Fetch", "an isolation that is not there", read(ids, "written", 0, isolation=7))


def offsets(r):
    def at(time, name="written", partition=0, isolation=0, epoch=-1):
        return {"ReplicaId": -1, "IsolationLevel": isolation, "Topics": [
            {"Name": name, "Partitions": [{"PartitionIndex": partition, "CurrentLeaderEpoch": epoch, "Timestamp": time}]}]}

    for what, time in {"the end": -1, "the start": -2, "the newest time": -3, "the local start": -4, "what is in the far tier": -5,
                       "what is to go there": -6, "no such time": -9, "an early time": 0, "the time": STAMP, "a late time": STAMP + 1}.items():
        r.ask("ListOffsets", what, at(time))
    r.ask("ListOffsets", "the end of what is committed", at(-1, isolation=1))
    r.ask("ListOffsets", "a partition that is not there", at(-1, partition=9))
    r.ask("ListOffsets", "a topic that is not there", at(-1, name="missing"))
    r.ask("ListOffsets", "a bad name", at(-1, name="bad name"))
    r.ask("ListOffsets", "an epoch of the future", at(-1, epoch=1000), versions=range(4, 99), patient=False)
    twice = at(-1)
    twice["Topics"][0]["Partitions"] *= 2
    r.ask("ListOffsets", "twice the same", twice)

    def ended(epoch, name="written", partition=0, current=-1):
        return {"ReplicaId": -1, "Topics": [
            {"Topic": name, "Partitions": [{"Partition": partition, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}]}]}

    r.ask("OffsetForLeaderEpoch", "an epoch of the future", ended(1000))
    r.ask("OffsetForLeaderEpoch", "below", ended(-1))
    r.ask("OffsetForLeaderEpoch", "a leader of the future", ended(0, current=1000), patient=False)
    r.ask("OffsetForLeaderEpoch", "a partition that is not there", ended(0, partition=9))
    r.ask("OffsetForLeaderEpoch", "a topic that is not there", ended(0, name="missing"))


def emptied(r):
    def up_to(offset, name="emptied", partition=0):
        return {"Topics": [{"Name": name, "Partitions": [{"PartitionIndex": partition, "Offset": offset}]}], "TimeoutMs": 5000}

    for what, offset in {"nothing": 0, "up to the end": -1, "behind the end": 5, "below": -2}.items():
        r.ask("DeleteRecords", what, up_to(offset))
    r.ask("DeleteRecords", "of a partition that is not there", up_to(0, partition=9))
    r.ask("DeleteRecords", "of a topic that is not there", up_to(0, name="missing"))
    r.newest("DeleteRecords", "some", up_to(3, name="written"))
    r.newest("ListOffsets", "the start after that", {"ReplicaId": -1, "Topics": [{"Name": "written", "Partitions": [{"PartitionIndex": 0, "Timestamp": -2}]}]})
