"""librdkafka's own tests, in the version that the crate `rdkafka` brings: those that its authors run as a smoke test, and those of
administration and of topics that a client makes, each in a process of its own."""

import json
import shlex
import subprocess

from clients.suites import fetch
from clients.suites.outcome import Outcome
from clients.suites.process import run
from peers import kafka
from peers.rights import AUTHORIZER

TESTS = ["0000", "0001", "0004", "0012", "0017", "0022", "0030", "0039", "0049", "0087", "0103", "0081", "0109"]
SECONDS = 400
VERDICTS = {"PASSED": "pass", "FAILED": "fail", "SKIPPED": "skip"}


def program():
    """Builds the library and its tests in the user's cache."""
    folder = fetch.crate("rdkafka-sys") / "librdkafka"
    tests = folder / "tests"
    if for_one_broker(tests / "0103-transactions.c") or not (tests / "test-runner").exists():
        log = folder / "build.log"
        with open(log, "w") as out:
            for command in (["./configure", "--disable-gssapi", "--disable-curl"], ["make", "-j2", "libs"], ["make", "-C", "tests", "-j2", "test-runner"]):
                done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False)
                if done.returncode != 0:
                    raise RuntimeError(f"{' '.join(command)} in {folder}: see {log}")
    return tests


def for_one_broker(source):
    """Three replicas become one; returns whether there was anything to change."""
    text = source.read_text()
    changed = text.replace(", 3, 5000)", ", 1, 5000)")
    if changed != text:
        source.write_text(changed)
    return changed != text


# Everybody may do everything with what has no ACLs; the tests' users are no super users, whom no ACL narrows.
RIGHTS = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true", "super.users": "User:other"}


def properties(broker):
    return {"auto.create.topics.enable": "true", "num.partitions": 4, **RIGHTS}


def distribution(folder):
    """What the tests take for Kafka's own folder: 0109 denies a topic with the tool of ACLs, where clients need no login."""
    script = folder / "bin/kafka-acls.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, kafka.java("acls")))} "$@"\n')
    script.chmod(0o755)
    return folder


def librdkafka(broker, log, short):
    tests = program()
    tools = distribution(broker.home / "distribution")
    settings = broker.secured.librdkafka() if broker.secured else {"bootstrap.servers": broker.address}
    conf = log.with_suffix(".conf")
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    outcome = Outcome("librdkafka-secured" if broker.secured else "librdkafka")
    for number in TESTS:
        report = log.with_name(f"{log.stem}-{number}.json")
        report.unlink(missing_ok=True)
        text = run([tests / "test-runner", "-p1", "-Q"], log.with_name(f"{log.stem}-{number}.log"), SECONDS, cwd=tests, env={
            "RDKAFKA_TEST_CONF": str(conf), "TESTS": number, "TEST_REPORT": str(report), "TEST_KAFKA_VERSION": "4.0.0", "KAFKA_PATH": str(tools),
            "LD_LIBRARY_PATH": f"{tests.parent / 'src'}:{tests.parent / 'src-cpp'}"})
        if not report.exists():
            outcome.failed.append(f"{number} ({text[-300:]})")
            continue
        for name, told in json.loads(report.read_text())["tests"].items():
            if name.startswith(number):
                outcome.say(name, VERDICTS.get(told["state"], "fail"))
    return outcome.judge()
