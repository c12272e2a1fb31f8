"""The same members of both protocols on Apache Kafka and on ours, with group.consumer.migration.policy=disabled.

Every field that differs must have its reason in differential/reasons.toml.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from clients.differential import compare, exchange, judge
from clients.differential.script import migration
from clients.test_differential import SETTINGS
from peers.broker import Forebay
from peers.kafka import Kafka

REASONS = judge.Reasons("migration.toml", also=["reasons.toml"])

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("differential-migration")]


def test_every_difference_has_a_reason(request, make_broker):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("asks both brokers, whatever the target")
    settings = {**SETTINGS, "group.consumer.migration.policy": "disabled"}
    brokers = [make_broker(kind, properties=settings) for kind in (Kafka, Forebay)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: one.start(), brokers))
        kafka, forebay = pool.map(exchange.Recorder, brokers)
        kafka.agree(forebay)
        forebay.agree(kafka)
        list(pool.map(migration.ask, (kafka, forebay)))
    for one in (kafka, forebay):
        one.close()
    found = list(compare.differences(forebay, kafka))
    print(f"{len(kafka.answers)} answers of {len({one[0] for one in kafka.answers})} requests, {len(found)} fields differ")
    lines = REASONS.left(found)
    for one in brokers:
        one.end()
    assert not lines, f"{len(lines)} differences without a reason\n" + "\n".join(lines)
