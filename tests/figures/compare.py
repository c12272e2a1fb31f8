"""Forebay beside Apache Kafka on the same disk, in one run: throughput, CPU-seconds of the broker, start, memory.

    python3 tests/figures/compare.py [--rounds 3] [--gib 4] [--load java|librdkafka] [--only NAME] [--dir DIR]

Both brokers run at the same time and idle in turn: every measurement is taken on one and at once on the other, and the
ratio is that of the pair. Both are warmed up before (JIT, memory, page cache). Forebay syncs before it acknowledges,
Kafka (as shipped) does not. Prints a table of medians with the lowest and highest round.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import kafka  # noqa: E402
from peers.broker import Forebay  # noqa: E402
from peers.process import answers, wait_until  # noqa: E402

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no VmRSS for {pid}")


def produce_java(broker, topic, record_bytes, total_bytes):
    batch = max(1 << 20, record_bytes + 1024)
    output = kafka.run(
        "producer-perf", "--topic", topic, "--num-records", total_bytes // record_bytes, "--record-size", record_bytes,
        "--throughput", -1, "--producer-props", f"bootstrap.servers={broker.address}", "acks=all",
        f"batch.size={batch}", "linger.ms=5", "max.request.size=33554432", "buffer.memory=134217728",
        "compression.type=none", heap="-Xmx1g -Xms1g", short_lived=False, seconds=600)
    last = output.strip().splitlines()[-1]
    rate = float(re.search(r"\(([\d.]+) MB/sec\)", last).group(1)) * 1048576
    p99 = float(re.search(r"([\d.]+) ms 99th", last).group(1))
    return rate, {"p99 ms": p99}


def produce_librdkafka(broker, topic, record_bytes, total_bytes):
    command = [sys.executable, HERE / "produce_librdkafka.py", broker.address, topic, "4", record_bytes, total_bytes,
               "linger.ms=5", "batch.size=1000000"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    result = json.loads(done.stdout)
    return result["bytes"] / result["seconds"], {}


def consume_java(broker, topic, record_bytes, total_bytes):
    output = kafka.run(
        "consumer-perf", "--bootstrap-server", broker.address, "--topic", topic,
        "--messages", total_bytes // record_bytes, "--fetch-size", 8 << 20, "--timeout", 60000,
        heap="-Xmx1g -Xms1g", short_lived=False, seconds=600)
    row = [field.strip() for field in output.strip().splitlines()[-1].split(",")]
    return float(row[8]) * 1048576, {}


def measured(broker, work, topic, record_bytes, total_bytes):
    before = cpu_seconds(broker.process.pid)
    rate, more = work(broker, topic, record_bytes, total_bytes)
    cpu = (cpu_seconds(broker.process.pid) - before) / (total_bytes / 1e9)
    return {"GB/s": rate / 1e9, "broker CPU-s/GB": cpu, **more}


def started(broker):
    """Seconds from the process's start to its first answer; its directory is formatted before."""
    broker.prepare()
    begun = time.monotonic()
    broker.spawn()
    wait_until(lambda: answers(broker.port) and broker.serves(), "the first answer", every=0.002)
    return time.monotonic() - begun


def latency(ours, theirs, rounds):
    """100 MB/s of 1 KB records for ten seconds, paced by the producer: p99 from its own report."""
    found = {ours: [], theirs: []}
    for broker in (ours, theirs):
        kafka.run("topics", "--bootstrap-server", broker.address, "--create", "--topic", "paced", "--partitions", 4)
    for index in range(rounds + 1):
        for broker in (ours, theirs) if index % 2 == 0 else (theirs, ours):
            output = kafka.run(
                "producer-perf", "--topic", "paced", "--num-records", 1_000_000, "--record-size", 1000,
                "--throughput", 100_000, "--producer-props", f"bootstrap.servers={broker.address}", "acks=all",
                "batch.size=65536", "linger.ms=1", heap="-Xmx1g -Xms1g", short_lived=False, seconds=600)
            last = output.strip().splitlines()[-1]
            rate = float(re.search(r"\(([\d.]+) MB/sec\)", last).group(1))
            p50, p99 = (float(re.search(rf"([\d.]+) ms {name}", last).group(1)) for name in ("50th", "99th"))
            # The first round warms both up.
            if index > 0:
                found[broker].append({"MB/s reached": rate, "p50 ms": p50, "p99 ms": p99})
    row("1 KB at 100 MB/s, acks=all", found[ours], found[theirs])


