"""The same ACLs on Apache Kafka and on ours, and the same requests of clients with different rights.

Every field that differs must have its reason in differential/rights.toml, or in reasons.toml, whose script asks much of this without
any rights.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from clients.differential import compare, exchange, judge
from clients.differential.script import rights
from clients.differential.script.rights import given
from clients.test_differential import SETTINGS
from peers.broker import Forebay
from peers.kafka import Kafka
from peers.rights import guard

REASONS = judge.Reasons("rights.toml", also=["reasons.toml"])

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("differential-rights")]


@pytest.fixture(scope="module")
def recorders(request, make_broker):
    """Both brokers, having been asked everything."""
    if request.config.getoption("--target") != "forebay":
        pytest.skip("asks both brokers, whatever the target")
    brokers = [make_broker(kind, properties={**SETTINGS, "auto.create.topics.enable": "true"}) for kind in (Kafka, Forebay)]
    ports = [guard(one, given.USERS) for one in brokers]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: one.start(), brokers))
        kafka, forebay = pool.map(exchange.Recorder, brokers)
        kafka.agree(forebay)
        forebay.agree(kafka)
        list(pool.map(rights.run, (kafka, forebay), ports))
    yield kafka, forebay
    for one in brokers:
        one.end()


def test_every_difference_has_a_reason(recorders):
    """Of the words only those of refusals are compared."""
    kafka, forebay = recorders
    found = [*compare.differences(forebay, kafka), *compare.told(forebay, kafka, given.REFUSALS)]
    print(f"{len(kafka.answers)} answers of {len({one[0] for one in kafka.answers})} requests, {len(found)} fields differ")
    lines = REASONS.left(found)
    assert not lines, f"{len(lines)} differences without a reason\n" + "\n".join(lines)


def test_every_request_is_allowed_and_denied(recorders):
    """What the script asks, by Kafka's answers: in the first version of every request, in the last and in one between."""
    kafka, _ = recorders
    asked = {}
    for api, version, answers in judge.asked(kafka):
        asked.setdefault(api, []).append([set(exchange.codes(answer)) for _, answer in answers])
    never = []
    for api, versions in asked.items():
        between = [one for version in versions[1:-1] for one in version]
        for which, codes in {"first": versions[0], "last": versions[-1], **({"between": between} if between else {})}.items():
            missing = {"denied": not any(given.REFUSALS & one for one in codes),
                       "allowed": not any(0 in one or not given.REFUSALS & one for one in codes)}
            never += [f"{api}, {which}: {what}" for what in missing if missing[what] and api not in REASONS.said["never"][what]]
    assert not never, f"missing in differential/script/rights: {never}"
