"""`forebay bench` over TLS and with logins: loads that are checked record by record, and handshakes alone."""

import json
import shutil
import subprocess

import pytest

from clients.cli import Cli, binary
from peers.keys import Keys
from peers.process import die_with_parent, free_port

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

MODULE = "org.apache.kafka.common.security.{}LoginModule required"
SECRET = "pen;cil"


class Secured:
    def __init__(self, broker, keys, ports, home):
        self.broker, self.keys, self.home = broker, keys, home
        self.sasl_ssl, self.mutual = (f"localhost:{port}" for port in ports)

    def file(self, mechanism="SCRAM-SHA-512", **properties):
        """A file of properties; the names have underscores where Kafka's have dots."""
        own = {"ssl_truststore_type": "PEM", "ssl_truststore_location": self.keys.ca}
        if mechanism:
            own |= {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "sasl_username": "ada", "sasl_password": SECRET}
        else:
            own |= {"security_protocol": "SSL"}
        file = self.home / "client.properties"
        file.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in {**own, **properties}.items()))
        return file

    def bench(self, *arguments):
        done = subprocess.run([binary(), "bench", *map(str, arguments)], capture_output=True, text=True, timeout=90, check=False,
                              preexec_fn=die_with_parent)
        assert SECRET not in done.stdout + done.stderr
        return done

    def load(self, address, file, *flags):
        outcome = self.home / "outcome.json"
        done = self.bench("load", "--bootstrap", address, "--command-config", file, "--json", outcome, "--seconds", 30, *flags)
        assert done.returncode == 0, done.stderr
        text = outcome.read_text()
        assert SECRET not in text
        return json.loads(text)


@pytest.fixture(scope="module")
def secured(make_broker, tmp_path_factory):
    home = tmp_path_factory.mktemp("secured")
    keys = Keys(home)
    server = keys.issue("server", "/CN=server")
    keys.issue("ada", "/CN=ada")
    made = make_broker()
    ports = [free_port(), free_port()]
    inside = [f"PLAINTEXT://127.0.0.1:{made.port}"]
    pairs = list(zip(["LOGIN", "MUTUAL"], ports))
    made.properties |= {
        "listeners": ",".join(inside + [f"{name}://127.0.0.1:{port}" for name, port in pairs]),
        "advertised.listeners": ",".join(inside + [f"{name}://localhost:{port}" for name, port in pairs]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": server,
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": f'{MODULE.format("plain.Plain")} user_ada="{SECRET}";',
        "listener.name.login.scram-sha-512.sasl.jaas.config": f'{MODULE.format("scram.Scram")};',
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": keys.ca,
    }
    made.start()
    Cli(made.address, home)("user", "set", "ada", stdin=f"{SECRET}\n")
    yield Secured(made, keys, ports, home)
    assert made.alive(), made.process.tail(80)


@pytest.mark.parametrize("flags", [
    "--record 1KB --bytes 4MB",
    "--record 240KB --bytes 48MB --acks 1 --in-flight 20",
    "--record 40..5KB --bytes 3MB --keys random:20 --idempotent --compression lz4",
])
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_every_record_arrives_under_tls_with_a_login(secured, name, flags, version):
    file = secured.file(ssl_enabled_protocols=version)
    outcome = secured.load(secured.sasl_ssl, file, "--topic", name, "--producers", 3, "--consumers", 2, "--verify", *flags.split())
    assert outcome["errors"] == {} and outcome["aborted"] is None
    verified = outcome["verified"]
    assert verified["acknowledged"] == verified["read"] == outcome["produce"]["records"] > 0
    assert [verified[fault] for fault in ("lost", "duplicated", "disordered", "damaged")] == [0, 0, 0, 0]


def test_plain_a_client_certificate_and_a_spec(secured, name):
    flags = ["--topic", name, "--producers", 1, "--bytes", "1MB"]
    assert secured.load(secured.sasl_ssl, secured.file("PLAIN"), *flags)["errors"] == {}
    own = {"ssl_keystore_type": "PEM", "ssl_keystore_location": secured.home / "ada.pem"}
    file = secured.file(None, **own)
    assert secured.load(secured.mutual, file, *flags)["errors"] == {}
    spec = secured.home / "load.toml"
    printed = secured.bench("load", "--command-config", file, "--print-spec", *flags)
    spec.write_text(printed.stdout)
    assert f'security = "{file}"' in printed.stdout
    done = secured.bench("load", "--bootstrap", secured.mutual, "--spec", spec)
    assert done.returncode == 0, done.stderr


def test_what_has_no_answer_is_sent_to_its_end(secured, name):
    # Without answers only the sender knows that bytes which TLS has taken are not sent yet.
    outcome = secured.load(secured.sasl_ssl, secured.file(), "--topic", name, "--record", "240KB", "--bytes", "96MB", "--acks", 0,
                           "--in-flight", 20)
    assert outcome["errors"] == {} and outcome["produce"]["records"] == 400 and outcome["seconds"] < 20


def test_a_ledger_is_checked_over_a_login(secured, name):
    ledger, file = secured.home / f"{name}.ledger", secured.file()
    secured.load(secured.sasl_ssl, file, "--topic", name, "--bytes", "1MB", "--ledger", ledger)
    done = secured.bench("check", "--bootstrap", secured.sasl_ssl, "--command-config", file, ledger)
    assert done.returncode == 0, done.stderr
    Cli(secured.broker.address, secured.home)("topic", "delete", f"{name}-0")


def test_what_does_not_fit_is_said(secured):
    wrong = secured.bench("load", "--bootstrap", secured.sasl_ssl, "--command-config", secured.file(sasl_password="hunter2"))
    assert wrong.returncode == 1 and "login by SCRAM-SHA-512" in wrong.stderr and "hunter2" not in wrong.stderr
    without = secured.bench("load", "--bootstrap", secured.mutual, "--command-config", secured.file(None))
    assert without.returncode == 1 and "ssl.keystore.location" in without.stderr, without.stderr
    discard = secured.bench("load", "--bootstrap", secured.sasl_ssl, "--command-config", secured.file(), "--consumers", 1, "--discard")
    assert discard.returncode == 1 and "discard" in discard.stderr
    missing = secured.bench("load", "--command-config", "/nowhere/c.properties")
    assert missing.returncode == 1 and "/nowhere/c.properties" in missing.stderr


@pytest.mark.parametrize("resume", [False, True])
def test_handshakes(secured, resume):
    outcome = secured.home / "handshakes.json"
    flags = ["--resume"] if resume else []
    done = secured.bench("handshakes", "--bootstrap", secured.sasl_ssl, "--command-config", secured.file(), "--seconds", 1,
                         "--connections", 4, "--json", outcome, *flags)
    assert done.returncode == 0, done.stderr
    seen = json.loads(outcome.read_text())
    assert seen["handshakes"] > 4 and seen["errors"] == {}, seen
    assert 0 < seen["p50_us"] <= seen["p99_us"] <= seen["max_us"] and seen["per_second"] > 0
