"""Users, ACLs and who a client is, by our command line, from a broker that lets everybody in to one that does not."""

import shutil

import pytest

from clients.cli import Cli
from peers import kafka
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
