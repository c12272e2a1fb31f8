"""Bytes that no client sends: the broker answers as Kafka does or closes that connection, and goes on serving others."""

import random
import struct

import pytest

from clients.client import assert_same, record
from peers.rawbatch import batch, compressed, produce, simple_record, varint
from peers.rawwire import API_VERSIONS, FETCH, METADATA, Closed, Connection, brokers, frame, header, string

UNKNOWN_SERVER_ERROR, CORRUPT_MESSAGE, UNSUPPORTED_VERSION, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD = -1, 2, 35, 76, 87


@pytest.fixture(autouse=True)
def others_are_served(broker):
    """A connection opened before the mischief still works after it, and so does a new one."""
    with Connection(broker.port) as earlier:
        assert metadata(earlier) > 0
        yield
        assert metadata(earlier) > 0
    assert brokers(broker.port) > 0


def metadata(connection):
    answer = connection.request(METADATA, 1, struct.pack(">i", 0))
    return struct.unpack(">i", answer[:4])[0]


CLOSING = {
    "negative length": struct.pack(">i", -1),
    "most negative length": struct.pack(">i", -(2**31)),
    "two gigabytes announced": struct.pack(">i", 2**31 - 1) + b"\0" * 64,
    "over socket.request.max.bytes": struct.pack(">i", 100 * 1024 * 1024 + 1) + b"\0" * 64,
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls hello": bytes.fromhex("16030100c8010000c40303") + b"\x55" * 190,
    "unknown api": frame(header(9999, 0)),
    "negative api": frame(header(-1, 0)),
    "version too high": frame(header(METADATA, 99) + b"\0" * 16),
    "negative version": frame(header(METADATA, -1) + b"\0" * 16),
    "header cut short": frame(struct.pack(">hh", METADATA, 1)),
    "body missing": frame(header(METADATA, 1)),
    "client id longer than the frame": frame(struct.pack(">hhih", METADATA, 1, 1, 30_000) + b"x"),
    "array of two billion topics": frame(header(METADATA, 1) + struct.pack(">i", 2**31 - 1)),
    "compact array of four billion topics": frame(header(METADATA, 9, flexible=True) + b"\xff\xff\xff\xff\x0f" + b"\0\0\0"),
    "varint without an end": frame(header(METADATA, 9, flexible=True) + b"\xff" * 12),
    "string longer than the frame": frame(header(METADATA, 1) + struct.pack(">ih", 1, 32_000) + b"abc"),
    "tag section of two billion": frame(header(METADATA, 9) + b"\xff\xff\xff\xff\x07"),
    "fetch of a billion partitions": frame(
        header(FETCH, 4) + struct.pack(">iiiibi", -1, 100, 1, 1 << 20, 0, 1) + string("t") + struct.pack(">i", 2**30)),
}


@pytest.mark.parametrize("case", CLOSING)
def test_closes_the_connection(broker, case):
    with Connection(broker.port) as connection:
        connection.send(CLOSING[case])
        connection.expect_closed()


def test_empty_frame(broker):
    """A frame of no bytes has no header: the connection is closed."""
    with Connection(broker.port) as connection:
        connection.send(struct.pack(">i", 0))
        connection.expect_closed()


@pytest.mark.parametrize("part", [1, 3, 4, 5, 11, 20])
def test_truncated_then_gone(broker, part):
    """A peer that goes away in the middle of a frame."""
    with Connection(broker.port) as connection:
        connection.send(frame(header(METADATA, 1) + struct.pack(">i", 0))[:part])


def test_unknown_version_of_api_versions(broker):
    """Answered in version 0 with error 35 and the versions that there are."""
    with Connection(broker.port) as connection:
        answer = connection.request(API_VERSIONS, 99, b"", flexible=True)
        error, count = struct.unpack(">hi", answer[:6])
        assert error == UNSUPPORTED_VERSION
        rows = dict((key, (low, high)) for key, low, high in struct.iter_unpack(">hhh", answer[6:6 + 6 * count]))
        assert API_VERSIONS in rows
        low, high = rows[API_VERSIONS]
        # The same connection goes on with a version that there is.
        answer = connection.request(API_VERSIONS, low, b"")
        assert struct.unpack(">h", answer[:2])[0] == 0
        assert metadata(connection) > 0


def test_frame_in_single_bytes(broker):
    """A slow peer is not a bad one."""
    with Connection(broker.port) as connection:
        for byte in frame(header(METADATA, 1) + struct.pack(">i", 0)):
            connection.send(bytes([byte]))
        assert struct.unpack(">i", connection.receive()[:4])[0] == 1


def test_pipelined_answers_keep_their_order(broker):
    with Connection(broker.port) as connection:
        body = struct.pack(">i", 0)
        connection.send(b"".join(frame(header(METADATA, 1, correlation=i) + body) for i in range(200)))
        assert [struct.unpack(">i", connection.receive()[:4])[0] for _ in range(200)] == list(range(200))


