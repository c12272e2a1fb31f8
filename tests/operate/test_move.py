"""A Kafka broker's directories moved here, run, killed, and moved back, by the commands of docs/moving-from-kafka.md and no others.

Kafka 4.3 is a service of the machine, as a package would install it. What clients see is compared after each move.
"""

import json
import sys

import pytest

from clients import workload
from operate import pages
from operate.machine import ROOT
from peers import kafka
from peers.process import wait_until

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/var/lib/kafka/data
num.network.threads=3
num.io.threads=8
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
message.max.bytes=33554432
offsets.topic.num.partitions=5
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
"""
UNIT = """\
[Unit]
Description=Apache Kafka
[Service]
User=kafka
ExecStart=%s
SuccessExitStatus=143
[Install]
WantedBy=multi-user.target
"""


def on_the_machine(host, call):
    """What a client on the machine sees or does, as the value of a call of `workload`."""
    script = f"import sys, json; sys.path.insert(0, '{ROOT}/tests'); from clients import workload; print(json.dumps({call}))"
    return json.loads(host.root(f'"{sys.executable}" -c "{script}"').splitlines()[-1])


def state(host):
    return on_the_machine(host, "workload.state('127.0.0.1:9092')")


@pytest.fixture
def with_kafka(host):
    """A machine on which Kafka has served the workload."""
    jars = kafka.install()
    # Its own user cannot look into root's home.
    host.root(f"useradd --system kafka && mkdir -p /opt/kafka /etc/kafka /var/lib/kafka && cp {jars}/*.jar /opt/kafka/")
    host.root("cat > /etc/kafka/server.properties", stdin=SETTINGS)
    java = "/usr/bin/java -Xmx512m -cp /opt/kafka/*"
    host.root("cat > /etc/systemd/system/kafka.service", stdin=UNIT % f"{java} kafka.Kafka /etc/kafka/server.properties")
    host.root(f"{java.replace('*', chr(39) + '*' + chr(39))} kafka.tools.StorageTool format -t {kafka.CLUSTER_ID} -c /etc/kafka/server.properties")
    host.root("chown -R kafka: /var/lib/kafka && systemctl daemon-reload && systemctl enable --now kafka")
    wait_until(lambda: port_is_open(host), "Kafka", 90, every=0.5)
    on_the_machine(host, "workload.run('127.0.0.1:9092')")
    return host


def port_is_open(host):
    return "open" in host.root("(exec 3<>/dev/tcp/127.0.0.1/9092) 2>/dev/null && echo open || true")


@pytest.mark.timeout(900)
def test_a_broker_moves_here_and_back_by_the_page(with_kafka, typed, package):
    host = with_kafka
    seen = state(host)
    host.copy(package, "~ada/target/debian/forebay_1_amd64.deb")
    install = next(line for line in pages.commands("install.md", "Debian package") if line.startswith("sudo dpkg"))
    host.type(install)

    said = typed("moving-from-kafka.md", "There")
    assert "exact" in said and "read" in said, "topics and groups are listed at the end"
    assert workload.differences(state(host), seen) == []
    assert host.root("systemctl is-active kafka || true") == "inactive\n"
    host.type("echo more | forebay topic produce old")
    host.type("sudo systemctl kill -s KILL forebay")
    wait_until(lambda: host.root("systemctl is-active forebay || true") == "active\n", "the next start", 60, every=0.5)
    after = state(host)
    assert after["topics"]["old"]["partitions"][0]["high"] == seen["topics"]["old"]["partitions"][0]["high"] + 1

    said = typed("moving-from-kafka.md", "Back")
    assert '"stopped"' in said, said
    wait_until(lambda: port_is_open(host), "Kafka", 90, every=0.5)
    assert workload.differences(state(host), after) == []
    assert host.root("systemctl is-active forebay || true") == "inactive\n"
