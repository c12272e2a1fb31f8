"""`forebay tls check`: listeners, a server that is no broker, and files."""

import json
import shutil
import subprocess

import pytest

from clients.cli import Cli
from peers.keys import PASSWORD, Keys
from peers.process import die_with_parent, free_port, wait_until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


class Checks:
    """A broker with TLS on one listener and client certificates on another, and the command."""

    def __init__(self, broker, keys, ports, home):
        self.broker, self.keys, self.home = broker, keys, home
        self.tls, self.mutual = (f"localhost:{port}" for port in ports)

    def file(self, **properties):
        file = self.home / "client.properties"
        own = {"ssl_truststore_type": "PEM", "ssl_truststore_location": self.keys.ca, **properties}
        file.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in own.items()))
        return file

    def check(self, *arguments, days=5, **properties):
        """The exit code and the report on the first of what was checked."""
        done = Cli("", self.home).run("tls", "check", *arguments, "--warn-days", days, "--format", "json",
                                      "--command-config", self.file(**properties), brokers=False)
        assert "hunter2" not in done.stdout + done.stderr
        return done.returncode, json.loads(done.stdout)[0]


@pytest.fixture(scope="module")
def checks(make_broker, tmp_path_factory):
    home = tmp_path_factory.mktemp("checks")
    keys = Keys(home)
    server = keys.issue("server", "/CN=server/O=Example")
    keys.issue("ada", "/CN=ada/O=Example", kind="rsa")
    made = make_broker()
    ports = [free_port(), free_port()]
    inside = [f"PLAINTEXT://127.0.0.1:{made.port}"]
    listeners = ",".join(inside + [f"{name}://127.0.0.1:{port}" for name, port in zip(["TLS", "MUTUAL"], ports)])
    made.properties |= {
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": server,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": keys.ca,
    }
    made.start()
    yield Checks(made, keys, ports, home)
    assert made.alive(), made.process.tail(80)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_listener_as_it_is(checks, version):
    code, report = checks.check(checks.tls, ssl_enabled_protocols=version)
    assert code == 0, report
    assert report["status"] == "fine" and report["protocol"] == version and report["problems"] == []
    assert report["is_trusted"] and report["is_for_host"] and report["speaks_kafka"]
    (certificate,) = report["chain"]
    assert certificate["subject"] == "O=Example,CN=server" and certificate["issuer"] == "CN=tests"
    assert certificate["names"] == ["DNS:localhost", "IP:127.0.0.1"] and certificate["key"] == "EC P-256"
    assert certificate["days_left"] in (29, 30) and not report["client_certificate"]["is_asked"]
    code, report = checks.check(checks.tls, days=60)
    assert code == 3 and report["status"] == "expires" and "expires in" in report["warnings"][0]


def test_what_is_wrong_is_said(checks, tmp_path):
    code, report = checks.check(checks.tls, ssl_truststore_location=Keys(tmp_path).ca)
    assert code == 1 and not report["is_trusted"] and report["is_for_host"], report
    assert "ssl.truststore.location" in report["problems"][0]
    code, report = checks.check(checks.broker.address)
    assert code == 1 and "speaks no TLS" in report["problems"][0]
    code, report = checks.check(f"localhost:{free_port()}")
    assert code == 1 and report["is_trusted"] is None


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_listener_that_asks_for_a_certificate(checks, version):
    code, report = checks.check(checks.mutual, ssl_enabled_protocols=version)
    assert code == 1 and report["client_certificate"]["is_asked"], report
    assert "certificate" in report["problems"][0]
    own = {"ssl_keystore_type": "PEM", "ssl_keystore_location": checks.home / "ada.pem"}
    code, report = checks.check(checks.mutual, ssl_enabled_protocols=version, **own)
    assert code == 0, report
    client = report["client_certificate"]
    assert client["is_accepted"] and client["shown"][0]["subject"] == "O=Example,CN=ada"
    assert client["shown"][0]["key_bits"] == 2048
    code, report = checks.check(checks.tls, ssl_enabled_protocols=version, **own)
    assert code == 0 and any("asks for none" in warning for warning in report["warnings"])


def test_a_server_that_is_no_broker(checks):
    port = free_port()
    other = checks.keys.issue("other", "/CN=other", names="DNS:elsewhere")
    server = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", other, "-key", other, "-quiet"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=die_with_parent)
    try:
        def seen():
            code, report = checks.check(f"localhost:{port}")
            return (code, report) if report["chain"] else None

        code, report = wait_until(seen, "the server")
        assert code == 1 and report["is_trusted"] and not report["is_for_host"] and not report["speaks_kafka"]
        assert "localhost" in report["problems"][0], report
    finally:
        server.kill()
        server.wait()


def test_files(checks):
    home, run = checks.home, Cli("", checks.home).run

    def check(*arguments, days=5):
        done = run("tls", "check", *arguments, "--warn-days", days, "--format", "json", brokers=False)
        return done.returncode, json.loads(done.stdout)

    code, reports = check("--files", home / "server.pem", checks.keys.ca)
    assert code == 0 and [report["status"] for report in reports] == ["fine", "fine"], reports
    assert reports[0]["keys"] == 1 and reports[0]["mode"] == "0600"
    assert check("--files", home / "server.key", home / "server.crt")[0] == 0
    code, reports = check("--files", home / "server.key", home / "ada.crt")
    assert code == 1 and "none of the certificates" in reports[0]["problems"][0]
    password = home / "password"
    password.write_text(f"{PASSWORD}\n")
    store = checks.keys.pkcs12("ada")
    code, reports = check("--files", store, "--password-file", password)
    assert code == 0 and reports[0]["format"] == "PKCS12", reports
    assert "needs a password" in check("--files", store)[1][0]["problems"][0]
    assert check("--files", home / "server.pem", days=60)[0] == 3
    assert PASSWORD not in str(reports)
