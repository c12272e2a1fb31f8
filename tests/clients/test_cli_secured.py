"""The client half of our command line at listeners with TLS and logins (`--command-config`)."""

import json
import shutil

import pytest

from clients.cli import Cli
from peers import kafka
from peers.keys import PASSWORD, Keys
from peers.process import free_port

SECRET = "pen cil; with = signs"
MODULE = "org.apache.kafka.common.security.{}LoginModule required"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


def jaas(mechanism, password=SECRET, user="ada"):
    module = MODULE.format("plain.Plain" if mechanism == "PLAIN" else "scram.Scram")
    return f'{module} username="{user}" password="{password}";'


class Gates:
    """A broker with a listener for each protocol, files of properties for them, and the command line."""

    def __init__(self, broker, keys, ports, home):
        self.broker, self.keys, self.home = broker, keys, home
        self.plain = broker.address
        self.ssl, self.mutual, self.sasl_ssl, self.sasl = (f"localhost:{port}" for port in ports)

    def file(self, name="client.properties", **properties):
        """Writes properties; the names have underscores where Kafka's have dots."""
        file = self.home / name
        lines = [f"{key.replace('_', '.')}={value}\n" for key, value in properties.items()]
        file.write_text("".join(lines))
        return file

    def trust(self):
        return {"ssl_truststore_type": "PEM", "ssl_truststore_location": self.keys.ca}

    def login(self, mechanism="SCRAM-SHA-256", protocol="SASL_SSL", **more):
        return self.file(**self.trust(), security_protocol=protocol, sasl_mechanism=mechanism,
                         sasl_jaas_config=more.pop("jaas", jaas(mechanism)), **more)

    def at(self, address, file):
        """The command line of a client that reaches this address with this file."""
        return At(address, self.home, file)


class At(Cli):
    def __init__(self, address, config, file):
        super().__init__(address, config)
        self.file = file

    def run(self, *arguments, **options):
        return super().run(*arguments, "--command-config", self.file, **options)


@pytest.fixture(scope="module")
def gates(make_broker, tmp_path_factory):
    home = tmp_path_factory.mktemp("gates")
    keys = Keys(home)
    server = keys.issue("server", "/CN=server/O=Example")
    keys.issue("ada", "/CN=ada/OU=ops/O=Example")
    made = make_broker()
    ports = [free_port() for _ in range(4)]
    names = ["TLS", "MUTUAL", "SECURED", "LOGIN"]
    inside = [f"PLAINTEXT://127.0.0.1:{made.port}"]
    made.properties |= {
        "listeners": ",".join(inside + [f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports)]),
        "advertised.listeners": ",".join(inside + [f"{n}://localhost:{p}" for n, p in zip(names, ports)]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL,SECURED:SASL_SSL,LOGIN:SASL_PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": server,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": keys.ca,
    }
    for name in ["secured", "login"]:
        made.properties |= {
            f"listener.name.{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"listener.name.{name}.plain.sasl.jaas.config": f'{MODULE.format("plain.Plain")} user_ada="{SECRET}";',
            f"listener.name.{name}.scram-sha-256.sasl.jaas.config": f'{MODULE.format("scram.Scram")};',
        }
    made.start()
    kafka.run("configs", "--bootstrap-server", made.address, "--alter", "--entity-type", "users",
              "--entity-name", "ada", "--add-config", f"SCRAM-SHA-256=[password={SECRET}]")
    yield Gates(made, keys, ports, home)
    assert made.alive(), made.process.tail(80)


def test_every_noun_reaches_a_listener_with_tls_and_a_login(gates, name):
    cli = gates.at(gates.sasl_ssl, gates.login())
    assert "created" in cli("topic", "create", name)
    assert name in [topic["name"] for topic in cli.json("topic", "list")]
    # Longer than a record of TLS.
    long = "x" * 300_000
    assert len(cli.lines("topic", "produce", name, "-p", 0, stdin=f"{long}\ny\n")) == 2
    assert cli("topic", "consume", name, "-e") == f"{long}\ny\n"
    assert cli("topic", "consume", name, "-e", "-g", name, "-n", 2) == f"{long}\ny\n"
    assert name in cli("group", "list")
    assert "0" in cli("group", "lag", name)
    cli("topic", "alter", name, "-s", "retention.ms=-1")
    assert cli.json("cluster", "info")
    cli("cluster", "health")
    cli("cluster", "config")
    cli("quota", "alter", "--user", "ada", "-s", "producer_byte_rate=1000000000")
    assert "producer_byte_rate" in cli("quota", "describe")
    assert name in cli("logdir", "describe", "--partitions")
    cli("feature", "describe")
    cli("client-metrics", "list")
    cli("txn", "list")
    cli("group", "delete", name)
    assert "deleted" in cli("topic", "delete", name)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_logins(gates, protocol, mechanism):
    address = gates.sasl_ssl if protocol == "SASL_SSL" else gates.sasl
    assert gates.at(address, gates.login(mechanism, protocol)).json("cluster", "info")
    wrong = gates.login(mechanism, protocol, jaas=jaas(mechanism, "hunter2"))
    said = gates.at(address, wrong).refusal("cluster", "info")
    assert address in said and f"login by {mechanism}" in said and "hunter2" not in said, said


def test_tls_with_stores_of_both_forms(gates):
    assert gates.at(gates.ssl, gates.file(security_protocol="SSL", **gates.trust())).json("cluster", "info")
    pem = {"ssl_keystore_type": "PEM", "ssl_keystore_location": gates.keys.home / "ada.pem"}
    p12 = {"ssl_keystore_location": gates.keys.pkcs12("ada"), "ssl_keystore_password": PASSWORD,
           "ssl_key_password": PASSWORD}
    for own in [pem, p12]:
        file = gates.file(security_protocol="SSL", **gates.trust(), **own)
        assert gates.at(gates.mutual, file).json("cluster", "info")


