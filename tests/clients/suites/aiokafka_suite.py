"""aiokafka at a listener of SASL_SSL, with each mechanism: records, transactions, groups, and a password that is wrong."""

from pathlib import Path

from clients.suites import fetch
from clients.suites.cases import described, of_program

PROGRAM = Path(__file__).with_name("aiokafka_cases.py")


def aiokafka(broker, log, short):
    return of_program("aiokafka", [fetch.python(), PROGRAM, described(broker)], log, 300)
