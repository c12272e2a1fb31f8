"""Logins by SASL (PLAIN, SCRAM) of unmodified clients, at a listener that asks for one beside one that does not."""

import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.errors import KafkaError

from peers import kafka
from peers.process import free_port, wait_until

MODULE = "org.apache.kafka.common.security.{}LoginModule required"
PASSWORD = "a word; with \"quotes\" \\ and = signs"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def quoted(password):
    return password.replace("\\", "\\\\").replace('"', '\\"')


class Door:
    """A broker with two listeners: `inner` asks for nothing, `address` for a login."""

    def __init__(self, broker, port):
        self.broker = broker
        self.inner = broker.address
        self.address = f"127.0.0.1:{port}"

    def librdkafka(self, mechanism, user="ada", password=PASSWORD, **more):
        return {
            "bootstrap.servers": self.address, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
            "sasl.username": user, "sasl.password": password, "message.timeout.ms": 20000, **more,
        }


@pytest.fixture(scope="module")
def door(make_broker):
    made = make_broker()
    port = free_port()
    jaas = f'{MODULE.format("plain.Plain")} user_ada="{quoted(PASSWORD)}" user_bob="b";'
    made.properties |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{made.port},IN.SIDE://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{made.port},IN.SIDE://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN.SIDE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.in.side.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.in.side.plain.sasl.jaas.config": jaas,
        "listener.name.in.side.scram-sha-256.sasl.jaas.config": f'{MODULE.format("scram.Scram")};',
        "listener.name.in.side.scram-sha-512.sasl.jaas.config": f'{MODULE.format("scram.Scram")};',
        "listener.name.in.side.scram-sha-256.connections.max.reauth.ms": 1500,
        "listener.name.in.side.plain.connections.max.reauth.ms": 1500,
    }
    made.start()
    for mechanism in MECHANISMS[1:]:
        # The tool splits its argument at commas and takes the rest of the brackets as it is.
        kafka.run("configs", "--bootstrap-server", made.address, "--alter", "--entity-type", "users",
                  "--entity-name", "ada", "--add-config", f"{mechanism}=[password={PASSWORD}]")
    yield Door(made, port)
    assert made.alive(), made.process.tail(80)


@pytest.fixture
def filled(door, name):
    """A topic with three records."""
    admin = AdminClient({"bootstrap.servers": door.inner})
    kafka.run("topics", "--bootstrap-server", door.inner, "--create", "--topic", name, "--partitions", 1)
    producer = Producer({"bootstrap.servers": door.inner})
    for number in range(3):
        producer.produce(name, str(number).encode())
    assert producer.flush(20) == 0
    yield name
    admin.delete_topics([name])


def failure(settings):
    """What librdkafka says of a login that fails."""
    said = []
    client = Producer({**settings, "error_cb": said.append})
    deadline = time.monotonic() + 20
    while not any(error.name() == "_AUTHENTICATION" for error in said):
        client.poll(0.1)
        assert time.monotonic() < deadline, said
    return next(error.str() for error in said if error.name() == "_AUTHENTICATION")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_writes_and_reads(door, filled, mechanism):
    producer = Producer(door.librdkafka(mechanism))
    producer.produce(filled, b"3")
    assert producer.flush(20) == 0
    consumer = Consumer(door.librdkafka(mechanism, **{"group.id": filled, "auto.offset.reset": "earliest"}))
    consumer.subscribe([filled])
    got = []
    wait_until(lambda: got.extend(m.value() for m in consumer.consume(10, 0.2)) or len(got) >= 4, "four records")
    consumer.close()
    assert got == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user, password", [("ada", "wrong"), ("nobody", PASSWORD), ("ada", PASSWORD + " ")])
def test_who_is_not_known_stays_outside(door, mechanism, user, password):
    said = failure(door.librdkafka(mechanism, user, password))
    assert "Authentication failed" in said or "invalid credentials" in said, said


def test_a_client_without_login_gets_nothing(door):
    client = AdminClient({"bootstrap.servers": door.address, "socket.timeout.ms": 3000})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=4)


def test_a_mechanism_that_is_not_there(door):
    said = failure(door.librdkafka("OAUTHBEARER", **{"sasl.oauthbearer.config": "principal=a",
                                                    "enable.sasl.oauthbearer.unsecure.jwt": True}))
    assert "PLAIN" in said and "SCRAM-SHA-512" in said, said


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_session_goes_on_by_logins_again(door, filled, mechanism):
    """Sessions last 1.5 seconds here: what is sent for five must be written in order, by one connection."""
    producer = Producer(door.librdkafka(mechanism, **{"enable.idempotence": True, "linger.ms": 0}))
    refused = []
    until = time.monotonic() + 5
    sent = 0
    while time.monotonic() < until:
        producer.produce(filled, f"{sent}".encode(), on_delivery=lambda error, _: error and refused.append(error))
        sent += 1
        producer.poll(0.01)
    assert producer.flush(20) == 0 and not refused
    consumer = Consumer({"bootstrap.servers": door.inner, "group.id": filled, "auto.offset.reset": "earliest"})
    consumer.subscribe([filled])
    got = []
    wait_until(lambda: got.extend(m.value() for m in consumer.consume(100, 0.2)) or len(got) >= sent + 3, "all records")
    consumer.close()
    assert got[3:] == [str(number).encode() for number in range(sent)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(door, filled, mechanism):
    settings = {"bootstrap_servers": door.address, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
                "sasl_plain_username": "ada"}
    producer = KafkaProducer(sasl_plain_password=PASSWORD, **settings)
    assert producer.send(filled, b"x").get(20).offset == 3
    producer.close()
    with pytest.raises(KafkaError):
        KafkaProducer(sasl_plain_password="wrong", **settings).send(filled, b"x").get(5)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tools_of_kafka(door, filled, tmp_path, mechanism):
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"

    def settings(password):
        jaas = f'{MODULE.format(kind)} username="ada" password="{quoted(password)}";'
        file = tmp_path / "client.properties"
        escaped = jaas.replace("\\", "\\\\")
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={escaped}\n")
        return file

    target = ["--bootstrap-server", door.address]
    assert filled in kafka.run("topics", *target, "--command-config", settings(PASSWORD), "--list").split()
    said = kafka.run("topics", *target, "--command-config", settings("wrong"), "--list", check=False)
    assert "SaslAuthenticationException" in said, said
    if mechanism == "PLAIN":
        assert "Authentication failed: Invalid username or password" in said, said


def test_quotas_hold_for_the_user(door, filled):
    """Kafka's own tool sets a quota for a user, who gets it by logging in, and nobody else does."""
    kafka.run("configs", "--bootstrap-server", door.inner, "--alter", "--entity-type", "users", "--entity-name", "bob",
              "--add-config", "producer_byte_rate=12000")

    def throttled(settings):
        seen = []
        producer = Producer({**settings, "throttle_cb": lambda event: seen.append(event.throttle_time)})
        for _ in range(3):
            producer.produce(filled, b"x" * 50_000)
            assert producer.flush(20) == 0
        producer.poll(0.1)
        return max(seen, default=0)

    assert throttled(door.librdkafka("PLAIN")) == 0
    assert throttled(door.librdkafka("PLAIN", "bob", "b")) > 0
