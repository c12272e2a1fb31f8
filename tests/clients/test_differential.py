"""The same requests to Apache Kafka and to us; every field that differs must have its reason in differential/reasons.toml."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from clients.differential import compare, exchange, judge, schema, script
from peers.broker import Forebay
from peers.kafka import Kafka

REASONS = judge.Reasons("reasons.toml")
# The same for both; small logs of their own. Nothing happens by the clock: records with old times stay, members are patient,
# however slow the machine is.
SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1, "num.partitions": 1, "log.retention.ms": -1,
            "log.initial.task.delay.ms": 3_600_000, "log.retention.check.interval.ms": 3_600_000,
            "group.consumer.min.session.timeout.ms": 45_000, "group.consumer.session.timeout.ms": 600_000,
            "group.consumer.max.session.timeout.ms": 600_000,
            "group.consumer.min.heartbeat.interval.ms": 5000, "group.consumer.heartbeat.interval.ms": 5000}


pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("differential")]


@pytest.fixture(scope="module")
def recorders(request, make_broker):
    """Both brokers, having been asked everything."""
    if request.config.getoption("--target") != "forebay":
        pytest.skip("asks both brokers, whatever the target")
    brokers = [make_broker(kind, properties=SETTINGS) for kind in (Kafka, Forebay)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: one.start(), brokers))
        kafka, forebay = pool.map(exchange.Recorder, brokers)
        kafka.agree(forebay)
        forebay.agree(kafka)
        list(pool.map(script.run, (kafka, forebay)))
    yield kafka, forebay
    for one in brokers:
        one.end()


def test_every_difference_has_a_reason(recorders):
    kafka, forebay = recorders
    found = list(compare.differences(forebay, kafka))
    print(f"{len(kafka.answers)} answers of {len({one[0] for one in kafka.answers})} requests, {len(found)} fields differ")
    lines = REASONS.left(found)
    assert not lines, f"{len(lines)} differences without a reason\n" + "\n".join(lines)


def test_every_version_of_every_request_is_granted_something_and_refused_something(recorders):
    """What the script asks, by Kafka's answers: a version that is only ever refused shows little."""
    kafka, _ = recorders
    never = {}
    for api, version, answers in judge.asked(kafka):
        refused = [answer == exchange.CLOSED or any(exchange.codes(answer)) for _, answer in answers]
        for what, missing in (("granted", all(refused)), ("refused", not any(refused))):
            if missing and api not in REASONS.said["never"][what]:
                never.setdefault(f"{api} never {what}", []).append(version)
    assert not never, f"missing in differential/script: {never}"


def test_what_is_served_is_what_kafka_serves(recorders):
    kafka, forebay = recorders
    names = schema.keys()
    theirs, ours = ({names[key]: list(versions) for key, versions in one.served.items()} for one in recorders)
    wrong = {name: ours.get(name, "not served") for name in theirs.keys() | ours.keys()
             if ours.get(name) != theirs.get(name) and ours.get(name, "not served") != REASONS.said["served"].get(name)}
    assert not wrong, "served in versions that are neither Kafka's nor those of reasons.toml"
