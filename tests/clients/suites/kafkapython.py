"""kafka-python's integration tests, from its source package.

The package leaves out one module of them, which starts brokers; the broker is there already, so that what stands in for
it here only carries an address.
"""

import sys
from pathlib import Path

from clients.suites import fetch
from clients.suites.outcome import Outcome, of_pytest, reasons
from clients.suites.process import run

HERE = Path(__file__).resolve().parent
SECONDS = 600


# What its own fixtures set on the brokers they start.
def properties(broker):
    if broker.name == "kafka":
        broker.node_id = 0
    return {"node.id": 0, "num.partitions": 4, "group.min.session.timeout.ms": 1000,
            "advertised.listeners": f"PLAINTEXT://{broker.address}"}


def kafkapython(broker, log, short):
    folder = fetch.source_package("kafka-python")
    (folder / "test/__init__.py").touch()
    (folder / "test/service.py").write_text((HERE / "kafkapython_service.py").read_text())
    outcome, report = Outcome("kafka-python"), log.with_suffix(".xml")
    tests = ["test/integration/test_producer_integration.py"] if short else ["test/integration"]
    report.unlink(missing_ok=True)
    text = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--timeout", "120",
         "--timeout-method", "signal", f"--junitxml={report}", *tests],
        log, SECONDS, cwd=folder,
        env={"KAFKA_URI": f"kafka://{broker.address}", "KAFKA_VERSION": "4.3.0", "KAFKA_ROOT": folder})
    if report.exists():
        of_pytest(outcome, report)
    else:
        outcome.failed.append(text[-500:])
    return outcome.judge(complete=not short)
