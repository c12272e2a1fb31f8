"""Key and trust stores that clients change while the broker runs, listener by listener, as Kafka takes and refuses them.

The same questions are for both: `--target kafka` asks Kafka.
"""

import shutil
import socket
import ssl
import struct

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from peers import kafka
from peers.keys import PASSWORD, Keys
from peers.process import wait_until
from peers.secured import Secured

NODE = "1"
SUBJECT = "/CN=server/O=Example"

pytestmark = [pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"), pytest.mark.xdist_group("tls changes")]


class House:
    def __init__(self, broker, home):
        self.secured = Secured(broker, home)
        self.broker, self.keys = broker, self.secured.keys
        broker.start()
        self.admin = AdminClient({"bootstrap.servers": broker.address})

    def alter(self, changes):
        """Sets values, or takes them back where they are None."""
        def entry(name, value):
            how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            return ConfigEntry(name, None if value is None else str(value), incremental_operation=how)

        entries = [entry(name, value) for name, value in changes.items()]
        resource = ConfigResource(ConfigResource.Type.BROKER, NODE, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def refused(self, changes):
        with pytest.raises(KafkaException) as refused:
            self.alter(changes)
        error = refused.value.args[0]
        assert error.code() == KafkaError.INVALID_REQUEST, error
        return error.str()

    def serial(self, address=None, ca=None, own=None):
        """The serial number of the certificate that a listener shows."""
        host, port = (address or self.secured.tls).split(":")
        context = ssl.create_default_context(cafile=ca or self.keys.ca)
        if own:
            context.load_cert_chain(own)
        with socket.create_connection((host, int(port)), timeout=20) as plain:
            with context.wrap_socket(plain, server_hostname=host) as secured:
                # With TLS 1.3 a refusal comes after the handshake.
                secured.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
                assert len(secured.recv(4)) == 4
                return secured.getpeercert()["serialNumber"]

    def described(self):
        resource = ConfigResource(ConfigResource.Type.BROKER, NODE)
        return self.admin.describe_configs([resource])[resource].result(30)

    def store(self, name, subject=SUBJECT, **more):
        return self.keys.issue(name, subject, **more)


def of(listener, setting):
    return f"listener.name.{listener}.ssl.{setting}"


LOCATION = of("tls", "keystore.location")


@pytest.fixture(scope="module")
def house(make_broker, tmp_path_factory):
    made = House(make_broker(), tmp_path_factory.mktemp("house"))
    yield made
    assert made.broker.alive(), made.broker.process.tail(80)


def test_a_new_store_is_in_force_without_a_restart(house, name):
    before, others = house.serial(), house.serial(house.secured.login)
    house.admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    refused = []
    producer = Producer({"bootstrap.servers": house.secured.tls, "security.protocol": "SSL", "ssl.ca.location": str(house.keys.ca)})
    for number in range(60):
        if number == 20:
            house.alter({LOCATION: house.store("second")})
        producer.produce(name, str(number), on_delivery=lambda error, _: error and refused.append(error))
        producer.poll(0.02)
    assert producer.flush(20) == 0 and not refused, refused
    wait_until(lambda: house.serial() != before, "the new certificate", 20)
    assert house.serial(house.secured.login) == others, "another listener has that of the start"
    house.alter({LOCATION: None})
    wait_until(lambda: house.serial() == before, "the certificate of the start", 20)


def test_a_store_of_another_type_comes_in_one_request(house):
    before = house.serial()
    house.store("third")
    house.alter({of("tls", "keystore.type"): "PKCS12", LOCATION: house.keys.pkcs12("third"), of("tls", "keystore.password"): PASSWORD})
    wait_until(lambda: house.serial() != before, "the new certificate", 20)
    # Kafka leaves it out, and writes it into its log.
    if shown := house.described().get(of("tls", "keystore.password")):
        assert shown.value is None and shown.is_sensitive
    assert house.broker.name == "kafka" or PASSWORD not in house.broker.log.read_text()
    house.alter({of("tls", "keystore.type"): None, LOCATION: None, of("tls", "keystore.password"): None})
    wait_until(lambda: house.serial() == before, "the certificate of the start", 20)


def test_what_does_not_fit_is_refused_and_nothing_changes(house):
    before = house.serial()
    good = house.store("fourth").read_text()
    torn = house.keys.home / "torn.pem"
    torn.write_text(good[:len(good) // 2])
    mixed = house.keys.home / "mixed.pem"
    mixed.write_text((house.keys.home / "fourth.key").read_text() + (house.keys.home / "server.crt").read_text())
    for file in (torn, mixed):
        file.chmod(0o600)
    house.refused({LOCATION: torn})
    if house.broker.name != "kafka":
        # Kafka takes a key that does not belong to its certificate, and no handshake succeeds from then on.
        house.refused({LOCATION: mixed})
    house.refused({LOCATION: house.keys.home / "nowhere.pem"})
    house.refused({LOCATION: house.store("other-subject", "/CN=elsewhere/O=Example")})
    house.refused({LOCATION: house.store("fewer-names", names="DNS:localhost")})
    house.refused({of("tls", "keystore.type"): "PKCS12", LOCATION: house.keys.pkcs12("fourth"), of("tls", "keystore.password"): "wrong"})
    house.refused({of("tls", "keystore.type"): "nothing"})
    assert house.serial() == before
    assert all(name not in house.described() or house.described()[name].value is None for name in (LOCATION, of("tls", "keystore.type")))


def test_a_certificate_for_more_hosts_is_taken_and_there_is_no_way_back(house):
    before, login = house.serial(house.secured.login), of("login", "keystore.location")
    house.alter({login: house.store("more-names", names="DNS:localhost,IP:127.0.0.1,DNS:broker.example.org")})
    wait_until(lambda: house.serial(house.secured.login) != before, "the new certificate", 20)
    house.refused({login: None})


def test_a_trust_store_is_changed_and_none_is_added(house, tmp_path):
    ada, other = house.store("ada", "/CN=ada"), Keys(tmp_path)
    bob = other.issue("bob", "/CN=bob")

    def enters(own):
        try:
            return bool(house.serial(house.secured.mutual, own=own))
        except (ssl.SSLError, OSError, AssertionError):
            return False

    assert enters(ada) and not enters(bob)
    trust = of("mutual", "truststore.location")
    house.alter({trust: other.ca})
    wait_until(lambda: enters(bob) and not enters(ada), "the client of the other authority alone", 20)
    house.refused({trust: house.keys.home / "nowhere.pem"})
    house.alter({trust: None})
    wait_until(lambda: enters(ada) and not enters(bob), "the authority of the start", 20)
    said = house.refused({of("tls", "truststore.type"): "PEM", of("tls", "truststore.location"): house.keys.ca})
    assert "Cannot add SSL truststore to an existing listener for which no truststore was configured." in said


def test_stores_are_those_of_one_listener_of_one_broker(house):
    said = house.refused({"ssl.keystore.location": house.secured.pem})
    assert "These security configs can be dynamically updated only per-listener using the listener prefix" in said
    said = kafka.run("configs", "--bootstrap-server", house.broker.address, "--alter", "--entity-type", "brokers", "--entity-default",
                     "--add-config", f"{LOCATION}={house.secured.pem}", check=False)
    assert "Cannot update these configs at default cluster level, broker id must be specified" in said


def test_the_same_value_again_reads_the_file_again(house):
    """Kafka looks at no file by itself; and a file that does not fit leaves what is in force."""
    place = house.keys.home / "again.pem"
    before = house.serial()
    shutil.copy2(house.store("fifth"), place)
    house.alter({LOCATION: place})
    wait_until(lambda: house.serial() != before, "the new certificate", 20)
    fifth = house.serial()
    shutil.copy2(house.store("elsewhere", "/CN=elsewhere/O=Example"), house.keys.home / "new")
    (house.keys.home / "new").rename(place)
    house.alter({LOCATION: place})
    assert house.serial() == fifth
    shutil.copy2(house.store("sixth"), house.keys.home / "new")
    (house.keys.home / "new").rename(place)
    house.alter({LOCATION: place})
    wait_until(lambda: house.serial() != fifth, "what the file has now", 8)
    house.alter({LOCATION: None})
    wait_until(lambda: house.serial() == before, "the certificate of the start", 20)


def test_a_store_in_settings(house):
    """Key and chain as PEM in two settings; they cannot stand beside a file, so only a listener without one takes them."""
    house.store("seventh")
    key, chain = ((house.keys.home / f"seventh.{part}").read_text() for part in ("key", "crt"))
    said = house.refused({of("tls", "keystore.key"): key, of("tls", "keystore.certificate.chain"): chain})
    assert key[40:90] not in said
    # Kafka writes all that it would have set into its log.
    assert house.broker.name == "kafka" or key[40:90] not in house.broker.log.read_text()


def test_what_clients_have_set_is_in_force_after_a_restart(house):
    before = house.serial()
    house.alter({LOCATION: house.store("eighth")})
    wait_until(lambda: house.serial() != before, "the new certificate", 20)
    set_by_client = house.serial()
    house.broker.stop()
    house.broker.start()
    house.admin = AdminClient({"bootstrap.servers": house.broker.address})
    wait_until(lambda: house.serial() == set_by_client, "the certificate that a client has set", 20)
    house.alter({LOCATION: None})
    wait_until(lambda: house.serial() == before, "the certificate of the start", 20)

