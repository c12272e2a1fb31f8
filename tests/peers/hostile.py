"""What somebody does who means harm and can reach a listener: one function for each way.

Each does it once, undoes what would stay, and says nothing of how the broker took it: that is for the tests, which look
at it as other clients do. `size` scales what is sent: 1 is as much as hurt a broker that was not made for it. What takes
long to make is made once: attackers have machines of their own, which a test does not have.
"""

import contextlib
import gzip
import struct
import threading
import time

from peers import rawwire
from peers.process import wait_until
from peers.rawapis import (ALTER_REPLICA_LOG_DIRS, DESCRIBE_PRODUCERS, FETCH, I32_MAX, INCREMENTAL_ALTER_CONFIGS, PRODUCE, Client,
                           Reader, alter_configs_body, array, diverging_fetch_body, fetch_body, fetch_body_of, fetch_parts,
                           produce_body, produced, protocols_body)
from peers.rawbatch import batch, simple_record
from peers.rawwire import Closed, frame, header, string

TOPIC = "prey"
# Megabytes that attacks send again and again, by what they were made of.
MADE = {}
MAKING = threading.Lock()


class Prey:
    """The broker, the topic that is attacked, and names that were not used before."""

    def __init__(self, port, admin=None, size=1.0, seed=0):
        self.port, self.admin, self.size, self.number = port, admin, size, seed * 1_000_000

    def client(self, timeout=60.0):
        return Client(self.port, timeout=timeout)

    def name(self, what):
        self.number += 1
        return f"{what}-{self.number}"

    def times(self, count):
        return max(2, int(count * self.size))

    def once(self, make, *about):
        """What `make` makes of this, made once in a process."""
        key = (make, *about)
        with MAKING:
            if key not in MADE:
                MADE[key] = make(*about)
            return MADE[key]

    def prepare(self):
        """Makes the topic and writes a record; whoever attacks old epochs restarts the broker behind this."""
        with self.client() as client:
            client.create_topic(TOPIC, 2, {"retention.bytes": 256 << 20, "segment.bytes": 16 << 20})
            wait_until(lambda: client.produce(TOPIC, [(0, batch())]) == [0], "the topic")
        return self


@contextlib.contextmanager
def many(prey, count):
    """So many connections, closed in the end."""
    clients = []
    try:
        for _ in range(count):
            clients.append(prey.client())
        yield clients
    finally:
        for client in clients:
            client.socket.close()


def fetch_of_one_diverging_partition(prey):
    """One fetch that names a partition 70,000 times, each with an epoch that has ended."""
    with prey.client() as client:
        end = client.end_offset(TOPIC)
        body = prey.once(diverging_fetch_body, TOPIC, prey.times(70_000), end, 0)
        try:
            return client.request(FETCH, 12, body, flexible=True)
        except Closed:
            return None


def static_members_without_patience(prey):
    """Two static members come back with no time for a rebalance, one leaves."""
    group = prey.name("static")
    with prey.client() as one, prey.client() as two:
        coordinator(one, group, 0)
        joined = one.join(group, instance="one")
        two.send_join(group, instance="two")
        time.sleep(0.05)
        joined = one.join(group, member=joined[2], instance="one")
        other = two.joined()
        one.sync(group, joined[1], joined[2], "one", [joined[2], other[2]])
        two.sync(group, other[1], other[2], "two")
        with prey.client(timeout=2) as again, prey.client(timeout=2) as third:
            for client, instance in ((again, "one"), (third, "two")):
                with contextlib.suppress(TimeoutError, Closed):
                    client.join(group, instance=instance, rebalance=0)
            with contextlib.suppress(TimeoutError, Closed):
                third.leave(group, "", "two")


def telemetry_with_long_names(prey, pushes=20):
    """Pushes of a gauge whose name is 15 MB, to a broker that wants to know everything; the codes."""
    with prey.client() as client:
        client.alter_configs([(16, "all", [("metrics", 0, "*"), ("interval.ms", 0, "100")])])
    metrics = prey.once(long_gauge, prey.times(15_000_000))
    codes = []
    for _ in range(pushes):
        with prey.client() as client:
            code, instance, subscription = client.subscribe_to_telemetry()
            if code == 0:
                code = client.push_telemetry(instance, subscription, 1, metrics)
            codes.append(code)
    return codes


def long_gauge(bytes_of_name):
    return gzip.compress(gauge(b"x" * bytes_of_name))


def gauge(name):
    """An OTLP message with one gauge of this name."""
    def field(number, inner):
        length, rest = bytearray(), len(inner)
        while rest > 0x7F:
            length.append(rest & 0x7F | 0x80)
            rest >>= 7
        return bytes([number << 3 | 2]) + bytes(length) + bytes([rest]) + inner

    point = bytes([4 << 3 | 1]) + struct.pack("<d", 1.0)
    metric = field(1, name) + field(5, field(1, point))
    return field(1, field(2, field(2, metric)))


