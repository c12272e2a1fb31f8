"""The rules that are shipped fire for brokers that are really in trouble, and are silent for one that is not.

Each test breaks one thing of a broker that a Prometheus scrapes. The durations of the rules are divided by sixty.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from clients.client import Client, record
from crash import scratch_disk
from crash.scratch_disk import ScratchDisk
from operate import elsewhere, prometheus
from operate.prometheus import Prometheus
from peers.broker import Forebay, forebay_binary
from peers.process import free_port, wait_until
from peers.rawbatch import batch, simple_record
from peers.rawbatch import produce as produce_raw

MIB = 1 << 20
# Of a batch's attributes: it belongs to a transaction.
TRANSACTIONAL = 0x10
# How long a transaction may go on beyond transaction.max.timeout.ms before it counts as stuck.
LATE_AFTER_SECONDS = 300

pytestmark = pytest.mark.skipif(not prometheus.find(), reason="there is no Prometheus: ./test operate fetches it")


class Watched:
    """A broker, and the Prometheus that watches it."""

    def __init__(self, make_broker, home, data=None, **settings):
        self.admin = f"127.0.0.1:{free_port()}"
        self.broker = make_broker(Forebay, home=home / "broker", data=data, properties={"admin.listener": self.admin, **settings}).start()
        (home / "prometheus").mkdir()
        self.prometheus = Prometheus(home / "prometheus", [self.admin]).__enter__()
        wait_until(lambda: self.prometheus.query("up == 1"), "the first scrape", 30, every=0.2)

    def cli(self, *arguments):
        done = subprocess.run([forebay_binary(), *map(str, arguments), "--brokers", self.broker.address], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self):
        self.prometheus.__exit__()
        self.broker.end()


@pytest.fixture
def watched(make_broker, tmp_path):
    made = []

    def make(**options):
        made.append(Watched(make_broker, tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.end()


def scratch():
    """A small disk, whose power can be cut."""
    missing = scratch_disk.missing()
    if missing:
        pytest.skip(missing)
    with ScratchDisk(128 * MIB) as made:
        yield made


disk, other_disk = (pytest.fixture(scratch, name=name) for name in ("disk", "other_disk"))


def alerts(watched):
    """What fires, but what this machine's own file system has to say about its room."""
    return {labels["alertname"] for labels in watched.prometheus.firing()} - {"ForebayDiskFullSoon"}


def test_a_broker_that_is_well_has_no_alert(watched):
    one = watched()
    one.cli("topic", "create", "orders")
    client = Client("librdkafka", one.broker.address)
    for _ in range(15):
        client.produce(topic="orders", records=[record(0, "a", 1000)])
        assert alerts(one) == set()
    client.close()


def test_a_log_directory_that_fails(watched, disk, other_disk):
    first, second = other_disk.path / "first", disk.path / "second"
    one = watched(data=first, **{"log.dirs": f"{first},{second}"})
    names = [f"orders{number}" for number in range(4)]
    one.cli("topic", "create", *names)
    for name in names:
        assert produce_raw(one.broker, name, batch()) == 0
    on_it = next(path.name.rsplit("-", 1)[0] for path in second.iterdir() if path.name.startswith("orders"))
    disk.cut_power()
    assert produce_raw(one.broker, on_it, batch()) != 0
    one.prometheus.wait_for("ForebayLogDirOffline")
    assert one.prometheus.wait_for("ForebayPathFailed")["dir"] == str(second)
    one.prometheus.wait_for("ForebayPartitionsOffline")
    one.end()


def test_min_insync_replicas_of_a_topic_with_one_replica(watched):
    """As in Kafka, no more replicas are asked for than a partition has: acks=all is confirmed, and there is nothing to alert on."""
    one = watched()
    one.cli("topic", "create", "orders", "-s", "min.insync.replicas=2")
    one.cli("topic", "produce", "orders", "a", "--acks", "all")
    at_least = 'kafka_cluster_partition_atminisr{topic="orders"} == 1'
    wait_until(lambda: one.prometheus.query(at_least), "the topic to be scraped", 30, every=0.5)
    assert alerts(one) == set()


def test_min_insync_replicas_of_a_partition_with_replicas_elsewhere(watched):
    """A directory that comes from a cluster: its metadata name replicas on brokers that are not here."""
    one = watched()
    one.cli("topic", "create", "orders", "-s", "min.insync.replicas=2")
    one.cli("topic", "produce", "orders", "a")
    assert one.broker.stop() == 0
    elsewhere.give_replicas(one.broker.data, "orders", [1, 2, 3])
    one.broker.start()
    one.prometheus.wait_for("ForebayUnderMinIsr")
    one.cli("topic", "produce", "orders", "b", "--acks", "all")
    one.cli("topic", "alter", "orders", "-s", "min.insync.replicas=1")
    wait_until(lambda: "ForebayUnderMinIsr" not in alerts(one), "the alert to end", 60, every=0.5)


