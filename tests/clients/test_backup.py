"""`forebay backup` of a broker that runs: what is in it, what starts from it, and what becomes of it and of the broker if it is killed."""

import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from clients import workload
from clients.client import Client
from crash.load import Load, decode
from crash.transformer import Transformer
from peers.broker import Forebay, forebay_binary
from peers.kafka import Kafka
from peers.process import die_with_parent, wait_until

PARTITIONS = 3


@pytest.fixture(autouse=True)
def only_ours(request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("our command; it has Kafka's directories, too")


def backup(*paths, **options):
    return subprocess.run([forebay_binary(), "backup", *map(str, paths)], capture_output=True, text=True, timeout=120, check=False,
                          **{"preexec_fn": die_with_parent, **options})


def check(directory):
    done = subprocess.run([forebay_binary(), "check", str(directory)], capture_output=True, text=True, timeout=60, check=False)
    # A segment that was just rolled may have no indexes yet: the start makes them.
    assert re.search(r" 0 damaged, \d+ hints", done.stdout), done.stdout + done.stderr


def tree(directory):
    """Every file with its length and content's beginning: whether something has changed."""
    return {path.relative_to(directory): (path.stat().st_size, path.read_bytes()[:4096]) for path in sorted(directory.rglob("*"))
            if path.is_file()}


class Transactions:
    """Transactions one after the other, in two partitions and a group's position: all of each or nothing may be in a backup."""

    POSITIONS = "positions"

    def __init__(self, address):
        self.address = address
        Client("librdkafka", address).create_topic(topic="pairs", partitions=2, configs={"retention.ms": "-1"})
        self.done = 0
        self.ending = False
        self.failure = None
        self.thread = threading.Thread(target=self._guard, daemon=True)
        self.thread.start()

    def finish(self):
        self.ending = True
        self.thread.join(60)
        assert not self.failure and not self.thread.is_alive(), self.failure

    def _guard(self):
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 (kept for the main thread)
            self.failure = error

    def _run(self):
        # What was open when the backup was made holds back the group's position until it is aborted for its age.
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": "pairs", "linger.ms": 0, "transaction.timeout.ms": 20_000})
        Transformer.until_done(producer.init_transactions)
        group = Consumer({"bootstrap.servers": self.address, "group.id": self.POSITIONS})
        number = 0
        while not self.ending:
            producer.begin_transaction()
            for partition in range(2):
                producer.produce("pairs", b"%d" % number, partition=partition)
            producer.send_offsets_to_transaction([TopicPartition("pairs", 0, number + 1)], group.consumer_group_metadata(), 60)
            producer.commit_transaction(60)
            self.done = number
            number += 1


def read_committed(address, topic, partitions, seconds=60):
    """The committed values of each partition, read to its end as it is now."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader-of-all", "isolation.level": "read_committed",
                         "enable.partition.eof": True, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    values, ended = [[] for _ in range(partitions)], set()
    deadline = time.monotonic() + seconds
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"{topic}: {[len(one) for one in values]}"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            if message.error().name() != "_PARTITION_EOF":
                raise KafkaException(message.error())
            ended.add(message.partition())
        else:
            values[message.partition()].append(message.value())
    consumer.close()
    return values


def whole(address, least):
    """The pairs are in both partitions and in the position of the group, and those that were committed before are there."""
    one, other = read_committed(address, "pairs", 2)
    assert one == other
    numbers = [value for value in one if value.isdigit()]
    assert numbers == [b"%d" % number for number in range(len(numbers))]
    assert len(numbers) > least, "a transaction that was committed before the backup began"
    positions = Consumer({"bootstrap.servers": address, "group.id": Transactions.POSITIONS})
    (position,) = positions.committed([TopicPartition("pairs", 0)], timeout=90)
    positions.close()
    assert position.offset == len(numbers), "the position was committed with the last pair"
    # None is open for ever: a new transaction is seen by readers.
    later = b"later %d" % (len(one) - len(numbers))
    producer = Producer({"bootstrap.servers": address, "transactional.id": later.decode()})
    Transformer.until_done(producer.init_transactions)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce("pairs", later, partition=partition)
    producer.commit_transaction(60)
    wait_until(lambda: all(values[-1] == later for values in read_committed(address, "pairs", 2)), "the new transaction", 90, 0.5)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("opened_by", [Forebay, Kafka])
@pytest.mark.parametrize("kind", [Forebay, Kafka])
def test_a_backup_under_load_is_one_instant(make_broker, tmp_path, kind, opened_by):
    """Records, transactions and positions, of a broker that is under load and goes on; started from by us and by Kafka."""
    if (kind, opened_by) == (Kafka, Kafka):
        pytest.skip("Kafka's own affair")
    with make_broker(kind) as broker:
        Client("librdkafka", broker.address).create_topic(
            topic="load", partitions=PARTITIONS, configs={"retention.ms": "-1", "segment.bytes": "1048576"})
        load = Load(broker, "load", PARTITIONS, tmp_path / "ledger", 7)
        transactions = Transactions(broker.address)
        try:
            wait_until(lambda: transactions.done > 20 and min(map(len, load.acked)) > 200, "some load")
            with load.lock:
                before = [dict(acked) for acked in load.acked]
            least = transactions.done
            done = backup(broker.data, tmp_path / "copy")
            assert done.returncode == 0, done.stderr
            assert "the broker was stopped for" in done.stdout
            wait_until(lambda: transactions.done > least + 20, "the broker to go on")
        finally:
            transactions.finish()
            load.finish()
        assert load.failure is None, load.failure
    print(done.stdout)
    check(tmp_path / "copy")
    restored = make_broker(opened_by, home=tmp_path / "restored", data=tmp_path / "copy").start()
    for partition, values in enumerate(read_committed(restored.address, "load", PARTITIONS)):
        there = {decode(value) for value in values}
        lost = [offset for offset, record in before[partition].items() if record not in there]
        assert not lost, f"acknowledged before the backup, and not in it: {len(lost)} of {len(before[partition])}"
    whole(restored.address, least)
    restored.kill()
    again = make_broker(opened_by, home=tmp_path / "again", data=tmp_path / "copy").start()
    whole(again.address, least)
    again.stop()


@pytest.mark.timeout(300)
def test_backups_while_segments_roll_and_go_and_move(make_broker, tmp_path):
    """Segments of 256 KiB under full load, with retention, compaction and two tiers: no backup is refused, and each starts."""
    tiers = {"storage.tiers": "fast,bulk", "storage.tier.fast.paths": tmp_path / "fast", "storage.tier.fast.capacity": "24MiB",
             "storage.tier.bulk.paths": tmp_path / "bulk", "storage.migrate.threshold": "0.2",
             "log.retention.check.interval.ms": 200, "log.cleaner.backoff.ms": 100, "log.segment.delete.delay.ms": 0}
    small = {"internal.segment.bytes": "262144", "retention.ms": "-1"}
    with make_broker(Forebay, data=tmp_path / "fast", properties=tiers) as broker:
        client = Client("librdkafka", broker.address)
        client.create_topic(topic="load", partitions=PARTITIONS, configs=small)
        client.create_topic(topic="kept-by-size", partitions=1, configs={**small, "retention.bytes": "1048576"})
        client.create_topic(topic="compacted", partitions=1,
                            configs={**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        # A batch is no longer than a segment.
        load = Load(broker, "load", PARTITIONS, tmp_path / "ledger", 7, settings={"batch.size": "131072"})
        transactions = Transactions(broker.address)
        ending = threading.Event()

        def flood():
            producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0, "log_level": 0})
            number = 0
            while not ending.is_set():
                for topic in ("kept-by-size", "compacted"):
                    producer.produce(topic, os.urandom(3000), key=b"%d" % (number % 50))
                number += 1
                producer.poll(0)
                if number % 200 == 0:
                    producer.flush(60)
            producer.flush(60)

        flooding = threading.Thread(target=flood, daemon=True)
        flooding.start()
        taken = []
        try:
            for at in range(6):
                wait_until(lambda: transactions.done > 10 * (at + 1), "some load")
                with load.lock:
                    before = [dict(acked) for acked in load.acked]
                least = transactions.done
                done = backup(tmp_path / "fast", tmp_path / "bulk", tmp_path / f"copy-{at}")
                assert done.returncode == 0, done.stderr
                taken.append((tmp_path / f"copy-{at}", before, least))
        finally:
            ending.set()
            flooding.join(60)
            transactions.finish()
            load.finish()
        assert load.failure is None, load.failure
        assert any((tmp_path / "bulk").rglob("*.log")), "segments have moved"
    for copy, before, least in taken:
        here = {**tiers, "storage.tier.fast.paths": copy / "1", "storage.tier.bulk.paths": copy / "2"}
        restored = make_broker(Forebay, home=tmp_path / f"restored-{copy.name}", data=copy / "1", properties=here).start()
        for partition, values in enumerate(read_committed(restored.address, "load", PARTITIONS)):
            there = {decode(value) for value in values}
            lost = [offset for offset, record in before[partition].items() if record not in there]
            assert not lost, f"{copy}: acknowledged before the backup, and not in it: {len(lost)} of {len(before[partition])}"
        whole(restored.address, least)
        restored.stop()


def test_everything_that_clients_see_is_in_it(make_broker, tmp_path):
    """The mixed workload, and a broker that stands idle: the backup has the same state, and the source is only read."""
    broker = make_broker(Forebay).start()
    workload.run(broker.address)
    seen = workload.state(broker.address)
    done = backup(broker.data, tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    broker.kill()
    before = tree(broker.data)
    stopped = backup(broker.data, tmp_path / "copy-of-the-killed")
    assert stopped.returncode == 0 and "no broker ran" in stopped.stdout, stopped.stderr
    assert tree(broker.data) == before
    for copy in ("copy", "copy-of-the-killed"):
        restored = make_broker(Forebay, data=tmp_path / copy).start()
        assert workload.differences(workload.state(restored.address), seen) == [], copy
        restored.stop()


def test_nothing_is_overwritten_and_what_belongs_together_has_to_be_named(make_broker, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    broker = make_broker(Forebay, properties={"log.dirs": f"{one},{two}"}).start()
    Client("librdkafka", broker.address).create_topic(topic="both", partitions=8, configs={})
    refused = backup(one, tmp_path / "copy")
    assert refused.returncode == 1 and str(two) in refused.stderr
    (tmp_path / "there").mkdir()
    refused = backup(one, two, tmp_path / "there")
    assert refused.returncode == 1 and "overwrites nothing" in refused.stderr
    refused = backup(one, two, one / "copy")
    assert refused.returncode == 1 and "is copied" in refused.stderr
    refused = backup(one, tmp_path / "there", tmp_path / "copy")
    assert refused.returncode == 1 and "meta.properties" in refused.stderr
    refused = backup(one, two, tmp_path / "copy", preexec_fn=few_files)
    assert refused.returncode == 1 and "limit of open files is 24" in refused.stderr
    assert not (tmp_path / "copy").exists()
    one.chmod(0o750)
    (one / "__consumer_offsets-9").symlink_to("/etc")
    (one / "linked").symlink_to("/etc/hostname")
    done = backup(one, two, tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    # A copy is as closed as its source, and follows no link.
    assert stat.S_IMODE((tmp_path / "copy/1").stat().st_mode) == 0o750
    assert not any((tmp_path / "copy/1" / name).exists() for name in ("__consumer_offsets-9", "linked"))
    for name in ("__consumer_offsets-9", "linked"):
        (one / name).unlink()
    broker.stop()
    (tmp_path / "copy/1").rename(tmp_path / "first")
    restored = make_broker(Forebay, properties={"log.dirs": f"{tmp_path / 'first'},{tmp_path / 'copy/2'}"}).start()
    assert Client("librdkafka", restored.address).describe_topic(topic="both") == {"partitions": 8}
    restored.stop()


def few_files():
    import resource

    die_with_parent()
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))


def test_a_backup_that_is_killed_leaves_no_backup_and_no_stopped_broker(make_broker, tmp_path):
    broker = make_broker(Forebay).start()
    client = Client("librdkafka", broker.address)
    client.create_topic(topic="much", partitions=1, configs={})
    producer = Producer({"bootstrap.servers": broker.address, "compression.codec": "none", "batch.size": 900_000})
    for _ in range(200):
        producer.produce("much", os.urandom(500_000), partition=0)
        producer.poll(0)
    producer.flush(60)
    killed = 0
    for wait in (0.005, 0.01, 0.02, 0.04, 0.08):
        running = subprocess.Popen([forebay_binary(), "backup", broker.data, tmp_path / "copy"], preexec_fn=die_with_parent,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        running.kill()
        killed += running.wait() == -signal.SIGKILL
        assert not (tmp_path / "copy").exists() or running.returncode == 0
        # The guard resumes it: it answers.
        assert client.describe_topic(topic="much") == {"partitions": 1}
        for name in ("copy", "copy.partial"):
            if (tmp_path / name).exists() and name.endswith("partial"):
                refused = backup(broker.data, tmp_path / "copy")
                assert refused.returncode == 1 and "did not end" in refused.stderr
            shutil.rmtree(tmp_path / name, ignore_errors=True)
    assert killed, "every one was done before it was killed"
    assert backup(broker.data, tmp_path / "copy").returncode == 0
    check(tmp_path / "copy")
    assert broker.stop() == 0


def test_the_broker_goes_on_when_command_and_guard_are_killed_in_the_pause(make_broker, tmp_path):
    """Nobody is left who could resume it: the kernel does, when the command ends."""
    broker = make_broker(Forebay).start()
    client = Client("librdkafka", broker.address)
    # Enough names that the pause can be met.
    for number in range(4):
        client.create_topic(topic=f"many-{number}", partitions=250, configs={})
    caught = False
    for _ in range(50):
        running = subprocess.Popen([forebay_binary(), "backup", broker.data, tmp_path / "copy"], preexec_fn=die_with_parent,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while running.poll() is None and state(broker.process.pid) != "T":
            pass
        # The command itself stands still in the middle of the pause, so both are there to be killed.
        running.send_signal(signal.SIGSTOP)
        caught = running.poll() is None and state(broker.process.pid) == "T"
        if caught:
            break
        running.kill()
        running.wait()
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.rmtree(tmp_path / "copy.partial", ignore_errors=True)
    assert caught, "no pause was met"
    with open(f"/proc/{running.pid}/task/{running.pid}/children") as children:
        (guard,) = children.read().split()
    os.kill(int(guard), signal.SIGKILL)
    assert state(broker.process.pid) == "T", "without its guard it stands still"
    running.kill()
    running.wait()
    wait_until(lambda: state(broker.process.pid) != "T", "the kernel to resume it", 5)
    assert client.describe_topic(topic="many-0") == {"partitions": 250}
    assert broker.stop() == 0


def test_paths_of_tiers_belong_to_the_backup(make_broker, tmp_path):
    tiers = {"storage.tiers": "fast,bulk", "storage.tier.fast.paths": tmp_path / "fast", "storage.tier.bulk.paths": tmp_path / "bulk"}
    broker = make_broker(Forebay, data=tmp_path / "fast", properties=tiers).start()
    for named, left_out in (("fast", "bulk"), ("bulk", "fast")):
        refused = backup(tmp_path / named, tmp_path / "copy")
        assert refused.returncode == 1 and str(tmp_path / left_out) in refused.stderr, refused.stderr
    assert backup(tmp_path / "fast", tmp_path / "bulk", tmp_path / "copy").returncode == 0
    broker.stop()
    refused = backup(tmp_path / "fast", tmp_path / "copy-of-the-stopped")
    assert refused.returncode == 1 and str(tmp_path / "bulk") in refused.stderr, refused.stderr


def test_all_directories_of_a_running_kafka_have_to_be_named(make_broker, tmp_path):
    """Kafka's directories have no lists of each other; the process holds their locks."""
    one, two = tmp_path / "one", tmp_path / "two"
    kafka = make_broker(Kafka, data=one, properties={"log.dirs": f"{one},{two}"}).start()
    refused = backup(one, tmp_path / "copy")
    assert refused.returncode == 1 and f"{two}, too" in refused.stderr, refused.stderr
    assert backup(one, two, tmp_path / "copy").returncode == 0
    kafka.stop()


def test_the_guard_resumes_what_stands_still():
    """Whatever ends the command, its guard sees the end of its input."""
    sleeper = subprocess.Popen(["sleep", "60"], preexec_fn=die_with_parent)
    guard = subprocess.Popen([forebay_binary(), "backup", "--resume", str(sleeper.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             preexec_fn=die_with_parent)
    assert guard.stdout.readline() == b"ready\n"
    sleeper.send_signal(signal.SIGSTOP)
    wait_until(lambda: state(sleeper.pid) == "T", "it to stand still")
    guard.stdin.close()
    wait_until(lambda: state(sleeper.pid) == "S", "it to go on")
    assert guard.wait(10) == 0
    sleeper.kill()
    sleeper.wait()


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]
