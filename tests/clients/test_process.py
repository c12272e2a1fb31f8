"""The process as its operator sees it: settings, start and stop, the lock, limits, health and metrics, a full disk."""

import os
import subprocess
import urllib.error
import urllib.request

import pytest

from clients.client import Client, assert_same, record
from crash import scratch_disk
from crash.scratch_disk import ScratchDisk
from peers.broker import Forebay, forebay_binary
from peers.process import free_port, wait_until
from peers.rawbatch import batch, produce, simple_record
from peers.rawwire import METADATA, Closed, Connection, brokers

KAFKA_STORAGE_ERROR = 56


@pytest.fixture(autouse=True)
def only_ours(request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("about our own process")


@pytest.fixture
def own(make_broker):
    """Starts a broker of its own for a test, with a log to read."""

    def start(**properties):
        broker = make_broker(Forebay, properties={key.replace("_", "."): value for key, value in properties.items()})
        return broker.start()

    return start


def run(*arguments, **environment):
    return subprocess.run([forebay_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **environment})


def small_round_trip(address, topic="round-trip"):
    client = Client("librdkafka", address)
    client.create_topic(topic=topic, partitions=1, configs={})
    records = [record(0, f"{i}", 1000) for i in range(100)]
    offsets = client.produce(topic=topic, records=records)
    assert_same(client.consume(topic=topic, partition=0, offset=0, count=100), records, offsets)
    return client


def get(broker, path):
    with urllib.request.urlopen(f"http://{broker.properties['admin.listener']}{path}", timeout=10) as answer:
        return answer.status, answer.read().decode()


def test_wrong_settings_are_named(tmp_path):
    refused = run("serve", f"log.dirs={tmp_path / 'data'}", "log.retention.hours=soon", "durability=maybe")
    assert refused.returncode != 0
    for expected in ("log.retention.hours=soon", "durability=maybe", "synced"):
        assert expected in refused.stderr
    assert not (tmp_path / "data").exists()
    (tmp_path / "server.properties").write_text("log.retention.hour=5\nnum.partitions=3\n")
    checked = run("config", "check", tmp_path / "server.properties")
    assert checked.returncode == 0
    assert "log.retention.hours" in checked.stdout, "the closest known key"


def test_file_environment_and_command_line(make_broker, tmp_path):
    """All three at once; the command line wins over the environment, and that over the file."""
    (tmp_path / "server.properties").write_text("num.partitions=7\nlog.retention.hours=1\nmessage.max.bytes=5000000\n")
    broker = make_broker(Forebay)
    plain = broker.argv()
    broker.argv = lambda: [
        "env", "FOREBAY_NUM_PARTITIONS=6", "FOREBAY_LOG_RETENTION_HOURS=2", plain[0], "serve", "--config",
        tmp_path / "server.properties", *(p for p in plain[2:] if "message.max" not in str(p)), "num.partitions=5"]
    broker.start()
    client = Client("librdkafka", broker.address)
    client.create_topic(topic="t", partitions=-1, configs={})
    assert client.describe_topic(topic="t") == {"partitions": 5}
    configs = client.configs(topic="t")
    assert configs["retention.ms"] == str(2 * 3_600_000)
    assert configs["max.message.bytes"] == "5000000"
    client.close()


def test_second_start_names_the_holder(own, make_broker):
    first = own()
    second = make_broker(Forebay, data=first.data)
    second.spawn()
    assert second.process.child.wait(30) != 0
    assert str(first.process.pid) in second.process.tail()
    assert brokers(first.port) == 1


@pytest.mark.parametrize("engine", ["threads", "io_uring"])
def test_disk_engines(own, engine):
    broker = own(disk_engine=engine)
    client = small_round_trip(broker.address)
    assert broker.stop() == 0
    broker.start()
    assert len(client.consume(topic="round-trip", partition=0, offset=0, count=100)) == 100
    client.close()


def test_clean_stop_and_start(own):
    broker = own()
    client = small_round_trip(broker.address)
    assert broker.stop() == 0
    assert (broker.data / ".kafka_cleanshutdown").exists()
    segment = broker.data / "round-trip-0" / f"{0:020}.log"
    assert segment.stat().st_size < 200_000, "cut to its length"
    broker.start()
    assert client.watermarks(topic="round-trip", partition=0) == [0, 100]
    assert client.produce(topic="round-trip", records=[record(0, "more", 10)]) == [100]
    client.close()


def test_several_data_directories(own, tmp_path):
    """Partitions are spread over them, and found again."""
    first, second = tmp_path / "one", tmp_path / "two"
    broker = own(log_dirs=f"{first},{second}")
    client = Client("librdkafka", broker.address)
    client.create_topic(topic="spread", partitions=6, configs={})
    records = [record(i % 6, f"{i}", 100) for i in range(60)]
    client.produce(topic="spread", records=records)
    for directory in (first, second):
        assert len(list(directory.glob("spread-*"))) == 3
    assert broker.stop() == 0
    broker.start()
    assert [client.watermarks(topic="spread", partition=p) for p in range(6)] == [[0, 10]] * 6
    client.close()
    broker.stop()


def test_foreign_files_are_named_and_left_alone(own):
    broker = own()
    small_round_trip(broker.address).close()
    broker.stop()
    notes = broker.data / "notes.txt"
    notes.write_text("mine")
    stranger = broker.data / "round-trip-0" / "00000000000000000000.log.bak"
    stranger.write_text("also mine")
    broker.start()
    broker.stop()
    assert notes.read_text() == "mine"
    assert stranger.read_text() == "also mine"
    log = broker.log.read_text()
    assert "notes.txt" in log
    assert "00000000000000000000.log.bak" in log


def test_health_and_metrics(own):
    broker = own(admin_listener=f"127.0.0.1:{free_port()}")
    assert get(broker, "/livez")[0] == 200
    wait_until(lambda: get(broker, "/readyz")[0] == 200, "readiness")
    small_round_trip(broker.address).close()
    _, text = get(broker, "/metrics")

    def total(name):
        values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)]
        assert values, f"{name} is missing"
        return max(values)

    assert total("kafka_server_brokertopicmetrics_messagesin_total") >= 100
    assert total("kafka_server_brokertopicmetrics_bytesin_total") > 100_000
    assert total("kafka_server_brokertopicmetrics_bytesout_total") > 100_000
    assert total("kafka_server_replicamanager_partitioncount") >= 1
    with pytest.raises(urllib.error.HTTPError):
        get(broker, "/nothing")