def row(name, ours, theirs):
    for key in ours[0]:
        a, b = [r[key] for r in ours], [r[key] for r in theirs]
        ratios = [x / y for x, y in zip(a, b) if y]
        print(f"| {name} | {key} | {spread(a)} | {spread(b)} | {spread(ratios)} |", flush=True)


def spread(values):
    if not values:
        return "-"
    return f"{statistics.median(values):.3g} ({min(values):.3g}..{max(values):.3g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--load", choices=["java", "librdkafka"], default="librdkafka")
    parser.add_argument("--only", default="")
    parser.add_argument("--dir", default=None, help="where both put their data (default: a temporary directory)")
    parser.add_argument("--set", action="append", default=[], help="property of ours, key=value")
    options = parser.parse_args()
    # Ended from outside, it still removes what it wrote.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    home = Path(tempfile.mkdtemp(prefix="figures-", dir=options.dir))
    retention = {"log.retention.bytes": 2 << 30, "log.retention.check.interval.ms": 5000, "log.segment.bytes": 1 << 29}
    ours_more = dict(pair.split("=", 1) for pair in options.set)
    ours = Forebay(home=home / "ours", properties={**retention, **ours_more})
    theirs = kafka.Kafka(home=home / "theirs", properties={**retention, "log.segment.delete.delay.ms": 1000})
    produce = produce_java if options.load == "java" else produce_librdkafka
    try:
        starts = [started(broker) for broker in (ours, theirs)]
        print("| what | unit | Forebay | Apache Kafka | ratio |\n|---|---|---|---|---|")
        print(f"| start to first answer | s | {starts[0]:.3f} | {starts[1]:.3f} | {starts[0] / starts[1]:.3g} |")
        rss = [resident_mib(broker.process.pid) for broker in (ours, theirs)]
        print(f"| idle memory | MiB | {rss[0]:.0f} | {rss[1]:.0f} | {rss[0] / rss[1]:.3g} |", flush=True)
        total = int(options.gib * (1 << 30))
        for label, record in (("240 KB", 240_000), ("1 KB", 1_000)):
            if options.only and options.only not in label:
                continue
            topic = f"t{record}"
            for broker in (ours, theirs):
                kafka.run("topics", "--bootstrap-server", broker.address, "--create", "--topic", topic,
                          "--partitions", 4, "--config", "max.message.bytes=33554432")
                for _ in range(2):
                    produce(broker, topic, record, total // 2)
            produced, consumed = {ours: [], theirs: []}, {ours: [], theirs: []}
            for index in range(options.rounds):
                order = (ours, theirs) if index % 2 == 0 else (theirs, ours)
                for broker in order:
                    produced[broker].append(measured(broker, produce, topic, record, total))
                for broker in order:
                    consumed[broker].append(measured(broker, consume_java, topic, record, total // 2))
            row(f"produce {label}, acks=all", produced[ours], produced[theirs])
            row(f"consume {label}", consumed[ours], consumed[theirs])
        if not options.only or options.only in "latency":
            latency(ours, theirs, options.rounds)
        rss = [resident_mib(broker.process.pid) for broker in (ours, theirs)]
        print(f"| memory after the load | MiB | {rss[0]:.0f} | {rss[1]:.0f} | {rss[0] / rss[1]:.3g} |")
    finally:
        for broker in (ours, theirs):
            broker.end()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
