"""Logins by OAUTHBEARER of unmodified clients, with keys in a file and at an https address; the provider is a test's own."""

import base64
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from clients.cli import Cli, binary
from peers import kafka
from peers.keys import Keys
from peers.process import die_with_parent, free_port, wait_until
from peers.tokens import AUDIENCE, ISSUER, Provider, Server, b64

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


class Door:
    """A broker with three listeners: `inner` asks for nothing, `by_file` and `by_url` for tokens."""

    def __init__(self, broker, provider, file, server, ports):
        self.broker, self.provider, self.file, self.server = broker, provider, file, server
        self.inner = broker.address
        self.by_file, self.by_url = (f"127.0.0.1:{port}" for port in ports)

    def librdkafka(self, token, address=None, **more):
        def give(_):
            return (token() if callable(token) else token), time.time() + 3600

        return {"bootstrap.servers": address or self.by_file, "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER", "oauth_cb": give, "message.timeout.ms": 20000, **more}


@pytest.fixture(scope="module")
def door(make_broker, tmp_path_factory):
    home = tmp_path_factory.mktemp("idp")
    provider = Provider(home)
    provider.key("rsa")
    provider.key("p256", "ec")
    file = home / "keys.json"
    provider.publish(file)
    keys = Keys(home)
    server = Server(provider, keys.issue("idp", "/CN=idp"))
    made = make_broker()
    ports = [free_port(), free_port()]
    names = ["FILE", "URL"]
    all_listeners = ",".join([f"PLAINTEXT://127.0.0.1:{made.port}"] +
                             [f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports)])
    made.properties |= {
        "listeners": all_listeners,
        "advertised.listeners": all_listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,FILE:SASL_PLAINTEXT,URL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{file}",
        "ssl.reload.interval.ms": 100,
        "listener.name.file.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
        "listener.name.file.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "listener.name.url.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{server.url}/keys",
        "listener.name.url.oauthbearer.sasl.jaas.config":
            f'{MODULE} required ssl.truststore.type=PEM ssl.truststore.location="{keys.ca}";',
    }
    made.start()
    yield Door(made, provider, file, server, ports)
    server.stop()
    assert made.alive(), made.process.tail(80)


@pytest.fixture
def topic(door, name):
    kafka.run("topics", "--bootstrap-server", door.inner, "--create", "--topic", name, "--partitions", 1)
    yield name
    AdminClient({"bootstrap.servers": door.inner}).delete_topics([name])


def failure(settings):
    """What librdkafka says of a login that fails."""
    said = []
    client = Producer({**settings, "error_cb": said.append})
    deadline = time.monotonic() + 20
    while not any(error.name() == "_AUTHENTICATION" for error in said):
        client.poll(0.1)
        assert time.monotonic() < deadline, said
    return next(error.str() for error in said if error.name() == "_AUTHENTICATION")


def logs_in(settings):
    try:
        return bool(AdminClient({**settings, "socket.timeout.ms": 3000}).list_topics(timeout=3).brokers)
    except KafkaException:
        return False


def round_trip(settings, topic, values):
    refused = []
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: error and refused.append(error))
        producer.poll(0)
    assert producer.flush(30) == 0 and not refused, refused
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got = []
    wait_until(lambda: got.extend(m.value() for m in consumer.consume(10, 0.2)) or len(got) >= len(values), "records")
    consumer.close()
    assert got == values


@pytest.mark.parametrize("key", ["rsa", "p256"])
@pytest.mark.parametrize("place", ["by_file", "by_url"])
def test_librdkafka_writes_and_reads(door, topic, place, key):
    settings = door.librdkafka(door.provider.token("ada", key), getattr(door, place))
    round_trip(settings, topic, [b"1", b"2", b"3"])


class Token(AbstractTokenProvider):
    def __init__(self, token):
        self.text = token

    def token(self):
        return self.text

    def extensions(self):
        return {"traceId": "7"}


def test_kafka_python(door, topic):
    settings = {"bootstrap_servers": door.by_file, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    right = KafkaProducer(sasl_oauth_token_provider=Token(door.provider.token("ada")), **settings)
    assert right.send(topic, b"x").get(20).offset == 0
    right.close()
    with pytest.raises(KafkaError):
        wrong = Token(door.provider.token("ada", aud="other"))
        KafkaProducer(sasl_oauth_token_provider=wrong, bootstrap_timeout_ms=3000, **settings).send(topic, b"x").get(5)


def client_file(path, **more):
    lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
             "sasl.jaas.config": f"{MODULE} required;", **more}
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    path.chmod(0o600)
    return path


