"""What a cluster of several brokers leaves in the metadata of one of them, written behind the last record of a stopped broker's log."""

import base64
import re
import struct
from pathlib import Path

from peers.rawbatch import batch, simple_record

# Of a batch: where its length, its leader epoch and the delta of its last offset are, and what is before its length counts.
LENGTH_AT, EPOCH_AT, LAST_DELTA_AT, BEFORE_LENGTH = 8, 12, 23, 12
PARTITION_CHANGE, REPLICAS_TAG = 5, 2


def number(raw, at):
    return struct.unpack_from(">i", raw, at)[0]


def batches_end(raw):
    """Where the batches of a data file end, the offset after them, and their last epoch."""
    at, offset, epoch = 0, None, None
    while len(raw) - at > BEFORE_LENGTH and (length := number(raw, at + LENGTH_AT)) > 0:
        offset = struct.unpack_from(">q", raw, at)[0] + number(raw, at + LAST_DELTA_AT) + 1
        epoch = raw[at + EPOCH_AT:at + EPOCH_AT + 4]
        at += BEFORE_LENGTH + length
    return at, offset, epoch


def give_replicas(data, topic, replicas):
    """Partition 0 of the topic gets these replicas, of which none but its leader is in sync."""
    said = (Path(data) / f"{topic}-0/partition.metadata").read_text()
    topic_id = base64.urlsafe_b64decode(re.search(r"topic_id: (\S+)", said)[1] + "==")
    listed = bytes([len(replicas) + 1]) + struct.pack(f">{len(replicas)}i", *replicas)
    # A frame of version 1, the kind of record, its version; then one tagged field.
    value = bytes([1, PARTITION_CHANGE, 0]) + struct.pack(">i", 0) + topic_id + bytes([1, REPLICAS_TAG, len(listed)]) + listed
    log = max((Path(data) / "__cluster_metadata-0").glob("*.log"))
    raw = log.read_bytes()
    end, offset, epoch = batches_end(raw)
    added = batch([simple_record(0, value)], base=offset)
    log.write_bytes(raw[:end] + added[:EPOCH_AT] + epoch + added[EPOCH_AT + 4:])
