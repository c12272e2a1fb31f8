"""Record batches and Produce requests made by hand, so that each field of them can lie."""

import gzip
import struct
import time

from crc32c import crc32c

from peers.rawwire import PRODUCE, Connection, string

TIMEOUT_MS = 10_000


def varint(value):
    value = (value << 1) ^ (value >> 63)
    raw = bytearray()
    while value > 0x7F:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(raw + bytes([value]))


def simple_record(delta, value=b"v"):
    body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(records=None, magic=2, attributes=0, count=None, last_delta=None, length=None, crc=None, base=0,
          producer=(-1, -1, -1), timestamp=None):
    records = [simple_record(0)] if records is None else records
    timestamp = int(time.time() * 1000) if timestamp is None else timestamp
    count = len(records) if count is None else count
    last_delta = len(records) - 1 if last_delta is None else last_delta
    body = struct.pack(">hiqqqhii", attributes, last_delta, timestamp, timestamp, *producer, count) + b"".join(records)
    crc = crc32c(body) if crc is None else crc
    length = 9 + len(body) if length is None else length
    return struct.pack(">qiibI", base, length, 0, magic, crc) + body


def compressed(records):
    """A gzip batch of these records, whatever they are."""
    return batch([gzip.compress(b"".join(records), mtime=0)], attributes=1, count=len(records), last_delta=len(records) - 1)


def produce(broker, topic, records, version=7, transactional_id=None):
    """Sends one Produce request for partition 0; returns the partition's error code."""
    body = string(transactional_id) + struct.pack(">hii", -1, TIMEOUT_MS, 1) + string(topic) + struct.pack(">iii", 1, 0, len(records)) + records
    with Connection(broker.port) as connection:
        answer = connection.request(PRODUCE, version, body)
    at = 4 + 2 + len(topic.encode()) + 4 + 4
    return struct.unpack(">h", answer[at:at + 2])[0]
