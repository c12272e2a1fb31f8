"""Small synced writes that are not records of a load: commits of groups, and transactions. Forebay beside Apache Kafka, in one run.

    PYTHON tests/figures/commits.py BROKER [BROKER..]     binaries of ours; Apache Kafka, as shipped, has its turn after them
    --clients 8           groups that commit at once, and producers that run transactions at once
    --seconds 10          how long each is measured
    --rounds 3            how often each broker has its turn; the first round of all warms up and is not counted
    --set key=value       a property of ours

A *commit* is one offset of one partition, sent when the one before is answered, by a group of its own. A *transaction* is begin, ten
records of 1 KB to one partition, the offset of a group, commit. Ours syncs both before it answers; Kafka does not. A line for each
broker: medians with the lowest and highest round of the rate, the time of one, and processor time of the broker. Clients are
librdkafka's. It takes the Python of the tests (tests/requirements.txt).
"""

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

from peers import kafka  # noqa: E402
from peers.broker import Forebay  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
PARTITIONS = 8
RECORD = os.urandom(1000)


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Ours(Forebay):
    """Of a binary of its own."""

    def __init__(self, binary, **options):
        super().__init__(**options)
        self.binary = binary

    def argv(self):
        return [self.binary, *super().argv()[1:]]


class Commits:
    """A group that commits one offset after the other."""

    name = "group commit"

    def __init__(self, address, number):
        self.consumer = Consumer({"bootstrap.servers": address, "group.id": f"commits-{number}", "enable.auto.commit": False})
        self.partition, self.offset = number % PARTITIONS, 0

    def one(self):
        self.offset += 1
        (done,) = self.consumer.commit(offsets=[TopicPartition("t", self.partition, self.offset)], asynchronous=False)
        assert done.error is None, done.error

    def end(self):
        self.consumer.close()


class Transactions:
    """A producer that runs one transaction after the other."""

    name = "transaction"

    def __init__(self, address, number):
        self.producer = Producer({"bootstrap.servers": address, "transactional.id": f"transactions-{number}", "linger.ms": 0})
        self.producer.init_transactions(60)
        # A consumer that assigns itself its partitions, and so is no member.
        self.consumer = Consumer({"bootstrap.servers": address, "group.id": f"transactions-{number}"})
        self.group, self.partition, self.offset = self.consumer.consumer_group_metadata(), number % PARTITIONS, 0

    def one(self):
        self.offset += 10
        self.producer.begin_transaction()
        for _ in range(10):
            self.producer.produce("t", RECORD, partition=self.partition)
        self.producer.send_offsets_to_transaction([TopicPartition("t", self.partition, self.offset)], self.group, 60)
        self.producer.commit_transaction(60)

    def end(self):
        self.producer.flush(60)
        self.consumer.close()


def measured(broker, kind, clients, seconds):
    """The rate, the times of one in milliseconds, and the broker's processor time for one in microseconds."""
    working = [kind(broker.address, number) for number in range(clients)]
    for one in working:
        one.one()
    times, failures, begin = [], [], threading.Barrier(clients + 1)

    def work(one):
        mine = []
        begin.wait()
        try:
            until = time.monotonic() + seconds
            while (begun := time.monotonic()) < until:
                one.one()
                mine.append(time.monotonic() - begun)
        except Exception as error:  # noqa: BLE001 (a thread's failure is the run's)
            failures.append(repr(error))
        times.extend(mine)

    threads = [threading.Thread(target=work, args=(one,)) for one in working]
    for thread in threads:
        thread.start()
    begin.wait()
    begun, before = time.monotonic(), cpu_seconds(broker.process.pid)
    for thread in threads:
        thread.join()
    took, cpu = time.monotonic() - begun, cpu_seconds(broker.process.pid) - before
    for one in working:
        one.end()
    if failures:
        sys.exit(f"{broker.address}: {failures[0]}")
    times.sort()
    return {"per second": len(times) / took, "p50 ms": times[len(times) // 2] * 1e3, "p99 ms": times[len(times) * 99 // 100] * 1e3,
            "broker us each": cpu / len(times) * 1e6}


def spread(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g}..{max(values):.3g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+", metavar="BROKER")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--dir", help="where the brokers put their data (default: a temporary directory)")
    options = parser.parse_args()
    # Ended from outside, it still removes what it wrote.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    home = Path(tempfile.mkdtemp(prefix="commits-", dir=options.dir))
    os.environ["TEST_BROKER"] = options.binaries[0]
    more = dict(pair.split("=", 1) for pair in options.set)
    brokers = {}
    for number, binary in enumerate(options.binaries):
        brokers[binary] = Ours(binary, home=home / f"ours-{number}", properties=more)
    brokers["Apache Kafka"] = kafka.Kafka(home=home / "theirs")
    try:
        for broker in brokers.values():
            broker.start()
            admin = AdminClient({"bootstrap.servers": broker.address})
            for done in admin.create_topics([NewTopic("t", PARTITIONS, 1)]).values():
                done.result()
        print("| what | broker | per second | p50 ms | p99 ms | CPU of the broker, us each |\n|---|---|---|---|---|---|")
        for kind in (Commits, Transactions):
            found = {name: [] for name in brokers}
            for turn in range(options.rounds + 1):
                order = list(brokers.items())
                for name, broker in order if turn % 2 == 0 else reversed(order):
                    row = measured(broker, kind, options.clients, options.seconds)
                    if turn > 0:
                        found[name].append(row)
            for name, rows in found.items():
                cells = (spread([row[key] for row in rows]) for key in rows[0])
                print(f"| {kind.name} | {name} | {' | '.join(cells)} |", flush=True)
    finally:
        for broker in brokers.values():
            broker.end()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
