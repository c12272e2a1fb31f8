"""What the tests know of a broker, whichever it is: an address, a data directory, start, stop, kill.

`Forebay` is the broker under test. `Kafka` (in kafka.py) is the reference: it serves to show that a test is right,
and as the other side of the directory exchange.
"""

import os
import tempfile
from pathlib import Path

from peers import rawwire
from peers.process import Process, free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]

# Settings both brokers get in every test: room for 20 MB records, quick rebalances.
COMMON = {
    "message.max.bytes": 33554432,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 5,
    "auto.create.topics.enable": "false",
}


class Broker:
    """One broker process on a free loopback port, with its data below `home`."""

    name = "?"

    def __init__(self, home=None, properties=None, data=None):
        self.home = Path(home or tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.home.mkdir(parents=True, exist_ok=True)
        self.data = Path(data or self.home / "data")
        self.properties = {**COMMON, **(properties or {})}
        self.port = free_port()
        self.process = None
        # Its listeners of TLS, if it has any (secured.py).
        self.secured = None

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def log(self):
        return self.home / "broker.log"

    def argv(self):
        raise NotImplementedError

    def prepare(self):
        """Whatever must be there before the process starts."""

    def spawn(self):
        """Starts the process and waits for nothing."""
        self.prepare()
        self.process = Process(self.argv(), self.log)

    def start(self, seconds=90.0):
        self.spawn()
        self.process.wait_for_port(self.port, seconds)
        # The port may open a moment before the broker takes part in its cluster.
        wait_until(self.serves, f"{self.name} to be registered", seconds)
        return self

    def serves(self):
        """Whether the broker answers and lists itself."""
        try:
            return rawwire.brokers(self.port) > 0
        except (OSError, rawwire.Closed):
            assert self.process.alive(), self.process.tail()
            return False

    def stop(self, seconds=60.0):
        return self.process.stop(seconds)

    def kill(self):
        self.process.kill()

    def alive(self):
        return self.process is not None and self.process.alive()

    def end(self):
        """Whatever the state, no process is left."""
        if self.alive():
            self.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.end()


def forebay_binary():
    """The release binary: `TEST_BROKER`, or what cargo built in this tree."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = Path(os.environ.get("TEST_BROKER", target / "release" / "forebay"))
    if not binary.exists():
        raise FileNotFoundError(f"{binary}: build it with `cargo build --release -p forebay-server`")
    return binary


class Forebay(Broker):
    """The broker under test."""

    name = "forebay"

    def argv(self):
        settings = {
            "node.id": 1,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": self.data,
            "admin.listener": "127.0.0.1:0",
            **self.properties,
        }
        return [forebay_binary(), "serve", *(f"{key}={value}" for key, value in settings.items())]
