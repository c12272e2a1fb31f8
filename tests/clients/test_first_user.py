"""The first user of a cluster, who is made when directories are formatted: by our command for both brokers, and by Kafka's tool for ours."""

import subprocess

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from peers import kafka
from peers.broker import Forebay, forebay_binary
from peers.kafka import CLUSTER_ID, Kafka
from peers.process import die_with_parent, free_port
from peers.rights import AUTHORIZER, MODULE

USER = "SCRAM-SHA-512=[name=root,{}]"


@pytest.fixture(autouse=True)
def only_once(request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("is about both brokers, whatever the target")


def made(make_broker, kind):
    """A broker that has not been started, and the address of its listener with logins."""
    broker, port = make_broker(kind), free_port()
    inside = f"PLAINTEXT://{broker.address}"
    controller = [f"CONTROLLER://127.0.0.1:{broker.controller_port}"] if kind is Kafka else []
    both = [inside, f"LOGIN://127.0.0.1:{port}"]
    broker.properties |= {
        "listeners": ",".join(both + controller), "advertised.listeners": ",".join(both),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f'{MODULE.format("scram.Scram")};',
        "authorizer.class.name": AUTHORIZER, "super.users": "User:root;User:ANONYMOUS",
    }
    return broker, f"127.0.0.1:{port}"


def knows(address, password):
    client = AdminClient({"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512",
                          "sasl.username": "root", "sasl.password": password})
    try:
        return bool(client.list_topics(timeout=8).brokers)
    except KafkaException:
        return False


def ours(*arguments, stdin=""):
    done = subprocess.run([forebay_binary(), *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60, check=False,
                          preexec_fn=die_with_parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pencil" not in done.stdout + done.stderr


@pytest.mark.parametrize("kind", [Kafka, Forebay])
def test_a_user_of_our_format(make_broker, kind):
    broker, address = made(make_broker, kind)
    ours("format", "-t", CLUSTER_ID, "--add-scram", USER.format("password-file=-"), f"log.dirs={broker.data}", "node.id=1", stdin="pencil\n")
    broker.start()
    assert knows(address, "pencil") and not knows(address, "pen")
    broker.stop()


def test_a_user_of_kafkas_format_and_a_lost_password(make_broker):
    formatted, (broker, address) = make_broker(Kafka), made(make_broker, Forebay)
    formatted.data = broker.data
    formatted.config.write_text("".join(f"{key}={value}\n" for key, value in formatted.settings().items()))
    kafka.run("storage", "format", "-t", CLUSTER_ID, "-c", formatted.config, "--add-scram", USER.format("password=pencil"))
    broker.start()
    assert knows(address, "pencil") and not knows(address, "pen")
    broker.stop()
    ours("user", "set", "root", "--data-dir", broker.data, stdin="eraser\n")
    broker.start()
    assert knows(address, "eraser") and not knows(address, "pencil")
    broker.stop()
