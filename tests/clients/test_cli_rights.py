"""`forebay auth explain` beside what brokers really permit, Kafka and ours, and `forebay acl suggest` from a log to a broker that
enforces."""

import json
import shlex

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from clients.cli import Cli
from peers.broker import Forebay
from peers.kafka import Kafka
from peers.process import wait_until
from peers.rights import guard

USERS = ["ada", "bob", "eve"]
SECONDS = 20
TOPIC_OPERATIONS = ["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"]
ACLS = [
    "--allow-principal User:ada --topic explain-a --operation read",
    "--allow-principal User:ada --topic explain- --operation alter-configs --prefixed",
    "--allow-principal User:* --topic explain-b --operation all",
    "--deny-principal User:bob --topic explain-b --operation write",
    "--deny-principal User:eve --topic explain-b --operation describe --host 127.0.0.1",
    "--allow-principal User:eve --topic explain-a --operation write --host 127.0.0.1",
    "--allow-principal User:bob --topic explain-a --operation write --host 10.0.0.1",
    "--allow-principal user:bob --topic explain-c --operation all",
    "--allow-principal User:bob --topic Explain-c --operation delete",
]
TOPICS = ["explain-a", "explain-b", "explain-c", "bare"]


def client(port, user, **more):
    return {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": user, "sasl.password": user, **more}


def permitted(port, user, topic):
    """What the broker says that a user may do with a topic; `None` if it may not even describe it."""
    admin = AdminClient(client(port, user))
    asked = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True, request_timeout=SECONDS)[topic]
    try:
        return {operation.name for operation in asked.result(SECONDS).authorized_operations}
    except Exception as error:
        assert "AUTHORIZATION" in str(error).upper(), error
        return None


@pytest.fixture(scope="module", params=[Forebay, Kafka], ids=["forebay", "kafka"])
def guarded(request, make_broker, tmp_path_factory):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("asks both brokers, whatever the target")
    made = make_broker(request.param)
    port = guard(made, USERS)
    made.start()
    root = Cli(made.address, tmp_path_factory.mktemp("rights"))
    for topic in TOPICS:
        root("topic", "create", topic)
    for acl in ACLS:
        root("acl", "add", *acl.split())
    yield made, port, root
    made.end()


def explain(root, *arguments):
    done = root.run("auth", "explain", *arguments, "--format", "json")
    answer = json.loads(done.stdout) if done.stdout else done.stderr
    assert done.returncode == (0 if answer["verdict"] == "allowed" else 3), answer
    return answer


def test_the_verdict_is_that_of_the_broker(guarded):
    made, port, root = guarded
    compared = 0
    for user in USERS:
        for topic in TOPICS:
            may = permitted(port, user, topic)
            for operation in TOPIC_OPERATIONS if may is not None else ["DESCRIBE"]:
                answer = explain(root, f"User:{user}", operation, f"topic:{topic}", "--host", "127.0.0.1")
                wanted = "allowed" if may and operation in may else "denied"
                if topic == "bare" and made.name == "kafka":
                    wanted = "unknown"
                assert answer["verdict"] == wanted, (user, topic, operation, may, answer)
                compared += 1
    assert compared == 40, compared


def test_rules_and_near_misses_are_named(guarded):
    made, _, root = guarded
    denied = explain(root, "User:bob", "write", "topic:explain-b")
    assert denied["rule"]["permission"] == "DENY" and denied["rule"]["principal"] == "User:bob"
    assert [one["principal"] for one in denied["overridden"]] == ["User:*"]
    implied = explain(root, "User:ada", "describe", "topic:explain-a", "--host", "127.0.0.1")
    assert "READ, which implies DESCRIBE" in implied["because"]
    from_there = explain(root, "User:bob", "write", "topic:explain-a")
    assert from_there["verdict"] == "denied" and from_there["elsewhere"] == [{"host": "10.0.0.1", "verdict": "allowed"}]
    missed = explain(root, "User:bob", "delete", "topic:explain-c")["near_misses"]
    assert {miss["differs"] for miss in missed} == {"principal", "name"}, missed
    told = explain(root, "User:ada", "read", "group:bare")
    assert told["verdict"] == ("unknown" if made.name == "kafka" else "denied")
    if made.name == "kafka":
        assert any("super.users" in note for note in told["notes"]), told
    else:
        assert explain(root, "User:ANONYMOUS", "alter", "cluster")["because"] == "a super user may do everything"
    text = root.run("auth", "explain", "User:bob", "write", "topic:explain-b").stdout
    assert text.startswith("denied") and "overridden" in text


def test_a_cluster_without_authorizer_allows_everything(broker, tmp_path, request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("the broker of the tests")
    root = Cli(broker.address, tmp_path)
    assert "no authorizer" in explain(root, "User:ada", "read", "topic:x")["because"]


def outcome(port, user, topic):
    """What a producer and a consumer hear."""
    said = []
    producer = Producer(client(port, user))
    producer.produce(topic, b"x", on_delivery=lambda error, _: said.append(error and error.name()))
    producer.flush(SECONDS)
    consumer = Consumer(client(port, user, **{"group.id": f"{topic}-readers", "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    record = wait_until(lambda: consumer.poll(0.2), "a record or an error", SECONDS)
    consumer.close()
    return said[0], record.error() and record.error().name()


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_suggested_is_enough(make_broker, tmp_path, name, form, request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("authorizer.mode is ours")
    made = make_broker()
    port = guard(made, USERS, **{"authorizer.mode": "log", "log.format": form})
    made.start()
    root = Cli(made.address, tmp_path)
    root("topic", "create", name)
    assert outcome(port, "eve", name) == (None, None)
    (eve,) = [one for one in root.json("acl", "suggest", made.log)["suggestions"] if one["principal"] == "User:eve"]
    assert all("--allow-principal User:eve" in line for line in eve["forebay"] + eve["kafka"])
    assert any("--consumer" in line for line in eve["forebay"]), eve
    for line in eve["forebay"]:
        command, *arguments = shlex.split(line)
        assert command == "forebay"
        root(*arguments)
    made.stop()
    made.properties["authorizer.mode"] = "enforce"
    made.start()
    assert outcome(port, "eve", name) == (None, None)
    # Nothing beyond it.
    assert outcome(port, "bob", name)[0] == "TOPIC_AUTHORIZATION_FAILED"
    denied = root.json("acl", "suggest", made.log, "--denied", "--by-host", "--prefix", f"topic:{name[:4]}")
    (bob,) = [one for one in denied["suggestions"] if one["principal"] == "User:bob"]
    assert bob["host"] == "127.0.0.1" and "--prefixed" in " ".join(bob["forebay"])
