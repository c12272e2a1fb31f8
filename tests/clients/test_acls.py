"""ACLs as unmodified clients and Kafka's tools make them and feel them."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AdminClient, NewTopic, ResourcePatternType, ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from peers import kafka
from peers.process import wait_until
from peers.rights import guard, login

USERS = ["admin", "ada", "bob", "eve"]
ANY_ACL = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
SECONDS = 30


class Realm:
    """A broker with rights: `inner` is for those who may do everything, `address` for users."""

    def __init__(self, broker, folder, **settings):
        self.broker, self.folder = broker, folder
        self.inner = broker.address
        self.address = f"127.0.0.1:{guard(broker, USERS, **{'super.users': 'User:admin;User:ANONYMOUS'}, **settings)}"
        broker.start()
        self.admin = AdminClient({"bootstrap.servers": self.inner})

    def topic(self, name):
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)
        wait_until(lambda: self.admin.list_topics(name).topics[name].partitions, "the topic")

    def acls(self, *rights, allow=True):
        """Rights as (principal, type, name, operation)."""
        permission = AclPermissionType.ALLOW if allow else AclPermissionType.DENY
        return [AclBinding(ResourceType[kind], name, ResourcePatternType.LITERAL, f"User:{who}", "*", AclOperation[operation], permission)
                for who, kind, name, operation in rights]

    def give(self, *rights, **options):
        for made in self.admin.create_acls(self.acls(*rights, **options)).values():
            made.result(SECONDS)

    def there(self):
        return {str(one) for one in self.admin.describe_acls(ANY_ACL).result(SECONDS)}

    def librdkafka(self, user, **more):
        return {"bootstrap.servers": self.address, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user,
                "sasl.password": user, "topic.metadata.refresh.interval.ms": 500, "message.timeout.ms": 20000, **more}

    def python(self, user, **more):
        return {"bootstrap_servers": self.address, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": user,
                "sasl_plain_password": user, **more}

    def tool(self, user, name, *arguments, **options):
        """A tool of Kafka as this user; what it says, whether it succeeds or not."""
        config = self.folder / f"{user}.properties"
        if not config.exists():
            config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login(user)}\n")
        return kafka.run(name, "--bootstrap-server", self.address, "--command-config", config, *arguments, check=False, **options)


@pytest.fixture(scope="module")
def realm(make_broker, tmp_path_factory):
    made = Realm(make_broker(), tmp_path_factory.mktemp("rights"))
    yield made
    assert made.broker.alive(), made.broker.process.tail(80)


def together(*calls):
    """What each of them returns; run beside each other, because a JVM takes its time."""
    with ThreadPoolExecutor(3) as pool:
        return [one.result() for one in [pool.submit(call) for call in calls]]


def listed(said):
    """The ACLs that kafka-acls prints: (type, name, pattern, principal, operation, permission)."""
    found, resource = set(), None
    for line in said.splitlines():
        if of := re.search(r"resourceType=(\w+), name=(.*), patternType=(\w+)\)", line):
            resource = of.groups()
        elif one := re.search(r"\(principal=(.*), host=\*, operation=(\w+), permissionType=(\w+)\)", line):
            found.add((*resource, *one.groups()))
    return found


def test_kafka_acls(realm, name):
    """Makes what producers, consumers and transactions need, which is enough for them; lists it by every filter; removes it."""
    realm.topic(name)

    def acls(*arguments, user="admin"):
        return realm.tool(user, "acls", *arguments)

    def mine(kind, *operations, named=name, who="bob", pattern="LITERAL"):
        return {(kind, named, pattern, f"User:{who}", one, "ALLOW") for one in operations}

    producer = mine("TOPIC", "WRITE", "DESCRIBE", "CREATE") | mine("TRANSACTIONAL_ID", "WRITE", "DESCRIBE")
    reader = mine("TOPIC", "READ", "DESCRIBE", who="ada") | mine("GROUP", "READ", who="ada", named=f"{name}-", pattern="PREFIXED")
    together(
        lambda: acls("--add", "--allow-principal", "User:bob", "--producer", "--topic", name, "--transactional-id", name),
        lambda: acls("--add", "--allow-principal", "User:ada", "--consumer", "--topic", name, "--group", "unused"),
        lambda: acls("--add", "--allow-principal", "User:ada", "--operation", "Read", "--group", f"{name}-", "--resource-pattern-type", "prefixed"),
        lambda: acls("--add", "--deny-principal", "User:eve", "--deny-host", "10.9.9.9", "--operation", "All", "--topic", "*"))
    everything, of_topic, of_group, of_bob, matching, refused = together(
        lambda: acls("--list"), lambda: acls("--list", "--topic", name), lambda: acls("--list", "--group", f"{name}-", "--resource-pattern-type", "prefixed"),
        lambda: acls("--list", "--principal", "User:bob"), lambda: acls("--list", "--group", f"{name}-7", "--resource-pattern-type", "match"),
        lambda: acls("--list", user="bob"))
    group = mine("GROUP", "READ", who="ada", named=f"{name}-", pattern="PREFIXED")
    assert producer | reader <= listed(everything)
    assert "(principal=User:eve, host=10.9.9.9, operation=ALL, permissionType=DENY)" in everything
    assert listed(of_topic) == {one for one in producer | reader if one[0] == "TOPIC"}
    assert listed(of_group) == listed(matching) == group
    assert producer <= listed(of_bob) and not reader & listed(of_bob)
    assert "ClusterAuthorizationException" in refused, refused

    writer = Producer(realm.librdkafka("bob", **{"transactional.id": name}))
    writer.init_transactions(SECONDS)
    writer.begin_transaction()
    writer.produce(name, b"by librdkafka")
    writer.commit_transaction(SECONDS)
    wrote, = together(lambda: realm.tool("bob", "console-producer", "--topic", name, stdin="by the tool\n"))
    assert "Exception" not in wrote, wrote
    read = realm.tool("ada", "console-consumer", "--topic", name, "--group", f"{name}-1", "--from-beginning", "--max-messages", 2, "--timeout-ms", 30_000)
    assert "by librdkafka" in read and "by the tool" in read and "Processed a total of 2 messages" in read, read

    together(lambda: acls("--remove", "--allow-principal", "User:bob", "--producer", "--topic", name, "--transactional-id", name, "--force"),
             lambda: acls("--remove", "--topic", name, "--allow-principal", "User:ada", "--operation", "Read", "--force"),
             lambda: acls("--remove", "--group", f"{name}-", "--resource-pattern-type", "prefixed", "--force"))
    left = {one for one in listed(acls("--list")) if name in one[1]}
    assert left == mine("TOPIC", "DESCRIBE", who="ada")


def test_words_of_tools_without_rights(realm, name):
    """Kafka's tools tell who may not what they tell against Kafka (pytest --target kafka), and nothing of what there is."""
    realm.topic(name)
    group = f"{name}-group"
    reader = Consumer({"bootstrap.servers": realm.inner, "group.id": group})
    reader.subscribe([name])
    wait_until(lambda: (reader.poll(0.1), reader.assignment())[1], "the topic")
    reader.close()
    topic, entity = ("--topic", name), ("--entity-type", "topics", "--entity-name", name)
    asked = {
        ("topics", "--list"): "",
        ("topics", "--describe", *topic): f"Topic '{name}' does not exist as expected",
        ("topics", "--create", "--topic", f"{name}-new"): "TopicAuthorizationException: Authorization failed.",
        ("configs", *entity, "--alter", "--add-config", "retention.ms=5"): "TopicAuthorizationException: Topic authorization failed.",
        ("configs", *entity, "--describe"): f"The topic '{name}' doesn't exist and doesn't have dynamic config.",
        ("configs", "--entity-type", "brokers", "--entity-name", 1, "--describe"): "ClusterAuthorizationException: Cluster authorization failed.",
        ("groups", "--list"): "",
        ("groups", "--describe", "--group", group): f"GroupAuthorizationException: FindCoordinator request for groupId `CoordinatorKey(idValue='{group}'",
        ("groups", "--delete", "--group", group): f"Group '{group}' could not be deleted due to: org.apache.kafka.common.errors.GroupAuthorizationException",
        ("console-producer", *topic): f"TopicAuthorizationException: Not authorized to access topics: [{name}]",
        ("console-consumer", *topic, "--group", group, "--timeout-ms", 5000): f"TopicAuthorizationException: Not authorized to access topics: [{name}]",
        ("acls", "--add", "--allow-principal", "User:eve", "--operation", "All", *topic): "ClusterAuthorizationException",
    }
    said = together(*(lambda one=one: realm.tool("eve", *one, stdin="x\n" if one[0] == "console-producer" else None) for one in asked))
    wrong = {one: answer for (one, wanted), answer in zip(asked.items(), said, strict=True)
             if (wanted not in answer if wanted else name in answer or "Exception" in answer)}
    assert not wrong, "\n".join(f"{one}:\n{answer}" for one, answer in wrong.items())
    realm.give(("eve", "TOPIC", name, "READ"), ("eve", "TOPIC", name, "DESCRIBE_CONFIGS"), ("eve", "GROUP", group, "DESCRIBE"))
    described, groups, written, read = together(
        lambda: realm.tool("eve", "topics", "--describe", *topic), lambda: realm.tool("eve", "groups", "--describe", "--group", group),
        lambda: realm.tool("eve", "console-producer", *topic, stdin="x\n"),
        lambda: realm.tool("eve", "console-consumer", *topic, "--group", group, "--timeout-ms", 5000))
    assert re.search(rf"Topic: {name}\s+TopicId: [\w-]{{22}}\s+PartitionCount: 1", described), described
    assert "Exception" not in groups and group in groups, groups
    # It wants to be idempotent, which asks for the right to write to any topic.
    assert "ClusterAuthorizationException: Cluster authorization failed." in written, written
    assert f"GroupAuthorizationException: Not authorized to access group: {group}" in read, read


