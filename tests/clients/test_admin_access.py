"""The admin endpoint with TLS and with each way in which its clients show who they are: by HTTP as monitoring systems
speak it, and by `forebay tier`. Keys and certificates are made by OpenSSL."""

import base64
import hashlib
import http.client
import json
import shutil
import signal
import socket
import ssl
import time

import pytest

from clients.cli import Cli
from peers.keys import Keys
from peers.process import free_port, wait_until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

TOKEN = "v4Yp0cX2nF8sQm7LrT5w"
HASHED = "another-token-0123456789"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root;User:ANONYMOUS",
}
ORDER = "/tiers/verify"


class Endpoint:
    """A broker whose admin endpoint speaks TLS, with what clients need."""

    def __init__(self, broker, keys, port, home):
        self.broker, self.keys, self.port, self.home = broker, keys, port, home
        self.url = f"https://localhost:{port}"

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=self.keys.ca)
        if certificate:
            context.load_cert_chain(self.keys.home / f"{certificate}.crt", self.keys.home / f"{certificate}.key")
        return context

    def ask(self, path, method="GET", certificate=None, source=None, **headers):
        """Code, headers and body; `source` is the address from which it is asked."""
        made = http.client.HTTPSConnection("localhost", self.port, context=self.context(certificate), timeout=30,
                                           source_address=source and (source, 0))
        made.request(method, path, headers={"Content-Type": "application/json", **headers})
        answer = made.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()

    def code(self, path, method="GET", **more):
        return self.ask(path, method, **more)[0]

    def metrics(self, **who):
        code, _, text = self.ask("/metrics", **who)
        assert code == 200, text
        return text

    def tier(self, lines, *arguments, mode=0o600):
        """`forebay tier` with a file of properties."""
        file = self.home / "admin.properties"
        trust = ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.keys.ca}"]
        file.write_text("\n".join([*trust, *lines]) + "\n")
        file.chmod(mode)
        cli = Cli(self.broker.address, self.home)
        return cli.run("tier", "--admin", self.url, "--admin-config", file, *arguments, brokers=False)


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    made = Keys(tmp_path_factory.mktemp("keys"))
    made.issue("server", "/CN=server/O=Example")
    for name in ("root", "ada", "nobody"):
        made.issue(name, f"/CN={name}/OU=ops")
    return made


