"""Other people's suites against a running broker; ./test suites runs this.

    python -m clients.suites [--short] [--target kafka] LOGS [NAME ..]

Each suite gets a broker of its own with the settings that its authors give theirs. Prints what passed, what was left out
and why, and what failed; the last line counts.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from clients.suites import connect, java_tools, kafkapython, kgo, mirror, rdkafka, streams
from peers.broker import Forebay
from peers.kafka import Kafka

SUITES = {
    "kgo": (kgo.kgo, kgo.properties),
    "kgo-chaos": (kgo.chaos, None),
    "rdkafka": (rdkafka.rdkafka, rdkafka.properties),
    "kafka-python": (kafkapython.kafkapython, kafkapython.properties),
    "java-tools": (java_tools.java_tools, None),
    "streams": (streams.streams, None),
    "connect": (connect.connect, None),
    "mirror": (mirror.mirror, None),
}
TARGETS = {"forebay": Forebay, "kafka": Kafka}
# The suites are written for a broker with Kafka's defaults; these two only save time.
QUICK = {"offsets.topic.num.partitions": 5, "group.initial.rebalance.delay.ms": 0}


def suite(name, kind, logs, short):
    body, properties = SUITES[name]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as home:
        broker = TARGETS[kind](home=home)
        broker.properties = QUICK | (properties(broker) if properties else {})
        with broker:
            outcome = body(broker, logs / f"{name}.log", short)
            if kind == "forebay":
                outcome.failed += outcome.stale
            if not broker.alive():
                outcome.failed.append(f"(the broker died: {broker.process.tail(20)})")
            else:
                broker.stop()
    print(outcome.told(time.monotonic() - begun), flush=True)
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="NAME")
    parser.add_argument("--target", default="forebay", choices=TARGETS)
    parser.add_argument("--short", action="store_true", help="less of kgo, rdkafka and kafka-python")
    options = parser.parse_args()
    outcomes = [suite(name, options.target, options.logs.resolve(), options.short) for name in options.suites or SUITES]
    failed = sum(len(outcome.failed) for outcome in outcomes)
    print(f"{sum(len(outcome.passed) for outcome in outcomes)} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