def test_what_does_not_fit_is_said(gates, tmp_path):
    trusting = gates.file(security_protocol="SSL", **gates.trust())
    said = gates.at(gates.mutual, trusting).refusal("topic", "list")
    assert "certificate" in said and "ssl.keystore.location" in said, said
    assert "speaks no TLS" in gates.at(gates.plain, trusting).refusal("topic", "list")
    assert "security.protocol" in Cli(gates.ssl, gates.home).refusal("topic", "list")
    other = gates.file(security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_location=Keys(tmp_path).ca)
    said = gates.at(gates.ssl, other).refusal("topic", "list")
    assert "ssl.truststore.location" in said, said
    # A name that is not in the certificate, unless that is left out.
    elsewhere = gates.ssl.replace("localhost", "127.0.0.2")
    wrong = {"security_protocol": "SSL", **gates.trust()}
    assert "could not be reached" in gates.at(elsewhere, gates.file(**wrong)).refusal("topic", "list")


def test_mistakes_in_the_file_name_it_and_no_secret(gates, tmp_path):
    def said(**properties):
        file = gates.file("mistaken.properties", **properties)
        told = gates.at(gates.ssl, file).refusal("topic", "list")
        assert str(file) in told and "hunter2" not in told, told
        return told

    jks = tmp_path / "client.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\x02")
    told = said(security_protocol="SSL", ssl_truststore_location=jks, ssl_truststore_password="hunter2")
    assert "ssl.truststore.location" in told and "keytool -importkeystore" in told
    assert "security.protocol" in said(security_protocol="TLS")
    assert "sasl.mechanism" in said(security_protocol="SASL_SSL", sasl_jaas_config=jaas("PLAIN", "hunter2"))
    assert "sasl.jaas.config" in said(security_protocol="SASL_SSL", sasl_mechanism="PLAIN",
                                      sasl_jaas_config="PlainLoginModule required password=hunter2")
    assert "sasl.jaas.config" in said(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", **gates.trust())
    assert "/nowhere" in said(security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_location="/nowhere/ca.pem")
    missing = gates.at(gates.ssl, "/nowhere/c.properties").refusal("topic", "list")
    assert "/nowhere/c.properties" in missing


def test_unknown_properties_are_named_once(gates, name):
    file = gates.login(key_serializer="Some", no_such="hunter2")
    done = gates.at(gates.sasl_ssl, file).run("topic", "create", name)
    assert done.returncode == 0
    (warning,) = [line for line in done.stderr.splitlines() if "key.serializer" in line]
    assert "no.such" in warning and str(file) in warning and "hunter2" not in done.stderr
    gates.at(gates.sasl_ssl, file)("topic", "delete", name)


def test_a_profile_has_a_file_for_its_own_brokers(gates, tmp_path):
    cli = Cli(gates.plain, tmp_path)
    file = gates.login(bootstrap_servers=gates.sasl_ssl)
    cli("profile", "set", "one", f"command-config={file}", brokers=False)
    assert str(file) in cli("profile", "list", brokers=False)
    info = cli.json("cluster", "info", brokers=False)
    port = int(gates.sasl_ssl.split(":")[1])
    assert [broker["port"] for broker in info["brokers"]] == [port]
    # Other brokers get nothing of it.
    assert cli.json("cluster", "info")
    assert json.loads(cli("profile", "list", "--format", "json", brokers=False))[0]["command-config"] == str(file)


def test_the_same_file_serves_kafkas_tools(gates, name):
    file = gates.login("SCRAM-SHA-256")
    cli = gates.at(gates.sasl_ssl, file)
    cli("topic", "create", name)
    assert name in kafka.run("topics", "--bootstrap-server", gates.sasl_ssl, "--command-config", file, "--list").split()
    cli("topic", "delete", name)


def test_letters_beyond_ascii_are_those_of_kafkas_tools(gates, name):
    """Kafka's tools and we read the file as ISO-8859-1, so one file has one password for both."""
    password = "caf\u00e9"
    Cli(gates.plain, gates.home)("user", "set", name, "--mechanism", "SCRAM-SHA-256", stdin=password + "\n")
    for written, is_right in [(rb"caf\u00e9", True), (b"caf\xe9", True), (b"caf\xc3\xa9", False)]:
        file = gates.login(jaas=jaas("SCRAM-SHA-256", "HERE", name))
        file.write_bytes(file.read_bytes().replace(b"HERE", written))
        file.chmod(0o600)
        done = gates.at(gates.sasl_ssl, file).run("topic", "list")
        assert (done.returncode == 0) == is_right, (written, done.stderr)
        assert ("UTF-8" in done.stderr) != is_right and "others" not in done.stderr, done.stderr
        try:
            kafka.run("topics", "--bootstrap-server", gates.sasl_ssl, "--command-config", file, "--list")
            works = True
        except AssertionError:
            works = False
        assert works == is_right, written
    Cli(gates.plain, gates.home)("user", "delete", name)


def test_a_file_with_a_password_that_others_may_read_is_told(gates):
    file = gates.login()
    for mode in [0o644, 0o600]:
        file.chmod(mode)
        done = gates.at(gates.sasl_ssl, file).run("topic", "list")
        assert done.returncode == 0 and ("chmod 600" in done.stderr) == (mode == 0o644), done.stderr
