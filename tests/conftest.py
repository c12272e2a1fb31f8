"""Fixtures of every suite: a broker per worker, topic names, real clients.

    pytest                       against the release binary of this tree
    pytest --target kafka        against Apache Kafka, which shows that a test asks for what Kafka does
    pytest --target HOST:PORT    against a broker that already runs
"""

import re
import signal
import sys
from pathlib import Path

import pytest
from _pytest.nodeid import coerce_node_id

sys.path.insert(0, str(Path(__file__).resolve().parent))

from clients.client import CLIENTS, Client, ClientError  # noqa: E402
from peers.broker import Broker, Forebay  # noqa: E402
from peers.kafka import Kafka  # noqa: E402
from peers.process import wait_until  # noqa: E402
from peers.secured import Secured  # noqa: E402

TARGETS = {"forebay": Forebay, "kafka": Kafka}


def pytest_configure():
    """Asked to end, a run ends as by Ctrl-C: what it mounted is unmounted, what it started is stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """pytest-xdist 3.8 writes the group of a test into its name where pytest 9.2 does not look: without this no group stays together."""
    for item in items:
        if grouped := vars(item).get("_nodeid"):
            item._id = coerce_node_id(grouped)


def pytest_addoption(parser):
    parser.addoption("--target", default="forebay", help="forebay, kafka, or the address of a running broker")
    parser.addoption("--secured", action="store_true", help="clients log in over TLS (SASL_SSL), where a test has them from a fixture")
    parser.addoption("--rounds", type=int, default=None, help="rounds of the crash suites")
    parser.addoption("--seed", type=int, default=1, help="seed of the crash suites")
    parser.addoption("--minutes", type=float, default=0.5, help="how long the chain is under fire, and the broker under attack")
    parser.addoption("--seconds", type=float, default=10, help="how long certificates are renewed under load")
    parser.addoption("--rate", default="50MB", help="bytes a second of the honest load beside attacks")


@pytest.fixture(scope="session")
def make_broker(request, tmp_path_factory):
    """Makes (does not start) further brokers of the target's kind; they end with the test run."""
    made = []

    def make(kind=None, **options):
        kind = kind or TARGETS[request.config.getoption("--target")]
        options.setdefault("home", tmp_path_factory.mktemp(kind.name))
        made.append(kind(**options))
        return made[-1]

    yield make
    for broker in made:
        broker.end()


class Running(Broker):
    """A broker that somebody else started."""

    def __init__(self, address):
        self.secured = None
        self.host, port = address.rsplit(":", 1)
        self.port = int(port)

    def alive(self):
        return True


@pytest.fixture(scope="session")
def broker(request, make_broker):
    """The broker of this worker: started once, shared by the tests, checked to be alive and to stop cleanly."""
    target = request.config.getoption("--target")
    if target not in TARGETS:
        yield Running(target)
        return
    made = make_broker()
    if request.config.getoption("--secured"):
        Secured(made, made.home / "keys")
    started = made.start()
    if started.secured:
        started.secured.open()
    yield started
    assert started.alive(), f"the broker died during the tests:\n{started.process.tail()}"
    code = started.stop()
    # The JVM reports the signal that ended it, a process of ours reports success.
    assert code == (143 if target == "kafka" else 0), started.process.tail()


@pytest.fixture(autouse=True)
def broker_survives(request):
    """No test may take the shared broker down."""
    yield
    if "broker" in request.fixturenames:
        running = request.getfixturevalue("broker")
        assert running.alive(), f"the broker died:\n{running.process.tail(80)}"


@pytest.fixture
def name(request):
    """A name for topics and groups that no other test has."""
    return re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")


def client_of(broker, name):
    """A client of a broker, by its secured listener if it has one."""
    if broker.secured:
        return Client(name, broker.secured.login, broker.secured.driver())
    return Client(name, broker.address)


@pytest.fixture(scope="session")
def clients(broker):
    """Real clients by name, each started when first asked for."""
    started = {}

    class Lazy(dict):
        def __missing__(self, wanted):
            self[wanted] = started[wanted] = client_of(broker, wanted)
            return self[wanted]

    yield Lazy()
    for one in started.values():
        one.close()


@pytest.fixture
def member(broker):
    """Starts group members: `member(client, group, topic)`; any that are left are killed at the end."""
    members = []

    def join(client, group, topic, **options):
        joined = client_of(broker, client)
        members.append(joined)
        joined.become_member(group=group, topic=topic, **options)
        return joined

    yield join
    for one in members:
        one.kill()


def _has_leaders(admin, topic, partitions):
    """A topic may be listed a moment before its partitions answer."""
    try:
        return all(admin.watermarks(topic=topic, partition=p) == [0, 0] for p in range(partitions))
    except ClientError:
        return False


@pytest.fixture
def topic(clients, name):
    """A topic with two partitions and room for 20 MB records that keeps old timestamps; deleted afterwards."""
    admin = clients["librdkafka"]
    admin.create_topic(topic=name, partitions=2, configs={"max.message.bytes": "33554432", "retention.ms": "-1"})
    wait_until(lambda: _has_leaders(admin, name, 2), f"topic {name}")
    yield name
    admin.delete_topic(topic=name)


def pytest_generate_tests(metafunc):
    if "client" in metafunc.fixturenames:
        metafunc.parametrize("client", CLIENTS)
