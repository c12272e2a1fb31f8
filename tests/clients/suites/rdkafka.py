"""The integration tests of the `rdkafka` crate (librdkafka from Rust), in the version that Cargo.lock pins."""

from clients.suites import fetch
from clients.suites.outcome import Outcome, of_cargo
from clients.suites.process import run

SECONDS = 1800
# The crate's build asks for a C++ compiler for the half of librdkafka that it does not link.
BUILD = {"GNUMAKEFLAGS": "LIBSUBDIRS=src", "CXX": "true", "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_TEST_DEBUG": "0"}


def properties(broker):
    """What its docker-compose file sets. Some of the tests have the address `localhost` without a port."""
    broker.port = 9092
    if broker.name == "kafka":
        broker.node_id = 0
    return {"node.id": 0, "num.partitions": 3}


def rdkafka(broker, log, short):
    folder = fetch.crate("rdkafka")
    outcome = Outcome("rdkafka")
    which = ["--test", "test_transactions"] if short else ["--tests"]
    text = run(["cargo", "test", "--no-fail-fast", *which], log, SECONDS, cwd=folder,
               env={**BUILD, "KAFKA_HOST": broker.address, "RUST_LOG": "off"})
    of_cargo(outcome, text)
    if "error: could not compile" in text:
        outcome.failed.append("(did not compile)")
    return outcome.judge(complete=not short)
