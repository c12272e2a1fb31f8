"""kafka-python's integration tests, from its source package.

The package leaves out one module of them, which starts brokers. What stands in for it here carries the address of the broker
that is there already; and for the tests that log in or speak TLS, each of which wants a broker of its own, it starts one. With
--secured all the others log in over TLS, too (kafkapython_plugin.py).
"""

import json
import sys
from pathlib import Path

from clients.suites import fetch
from clients.suites.outcome import Outcome, of_pytest
from clients.suites.process import run
from peers.rights import AUTHORIZER

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1]
SECONDS = 600
# Each of these wants brokers of its own.
LOGINS = [f"test/integration/test_{kind}_integration.py" for kind in ("sasl", "ssl")]

# What its fixtures fill in, which run Kafka's scripts with it; the stand-in reads these instead.
TEMPLATES = {
    "kafka.properties": "port={port}\ntransport={transport}\nmechanism={sasl_mechanism}\nuser=alice\npassword=alice-secret\n"
                        "jaas={jaas_config}\n{ssl_config}",
    "kafka_server_jaas.conf": "none",
    "sasl_command.conf": "security.protocol={transport}\nsasl.mechanism={sasl_mechanism}\nsasl.jaas.config={jaas_config}",
}
SCRIPTS = {
    "kafka-storage.sh": "exit 0",
    "kafka-topics.sh": f'exec "{sys.executable}" "{TESTS}/peers/kafka.py" topics "$@"',
}


# What its own fixtures set on the brokers they start.
def properties(broker):
    if broker.name == "kafka":
        broker.node_id = 0
    return {"node.id": 0, "num.partitions": 4, "group.min.session.timeout.ms": 1000,
            "advertised.listeners": f"PLAINTEXT://{broker.address}",
            "authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


def stand_in(folder):
    """What is in the place of an installed Kafka and of the templates for it."""
    for name, text in TEMPLATES.items():
        place = folder / "servers/4.3.0/resources" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for name, text in SCRIPTS.items():
        place = folder / "bin" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{text}\n")
        place.chmod(0o755)
    return folder


def kafkapython(broker, log, short):
    folder = fetch.source_package("kafka-python")
    (folder / "test/__init__.py").touch()
    (folder / "test/service.py").write_text((HERE / "kafkapython_service.py").read_text())
    secured = broker.secured
    outcome = Outcome("kafka-python-secured" if secured else "kafka-python")
    kind = {"BROKER_KIND": broker.name}
    given = {**kind, "KAFKA_URI": f"kafka://{secured.login if secured else broker.address}", "KAFKA_ROOT": folder}
    plugin = ["-p", "clients.suites.kafkapython_plugin"] if secured else []
    if secured:
        given["SUITE_LOGIN"] = json.dumps(secured.kafka_python())
    if short:
        pytest(outcome, folder, log, given, *plugin, "test/integration/test_producer_integration.py")
        return outcome.judge(complete=False)
    pytest(outcome, folder, log, given, *plugin, "test/integration", *(f"--ignore={file}" for file in LOGINS))
    if not secured:
        place = stand_in(folder / "stand-in")
        pytest(outcome, folder, log.with_stem("kafka-python-logins"), {**kind, "KAFKA_ROOT": place, "PROJECT_ROOT": place}, *LOGINS)
    return outcome.judge()


def pytest(outcome, folder, log, given, *tests):
    """Runs some of them and counts them."""
    report = log.with_suffix(".xml")
    report.unlink(missing_ok=True)
    text = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--timeout", "120",
         "--timeout-method", "signal", f"--junitxml={report}", *tests],
        log, SECONDS, cwd=folder,
        env={"KAFKA_VERSION": "4.3.0", "PYTHONPATH": TESTS, **given})
    if report.exists():
        of_pytest(outcome, report)
    else:
        outcome.failed.append(text[-500:])
