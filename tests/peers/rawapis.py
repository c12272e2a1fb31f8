"""Requests and answers by hand, for what no client library sends: enough of each that it can be said, and no more.

Old fixed-width versions where they can say it, else compact ones. A `Client` is one connection with a name.
"""

import struct

from peers import rawwire
from peers.rawwire import Connection, string

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, JOIN_GROUP = 0, 1, 2, 3, 10, 11
LEAVE_GROUP, SYNC_GROUP, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 13, 14, 19, 20, 22
ADD_PARTITIONS_TO_TXN, END_TXN, ALTER_REPLICA_LOG_DIRS, INCREMENTAL_ALTER_CONFIGS = 24, 26, 34, 44
ALTER_CLIENT_QUOTAS, DESCRIBE_PRODUCERS, GET_TELEMETRY, PUSH_TELEMETRY = 49, 61, 71, 72
I32_MAX = 2**31 - 1
COORDINATOR, TOPIC_EXISTS = 14, 36


def blob(raw):
    return struct.pack(">i", len(raw)) + raw


def array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def uvarint(value):
    raw = bytearray()
    while value > 0x7F:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(raw + bytes([value]))


def compact(raw):
    """A compact string, or compact bytes."""
    raw = raw.encode() if isinstance(raw, str) else raw
    return uvarint(0) if raw is None else uvarint(len(raw) + 1) + raw


def compact_array(items):
    return uvarint(len(items) + 1) + b"".join(items)


class Reader:
    """Takes an answer apart from its beginning."""

    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def take(self, form):
        """Values of a struct form; one of them alone if it is one."""
        form = ">" + form
        values = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return values if len(values) > 1 else values[0]

    def string(self):
        length = self.take("h")
        text = None if length < 0 else self.raw[self.at:self.at + length].decode()
        self.at += max(0, length)
        return text


class Client(Connection):
    """A connection that asks what the scenarios need."""

    # Topics

    def create_topic(self, name, partitions=1, configs=None):
        settings = array([string(key) + string(str(value)) for key, value in (configs or {}).items()])
        one = string(name) + struct.pack(">ih", partitions, 1) + array([]) + settings
        answer = Reader(self.request(CREATE_TOPICS, 2, array([one]) + struct.pack(">ib", 30_000, 0)))
        answer.take("ii")
        answer.string()
        code = answer.take("h")
        assert code in (0, TOPIC_EXISTS), code
        return code

    def delete_topic(self, name):
        self.request(DELETE_TOPICS, 1, array([string(name)]) + struct.pack(">i", 30_000))

    def produce(self, topic, entries, transactional_id=None, acks=-1):
        """Sends (partition, records) entries; the codes of the answer, in its order."""
        body = produce_body(topic, entries, transactional_id, acks)
        return produced(self.request(PRODUCE, 8, body))

    def fetch(self, topic, entries, **options):
        return self.request(FETCH, 11, fetch_body(topic, entries, **options))

    def end_offset(self, topic, partition=0, isolation=0):
        """Where a reader's records end: of all (0) or of those that are committed (1)."""
        one = string(topic) + array([struct.pack(">iq", partition, -1)])
        answer = Reader(self.request(LIST_OFFSETS, 2, struct.pack(">ib", -1, isolation) + array([one])))
        answer.take("ii")
        answer.string()
        _, _, code, _, offset = answer.take("iihqq")
        assert code == 0, code
        return offset

    # Groups

    def find_coordinator(self, key, kind):
        """The code; 0 once there is one."""
        return Reader(self.request(FIND_COORDINATOR, 2, string(key) + struct.pack(">b", kind))).take("ih")[1]

    def join_body(self, group, member="", instance=None, session=10_000, rebalance=10_000, protocols=(("range", b""),)):
        return self.join_body_of(group, protocols_body(protocols), member, instance, session, rebalance)

    def join_body_of(self, group, protocols, member="", instance=None, session=10_000, rebalance=10_000):
        """With protocols that were made before."""
        return (string(group) + struct.pack(">ii", session, rebalance) + string(member) + string(instance) + string("consumer")
                + protocols)

    def join(self, group, **options):
        """Code, generation, member id."""
        self.send_join(group, **options)
        return self.joined()

    def send_join(self, group, **options):
        self.send(rawwire.frame(rawwire.header(JOIN_GROUP, 5) + self.join_body(group, **options)))

    def send_join_of(self, group, protocols):
        self.send(rawwire.frame(rawwire.header(JOIN_GROUP, 5) + self.join_body_of(group, protocols)))

    def joined(self):
        answer = Reader(self.receive()[4:])
        _, code, generation = answer.take("ihi")
        answer.string(), answer.string()
        return code, generation, answer.string()

    def sync(self, group, generation, member, instance=None, assignments=()):
        body = (string(group) + struct.pack(">i", generation) + string(member) + string(instance)
                + array([string(one) + blob(b"") for one in assignments]))
        return Reader(self.request(SYNC_GROUP, 3, body)).take("ih")[1]

    def leave(self, group, member, instance=None):
        body = string(group) + array([string(member) + string(instance)])
        return Reader(self.request(LEAVE_GROUP, 3, body)).take("ih")[1]

    # Transactions

    def init_producer(self, transactional_id, timeout=60_000):
        """Code, producer id, epoch."""
        answer = Reader(self.request(INIT_PRODUCER_ID, 1, string(transactional_id) + struct.pack(">i", timeout)))
        return answer.take("ihqh")[1:]

    def add_partitions(self, transactional_id, producer, epoch, topic, partitions):
        topics = array([string(topic) + array([struct.pack(">i", one) for one in partitions])])
        answer = Reader(self.request(ADD_PARTITIONS_TO_TXN, 2, string(transactional_id) + struct.pack(">qh", producer, epoch) + topics))
        answer.take("ii")
        answer.string()
        return answer.take("iih")[2]

    def end_transaction(self, transactional_id, producer, epoch, commit):
        body = string(transactional_id) + struct.pack(">qhb", producer, epoch, commit)
        return Reader(self.request(END_TXN, 2, body)).take("ih")[1]

    # Settings

    def alter_configs(self, resources):
        """(type, name, [(key, operation, value)]) each; the answer."""
        return self.request(INCREMENTAL_ALTER_CONFIGS, 1, alter_configs_body(resources), flexible=True)

    def set_broker_config(self, key, value):
        """A dynamic setting of all brokers; None takes it back. The code."""
        answer = Reader(self.alter_configs([(4, "", [(key, 0 if value is not None else 1, value)])]))
        answer.take("b")  # tagged fields of the header
        answer.take("ib")
        return answer.take("h")

    def alter_quota(self, entity, key, value):
        """Of (type, name); a value of None takes it back. The code."""
        entry = (array([string(kind) + string(name) for kind, name in [entity]])
                 + array([string(key) + struct.pack(">db", value or 0.0, value is None)]))
        return Reader(self.request(ALTER_CLIENT_QUOTAS, 0, array([entry]) + b"\0")).take("iih")[2]

    # Telemetry

    def subscribe_to_telemetry(self):
        """Code, instance id, subscription id."""
        answer = Reader(self.request(GET_TELEMETRY, 0, bytes(16) + b"\0", flexible=True))
        answer.take("b")
        _, code, instance, subscription = answer.take("ih16si")
        return code, instance, subscription

    def push_telemetry(self, instance, subscription, compression, metrics):
        """The code."""
        body = instance + struct.pack(">ibb", subscription, 0, compression) + compact(metrics) + b"\0"
        answer = Reader(self.request(PUSH_TELEMETRY, 0, body, flexible=True))
        answer.take("b")
        return answer.take("ih")[1]


