"""Users, ACLs and who a client is, by our command line, from a broker that lets everybody in to one that does not."""

import os
import pty
import select
import shutil
import signal
import termios
import time

import pytest

from clients.cli import Cli
from peers import kafka
from peers.broker import forebay_binary
from peers.keys import Keys
from peers.process import free_port, wait_until

SECRET = "pen cil; with = signs"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


class House:
    """A broker with an authorizer: `inner` for the super user of the machine, `address` for logins under TLS."""

    def __init__(self, broker, keys, port, home):
        self.broker, self.keys, self.home = broker, keys, home
        self.address = f"localhost:{port}"
        self.root = Cli(broker.address, home)

    def client(self, user, password=SECRET):
        """The command line of a user."""
        file = self.home / f"{user}.properties"
        file.write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.keys.ca}\n"
            f"sasl.mechanism=SCRAM-SHA-512\nsasl.username={user}\nsasl.password={password}\n")
        house = self

        class Client(Cli):
            def run(self, *arguments, **options):
                return super().run(*arguments, "--command-config", file, **options)

        return Client(house.address, house.home)


@pytest.fixture(scope="module")
def house(make_broker, tmp_path_factory):
    home = tmp_path_factory.mktemp("house")
    keys = Keys(home)
    made = make_broker()
    port = free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{made.port},SECURED://127.0.0.1:{port}"
    made.properties |= {
        "listeners": listeners,
        "advertised.listeners": listeners.replace(f"SECURED://127.0.0.1:{port}", f"SECURED://localhost:{port}"),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keys.issue("server", "/CN=server"),
        "listener.name.secured.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.secured.scram-sha-512.sasl.jaas.config":
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    made.start()
    yield House(made, keys, port, home)
    assert made.alive(), made.process.tail(80)


def test_a_user_from_the_making_to_the_end(house, name, tmp_path):
    root = house.root
    assert root.json("user", "set", name, stdin=SECRET + "\n") == [{"name": name, "done": True}]
    file = tmp_path / "password"
    file.write_text("other\n")
    root("user", "set", name, "--mechanism", "SCRAM-SHA-256", "--iterations", 8192, "--password-file", file)
    (user,) = root.json("user", "list", name)
    assert user == {"name": name, "credentials": [{"mechanism": "SCRAM-SHA-256", "iterations": 8192},
                                                  {"mechanism": "SCRAM-SHA-512", "iterations": 4096}]}
    assert name in root("user", "list") and root.json("user", "list", "no-*") == []

    who = house.client(name).json("auth", "whoami")
    assert who["principal"] == f"User:{name}" and who["by"] == "SCRAM-SHA-512" and who["protocol"] == "SASL_SSL"
    assert who["cluster_operations"] == []
    wrong = house.client(name, "hunter2").refusal("auth", "whoami")
    assert "login by SCRAM-SHA-512" in wrong and "hunter2" not in wrong
    house.client(name)
    anonymous = root("auth", "whoami")
    assert "User:ANONYMOUS" in anonymous and "ALTER" in anonymous

    assert "would be deleted" in root("user", "delete", f"{name[:-1]}*")
    assert "deleted" in root("user", "delete", name, "--mechanism", "SCRAM-SHA-512")
    assert "login by" in house.client(name).refusal("auth", "whoami")
    root("user", "delete", name)
    assert root.json("user", "list", name) == []
    assert "no such password" in root.refusal("user", "delete", name)
    assert "is empty" in root.refusal("user", "set", name, stdin="\n")


class Typed:
    """`user set` at a terminal of its own."""

    def __init__(self, house, name):
        self.told, arguments = b"", ["user", "set", name, "--brokers", house.root.address]
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.environ["XDG_CONFIG_HOME"] = str(house.home)
            os.execv(forebay_binary(), ["forebay", *arguments])

    def echoes(self):
        return bool(termios.tcgetattr(self.terminal)[3] & termios.ECHO)

    def asked(self, times):
        """Waits until it has asked so many times."""
        deadline = time.monotonic() + 30
        while self.told.count(b"password of") < times or self.echoes():
            assert time.monotonic() < deadline, self.told
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.told += os.read(self.terminal, 4096)

    def type(self, text):
        os.write(self.terminal, text)

    def end(self):
        """Its exit code; the terminal is as it was."""
        _, status = os.waitpid(self.child, 0)
        assert self.echoes()
        try:
            while more := os.read(self.terminal, 4096):
                self.told += more
        except OSError:
            # The other end has gone.
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


def test_a_terminal_is_asked_twice_and_shows_nothing(house, name):
    for again, code in [(SECRET, 0), ("other", 1)]:
        typed = Typed(house, name)
        typed.asked(1)
        typed.type(f"{SECRET}\n".encode())
        typed.asked(2)
        typed.type(f"{again}\n".encode())
        assert typed.end() == code, typed.told
        assert SECRET.encode() not in typed.told and (code == 0 or b"none was set" in typed.told), typed.told
    assert house.client(name).json("auth", "whoami")["principal"] == f"User:{name}"
    house.root("user", "delete", name)


@pytest.mark.parametrize("how", ["key", signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_shows_again_what_is_typed_when_the_command_is_ended(house, name, how):
    typed = Typed(house, name)
    typed.asked(1)
    # Ctrl-Z would leave it silent, too.
    typed.type(b"\x1a")
    if how == "key":
        typed.type(b"\x03")
    else:
        os.kill(typed.child, how)
    assert typed.end() == 128 + (signal.SIGINT if how == "key" else how), typed.told
    assert house.root.json("user", "list", name) == []


def test_a_mechanism_that_is_named_twice_is_set_once(house, name):
    one, other = (["--mechanism", f"SCRAM-SHA-{bits}"] for bits in (256, 512))
    house.root("user", "set", name, *one, *other, *one, stdin=SECRET + "\n")
    (user,) = house.root.json("user", "list", name)
    assert [each["mechanism"] for each in user["credentials"]] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert house.client(name).json("auth", "whoami")["principal"] == f"User:{name}"
    house.root("user", "delete", name)
    assert house.root.json("user", "list", name) == []


def test_many_acls_are_added_by_several_requests(house, name):
    principals = [part for id in range(30) for part in ("--allow-principal", f"User:{name}-{id}")]
    topics = [part for id in range(40) for part in ("--topic", f"{name}-{id}")]
    wanted = ["acl", "add", *principals, *topics, "--operation", "read"]
    added = house.root.json(*wanted)
    assert len(added) == 1200 and all(one["done"] for one in added)
    for id in range(30):
        house.root("acl", "delete", "--principal", f"User:{name}-{id}", "--execute")
    no_address = house.root.run("acl", "add", "--allow-principal", "User:a", "--topic", "t", "--operation", "read",
                                "--host", "client.example.org")
    assert no_address.returncode == 2 and "IP address" in no_address.stderr


def test_acls_for_a_producer_and_a_consumer(house, name):
    root, principal = house.root, f"User:{name}"
    root("user", "set", name, stdin=SECRET + "\n")
    root("topic", "create", name)
    client = house.client(name)
    assert "AUTHORIZATION_FAILED" in client.refusal("topic", "produce", name, "one")

    wanted = ["acl", "add", "--allow-principal", principal, "--topic", name, "--group", name, "--producer", "--consumer"]
    assert "would be added" in root(*wanted, "--dry-run") and root.json("acl", "list", "--principal", principal) == []
    assert all(one["done"] for one in root.json(*wanted))
    assert "there already" in root(*wanted, "--dry-run")
    there = root.json("acl", "list", "--principal", principal)
    assert {(one["resource_type"], one["operation"]) for one in there} == {
        ("TOPIC", "WRITE"), ("TOPIC", "DESCRIBE"), ("TOPIC", "CREATE"), ("TOPIC", "READ"), ("GROUP", "READ")}
    assert all(one["permission"] == "ALLOW" and one["pattern"] == "LITERAL" and one["host"] == "*" for one in there)
    told = kafka.run("acls", "--bootstrap-server", house.broker.address, "--list", "--principal", principal)
    assert told.count(f"principal={principal}") == 5, told

    wait_until(lambda: client.run("topic", "produce", name, "one", "-q").returncode == 0, "the right to write")
    assert client("topic", "consume", name, "-g", name, "-n", 1) == "one\n"

    root("acl", "add", "--deny-principal", principal, "--topic", name[:-1], "--prefixed", "--operation", "write")
    assert [one["pattern"] for one in root.json("acl", "list", "--topic", name, "--pattern", "match",
                                                "--permission", "deny")] == ["PREFIXED"]
    assert "would be deleted" in root("acl", "delete", "--principal", principal, "--permission", "deny")
    assert "deleted" in root("acl", "delete", "--principal", principal, "--permission", "deny", "--execute")
    root("acl", "delete", "--principal", principal, "--execute")
    assert root.json("acl", "list", "--principal", principal) == []
    assert "which ACLs" in root.refusal("acl", "delete", "--execute")
    root("topic", "delete", name)


def test_who_may_not_is_refused_in_words(house, name):
    house.root("user", "set", name, stdin=SECRET + "\n")
    client = house.client(name)
    assert "CLUSTER_AUTHORIZATION_FAILED" in client.refusal("acl", "list")
    assert "CLUSTER_AUTHORIZATION_FAILED" in client.refusal("user", "list")
    assert "CLUSTER_AUTHORIZATION_FAILED" in client.refusal("user", "set", name, stdin="x\n")
