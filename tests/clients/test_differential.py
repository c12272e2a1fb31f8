"""The same requests to Apache Kafka and to us; every field that differs must have its reason in differential/reasons.toml."""

import fnmatch
import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clients.differential import compare, exchange, schema, script
from peers.broker import Forebay
from peers.kafka import Kafka

REASONS = tomllib.loads((Path(__file__).parent / "differential/reasons.toml").read_text())
# The same for both; small logs of their own. Nothing happens by the clock: records with old times stay, members are patient,
# however slow the machine is.
SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1, "num.partitions": 1, "log.retention.ms": -1,
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


def explained(entry, api, what, version, path, theirs, ours):
    """Whether an entry is about this difference."""

    def fits(key, value):
        wanted = entry.get(key, ["*"])
        return any(fnmatch.fnmatchcase(str(value), one) for one in ([wanted] if isinstance(wanted, str) else wanted))

    return (fits("api", api) and fits("what", what) and fits("field", path) and version in entry.get("versions", [version])
            and entry.get("kafka", theirs) == theirs and entry.get("forebay", ours) == ours)


def test_every_difference_has_a_reason(recorders):
    kafka, forebay = recorders
    found = list(compare.differences(forebay, kafka))
    entries, used = REASONS["difference"], set()
    left = {}
    for one in found:
        fitting = [index for index, entry in enumerate(entries) if explained(entry, *one)]
        used.update(fitting[:1])
        if not fitting:
            api, what, version, path, theirs, ours = one
            left.setdefault((api, what, path, str(theirs), str(ours)), []).append(version)
    lines = [f"{api} {versions}, {what}: {path}: Kafka {theirs}, ours {ours}" for (api, what, path, theirs, ours), versions in left.items()]
    print(f"{len(kafka.answers)} answers of {len({one[0] for one in kafka.answers})} requests, {len(found)} fields differ")
    for index, entry in enumerate(entries):
        if index not in used:
            warnings.warn(f"nothing differs any more as reasons.toml says: {entry}", stacklevel=1)
    assert not lines, f"{len(lines)} differences without a reason\n" + "\n".join(lines)


def test_every_version_of_every_request_is_granted_something_and_refused_something(recorders):
    """What the script asks, by Kafka's answers: a version that is only ever refused shows little."""
    kafka, _ = recorders
    names = schema.keys()
    never = {}
    for key, (first, last) in kafka.versions.items():
        api = names[key]
        served = schema.message(f"{api}Request").versions
        for version in range(max(first, served.first), last + 1):
            said = [answer for (asked, _, in_version), answer in kafka.answers.items() if (asked, in_version) == (api, version)]
            refused = [answer == exchange.CLOSED or any(exchange.codes(answer)) for answer in said]
            for what, missing in (("granted", all(refused)), ("refused", not any(refused))):
                if missing and api not in REASONS["never"][what]:
                    never.setdefault(f"{api} never {what}", []).append(version)
    assert not never, f"missing in differential/script: {never}"


def test_what_is_served_is_what_kafka_serves(recorders):
    kafka, forebay = recorders
    names = schema.keys()
    theirs, ours = ({names[key]: list(versions) for key, versions in one.served.items()} for one in recorders)
    wrong = {name: ours.get(name, "not served") for name in theirs.keys() | ours.keys()
             if ours.get(name) != theirs.get(name) and ours.get(name, "not served") != REASONS["served"].get(name)}
    assert not wrong, "served in versions that are neither Kafka's nor those of reasons.toml"
