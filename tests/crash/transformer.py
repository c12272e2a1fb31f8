"""One link of an exactly-once chain, as a program that is killed and started again: it reads committed records of one
topic, writes each of them to the same partition of another, and commits its positions in the same transaction.

    transformer.py ADDRESS SOURCE SINK IDENTITY PROTOCOL SEED

`IDENTITY` is the transactional id: a successor with the same one shuts its predecessor out. Some transactions are aborted on
purpose. Whatever cannot be gone on from ends the program with 3, and whoever runs it starts another.
"""

import faulthandler
import random
import signal
import sys
import threading

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BATCH = 200
CALL_SECONDS = 30
ABORTS = 0.1


def unchanged(_consumer, _partitions):
    """The library does what it would do anyway."""


class Transformer:
    def __init__(self, address, source, sink, identity, protocol, seed):
        self.sink, self.dice, self.ending = sink, random.Random(seed), threading.Event()
        common = {
            "bootstrap.servers": address, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200, "socket.timeout.ms": 10_000, "log_level": 0,
            # Else the library forgets the coordinator's broker when all are away, and waits for it forever
            # (librdkafka 5456 and 5511).
            "metadata.recovery.strategy": "none",
        }
        group = {"session.timeout.ms": 6000, "partition.assignment.strategy": "cooperative-sticky"}
        self.consumer = Consumer({
            **common, "group.id": f"{sink}-writers", "group.protocol": protocol, "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50,
            **(group if protocol == "classic" else {}),
        })
        self.producer = Producer({
            **common, "transactional.id": identity, "transaction.timeout.ms": 10_000, "linger.ms": 5,
        })
        # Having callbacks makes partitions come and go inside `consume` only.
        self.consumer.subscribe([source], on_assign=unchanged, on_revoke=unchanged, on_lost=unchanged)

    def run(self):
        self.until_done(self.producer.init_transactions)
        while not self.ending.is_set():
            # Taken before the records are: whoever lost them since is refused.
            membership = self.consumer.consumer_group_metadata()
            records = [one for one in self.consumer.consume(BATCH, 0.2) if not one.error()]
            if records:
                self.transform(records, membership)
        # The position of an open transaction is nobody's: it was committed or aborted above.
        self.consumer.close()

    def transform(self, records, membership):
        self.producer.begin_transaction()
        try:
            for one in records:
                self.producer.produce(self.sink, one.value(), one.key(), one.partition())
            self.until_done(lambda seconds: self.producer.send_offsets_to_transaction(
                self.reached(records), membership, seconds))
            if self.dice.random() < ABORTS:
                self.give_up()
            else:
                self.until_done(self.producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.give_up()

    @staticmethod
    def reached(records):
        """The positions behind these records."""
        last = {one.partition(): one for one in records}
        return [TopicPartition(one.topic(), one.partition(), one.offset() + 1) for one in last.values()]

    def give_up(self):
        """Aborts, and goes back to the positions that are committed."""
        self.until_done(self.producer.abort_transaction)
        assigned = self.consumer.assignment()
        if assigned:
            for found in self.until_done(lambda seconds: self.consumer.committed(assigned, seconds)):
                found.offset = max(found.offset, 0)
                self.consumer.seek(found)

    @staticmethod
    def until_done(call):
        """Repeats what the library says may be repeated."""
        while True:
            try:
                return call(CALL_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable() or error.args[0].txn_requires_abort():
                    raise


def main():
    # Says where it hangs.
    faulthandler.register(signal.SIGUSR1)
    transformer = Transformer(*sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: transformer.ending.set())
    try:
        transformer.run()
    except KafkaException as error:
        print(f"ends: {error}", flush=True)
        sys.exit(3)


if __name__ == "__main__":
    main()