def test_a_full_disk(watched, disk):
    one = watched(data=disk.path / "data", **{"log.segment.bytes": 8 * MIB})
    one.cli("topic", "create", "orders")
    raw = batch([simple_record(0, b"x" * 500_000)])
    taken = 0
    while produce_raw(one.broker, "orders", raw) == 0:
        taken += 1
        assert taken < 1000, "it never fills up"
    assert taken > 10
    one.prometheus.wait_for("ForebayDiskFullSoon", dir=str(disk.path / "data"))

    def refused():
        # A producer tries again and again.
        produce_raw(one.broker, "orders", raw)
        return {"ForebayDiskFull", "ForebayProduceFails"} <= alerts(one)

    wait_until(refused, "the alerts of a full disk", 60, every=0.2)
    one.end()


def test_a_group_that_stands_still(watched):
    one = watched()
    one.cli("topic", "create", "orders")
    client = Client("librdkafka", one.broker.address)
    client.reset_group(group="stuck", topic="orders", offsets={"0": 0})
    # It has its partition, and never says that it has read anything.
    member = Consumer({"bootstrap.servers": one.broker.address, "group.id": "stuck", "enable.auto.commit": False})
    member.subscribe(["orders"])

    def lagging():
        member.poll(0)
        client.produce(topic="orders", records=[record(0, "a", 1000) for _ in range(5)])
        return next((has for has in one.prometheus.firing() if has["alertname"] == "ForebayGroupStandsStill"), None)

    labels = wait_until(lagging, "the alert ForebayGroupStandsStill", 90, every=0.5)
    assert (labels["consumergroup"], labels["topic"]) == ("stuck", "orders")
    member.close()
    client.close()


@pytest.mark.timeout(LATE_AFTER_SECONDS + 400)
def test_a_transaction_that_nothing_ends(watched):
    """A batch of a transaction that its coordinator knows nothing of, as a bug of KIP-890 left behind: no timeout ends it."""
    one = watched(**{"transaction.max.timeout.ms": 1000, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
                     "transaction.partition.verification.enable": "false"})
    one.cli("topic", "create", "orders")
    raw = batch([simple_record(0)], attributes=TRANSACTIONAL, producer=(4000, 0, 0))
    assert produce_raw(one.broker, "orders", raw, transactional_id="lost") == 0
    one.prometheus.wait_for("ForebayStuckTransaction", seconds=LATE_AFTER_SECONDS + 200)
    # What the runbook has an operator type.
    assert "4000" in one.cli("txn", "producers", "orders", "-p", "0")
    one.cli("txn", "abort", "--topic", "orders", "--partition", "0", "--start-offset", "0")
    wait_until(lambda: alerts(one) == set(), "the alert to end", 60, every=0.5)


def test_a_tier_whose_path_is_lost(watched, tmp_path):
    fast, bulk = tmp_path / "fast", tmp_path / "bulk"
    one = watched(data=fast, **{
        "storage.tiers": "fast,bulk", "storage.tier.fast.paths": fast, "storage.tier.fast.capacity": "8MiB",
        "storage.tier.bulk.paths": bulk, "storage.tier.bulk.capacity": "200MiB", "storage.migrate.residency.ms": 0,
        "storage.migrate.heat.ms": 0, "log.segment.bytes": MIB,
    })
    one.cli("topic", "create", "orders")
    client = Client("librdkafka", one.broker.address)
    # More than stays on the upper tier, and less than it holds: however fast they come, the segment that is written is there, and the
    # partition opens without the lower one.
    client.produce(topic="orders", records=[record(0, "a", 100_000) for _ in range(65)])
    client.close()
    wait_until(lambda: list((bulk / "orders-0").glob("*.log")), "a segment on the lower tier", 60)
    assert one.broker.stop() == 0
    # Not mounted: an empty directory is in its place.
    away = Path(shutil.move(bulk, tmp_path / "away"))
    bulk.mkdir()
    one.broker.start()
    labels = one.prometheus.wait_for("ForebayPathFailed")
    assert (labels["dir"], labels["tier"]) == (str(bulk), "bulk")
    for name in ("ForebayLogDirOffline", "ForebaySegmentsUnreadable"):
        one.prometheus.wait_for(name)
    assert one.broker.stop() == 0
    shutil.rmtree(bulk)
    away.rename(bulk)
    one.broker.start()
    # Three starts within half a minute, which stands for half an hour, are an alert of their own.
    wait_until(lambda: alerts(one) <= {"ForebayRestarts"}, "the alerts to end", 60, every=0.5)