def test_idle_connections_are_closed(own):
    broker = own(connections_max_idle_ms=300)
    with Connection(broker.port) as idle:
        idle.expect_closed()
    assert brokers(broker.port) == 1


def accepted(broker):
    """A connection that is served, or None."""
    connection = Connection(broker.port)
    try:
        connection.request(METADATA, 1, bytes(4))
        return connection
    except Closed:
        return None


def test_more_connections_than_allowed(own):
    broker = own(max_connections=5)
    # One that was refused means that the broker has not yet noticed the end of an earlier one.
    # Four more places are for 127.0.0.1 alone.
    kept = [wait_until(lambda: accepted(broker), "a free place") for _ in range(5 + 4)]
    with Connection(broker.port) as tenth:
        tenth.expect_closed()
    for connection in kept:
        connection.socket.close()
    wait_until(broker.serves, "room for a connection")


def test_a_bad_frame_is_logged_with_its_peer(own):
    broker = own()
    with Connection(broker.port) as connection:
        peer = f"127.0.0.1:{connection.socket.getsockname()[1]}"
        connection.send(b"\xff\xff\xff\xff")
        connection.expect_closed()
    wait_until(lambda: peer in broker.log.read_text(), "a log line that names the peer")


def test_full_disk(make_broker):
    """Produce is refused with the storage error, reads go on, deleting makes room, and the next start writes again."""
    why = scratch_disk.missing()
    if why:
        pytest.skip(f"NO FULL DISK WAS TESTED: {why}")
    with ScratchDisk(size=96 << 20) as disk:
        broker = make_broker(Forebay, data=disk.path / "data").start()
        client = small_round_trip(broker.address)
        client.create_topic(topic="filler", partitions=1, configs={"max.message.bytes": "33554432"})
        raw = batch([simple_record(0, b"x" * 1_000_000)])
        answers = []
        while len(answers) < 200 and answers[-1:] != [KAFKA_STORAGE_ERROR]:
            answers.append(produce(broker, "filler", raw))
        assert set(answers[:-1]) == {0} and answers[-1] == KAFKA_STORAGE_ERROR
        assert broker.alive()
        assert len(client.consume(topic="round-trip", partition=0, offset=0, count=100)) == 100
        low, high = client.watermarks(topic="filler", partition=0)
        assert high == len(answers) - 1
        assert len(client.consume(topic="filler", partition=0, offset=low, count=high - low)) == high - low
        client.delete_topic(topic="filler")
        broker.stop()
        broker.start()
        assert client.produce(topic="round-trip", records=[record(0, "room again", 1000)]) == [100]
        client.close()
        broker.stop()


def test_failed_disk(make_broker):
    """When the device fails the broker stays up, refuses to write, and says why; what it had acknowledged is there afterwards."""
    why = scratch_disk.missing()
    if why:
        pytest.skip(f"NO FAILED DISK WAS TESTED: {why}")
    with ScratchDisk(size=256 << 20) as disk:
        broker = make_broker(Forebay, data=disk.path / "data").start()
        client = small_round_trip(broker.address)
        disk.cut_power()
        assert produce(broker, "round-trip", batch()) == KAFKA_STORAGE_ERROR
        assert broker.alive()
        assert brokers(broker.port) == 1
        broker.kill()
        disk.restore_power()
        broker.start()
        assert client.watermarks(topic="round-trip", partition=0) == [0, 100]
        assert len(client.consume(topic="round-trip", partition=0, offset=0, count=100)) == 100
        client.close()
        broker.stop()