def test_librdkafka_goes_on_when_the_right_comes(realm, name):
    realm.topic(name)
    producer, said = Producer(realm.librdkafka("ada")), []

    def send():
        said.clear()
        try:
            producer.produce(name, b"x", on_delivery=lambda error, _: said.append(error and error.code()))
        except KafkaException as error:
            # It remembers for a while what it was told.
            said.append(error.args[0].code())
        producer.flush(SECONDS)
        return said

    assert send() == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    realm.give(("ada", "TOPIC", name, "DESCRIBE"))
    wait_until(lambda: producer.list_topics(name, 10).topics[name].error is None, "the topic to be seen")
    assert send() == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    realm.give(("ada", "TOPIC", name, "WRITE"))
    wait_until(lambda: send() == [None], "the topic to be written", SECONDS)

    consumer, errors, got = Consumer(realm.librdkafka("bob", **{"group.id": name, "auto.offset.reset": "earliest"})), [], []
    consumer.subscribe([name])

    def polled(condition):
        try:
            message = consumer.poll(0.2)
        except KafkaException as error:
            errors.append(error.args[0].code())
        else:
            if message is not None:
                (errors if message.error() else got).append(message.error().code() if message.error() else message.value())
        return condition()

    wait_until(lambda: polled(lambda: KafkaError.GROUP_AUTHORIZATION_FAILED in errors), "no group", SECONDS)
    realm.give(("bob", "GROUP", name, "READ"))
    wait_until(lambda: polled(lambda: KafkaError.TOPIC_AUTHORIZATION_FAILED in errors), "no topic", SECONDS)
    realm.give(("bob", "TOPIC", name, "READ"))
    wait_until(lambda: polled(lambda: got), "the record", SECONDS)
    consumer.close()


