"""Producers and a consumer that run through the death of their broker, and what must be true of the log afterwards.

Every acknowledgement goes into a ledger (in memory, and on disk for the post-mortem). `check` reads the log back and
holds it against the ledger and against what the consumer saw:

- an acknowledged record is at its offset, with its content;
- what a consumer saw at an offset stays there, and the high watermark never goes back behind it;
- no record is there twice, whoever wrote it (the plain producers do not retry);
- the records of one producer are in the order in which it sent them;
- every record is one that was sent, whole;
- a group's committed offset never goes back behind one that was acknowledged.

Not verified here: that unacknowledged records are absent (they may be there, once).
"""

import random
import threading
import time
import zlib
from collections import defaultdict

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from clients.drivers.protocol import payload

IN_FLIGHT_MAX = 300
OVERLAP = 200
READ_SECONDS = 30
FLUSH_SECONDS = 60
# For the ends of threads whose clients may have lost their broker for good.
GIVE_UP_SECONDS = 10

# Settings over those that all have.
KINDS = {
    "idempotent": {"enable.idempotence": True},
    "idempotent-lz4": {"enable.idempotence": True, "compression.codec": "lz4"},
    "plain": {"acks": "all", "retries": 0},
    "plain-acks1": {"acks": "1", "retries": 0},
}


def encode(producer, sequence, size):
    """`producer sequence crc filler`: a record says who sent it, and whether it is whole."""
    filler = payload(f"{producer}:{sequence % 97}", size)
    head = f"{producer} {sequence} ".encode()
    return head + b"%08x " % zlib.crc32(head + filler) + filler


def decode(raw):
    producer, sequence, crc, filler = raw.split(b" ", 3)
    head = producer + b" " + sequence + b" "
    assert int(crc, 16) == zlib.crc32(head + filler), f"torn record of {producer.decode()} {sequence.decode()}"
    return producer.decode(), int(sequence)