def alter_configs_body(resources):
    """Of IncrementalAlterConfigs 1: (type, name, [(key, operation, value)]) each."""
    def one(kind, name, configs):
        changes = [compact(key) + struct.pack(">b", operation) + compact(value) + b"\0" for key, operation, value in configs]
        return struct.pack(">b", kind) + compact(name) + compact_array(changes) + b"\0"

    return compact_array([one(*resource) for resource in resources]) + b"\0\0"


def protocols_body(protocols):
    """Of JoinGroup 5: (name, metadata) each."""
    return array([string(name) + blob(metadata) for name, metadata in protocols])


def produce_body(topic, entries, transactional_id=None, acks=-1, last_times=1):
    """(partition, records) entries, of Produce 8; the last of them so many times."""
    parts = [struct.pack(">i", partition) + (struct.pack(">i", -1) if records is None else blob(records)) for partition, records in entries]
    more = last_times - 1
    named = struct.pack(">i", len(parts) + more) + b"".join(parts) + parts[-1] * more
    return string(transactional_id) + struct.pack(">hi", acks, 10_000) + array([string(topic) + named])


def produced(answer):
    """The codes of an answer to Produce 8, and the first offset that was given."""
    answer = Reader(answer)
    answer.take("i")
    answer.string()
    codes = []
    for _ in range(answer.take("i")):
        codes.append(answer.take("ihqqq")[1])
        for _ in range(answer.take("i")):
            answer.take("i")
            answer.string()
        answer.string()
    return codes


def fetch_body(topic, entries, wait=0, least=0, most=I32_MAX, isolation=0, session=0, epoch=-1):
    """(partition, offset, bytes) entries, of Fetch 11."""
    return fetch_body_of(topic, fetch_parts(entries), wait, least, most, isolation, session, epoch)


def fetch_parts(entries):
    return array([struct.pack(">iiqqi", partition, -1, offset, -1, size) for partition, offset, size in entries])


def fetch_body_of(topic, parts, wait=0, least=0, most=I32_MAX, isolation=0, session=0, epoch=-1):
    """With parts that were made before."""
    return (struct.pack(">iiiibii", -1, wait, least, most, isolation, session, epoch) + array([string(topic) + parts])
            + array([]) + string(""))


def diverging_fetch_body(topic, times, offset, last_epoch):
    """Of Fetch 12: one partition so many times, by a reader whose last record is of an older epoch than the partition knows."""
    part = struct.pack(">iiqiqi", 0, -1, offset, last_epoch, -1, 1 << 20) + b"\0"
    topics = compact_array([compact(topic) + compact_array([part] * times) + b"\0"])
    return struct.pack(">iiiibii", -1, 500, 1, I32_MAX, 0, 0, -1) + topics + compact_array([]) + compact("") + b"\0"
