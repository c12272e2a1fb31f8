"""Other people's suites against a running broker; ./test suites runs this.

    python -m clients.suites [--short] [--secured] [--target kafka] LOGS [NAME ..]

Each suite gets a broker of its own with the settings that its authors give theirs; with --secured, those that can do so
use listeners of TLS and SASL_SSL of it. Prints what passed, what was left out
and why, and what failed; the last line counts.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from clients.suites import aiokafka_suite, connect, java_tools, kafkapython, kgo, librdkafka, mirror, rdkafka, sarama, streams, tlsscan
from peers.broker import Forebay
from peers.kafka import Kafka
from peers.secured import Secured

SUITES = {
    "kgo": (kgo.kgo, kgo.properties),
    "kgo-chaos": (kgo.chaos, None),
    "rdkafka": (rdkafka.rdkafka, rdkafka.properties),
    "librdkafka": (librdkafka.librdkafka, librdkafka.properties),
    "kafka-python": (kafkapython.kafkapython, kafkapython.properties),
    "java-tools": (java_tools.java_tools, None),
    "streams": (streams.streams, None),
    "connect": (connect.connect, None),
    "mirror": (mirror.mirror, None),
    "aiokafka": (aiokafka_suite.aiokafka, None),
    "sarama": (sarama.sarama, None),
    "tlsscan": (tlsscan.tlsscan, tlsscan.properties),
}
# Those that only speak to listeners of TLS, and those that can.
ONLY_SECURED = ["aiokafka", "sarama", "tlsscan"]
SECURED = ["kgo", "librdkafka", "kafka-python", "java-tools", "streams", "connect", "mirror", *ONLY_SECURED]
# What replaces the settings of the listeners: the tests change the rights of their user, who is no super user then.
SECURED_PROPERTIES = {"librdkafka": librdkafka.RIGHTS}
TARGETS = {"forebay": Forebay, "kafka": Kafka}
# The suites are written for a broker with Kafka's defaults; these two only save time.
QUICK = {"offsets.topic.num.partitions": 5, "group.initial.rebalance.delay.ms": 0}


def suite(name, kind, logs, short, secured):
    body, properties = SUITES[name]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as home:
        broker = TARGETS[kind](home=home)
        broker.properties = QUICK | (properties(broker) if properties else {})
        if secured:
            Secured(broker, Path(home) / "keys", **SECURED_PROPERTIES.get(name, {}))
        with broker:
            if secured:
                broker.secured.open()
            outcome = body(broker, logs / f"{name}{'-secured' if secured else ''}.log", short)
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
    parser.add_argument("--secured", action="store_true", help="over TLS and SASL_SSL")
    parser.add_argument("--short", action="store_true", help="less of kgo, rdkafka and kafka-python")
    options = parser.parse_args()
    names = options.suites or (SECURED if options.secured else [name for name in SUITES if name not in ONLY_SECURED])
    if options.secured and (unable := set(names) - set(SECURED)):
        parser.error(f"not over TLS: {', '.join(sorted(unable))}")
    outcomes = [suite(name, options.target, options.logs.resolve(), options.short, options.secured or name in ONLY_SECURED)
                for name in names]
    failed = sum(len(outcome.failed) for outcome in outcomes)
    print(f"{sum(len(outcome.passed) for outcome in outcomes)} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
