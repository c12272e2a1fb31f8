"""sslyze and tlslite-ng at the listeners of TLS: what they offer by default, handshakes as no client of Kafka makes them, client
certificates of every bad kind, resumption over a change of the certificate.
"""

import shutil
from pathlib import Path

from clients.suites import fetch
from clients.suites.cases import described, of_program

PROGRAM = Path(__file__).with_name("tlsscan_cases.py")


def properties(broker):
    """Looks at the certificate often, for the case that changes it; Kafka has no such setting."""
    return {"ssl.reload.interval.ms": 200} if broker.name == "forebay" else {}


def tlsscan(broker, log, short):
    shutil.rmtree(work := log.parent / "tlsscan-work", ignore_errors=True)
    work.mkdir(parents=True)
    return of_program("tlsscan", [fetch.python(), PROGRAM, described(broker), work], log, 600)