def test_kafka_python_goes_on_when_the_right_comes(realm, name):
    realm.topic(name)
    realm.give(("ada", "TOPIC", name, "DESCRIBE"))
    # To an idempotent producer of kafka-python this is fatal.
    producer = KafkaProducer(**realm.python("ada", enable_idempotence=False))
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(name, b"x").get(SECONDS)
    realm.give(("ada", "TOPIC", name, "WRITE"))
    assert producer.send(name, b"x").get(SECONDS).offset == 0
    producer.close()
    realm.give(("bob", "TOPIC", name, "DESCRIBE"))
    consumer = KafkaConsumer(name, **realm.python("bob", group_id=name, auto_offset_reset="earliest", metadata_max_age_ms=500))

    def polled():
        # kafka-python loses its assignment if a poll ends while its SyncGroup is under way, so no poll may be short.
        return consumer.poll(SECONDS * 1000)

    with pytest.raises(GroupAuthorizationFailedError):
        polled()
    realm.give(("bob", "GROUP", name, "READ"))
    with pytest.raises(TopicAuthorizationFailedError):
        polled()
    realm.give(("bob", "TOPIC", name, "READ"))
    assert polled()
    consumer.close()


def outcome(realm, user, name):
    """What a producer of this user is told."""
    said = []
    producer = Producer(realm.librdkafka(user))
    producer.produce(name, b"x", on_delivery=lambda error, _: said.append(error and error.code()))
    producer.flush(SECONDS)
    return said[0]


def test_acls_survive_a_kill(make_broker, tmp_path, name):
    realm = Realm(make_broker(), tmp_path)
    realm.topic(name)
    realm.give(("ada", "TOPIC", name, "WRITE"), ("bob", "TOPIC", name, "WRITE"))
    realm.give(("bob", "TOPIC", name, "WRITE"), allow=False)
    realm.give(("eve", "TOPIC", name, "WRITE"))
    gone = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, "User:eve", None, AclOperation.ANY, AclPermissionType.ANY)
    (removed,) = [len(one.result(SECONDS)) for one in realm.admin.delete_acls([gone]).values()]
    before = realm.there()
    assert removed == 1 and len(before) == 3
    realm.broker.kill()
    realm.broker.start()
    assert realm.there() == before
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert [outcome(realm, user, name) for user in ("ada", "bob", "eve", "admin")] == [None, denied, denied, None]


def test_mode_log_lets_pass(make_broker, tmp_path, name, request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("authorizer.mode is ours")
    realm = Realm(make_broker(), tmp_path, **{"authorizer.mode": "log"})
    realm.topic(name)
    realm.give(("eve", "TOPIC", name, "ALL"), ("eve", "GROUP", name, "ALL"), allow=False)
    assert outcome(realm, "eve", name) is None
    consumer = Consumer(realm.librdkafka("eve", **{"group.id": name, "auto.offset.reset": "earliest"}))
    consumer.subscribe([name])
    assert wait_until(lambda: consumer.poll(0.2), "the record", SECONDS).error() is None
    consumer.close()
    # Who may change ACLs is no exception.
    eve = AdminClient(realm.librdkafka("eve"))
    assert len(eve.describe_acls(ANY_ACL).result(SECONDS)) == 2
    assert "would_deny" in realm.broker.log.read_text()
