"""The integration tests of the `rdkafka` crate (librdkafka from Rust), in the version that Cargo.lock pins."""

import shutil

from clients.suites import fetch
from clients.suites.outcome import Outcome, of_cargo
from clients.suites.process import run
from peers.process import answers

SECONDS = 1800
# Expects that nobody takes records for a topic that nobody has made.
UNMADE = "test_base_producer_timeout"
# The crate's build asks for a C++ compiler for the half of librdkafka that it does not link.
BUILD = {"GNUMAKEFLAGS": "LIBSUBDIRS=src", "CXX": "true", "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_TEST_DEBUG": "0"}


def properties(broker):
    """What its docker-compose file sets. Some of the tests have the address `localhost` without a port."""
    broker.port = 9092
    # Else the tests would ask whoever listens there, and believe what it answers.
    assert not answers(broker.port), f"something else listens on port {broker.port}"
    if broker.name == "kafka":
        broker.node_id = 0
    return {"node.id": 0, "num.partitions": 3}


def rdkafka(broker, log, short):
    folder = fetch.crate("rdkafka")
    outcome = Outcome("rdkafka")

    def cargo(where, log, *which):
        text = run(["cargo", "test", "--no-fail-fast", *which], log, SECONDS, cwd=folder,
                   env={**BUILD, "KAFKA_HOST": where.address, "RUST_LOG": "off"})
        of_cargo(outcome, text)
        if "error: could not compile" in text:
            outcome.failed.append("(did not compile)")

    which = ["--test", "test_transactions"] if short else ["--tests"]
    cargo(broker, log, *which, "--", "--skip", UNMADE)
    if not short:
        home = log.parent / "rdkafka-unmade"
        shutil.rmtree(home, ignore_errors=True)
        with type(broker)(home=home, properties={"auto.create.topics.enable": "false"}) as strict:
            cargo(strict, log.with_name("rdkafka-unmade.log"), "--test", "test_low_producers", "--", UNMADE)
    return outcome.judge(complete=not short)