def list_of_names_for_a_setting(prey):
    """Appends as many names to a list as a text may hold, and hundreds of thousands, which nobody reads."""
    names = prey.once(list_of_names, prey.times(400_000))
    for text in (names[:32_000], names):
        with prey.client() as client, contextlib.suppress(Closed, OSError):
            client.alter_configs([(2, TOPIC, [("leader.replication.throttled.replicas", 2, text)])])


def list_of_names(count):
    return ",".join(f"{number:x}:0" for number in range(count))


def settings_of_many_resources(prey):
    """Changes sixty thousand resources in one request."""
    body = prey.once(settings_body, prey.times(60_000))
    with prey.client() as client:
        return client.request(INCREMENTAL_ALTER_CONFIGS, 1, body, flexible=True)


def settings_body(count):
    return alter_configs_body([(2, f"{number:x}", [("retention.ms", 0, "1")]) for number in range(count)])


def directories_of_many_topics(prey):
    """Names sixty thousand directories, each with a topic of its own."""
    body = prey.once(directories_body, prey.times(60_000))
    with prey.client() as client:
        return client.request(ALTER_REPLICA_LOG_DIRS, 1, body)


def directories_body(count):
    return array([string(f"/{number:x}") + array([string(f"t{number:x}") + array([struct.pack(">i", 0)])]) for number in range(count)])


def members_with_many_protocols(prey):
    """Two members with eighty thousand protocols each, the only common one last."""
    group, count = prey.name("polyglot"), prey.times(80_000)
    with prey.client() as one, prey.client() as two:
        coordinator(one, group, 0)
        for client, letter in ((one, "a"), (two, "b")):
            offered = prey.once(protocols_of_one, letter, count)
            with contextlib.suppress(Closed):
                client.send_join_of(group, offered)
        with contextlib.suppress(TimeoutError, Closed):
            one.socket.settimeout(5)
            code, _, member = one.joined()
            if code == 0:
                one.leave(group, member)


def protocols_of_one(letter, count):
    return protocols_body([*((f"{letter}{number:x}", b"") for number in range(count)), ("range", b"")])


def sleepy_frames(prey, hold=1.0, look=lambda: None):
    """Connections that announce 100 MB and send eight bytes."""
    with many(prey, prey.times(75)) as clients:
        for client in clients:
            with contextlib.suppress(Closed):
                client.send(struct.pack(">i", 104_857_600) + bytes(8))
        time.sleep(hold)
        return look()


def sleepy_readers(prey, hold=1.0, look=lambda: None):
    """Connections that ask for all there is and read next to nothing of it."""
    body = fetch_body(TOPIC, [(1, 0, I32_MAX)])
    with many(prey, prey.times(60)) as clients:
        for client in clients:
            with contextlib.suppress(Closed):
                client.send(frame(header(FETCH, 11) + body))
        time.sleep(hold)
        return look()


def fill(prey, megabytes):
    """Something to read, in the second partition."""
    with prey.client() as client:
        records = batch([simple_record(0, bytes(1_000_000))])
        for _ in range(megabytes):
            assert client.produce(TOPIC, [(1, records)]) == [0]


def coordinator(client, key, kind):
    wait_until(lambda: client.find_coordinator(key, kind) == 0, "a coordinator")


def transaction_that_ends_while_it_is_checked(prey):
    """A batch is admitted, the transaction is aborted, the batch is appended; what the answers said."""
    name = prey.name("hanging")
    with prey.client() as client, prey.client() as other:
        coordinator(client, name, 1)

        def begun():
            code, *producer = client.init_producer(name)
            return producer if code == 0 else None

        producer, epoch = wait_until(begun, "a producer id")
        wait_until(lambda: client.add_partitions(name, producer, epoch, TOPIC, [0, 1]) == 0, "the partitions")
        records = batch(attributes=0x10, producer=(producer, epoch, 0))
        body = produce_body(TOPIC, [(0, records), (1, records)], name, last_times=prey.times(600_000))
        codes = []

        def send():
            with contextlib.suppress(Closed, TimeoutError):
                codes.extend(produced(client.request(PRODUCE, 8, body)))

        sender = threading.Thread(target=send)
        sender.start()
        # Where it meets the batch depends on the machine: another place each time.
        time.sleep(0.05 + 0.1 * (prey.number % 5))
        wait_until(lambda: other.end_transaction(name, producer, epoch, False) in (0, 47, 90), "the end of the transaction")
        sender.join()
        return codes


def crowd(prey, count, hold=1.0, look=lambda: None):
    """More connections than there are descriptors: as many as are let in."""
    clients = []
    try:
        with contextlib.suppress(OSError):
            for _ in range(count):
                clients.append(prey.client(timeout=0.5))
        time.sleep(hold)
        return look()
    finally:
        for client in clients:
            client.socket.close()