def test_tools_of_kafka_and_our_commands(door, topic, tmp_path):
    token = tmp_path / "token"
    callback = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    file = client_file(tmp_path / "client.properties", **{
        "sasl.oauthbearer.token.endpoint.url": f"file://{token}", "sasl.login.callback.handler.class": callback})

    def of_kafka(check=True):
        allowed = f"-Xmx256m -Dorg.apache.kafka.sasl.oauthbearer.allowed.files={token} " \
                  f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{token}"
        return kafka.run("topics", "--bootstrap-server", door.by_file, "--command-config", file, "--list",
                         check=check, heap=allowed)

    token.write_text(door.provider.token("ada", scope="read"))
    token.chmod(0o600)
    assert topic in of_kafka().split()
    ours = Cli(door.by_file, tmp_path)
    assert topic in ours("topic", "list", "--command-config", file)
    assert "User:ada" in ours("auth", "whoami", "--command-config", file)
    token.write_text(door.provider.token("ada", scope="read", iss="https://evil.example.org"))
    said = of_kafka(check=False)
    assert "SaslAuthenticationException" in said and "invalid_token" in said, said
    said = ours.run("topic", "list", "--command-config", file)
    assert said.returncode != 0 and "invalid_token" in said.stderr, said


def test_our_commands_take_tokens_from_the_environment_and_a_provider(door, topic, tmp_path, monkeypatch):
    monkeypatch.setenv("A_TOKEN", door.provider.token("bob"))
    ours = Cli(door.by_file, tmp_path)
    file = client_file(tmp_path / "env.properties", **{"sasl.jaas.config": f"{MODULE} required token.env=A_TOKEN;"})
    assert "User:bob" in ours("auth", "whoami", "--command-config", file)
    here = Server(door.provider)
    file = client_file(tmp_path / "idp.properties", **{
        "sasl.oauthbearer.token.endpoint.url": f"{here.url}/token",
        "sasl.oauthbearer.client.credentials.client.id": "carol",
        "sasl.oauthbearer.client.credentials.client.secret": "hunter2"})
    assert topic in ours("topic", "list", "--command-config", file)
    assert "User:carol" in ours("auth", "whoami", "--command-config", file)
    here.status = 401
    said = ours.run("topic", "list", "--command-config", file)
    assert said.returncode != 0 and "401" in said.stderr and "hunter2" not in said.stderr, said
    here.stop()


def attacks(provider):
    """Tokens that must let nobody in, by what they try."""
    good = provider.token("ada")
    header, claims, signature = good.split(".")
    now = int(time.time())

    def keyed(alg):
        message = f"{b64({'alg': alg, 'kid': 'rsa'})}.{claims}"
        public = json.dumps(provider.public("rsa")).encode()
        return f"{message}.{b64(hmac.new(public, message.encode(), hashlib.sha256).digest())}"

    twice = base64.urlsafe_b64decode(claims + "==").replace(b"{", b'{"sub": "root", ', 1)
    message = f"{header}.{b64(twice)}"
    return {
        "none": f"{b64({'alg': 'none'})}.{claims}.x",
        "hs256_with_the_public_key": keyed("HS256"),
        "no_signature": f"{header}.{claims}.AA",
        "signature_of_other_claims": f"{header}.{b64({'sub': 'root'})}.{signature}",
        "other_key": provider.token("ada", "p256", header={"alg": "RS256", "kid": "rsa"}),
        "unknown_key": provider.token("ada", header={"kid": "../../etc/passwd"}),
        "key_of_its_own": provider.token("ada", header={"kid": "x", "jku": "http://127.0.0.1:1/", "jwk": {}}),
        "critical": provider.token("ada", header={"crit": ["exp"]}),
        "name_twice": f"{message}.{b64(provider.sign('rsa', message.encode()))}",
        "expired": provider.token("ada", seconds=-31),
        "not_yet": provider.token("ada", nbf=now + 120),
        "for_ever": provider.token("ada", exp=2 ** 63),
        "float": provider.token("ada", exp=now + 600.5),
        "no_expiry": provider.token("ada", exp=None),
        "no_issue": provider.token("ada", iat=None),
        "other_issuer": provider.token("ada", iss="https://evil.example.org"),
        "no_audience": provider.token("ada", aud=None),
        "other_audience": provider.token("ada", aud=["x"]),
        "no_user": provider.token("ada", sub=" "),
        "deep": provider.token("ada", x=json.loads("[" * 500 + "]" * 500)),
        "long": provider.token("ada", x="y" * 20_000),
    }


@pytest.fixture(scope="module")
def tokens(door):
    """All of them, signed once."""
    return attacks(door.provider)


