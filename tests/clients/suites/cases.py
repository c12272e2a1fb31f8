"""Suites of ours around clients and tools that have none of their own for a broker that is there already.

A program runs the cases and prints a line of JSON for each: name, whether it passed, and what it saw.
"""

import json

from clients.suites.outcome import Outcome
from clients.suites.process import run


def of_program(suite, command, log, seconds):
    outcome = Outcome(suite)
    text = run(command, log, seconds)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"case"')]
    for line in lines:
        told = line["case"] if line["passed"] else f"{line['case']}: {line['saw'][:300]}"
        outcome.say(told, "pass" if line["passed"] else "fail")
    if '{"ended": true}' not in text:
        outcome.failed.append(f"(the program died: {text[-500:]})")
    return outcome.judge()


def described(broker):
    """What a program has to know of a secured broker."""
    door = broker.secured
    return json.dumps({
        "tls": door.tls, "mutual": door.mutual, "login": door.login, "ca": str(door.keys.ca), "ca_key": str(door.keys.home / "ca.key"),
        "key": str(door.keys.home / "server.key"), "pem": str(door.pem), "pid": broker.process.pid, "kind": broker.name,
        **json.loads(door.driver()["DRIVER_SECURITY"])})