def fetches_that_nobody_waits_for(prey):
    """Each asks to wait for weeks, and goes."""
    body = frame(header(FETCH, 11) + fetch_body(TOPIC, [(0, 1 << 40, 1 << 20)], wait=I32_MAX, least=1 << 20))
    end = frame(header(FETCH, 11) + fetch_body(TOPIC, [(1, 0, 1 << 20)], wait=I32_MAX, least=I32_MAX))
    for number in range(prey.times(2000)):
        with prey.client() as client, contextlib.suppress(Closed):
            client.send(end if number % 2 else body)


def no_more_connections(prey):
    """Settings that let nobody in any more; the codes. Taken back, if a connection can be made for it."""
    with prey.client() as client:
        codes = [client.alter_quota(("ip", None), "connection_creation_rate", 5e-324)]
    with prey.client(timeout=20) as client:
        codes.append(client.alter_quota(("ip", None), "connection_creation_rate", None))
    with prey.client(timeout=20) as holder:
        codes.append(holder.set_broker_config("max.connections", "1"))
        with prey.client(timeout=20) as client:
            codes.append(client.set_broker_config("max.connections", None))
    return codes


def connections_again(prey):
    """What an operator on the machine does after `no_more_connections` could not take its settings back; true if it worked."""
    with contextlib.suppress(Closed, OSError), prey.client(timeout=20) as client:
        rate = client.alter_quota(("ip", None), "connection_creation_rate", None)
        return rate == 0 and client.set_broker_config("max.connections", None) == 0
    return False


def admin_port_half_asked(prey, hold=1.0, look=lambda: None):
    """Requests to the admin port that never end, and answers that nobody reads."""
    sockets = []
    try:
        for number in range(48):
            one = rawwire.Connection(prey.admin, timeout=5)
            sockets.append(one)
            with contextlib.suppress(Closed):
                one.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n" + (b"\r\n" * (number % 2)))
        time.sleep(hold)
        return look()
    finally:
        for one in sockets:
            one.socket.close()


def herd(prey, hold=0.5, look=lambda: None):
    """Fetches that wait for more than there will be, many times at the same partition."""
    with prey.client() as client:
        end = client.end_offset(TOPIC)
    body = prey.once(herd_body, end)
    with many(prey, prey.times(300)) as clients:
        for client in clients:
            with contextlib.suppress(Closed):
                client.send(frame(header(FETCH, 11) + body))
        time.sleep(hold)
        return look()


def herd_body(end):
    return fetch_body(TOPIC, [(0, end, 1 << 20)] * 500, wait=I32_MAX, least=1 << 30)


def producers_that_nobody_knows(prey):
    """Batches of a hundred thousand producer ids; then somebody asks for all of them."""
    with prey.client() as client:
        for _ in range(10):
            first = 1 << 40 | prey.number << 20
            prey.number += 1
            ids = range(first, first + prey.times(10_000))
            with contextlib.suppress(Closed):
                client.produce(TOPIC, [(0, batch(producer=(one, 0, 0))) for one in ids])
    with prey.client() as client:
        body = b"\x02" + bytes([len(TOPIC) + 1]) + TOPIC.encode() + b"\x02" + struct.pack(">i", 0) + b"\0\0"
        return client.request(DESCRIBE_PRODUCERS, 0, body, flexible=True)


def sessions_of_what_is_not_there(prey):
    """Fetch sessions with a hundred thousand partitions each that do not exist."""
    for _ in range(5):
        parts = prey.once(absent_parts, prey.times(100_000))
        with prey.client() as client, contextlib.suppress(Closed):
            client.request(FETCH, 11, fetch_body_of(prey.name("nowhere"), parts, epoch=0))


def absent_parts(count):
    return fetch_parts([(number, 0, 1 << 20) for number in range(1, count)])


def groups_of_nobody(prey):
    """Ten thousand groups with a member each that never comes back."""
    with prey.client() as client:
        coordinator(client, "any", 0)
        bodies = [frame(header(11, 5) + client.join_body(prey.name("nobody"), session=1000)) for _ in range(prey.times(10_000))]
        for start in range(0, len(bodies), 100):
            part = bodies[start:start + 100]
            with contextlib.suppress(Closed):
                client.send(b"".join(part))
                for _ in part:
                    Reader(client.receive()).take("iih")


def many_aborted_transactions(prey, count=100):
    """Small transactions that are aborted."""
    name = prey.name("abort")
    with prey.client() as client:
        coordinator(client, name, 1)
        producer, epoch = wait_until(lambda: [*client.init_producer(name)[1:]] if client.init_producer(name)[0] == 0 else None, "a producer id")
        for sequence in range(count):
            wait_until(lambda: client.add_partitions(name, producer, epoch, TOPIC, [0]) == 0, "the partition")
            client.produce(TOPIC, [(0, batch(attributes=0x10, producer=(producer, epoch, sequence)))], name)
            wait_until(lambda: client.end_transaction(name, producer, epoch, False) == 0, "the end of the transaction")