@pytest.mark.parametrize("kind", [
    "none", "hs256_with_the_public_key", "no_signature", "signature_of_other_claims", "other_key", "unknown_key",
    "key_of_its_own", "critical", "name_twice", "expired", "not_yet", "for_ever", "float", "no_expiry", "no_issue",
    "other_issuer", "no_audience", "other_audience", "no_user", "deep", "long"])
def test_a_token_that_is_an_attack_lets_nobody_in(door, tokens, kind):
    token = tokens[kind]
    said = failure(door.librdkafka(token))
    # One that is too long is not looked at.
    assert ("invalid credentials" if kind == "long" else "invalid_token") in said, said
    assert token not in door.broker.log.read_text()


def test_a_session_ends_with_its_token_and_goes_on_with_the_next(door, topic):
    """Tokens last 4 seconds here: what is sent for ten must be written in order, by one connection."""
    given = []

    def token():
        given.append(door.provider.token("ada", seconds=4))
        return given[-1]

    def give(_):
        return token(), time.time() + 4

    refused = []
    producer = Producer({**door.librdkafka(token), "oauth_cb": give, "enable.idempotence": True, "linger.ms": 0,
                         "on_delivery": lambda error, _: error and refused.append(error)})
    sent, until = 0, time.monotonic() + 10
    while time.monotonic() < until:
        producer.produce(topic, f"{sent}".encode())
        sent += 1
        producer.poll(0.02)
    assert producer.flush(20) == 0 and not refused, refused
    assert len(given) >= 3


def test_keys_follow_the_file_and_stay_when_it_is_broken(door, topic):
    old = door.provider.token("ada")
    door.provider.key("next")
    newer = door.provider.token("ada", "next")
    door.provider.publish(door.file)
    wait_until(lambda: logs_in(door.librdkafka(newer)), "the new key")
    door.file.write_text("broken")
    time.sleep(0.5)
    round_trip(door.librdkafka(newer), topic, [b"1"])
    assert "it is no JSON object" in door.broker.log.read_text()
    door.provider.publish(door.file, "next")
    time.sleep(1)
    assert "invalid_token" in failure(door.librdkafka(old))
    door.provider.publish(door.file)
    time.sleep(1)


def test_keys_of_an_address_follow_a_token_that_names_a_new_one_and_outlive_the_provider(door, topic):
    asked = len(door.server.asked)
    door.provider.key("later")
    token = door.provider.token("ada", "later")
    # The first login is refused, and makes the broker ask.
    failure(door.librdkafka(token, door.by_url))
    wait_until(lambda: len(door.server.asked) > asked, "another question to the provider")
    wait_until(lambda: logs_in(door.librdkafka(token, door.by_url)), "the new key")
    round_trip(door.librdkafka(token, door.by_url), topic, [b"1"])
    door.server.status = 302
    os.kill(door.broker.process.pid, signal.SIGHUP)
    wait_until(lambda: "no redirect is followed" in door.broker.log.read_text(), "the refusal of a redirect")
    assert logs_in(door.librdkafka(token, door.by_url))
    door.server.status = 200


def test_the_load_generator_logs_in_with_tokens(door, name, tmp_path):
    """`forebay bench` reads the file with the token, for its load and for handshakes; a token that is not taken is said, and not shown."""
    token = tmp_path / "token"

    def bench(*arguments):
        return subprocess.run([binary(), "bench", *map(str, arguments), "--command-config", file], capture_output=True, text=True, timeout=90,
                              check=False, preexec_fn=die_with_parent)

    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
                    f'sasl.jaas.config={MODULE} required token.file="{token}";\n')
    for one in (token, file):
        one.touch()
        one.chmod(0o600)
    token.write_text(door.provider.token("ada"))
    outcome = tmp_path / "outcome.json"
    done = bench("load", "--bootstrap", door.by_file, "--topic", name, "--producers", 2, "--consumers", 1, "--bytes", "2MB", "--record", "1KB",
                 "--seconds", 30, "--verify", "--json", outcome)
    assert done.returncode == 0, done.stderr
    seen = json.loads(outcome.read_text())
    assert seen["errors"] == {} and seen["verified"]["lost"] == 0 and seen["verified"]["read"] == seen["produce"]["records"] > 0
    done = bench("handshakes", "--bootstrap", door.by_file, "--seconds", 1, "--connections", 2, "--json", outcome)
    assert done.returncode == 0 and json.loads(outcome.read_text())["errors"] == {}, done.stderr
    token.write_text(wrong := door.provider.token("ada", aud="another"))
    done = bench("load", "--bootstrap", door.by_file, "--topic", name, "--bytes", "1MB")
    assert done.returncode == 1 and "OAUTHBEARER" in done.stderr, done.stderr
    assert wrong not in done.stdout + done.stderr and wrong.split(".")[1] not in done.stderr
