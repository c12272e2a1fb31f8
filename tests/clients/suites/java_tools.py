"""Kafka's verifiable producer and consumer and its transactional copier, longer than the tests of every change run them."""

import json

from clients.client import Client
from clients.suites.outcome import Outcome
from peers import kafka
from peers.process import wait_until

RECORDS = 50_000
COPIED = 20_000


def java_tools(broker, log, short):
    outcome = Outcome("java-tools")
    client = Client("librdkafka", broker.address)
    for name, body in {
        "verifiable producer and consumer, classic": lambda: verifiable(broker, client, log, "classic"),
        "verifiable producer and consumer, KIP-848": lambda: verifiable(broker, client, log, "consumer"),
        "transactional copier with aborts": lambda: copied(broker, client, log),
    }.items():
        try:
            body()
            outcome.say(name, "pass")
        except (AssertionError, TimeoutError) as error:
            outcome.say(f"{name}: {str(error)[:300]}", "fail")
    client.close()
    return outcome.judge()


def there(broker):
    """Arguments of a tool for a broker; the copier has none for logins, and uses the listener without."""
    if broker.secured:
        return ["--bootstrap-server", broker.secured.login, "--command-config", broker.secured.config()]
    return ["--bootstrap-server", broker.address]


def events(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


def verifiable(broker, client, log, protocol):
    """Two consumers share what the producer sent: each record is read by one of them, at the offset it was sent to."""
    topic = f"verifiable-{protocol}"
    client.create_topic(topic=topic, partitions=4, configs={})
    group = [kafka.spawn(
        "verifiable-consumer", *there(broker), "--topic", topic, "--group-id", topic, "--reset-policy",
        "earliest", "--verbose", "--group-protocol", protocol, log=log.with_name(f"{topic}-{i}.log")) for i in range(2)]
    for consumer in group:
        consumer.log.write_text("")
    try:
        output = kafka.run("verifiable-producer", *there(broker), "--topic", topic, "--max-messages",
                           RECORDS, "--acks", -1, seconds=300)
        sent = {e["value"]: (e["partition"], e["offset"]) for e in events(output) if e["name"] == "producer_send_success"}
        assert sorted(map(int, sent)) == list(range(RECORDS)), f"{len(sent)} were sent"

        def read():
            return [e for consumer in group for e in events(consumer.log.read_text()) if e["name"] == "record_data"]

        wait_until(lambda: len(read()) >= RECORDS, f"{RECORDS} records", 300, every=1)
        found = read()
        assert len(found) == RECORDS, f"{len(found)} were read"
        assert {e["value"]: (e["partition"], e["offset"]) for e in found} == sent
        for consumer in group:
            consumer.stop()
    finally:
        for consumer in group:
            consumer.kill()


def copied(broker, client, log):
    """Two copiers in one group, aborting at random: the copy holds every line once for those who read committed."""
    for topic in ("original", "copy"):
        client.create_topic(topic=topic, partitions=2, configs={})
    lines = [f"line {i}" for i in range(COPIED)]
    kafka.run("console-producer", *there(broker), "--topic", "original", stdin="\n".join(lines) + "\n")
    copiers = [kafka.spawn(
        "txn-copier", "--broker-list", broker.address, "--input-topic", "original", "--input-partition", partition,
        "--output-topic", "copy", "--max-messages", -1, "--transaction-size", 500, "--group-mode", "--consumer-group", "copiers",
        "--transactional-id", f"copier-{partition}", "--use-group-metadata", "--enable-random-aborts",
        log=log.with_name(f"copier-{partition}.log")) for partition in range(2)]
    try:
        found = []

        def all_there():
            found[:] = [value for p in range(2) for value in client.read_committed(topic="copy", partition=p)]
            return len(found) >= COPIED

        wait_until(all_there, "all copies", 240, every=2)
        for copier in copiers:
            copier.stop()
        all_there()
        assert sorted(found) == sorted(lines)
    finally:
        for copier in copiers:
            copier.kill()