def test_garbage(broker):
    """Seeded random frames: each is answered or closes its connection; none does more."""
    dice = random.Random(7)
    for _ in range(300):
        api = dice.choice([0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 42, 44, 47, 60, 75])
        flexible = dice.random() < 0.5
        raw = header(api, dice.randrange(0, 16), flexible=flexible) + dice.randbytes(dice.randrange(0, 60))
        with Connection(broker.port, timeout=0.05) as connection:
            connection.send(frame(raw))
            try:
                connection.receive()
            except (Closed, TimeoutError):
                pass


REFUSED = {
    "wrong crc": (batch(crc=0xDEADBEEF), [CORRUPT_MESSAGE]),
    "length short of the batch": (batch(length=60), [INVALID_RECORD, CORRUPT_MESSAGE]),
    "length beyond the request": (batch(length=10_000), [INVALID_RECORD, CORRUPT_MESSAGE]),
    "negative length": (batch(length=-1), [CORRUPT_MESSAGE]),
    "no records": (batch([], last_delta=0), [INVALID_RECORD]),
    "count above the records": (batch(count=2, last_delta=1), [INVALID_RECORD]),
    "count below the records": (batch([simple_record(0), simple_record(1)], count=1, last_delta=0), [INVALID_RECORD]),
    "count and last offset differ": (batch([simple_record(0), simple_record(1)], last_delta=5), [INVALID_RECORD]),
    "negative count": (batch(count=-1, last_delta=0), [INVALID_RECORD]),
    "compressed offset deltas with a gap": (compressed([simple_record(0), simple_record(2)]), [UNKNOWN_SERVER_ERROR, INVALID_RECORD]),
    "record longer than the batch": (batch([varint(5000) + b"\0" * 20]), [INVALID_RECORD]),
    "control batch": (batch(attributes=0x20), [INVALID_RECORD]),
    "two batches": (batch() + batch(), [INVALID_RECORD]),
    # Kafka has no error of its own for this one.
    "compressed garbage": (batch([b"this is not gzip"], attributes=1), [UNKNOWN_SERVER_ERROR, CORRUPT_MESSAGE, INVALID_RECORD]),
    "unknown codec": (batch(attributes=7), [UNKNOWN_SERVER_ERROR, CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_batch(broker, topic, clients, case):
    """A bad batch gets its error code, nothing of it is stored, and good ones still go in."""
    raw, errors = REFUSED[case]
    assert produce(broker, topic, raw) in errors
    assert clients["librdkafka"].watermarks(topic=topic, partition=0) == [0, 0]
    assert produce(broker, topic, batch()) == 0
    assert clients["librdkafka"].watermarks(topic=topic, partition=0) == [0, 1]


def test_sequences_of_an_idempotent_producer(broker, topic, clients):
    """Out of order is refused, a repeated batch is answered and not stored twice, an old epoch is fenced."""
    writer = clients["librdkafka"]
    writer.produce(topic=topic, records=[record(1, "make sure a producer id exists", 10)], idempotent=True)
    producer = 4_000_000  # an id that no other producer of this broker has

    def send(sequence, epoch=0, count=2):
        records = [simple_record(i) for i in range(count)]
        return produce(broker, topic, batch(records, producer=(producer, epoch, sequence)))

    assert send(0) == 0
    assert send(2) == 0
    assert send(2) == 0, "a duplicate is a success"
    assert send(0) == 0, "and so is one further back"
    assert send(6) == 45, "a gap is OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert writer.watermarks(topic=topic, partition=0) == [0, 4]
    assert send(0, epoch=1) == 0, "a new epoch starts at 0"
    assert send(2, epoch=0) == 47, "the old one is INVALID_PRODUCER_EPOCH"
    assert writer.watermarks(topic=topic, partition=0) == [0, 6]


def test_old_message_formats(broker, topic, clients):
    """Magic 0 and 1 are gone from Kafka 4."""
    for magic in (0, 1):
        assert produce(broker, topic, batch(magic=magic)) in (CORRUPT_MESSAGE, INVALID_RECORD, 43)
    assert clients["librdkafka"].watermarks(topic=topic, partition=0) == [0, 0]


def test_many_idle_and_bad_connections(broker, topic, clients):
    """A hundred connections that hang half way through a frame do not keep a client from being served."""
    hanging = [Connection(broker.port) for _ in range(100)]
    for number, connection in enumerate(hanging):
        connection.send(frame(header(METADATA, 1) + struct.pack(">i", 0))[:number % 20])
    records = [record(0, f"r{i}", 1000) for i in range(10)]
    offsets = clients["librdkafka"].produce(topic=topic, records=records)
    assert_same(clients["librdkafka"].consume(topic=topic, partition=0, offset=0, count=10), records, offsets)
    for connection in hanging:
        connection.socket.close()
