"""franz-go's own tests of its client: those that talk to a broker, once as they are and once with dying connections.

They produce, consume, and chain groups and transactions (consume, transform, produce) with members that come and go,
with the classic protocol and with KIP-848, and check that every record arrives once and in order. Two of them log in, at a
listener of their own.
"""

import re
import subprocess

from clients.suites import fetch
from clients.suites.outcome import Outcome, of_go
from clients.suites.process import run
from peers.rights import MODULE, add_scram, listener

RECORDS = 100_000
# Seconds on two cores for every 100,000 records and what does not depend on them.
SECONDS = 900
MECHANISM, USER, PASSWORD = "SCRAM-SHA-256", "kgo", "kgo-secret"
# Its client has a dialer of its own, which franz-go refuses beside TLS; the test does not look, and all others end with it.
NOT_OVER_TLS = ["TestIssue769"]


def properties(broker):
    broker.login, settings = listener(broker, MECHANISM, MODULE.format("scram.Scram"))
    return settings


def logins(broker):
    """The variables of the tests that log in, after their user was made."""
    if broker.secured:
        # Its tests of logins speak no TLS, whatever the others do.
        return {"KGO_TEST_TLS": f"ca:{broker.secured.keys.ca}"}
    add_scram(broker, MECHANISM, USER, PASSWORD)
    return {"KGO_TEST_SCRAM": f"{USER}:{PASSWORD}:256", "KGO_TEST_SCRAM_SEEDS": f"127.0.0.1:{broker.login}"}


def against_a_broker(folder):
    """The tests that reach a function which connects to the broker: the others run in franz-go's own CI."""
    bodies = {}
    for source in folder.glob("*_test.go"):
        for part in re.split(r"^func ", source.read_text(), flags=re.MULTILINE)[1:]:
            named = re.match(r"(?:\([^)]*\) )?(\w+)", part)
            bodies[named[1]] = bodies.get(named[1], "") + part
    reaching, grown = {"getSeedBrokers", "scramSeeds"}, True
    while grown:
        calls = re.compile(r"\b(" + "|".join(reaching) + r")\b")
        found = {name for name, body in bodies.items() if calls.search(body)}
        grown, reaching = not found <= reaching, reaching | found
    return sorted(name for name in reaching if name.startswith("Test"))


def program(folder):
    binary = folder / "kgo.test"
    if not binary.exists():
        subprocess.run(["go", "test", "-c", "-o", binary, "."], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    return binary


def kgo(broker, log, short, suite=None, only=None, environment=None):
    suite = suite or ("kgo-secured" if broker.secured else "kgo")
    folder = fetch.go_module("github.com/twmb/franz-go") / "pkg/kgo"
    tests = [name for name in against_a_broker(folder) if only is None or re.search(only, name)]
    outcome = Outcome(suite)
    if broker.secured:
        for name in sorted(set(tests) & set(NOT_OVER_TLS)):
            tests.remove(name)
            outcome.say(name, "skip")
    records = RECORDS // 20 if short else RECORDS
    text = run(
        [program(folder), "-test.v", "-test.run", f"^({'|'.join(tests)})$", "-test.timeout", f"{SECONDS}s"],
        log, SECONDS + 30, cwd=folder,
        env={"KGO_SEEDS": broker.secured.tls if broker.secured else broker.address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(records), "KGO_LOG_LEVEL": "none",
             **(environment or logins(broker))})
    of_go(outcome, text)
    return outcome.judge(complete=only is None)


def chaos(broker, log, short):
    """The chains again, while every connection dies after a second or so."""
    return kgo(broker, log, short, "kgo-chaos", r"^Test(Group|Txn)E(TL|tl)$", {"KGO_TEST_CHAOS": "1"})
