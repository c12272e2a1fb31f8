"""Exactly-once under fire: numbered records go through two links of consume, transform, produce in transactions, while the
links and the broker are killed every few seconds. The end of the chain holds every acknowledged record once, in order.

The first link's group has the classic protocol, the second one's the newer; two members each. A reader of committed records
follows the end of the chain through everything: what it has seen, once, is what is there.
"""

import random
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from clients.client import Client
from peers.process import Process, wait_until

PARTITIONS = 4
TOPICS = ("first", "second", "third")
RECORDS_PER_SECOND = 400
LINK = Path(__file__).with_name("transformer.py")
# The chain has to catch up with what piled up: on a busy machine that takes a while.
DRAIN_SECONDS = 300
FAST = {
    "group.consumer.session.timeout.ms": 6000, "group.min.session.timeout.ms": 6000,
    "group.consumer.min.session.timeout.ms": 6000, "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500, "transaction.state.log.num.partitions": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}


def settings(address):
    return {"bootstrap.servers": address, "reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 100, "log_level": 0,
            "socket.timeout.ms": 10_000, "topic.metadata.refresh.interval.ms": 2000}


class Chain:
    """The programs between the topics: four, each replaced when it ends."""

    def __init__(self, broker, folder, dice):
        self.broker, self.folder, self.dice = broker, folder, dice
        self.links = {(stage, number): self.start(stage, number) for stage in range(2) for number in range(2)}
        self.replaced = 0

    def start(self, stage, number):
        protocol = ("classic", "consumer")[stage]
        return Process(
            [sys.executable, LINK, self.broker.address, TOPICS[stage], TOPICS[stage + 1], f"link-{stage}-{number}", protocol,
             self.dice.randrange(1 << 30)], self.folder / f"link-{stage}-{number}.log")

    def replace(self):
        """A successor for whatever has ended."""
        for key, link in self.links.items():
            if not link.alive():
                assert link.child.returncode in (3, -9), f"{link.child.returncode}: {link.tail()}"
                self.links[key], self.replaced = self.start(*key), self.replaced + 1

    def kill_one(self):
        self.links[self.dice.choice(list(self.links))].kill()

    def end(self):
        for link in self.links.values():
            link.kill()


class Source(threading.Thread):
    """Writes numbers; every one must be acknowledged in the end."""

    def __init__(self, address):
        super().__init__()
        self.producer = Producer({**settings(address), "enable.idempotence": True, "linger.ms": 5,
                                  "message.timeout.ms": 600_000, "queue.buffering.max.messages": 1_000_000})
        self.ending, self.sent, self.failure = threading.Event(), 0, None
        self.acked = [[] for _ in range(PARTITIONS)]

    def run(self):
        while not self.ending.wait(0.05):
            for _ in range(RECORDS_PER_SECOND // 20):
                partition, number = self.sent % PARTITIONS, self.sent
                self.producer.produce(TOPICS[0], b"%d" % number, b"%d" % partition, partition, on_delivery=self.delivered)
                self.sent += 1
            self.producer.poll(0)
        self.producer.flush(120)

    def delivered(self, error, message):
        if error:
            self.failure = self.failure or error
        else:
            self.acked[message.partition()].append(int(message.value()))


def reader(address, topic):
    consumer = Consumer({**settings(address), "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error",
                         "isolation.level": "read_committed", "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    return consumer


class Sink:
    """What is committed at the end of the chain, as it comes."""

    def __init__(self, address, topic):
        self.consumer, self.topic = reader(address, topic), topic
        self.seen = [[] for _ in range(PARTITIONS)]

    def take(self, seconds):
        for one in self.consumer.consume(2000, seconds):
            if not one.error():
                self.seen[one.partition()].append((one.offset(), int(one.value())))
                assert one.key() == b"%d" % one.partition()

    @property
    def count(self):
        return sum(map(len, self.seen))

    def check(self, wanted):
        for partition, (seen, numbers) in enumerate(zip(self.seen, wanted, strict=True)):
            found = [number for _, number in seen]
            doubled = len(found) - len(set(found))
            lost = sorted(set(numbers) - set(found))
            assert not doubled and not lost and sum(found) == sum(numbers), \
                f"{self.topic} {partition}: {doubled} doubled, {len(lost)} lost: {lost[:10]}"
            assert found == numbers, f"{self.topic} {partition}: out of order"


def strike(broker, chain, dice):
    """One blow: the broker, one link, or both."""
    blow = dice.choice(["broker", "broker", "link", "link", "both"])
    if blow != "broker":
        chain.kill_one()
    if blow != "link":
        if dice.random() < 0.1:
            broker.stop()
        else:
            broker.kill()
        if broker.name == "forebay":
            broker.properties["disk.engine"] = dice.choice(["io_uring", "threads"])
        broker.start()
    return blow


def test_fire(make_broker, request, tmp_path):
    seconds = 60 * request.config.getoption("--minutes")
    seed = request.config.getoption("--seed")
    dice = random.Random(seed)
    broker = make_broker()
    broker.properties.update(FAST)
    broker.start()
    admin = Client("librdkafka", broker.address)
    for topic in TOPICS:
        admin.create_topic(topic=topic, partitions=PARTITIONS, configs={"segment.bytes": "1048576"})
    admin.close()
    source, chain, sink = Source(broker.address), Chain(broker, tmp_path, dice), Sink(broker.address, TOPICS[-1])
    source.start()
    blows = {"broker": 0, "link": 0, "both": 0}
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pause = time.monotonic() + dice.uniform(2, 6)
            while time.monotonic() < pause:
                sink.take(0.1)
                chain.replace()
            blows[strike(broker, chain, dice)] += 1
            print(f"{sum(blows.values())} blows, {source.sent} sent, {sink.count} through", flush=True)
        source.ending.set()
        source.join()
        assert not source.failure, str(source.failure)
        assert sum(map(len, source.acked)) == source.sent

        def drained():
            chain.replace()
            sink.take(0.2)
            return sink.count >= source.sent

        wait_until(drained, "everything to arrive", DRAIN_SECONDS)
        chain.end()
        finish(broker, source, sink)
    except BaseException:
        print(f"seed {seed}; links {tmp_path}; broker log {broker.log}; data {broker.data}", flush=True)
        raise
    finally:
        source.ending.set()
        chain.end()
    print(f"{source.sent} records through {blows} and {chain.replaced} replaced links", flush=True)


def finish(broker, source, sink):
    """Nothing more comes, and every link of the chain holds what was acknowledged, after another start as well."""
    for _ in range(10):
        sink.take(0.1)
    sink.check(source.acked)
    broker.stop()
    broker.start()
    for topic in TOPICS:
        again = Sink(broker.address, topic)
        wait_until(lambda again=again: again.take(0.2) or again.count >= source.sent, f"{topic} again", DRAIN_SECONDS)
        again.check(source.acked)
        again.consumer.close()
    sink.consumer.close()
