"""TLS with unmodified clients: librdkafka, kafka-python, Kafka's tools and OpenSSL, at listeners that speak it beside
one that does not. Keys, certificates and stores are made by OpenSSL."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from peers import kafka, rawwire
from peers.keys import PASSWORD, Keys
from peers.process import free_port, wait_until

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ada="pencil";'

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


class Doors:
    """A broker with listeners without and with TLS, with client certificates, and with a login."""

    def __init__(self, broker, keys, ports):
        self.broker = broker
        self.keys = keys
        self.plain = broker.address
        self.tls, self.mutual, self.login = (f"localhost:{port}" for port in ports)

    def librdkafka(self, address, **more):
        protocol = "SASL_SSL" if address == self.login else "SSL"
        return {"bootstrap.servers": address, "security.protocol": protocol, "ssl.ca.location": str(self.keys.ca),
                "message.timeout.ms": 20000, **more}

    def own(self, name):
        return {"ssl.certificate.location": str(self.keys.home / f"{name}.crt"),
                "ssl.key.location": str(self.keys.home / f"{name}.key")}


@pytest.fixture(scope="module")
def doors(make_broker, tmp_path_factory):
    keys = Keys(tmp_path_factory.mktemp("keys"))
    server = keys.issue("server", "/CN=server/O=Example")
    keys.issue("ada", "/CN=ada/OU=ops/O=Example")
    keys.issue("rsa", "/CN=rsa", kind="rsa")
    made = make_broker()
    ports = [free_port() for _ in range(3)]
    names = ["TLS", "MUTUAL", "LOGIN"]
    inside = [f"PLAINTEXT://127.0.0.1:{made.port}"]
    made.properties |= {
        "listeners": ",".join(inside + [f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports)]),
        "advertised.listeners": ",".join(inside + [f"{n}://localhost:{p}" for n, p in zip(names, ports)]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL,LOGIN:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": server,
        "ssl.reload.interval.ms": 200,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": keys.ca,
        "listener.name.mutual.ssl.keystore.type": "PKCS12",
        "listener.name.mutual.ssl.keystore.location": keys.pkcs12("rsa"),
        "listener.name.mutual.ssl.keystore.password": PASSWORD,
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": JAAS,
    }
    made.start()
    yield Doors(made, keys, ports)
    assert made.alive(), made.process.tail(80)


@pytest.fixture
def topic(doors, name):
    kafka.run("topics", "--bootstrap-server", doors.plain, "--create", "--topic", name, "--partitions", 1)
    yield name
    AdminClient({"bootstrap.servers": doors.plain}).delete_topics([name])


def round_trip(settings, topic, values):
    """Writes and reads back, by librdkafka."""
    refused = []
    producer = Producer({**settings, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: error and refused.append(error))
        producer.poll(0)
    assert producer.flush(30) == 0 and not refused, refused
    consumer = Consumer({**settings, "group.id": f"{topic}-{time.monotonic_ns()}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got = []
    wait_until(lambda: got.extend(m.value() for m in consumer.consume(100, 0.2)) or len(got) >= len(values), "all")
    consumer.close()
    assert got == values


# Smaller than a record of TLS, as large as one, and many.
VALUES = [b"x", bytes(16384), bytes(range(256)) * 3000, b"", b"y" * 900_000]


def test_librdkafka(doors, topic):
    round_trip(doors.librdkafka(doors.tls), topic, VALUES)


def test_librdkafka_with_a_client_certificate(doors, topic):
    round_trip(doors.librdkafka(doors.mutual, **doors.own("ada")), topic, VALUES)


def test_librdkafka_logs_in_under_tls(doors, topic):
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": "pencil"}
    round_trip(doors.librdkafka(doors.login, **login), topic, VALUES)


@pytest.mark.parametrize("cipher", ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"])
def test_tls_1_2(doors, topic, cipher):
    """librdkafka has no setting for versions; a list of suites of TLS 1.2 leaves 1.3 on, so Python's own says it."""
    context = ssl.create_default_context(cafile=doors.keys.ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(cipher)
    producer = KafkaProducer(bootstrap_servers=doors.tls, security_protocol="SSL", ssl_context=context)
    assert producer.send(topic, b"v" * 700_000).get(20).offset == 0
    producer.close()


def test_kafka_python(doors, topic):
    settings = {"bootstrap_servers": doors.tls, "security_protocol": "SSL", "ssl_cafile": str(doors.keys.ca)}
    producer = KafkaProducer(**settings, max_request_size=1 << 20)
    sent = [bytes([n]) * n * 900 for n in range(1, 200)]
    for value in sent:
        producer.send(topic, value)
    producer.flush(20)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=10000)
    got = []
    for message in consumer:
        got.append(message.value)
        if len(got) == len(sent):
            break
    consumer.close()
    assert got == sent