class Load:
    """Starts on construction; `finish` stops it."""

    def __init__(self, broker, topic, partitions, ledger, seed, kinds=tuple(KINDS), settings=None):
        self.broker, self.topic, self.partitions, self.settings = broker, topic, partitions, settings or {}
        self.lock = threading.Lock()
        self.acked = [{} for _ in range(partitions)]
        self.seen = [{} for _ in range(partitions)]
        self.sent = defaultdict(int)
        self.high = [0] * partitions
        self.ledger = open(ledger, "w")
        self.failure = None
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self._guard, args=(self._write, k, seed + i), daemon=True) for i, k in enumerate(kinds)]
        self.commits_tried = self.commits_acked = 0
        self.threads += [threading.Thread(target=self._guard, args=(body,), daemon=True) for body in (self._tail, self._commit)]
        for thread in self.threads:
            thread.start()

    def _common(self):
        return {
            "bootstrap.servers": self.broker.address, "reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 50,
            "retry.backoff.ms": 10, "socket.timeout.ms": 10_000, "log_level": 0, "topic.metadata.refresh.interval.ms": 1000,
        }

    def _guard(self, body, *args):
        try:
            body(*args)
        except BaseException as error:  # noqa: BLE001 (kept for the main thread, which raises it)
            self.failure = self.failure or error

    # Writing

    def _write(self, kind, seed):
        dice, in_flight = random.Random(seed), [0]
        producer = Producer({**self._common(), "acks": "all", "linger.ms": 1, "message.timeout.ms": 120_000,
                             "retry.backoff.max.ms": 100, **KINDS[kind], **self.settings})
        while not self.ending.is_set() and self.failure is None:
            if in_flight[0] >= IN_FLIGHT_MAX:
                producer.poll(0.01)
                continue
            partition, sequence = dice.randrange(self.partitions), self.sent[kind]
            self.sent[kind] += 1
            size = dice.choice([0, 100, 1000, 1000, 10_000, 100_000 if sequence % 20 == 0 else 500])
            in_flight[0] += 1
            producer.produce(self.topic, encode(kind, sequence, size), kind, partition,
                             on_delivery=self._delivered(kind, sequence, in_flight))
            producer.poll(0)
        deadline = time.monotonic() + FLUSH_SECONDS
        while (left := producer.flush(1)) and self.failure is None and time.monotonic() < deadline:
            pass
        assert left == 0 or self.failure, f"{kind}: {left} records without an answer"

    def _delivered(self, kind, sequence, in_flight):
        def callback(error, message):
            in_flight[0] -= 1
            if error:
                if kind.startswith("idempotent"):
                    self.failure = self.failure or AssertionError(f"{kind} {sequence}: {error}")
                return
            partition, offset = message.partition(), message.offset()
            if offset < 0:
                # A duplicate whose offset the broker no longer knows: acknowledged, place unknown.
                return
            with self.lock:
                other = self.acked[partition].setdefault(offset, (kind, sequence))
                self.ledger.write(f"{partition} {offset} {kind} {sequence}\n")
            if other != (kind, sequence):
                self.failure = self.failure or AssertionError(
                    f"offset {offset} of partition {partition} was acknowledged for {other} and for {(kind, sequence)}")
        return callback

    # Reading

    def _consumer(self, group="nobody"):
        return Consumer({**self._common(), "group.id": group, "enable.auto.commit": False, "fetch.wait.max.ms": 20,
                         "auto.offset.reset": "error", "fetch.error.backoff.ms": 10})

    def _tail(self):
        """Follows the log live, through every death of the broker."""
        consumer = self._consumer()
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(self.partitions)])
        while not self.ending.is_set() and self.failure is None:
            for message in consumer.consume(500, 0.05):
                if message.error():
                    assert message.error().retriable() or "_" == message.error().name()[0], str(message.error())
                    continue
                with self.lock:
                    self.seen[message.partition()][message.offset()] = decode(message.value())
        consumer.close()

    def _commit(self):
        """Commits 1, 2, 3, .. for a group, as fast as the answers come."""
        consumer = self._consumer("committer")
        while not self.ending.is_set() and self.failure is None:
            self.commits_tried += 1
            try:
                consumer.commit(offsets=[TopicPartition(self.topic, 0, self.commits_tried)], asynchronous=False)
            except KafkaException:
                # The broker is away: whether it took this one is not known.
                continue
            self.commits_acked = self.commits_tried
        consumer.close()

    def _check_commits(self, acked):
        consumer = self._consumer("committer")
        try:
            (found,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=READ_SECONDS)
        finally:
            consumer.close()
        assert not found.error, str(found.error)
        assert acked <= max(found.offset, 0) <= self.commits_tried, f"commit {acked} was acknowledged, {found.offset} is there"

    def check(self, everything=False):
        """Reads the log back, from where the last check ended or from 0, and holds it against the ledger."""
        if self.failure:
            raise self.failure
        with self.lock:
            acked = [dict(part) for part in self.acked]
            seen = [dict(part) for part in self.seen]
            commits = self.commits_acked
            if not self.ledger.closed:
                self.ledger.flush()
        self._check_commits(commits)
        consumer = self._consumer()
        try:
            for partition in range(self.partitions):
                self._check_partition(consumer, partition, acked[partition], seen[partition], everything)
        finally:
            consumer.close()

    def _check_partition(self, consumer, partition, acked, seen, everything):
        where = f"partition {partition}"
        _, high = consumer.get_watermark_offsets(TopicPartition(self.topic, partition), timeout=READ_SECONDS)
        assert high >= self.high[partition], f"{where}: high watermark went from {self.high[partition]} back to {high}"
        last = max([-1, *acked, *seen])
        assert high > last, f"{where}: high watermark {high}, but offset {last} was acknowledged or seen"
        start = 0 if everything else max(0, self.high[partition] - OVERLAP)
        log = self._read(consumer, partition, start, high)
        for known, what in ((acked, "acknowledged"), (seen, "seen by a consumer")):
            for offset, identity in known.items():
                if offset >= start:
                    assert log.get(offset) == identity, f"{where} offset {offset}: {identity} was {what}, {log.get(offset)} is there"
        last_of = {}
        for offset, (producer, sequence) in log.items():
            assert sequence < self.sent[producer], f"{where} offset {offset}: {producer} never sent {sequence}"
            before = last_of.get(producer, -1)
            assert sequence > before, f"{where} offset {offset}: {producer} {sequence} after {before}: twice, or out of order"
            last_of[producer] = sequence
        self.high[partition] = high

    def _read(self, consumer, partition, start, high):
        """offset -> (producer, sequence) for start..high."""
        log, position = {}, start
        consumer.assign([TopicPartition(self.topic, partition, start)])
        while position < high:
            messages = consumer.consume(min(1000, high - position), READ_SECONDS)
            assert messages, f"partition {partition}: nothing at offset {position} below the high watermark {high}"
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                assert message.offset() == position, f"partition {partition}: offset {message.offset()} instead of {position}"
                log[position] = decode(message.value())
                position += 1
        return log

    def finish(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()
        self.ledger.close()
        if self.failure:
            raise self.failure

    def give_up(self):
        """Ends after a failure. A client whose broker is gone may wait for ever: its thread is left, and ends with the process."""
        self.failure = self.failure or AssertionError("the load was given up")
        self.ending.set()
        deadline = time.monotonic() + GIVE_UP_SECONDS
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))

    def total_acked(self):
        return sum(map(len, self.acked))
