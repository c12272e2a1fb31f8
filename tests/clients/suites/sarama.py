"""sarama at a listener of SASL_SSL, with each mechanism: records, transactions, a group, administration, a wrong password."""

from pathlib import Path

from clients.suites import fetch
from clients.suites.cases import described, of_program

FOLDER = Path(__file__).with_name("sarama")


def sarama(broker, log, short):
    return of_program("sarama", [fetch.go_program(FOLDER), described(broker)], log, 300)