@pytest.fixture
def start(make_broker, keys, tmp_path):
    """Starts a broker whose admin endpoint has these settings."""
    def begin(**settings):
        made, port = make_broker(), free_port()
        made.properties |= {
            "admin.listener": f"localhost:{port}",
            "listener.name.admin.ssl.keystore.type": "PEM",
            "listener.name.admin.ssl.keystore.location": keys.home / "server.pem",
            "ssl.reload.interval.ms": 200,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        made.properties |= {"storage.tiers": "one", "storage.tier.one.paths": made.data}
        made.start()
        return Endpoint(made, keys, port, tmp_path)
    return begin


def allow(endpoint, principal, operation):
    cli = Cli(endpoint.broker.address, endpoint.home)
    cli("acl", "add", "--allow-principal", principal, "--cluster", "--operation", operation)


def test_tls_alone(start):
    endpoint = start()
    assert endpoint.code("/livez") == 200
    assert endpoint.code("/metrics") == 200
    assert endpoint.code(ORDER, "POST") == 200, "over the loopback interface"
    done = endpoint.tier([], "status")
    assert done.returncode == 0 and "one" in done.stdout, done.stderr
    # HTTP without TLS is answered in words, and by our own command too.
    plain = http.client.HTTPConnection("localhost", endpoint.port, timeout=30)
    plain.request("GET", "/livez")
    answer = plain.getresponse()
    assert answer.status == 400 and b"https" in answer.read()
    untrusted = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection("localhost", endpoint.port, context=untrusted, timeout=30).request("GET", "/livez")
    text = endpoint.metrics()
    assert 'forebay_tls_handshakes_failed_total{listener="ADMIN",cause="http"} 1' in text
    assert 'forebay_tls_certificate_expiry_seconds{listener="ADMIN"}' in text
    # A name that is not this broker's is refused under TLS, too, and so is another origin.
    assert endpoint.code("/livez", Host="evil.example") == 403
    assert endpoint.code("/livez", Origin="https://evil.example") == 403


def test_a_new_certificate_is_taken(start, keys):
    endpoint = start()

    def serial():
        with socket.create_connection(("localhost", endpoint.port)) as raw:
            with endpoint.context().wrap_socket(raw, server_hostname="localhost") as secured:
                return secured.getpeercert()["serialNumber"]
    before = serial()
    keys.issue("server", "/CN=server/O=Example")
    wait_until(lambda: serial() != before, "the new certificate")


def test_basic(start):
    endpoint = start(admin_auth="basic", **{
        "listener.name.admin.plain.sasl.jaas.config": f'{MODULE} user_ops="canary-of-plain";', **AUTHORIZER})
    cli = Cli(endpoint.broker.address, endpoint.home)
    for user in ("root", "ada", "eve"):
        cli("user", "set", user, stdin=f"pencil-{user}\n")
    allow(endpoint, "User:ada", "Describe")
    allow(endpoint, "User:ops", "Alter")
    assert endpoint.code("/livez") == 200
    code, headers, _ = endpoint.ask("/metrics")
    assert code == 401 and headers["www-authenticate"].startswith("Basic ")
    code, _, body = endpoint.ask("/readyz")
    assert code == 200 and json.loads(body) == {"status": "ready"}
    code, _, body = endpoint.ask("/readyz", **basic("ada", "pencil-ada"))
    assert code == 200 and "reasons" in json.loads(body)
    code, _, body = endpoint.ask("/readyz", **basic("eve", "pencil-eve"))
    assert code == 200 and json.loads(body) == {"status": "ready"}
    for user, password, see, do in [
            ("root", "pencil-root", 200, 200), ("ada", "pencil-ada", 200, 403), ("eve", "pencil-eve", 403, 403),
            ("ops", "canary-of-plain", 200, 200), ("ada", "pencil", 401, 401), ("nobody", "pencil", 401, 401),
            ("ops", "pencil", 401, 401)]:
        assert endpoint.code("/metrics", **basic(user, password)) == see, user
        assert endpoint.code(ORDER, "POST", **basic(user, password)) == do, user
    assert endpoint.code("/metrics", **bearer(TOKEN)) == 401
    assert endpoint.code("/metrics", Authorization="Basic !") == 401
    # Wrong ones take as long as others, and at least the delay.
    begin = time.monotonic()
    assert endpoint.code("/metrics", **basic("nobody", "x")) == 401
    assert time.monotonic() - begin >= 0.1
    # A password that changed is another at once, though the old one was right a moment ago.
    cli("user", "set", "ada", stdin="new-pencil\n")
    assert endpoint.code("/metrics", **basic("ada", "pencil-ada")) == 401
    assert endpoint.code("/metrics", **basic("ada", "new-pencil")) == 200
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    user = [f'sasl.jaas.config={jaas} username="root" password="pencil-root";']
    done = endpoint.tier(user, "status")
    assert done.returncode == 0 and "one" in done.stdout, done.stderr
    assert "chmod 600" in endpoint.tier(user, "status", mode=0o644).stderr
    wrong = endpoint.tier(['sasl.username=root', 'sasl.password=canary-of-cli'], "status")
    assert wrong.returncode == 1 and "wrong credentials" in wrong.stderr and "canary" not in wrong.stderr
    text = endpoint.metrics(**basic("root", "pencil-root"))
    assert 'forebay_admin_logins_failed_total{cause="credentials"}' in text
    assert 'forebay_admin_logins_failed_total{cause="missing"}' in text
    assert 'forebay_admin_denied_total{operation="ALTER",enforced="true"}' in text
    log = endpoint.broker.log.read_text()
    assert "a login at the admin endpoint failed" in log
    for secret in ("pencil", "canary"):
        assert secret not in text and secret not in log


def test_bearer(start, tmp_path):
    file = tmp_path / "tokens"
    hashed = hashlib.sha256(HASHED.encode()).hexdigest()
    file.write_text(f"# who and what\nUser:root {TOKEN}\nUser:prometheus sha256:{hashed}\n")
    file.chmod(0o600)
    endpoint = start(admin_auth="bearer", admin_bearer_tokens_file=file, secrets_permissions="strict", **AUTHORIZER)
    allow(endpoint, "User:prometheus", "Describe")
    code, headers, _ = endpoint.ask("/metrics")
    assert code == 401 and headers["www-authenticate"].startswith("Bearer ")
    for token, see, do in [(TOKEN, 200, 200), (HASHED, 200, 403), (TOKEN[:-1], 401, 401), (hashed, 401, 401)]:
        assert (endpoint.code("/metrics", **bearer(token)), endpoint.code(ORDER, "POST", **bearer(token))) == (see, do)
    own = tmp_path / "own"
    own.write_text(TOKEN + "\n")
    own.chmod(0o600)
    done = endpoint.tier([f"admin.token.file={own}"], "status")
    assert done.returncode == 0 and "one" in done.stdout, done.stderr
    # A file that cannot be taken leaves the tokens as they are; SIGHUP reads it at once.
    file.write_text("User:root short-canary\n")
    wait_until(lambda: 'forebay_admin_token_reloads_total{result="failure"}' in endpoint.metrics(**bearer(TOKEN)),
               "the file to be refused")
    file.write_text(f"User:root {HASHED}\n")
    endpoint.broker.process.child.send_signal(signal.SIGHUP)
    wait_until(lambda: endpoint.code("/metrics", **bearer(TOKEN)) == 401, "the token to be taken back")
    assert endpoint.code(ORDER, "POST", **bearer(HASHED)) == 200
    log = endpoint.broker.log.read_text()
    assert "the file of tokens is not taken" in log and "canary" not in log and TOKEN not in log


def test_mtls(start, keys):
    endpoint = start(admin_auth="mtls", **{
        "listener.name.admin.ssl.truststore.type": "PEM", "listener.name.admin.ssl.truststore.location": keys.ca,
        "listener.name.admin.ssl.principal.mapping.rules": r"RULE:^.*CN=(root|ada)(,.*)?$/$1/", **AUTHORIZER})
    allow(endpoint, "User:ada", "Describe")
    assert endpoint.code("/livez") == 200 and endpoint.code("/metrics") == 403
    for certificate, see, do in [("root", 200, 200), ("ada", 200, 403), ("nobody", 403, 403)]:
        assert endpoint.code("/metrics", certificate=certificate) == see, certificate
        assert endpoint.code(ORDER, "POST", certificate=certificate) == do, certificate
    assert json.loads(endpoint.ask("/readyz")[2]) == {"status": "ready"}
    done = endpoint.tier(["ssl.keystore.type=PEM", f"ssl.keystore.location={keys.home / 'root.pem'}"], "status")
    assert done.returncode == 0 and "one" in done.stdout, done.stderr
    assert endpoint.tier([], "status").returncode == 1


def test_a_flood_of_guesses_leaves_room_for_others(start):
    """An address that guesses has few guesses at a time; probes and other addresses are answered meanwhile."""
    endpoint = start(admin_auth="basic", **AUTHORIZER)
    cli = Cli(endpoint.broker.address, endpoint.home)
    cli("user", "set", "root", stdin="pencil\n")
    assert endpoint.code("/metrics", **basic("root", "pencil")) == 200
    held = []
    for number in range(64):
        raw = socket.create_connection(("localhost", endpoint.port), timeout=30)
        secured = endpoint.context().wrap_socket(raw, server_hostname="localhost")
        header = basic("root", f"guess-{number}")["Authorization"]
        secured.send(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: {header}\r\n\r\n".encode())
        held.append(secured)
        if number % 16 == 0:
            assert endpoint.code("/livez") == 200
            assert endpoint.code("/metrics", source="127.0.0.2", **basic("root", "pencil")) == 200
    for secured in held:
        secured.close()
    # The right password of that address is one among its guesses, and has its turn after them.
    wait_until(lambda: endpoint.code("/metrics", **basic("root", "pencil")) == 200, "the turn of the right password")
