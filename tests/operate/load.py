"""A broker with some life in it, for dashboards: tiers that move, groups that lag, transactions, clients with quotas."""

import subprocess

from clients.client import Client, record
from peers.broker import Forebay, forebay_binary
from peers.process import Process, free_port, wait_until

MIB = 1 << 20


class Busy:
    """Running from `__enter__` on; everything that it started ends with it."""

    def __init__(self, home):
        self.home = home
        self.admin = f"127.0.0.1:{free_port()}"
        self.broker = Forebay(home=home, data=home / "fast", properties={
            "admin.listener": self.admin, "storage.tiers": "fast,bulk",
            "storage.tier.fast.paths": home / "fast", "storage.tier.fast.capacity": "32MiB",
            "storage.tier.bulk.paths": home / "bulk", "storage.tier.bulk.capacity": "2GiB",
            "storage.migrate.residency.ms": 0, "storage.migrate.heat.ms": 0, "log.segment.bytes": 2 * MIB,
            "log.retention.bytes": 64 * MIB, "log.retention.check.interval.ms": 5000, "log.cache.bytes": 16 * MIB,
            "num.shards": 2, "replica.high.watermark.checkpoint.interval.ms": 1000,
        })
        self.started = []

    def __enter__(self):
        self.broker.start()
        self.cli("topic", "create", "cars", "frames", "orders", "-p", "4")
        self.cli("topic", "create", "positions", "-p", "4", "-s", "cleanup.policy=compact", "-s", "segment.ms=10000",
                 "-s", "min.cleanable.dirty.ratio=0.01")
        self.cli("quota", "alter", "--default", "client-id", "--set=producer_byte_rate=30000000", "--set=consumer_byte_rate=100000000",
                 "--set=request_percentage=400")
        self.cli("quota", "alter", "--client-id", "greedy", "--set=producer_byte_rate=2000")
        self._loads()
        return self

    def _loads(self):
        for topic, group in (("cars", "dashboards"), ("cars", "search"), ("orders", "billing")):
            self.run("topic", "consume", topic, "-g", group, "-f", "%o\n")

    def run(self, *arguments):
        log = self.home / f"client-{len(self.started)}.log"
        self.started.append(Process([forebay_binary(), *arguments, "--brokers", self.broker.address], log))

    def turn(self, client, number):
        """Some seconds of what applications do: call it again and again."""
        size = 200 + 300 * (number % 20)
        client.produce(topic="cars", records=[record(i % 4, f"{number}/{i}", size, key=f"vin-{i}") for i in range(400)])
        client.produce(topic="frames", records=[record(i % 4, "frame", 100_000) for i in range(10 + 3 * (number % 17))])
        client.produce(topic="orders", records=[record(i % 4, f"{number}/{i}", 1000) for i in range(100)])
        client.produce(topic="positions", records=[record(i % 4, f"{number}/{i}", 500, key=f"k{i}") for i in range(100)])
        rounds = [{"value": f"{number} {part}", "partitions": 2, "commit": part != 2, "position": number + part} for part in range(4)]
        client.transact(topic="orders", identity=f"payments-{number % 3}", group="payments", rounds=rounds)
        if number % 3 == 0:
            # A group that reads on, and falls behind.
            client.reset_group(group="archive", topic="cars", offsets={str(p): 50 * number for p in range(4)})
        if number % 5 == 0:
            self.cli("topic", "describe", "nosuch", check=False)
            # One that exceeds its quota.
            self.cli("topic", "produce", "orders", "-q", "-X", "client.id=greedy", *["x" * 4000] * 3)

    def cli(self, *arguments, check=True):
        done = subprocess.run([forebay_binary(), *map(str, arguments), "--brokers", self.broker.address], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def client(self):
        return Client("librdkafka", self.broker.address)

    def settled(self):
        """Waits until segments are on the lower tier."""
        wait_until(lambda: list(self.home.glob("bulk/*/*.log")), "segments on the lower tier", 120, every=0.5)

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
        self.broker.end()