def test_tools_of_kafka(doors, topic, tmp_path):
    file = tmp_path / "client.properties"
    store = doors.keys.pkcs12("ada")
    file.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={doors.keys.ca}\n"
                    f"ssl.keystore.type=PKCS12\nssl.keystore.location={store}\nssl.keystore.password={PASSWORD}\n")
    told = kafka.run("topics", "--bootstrap-server", doors.mutual, "--command-config", file, "--list")
    assert topic in told.split()


def test_who_has_no_certificate_stays_outside(doors):
    said = []
    client = Producer({**doors.librdkafka(doors.mutual), "error_cb": said.append})
    wait_until(lambda: client.poll(0.1) is None or bool(said), "an error", 20)
    with pytest.raises(KafkaException):
        AdminClient({**doors.librdkafka(doors.mutual), "socket.timeout.ms": 3000}).list_topics(timeout=4)


def test_who_does_not_trust_stays_outside(doors, tmp_path):
    other = Keys(tmp_path)
    settings = {**doors.librdkafka(doors.tls), "ssl.ca.location": str(other.ca), "socket.timeout.ms": 3000}
    with pytest.raises(KafkaException):
        AdminClient(settings).list_topics(timeout=4)


def test_openssl_sees_what_is_offered(doors):
    def connects(*options):
        run = subprocess.run(["openssl", "s_client", "-connect", doors.tls, "-CAfile", str(doors.keys.ca),
                              "-verify_return_error", *options], input=b"", capture_output=True, timeout=30)
        return run.returncode == 0, run.stdout.decode()

    good, told = connects("-tls1_3")
    assert good and "TLSv1.3" in told and "Verify return code: 0 (ok)" in told, told
    assert connects("-tls1_2")[0]
    assert not connects("-tls1_1")[0]
    assert not connects("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA")[0], "a suite of CBC"
    assert "Secure Renegotiation IS" in connects("-tls1_2")[1]


def test_a_client_without_tls_is_told_nothing_and_the_log_says_why(doors):
    port = int(doors.tls.split(":")[1])

    def is_said():
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(20)
            client.sendall(rawwire.frame(rawwire.header(18, 0)))
            assert client.recv(100) == b""
        return "the client speaks Kafka without TLS" in doors.broker.log.read_text()

    # Twenty in a second have a line, and those of other tests may have had them.
    wait_until(is_said, "the line", 30, every=1)


@pytest.mark.parametrize("by", ["look", "signal"])
def test_a_certificate_is_renewed_while_clients_work(doors, topic, by):
    """A producer goes on over the exchange, and who comes later sees the new certificate."""
    host, port = doors.tls.split(":")

    def serial():
        context = ssl.create_default_context(cafile=doors.keys.ca)
        with socket.create_connection(("127.0.0.1", int(port))) as plain:
            with context.wrap_socket(plain, server_hostname=host) as secured:
                return secured.getpeercert()["serialNumber"]

    refused = []
    producer = Producer({**doors.librdkafka(doors.tls), "enable.idempotence": True})
    before = serial()
    for number in range(50):
        if number == 10:
            doors.keys.issue("server", "/CN=server/O=Example")
            if by == "signal":
                os.kill(doors.broker.process.pid, signal.SIGHUP)
        producer.produce(topic, str(number).encode(), on_delivery=lambda error, _: error and refused.append(error))
        producer.poll(0.02)
    assert producer.flush(20) == 0 and not refused, refused
    wait_until(lambda: serial() != before, "the new certificate", 20)
