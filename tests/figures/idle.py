"""What a broker does while nothing is asked of it, and what groups cost that only poll.

    PYTHON tests/figures/idle.py BROKER [BROKER..]      binaries; with several, in turn
    --together            all at once instead, so that all meet the same machine at every moment; only processor time and switches
    --partitions 2181     of the idle broker, and of the one with groups
    --minutes 10          how long each is watched
    --groups 50           groups of one member that poll two topics; 0: none, only the idle broker
    --rounds 1            how often each binary has its turn

For each run one line: bytes that the process gave to disks and calls that wrote (from /proc/PID/io), files that changed, processor
time as a share of one processor, as the scheduler counts it and by ticks, how often its threads slept and were woken (voluntary
switches), fetches that it answered, and resident memory. Ticks are what top shows; they meet work that a timer begins far too often, or
never. On a busy machine the switches for each fetch say more than the time. Members are librdkafka consumers on its defaults, all in one
process. It takes the Python of the tests (tests/requirements.txt).
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer  # noqa: E402

from peers.process import Process, free_port, wait_until  # noqa: E402

# Topics of one partition each, which groups read; the rest of the partitions is one topic's.
TOPICS = 100


class Watched:
    """A broker in a directory of its own."""

    def __init__(self, binary, home, partitions):
        self.binary, self.home, self.address = binary, Path(home), f"127.0.0.1:{free_port()}"
        self.admin = f"127.0.0.1:{free_port()}"
        self.process = Process([binary, "serve", f"listeners=PLAINTEXT://{self.address}", f"log.dirs={self.home}/data",
                                f"admin.listener={self.admin}", "log.format=json"], self.home / "log")
        self.process.wait_for_port(int(self.address.rsplit(":", 1)[1]))
        wait_until(lambda: self.create("many", "-p", partitions - TOPICS), "the large topic", 60, every=0.5)
        wait_until(lambda: self.create(*(f"t{number}" for number in range(TOPICS)), "--if-not-exists"), "the small topics", 60, every=0.5)

    def create(self, *arguments):
        command = [self.binary, "topic", "create", *map(str, arguments), "--brokers", self.address]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def io(self):
        rows = (line.split(": ") for line in Path(f"/proc/{self.process.pid}/io").read_text().splitlines())
        return {name: int(value) for name, value in rows}

    def cpu(self):
        # What the scheduler counts.
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def ticks(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def switches(self):
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/status")
        lines = (line for thread in threads for line in thread.read_text().splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))

    def fetches(self):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        ours = (line for line in lines if line.startswith("kafka_network_requestmetrics_requests_total{") and 'request="Fetch"' in line)
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in ours)

    def resident(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def files(self):
        found = {}
        for path in (self.home / "data").rglob("*"):
            about = path.stat()
            found[path] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        return found


def members(address, count):
    """Consumers of a group each, with two topics each, that have their partitions."""
    made = []
    for number in range(count):
        consumer = Consumer({"bootstrap.servers": address, "group.id": f"g{number}", "auto.offset.reset": "earliest"})
        consumer.subscribe([f"t{number % TOPICS}", f"t{(number + 1) % TOPICS}"])
        made.append(consumer)
    deadline = time.monotonic() + 120
    while not all(consumer.assignment() for consumer in made):
        assert time.monotonic() < deadline, "not all members have partitions"
        poll(made)
    return made


def poll(made):
    for consumer in made:
        consumer.poll(0)
    time.sleep(0.1)


def watch(broker, made, seconds, what):
    """One line about what a broker did in that time."""
    files, fetches = broker.files(), broker.fetches()
    io, cpu, ticks, switches, begin = broker.io(), broker.cpu(), broker.ticks(), broker.switches(), time.monotonic()
    while time.monotonic() < begin + seconds:
        poll(made) if made else time.sleep(1)
    taken = time.monotonic() - begin
    after, switches = broker.io(), broker.switches() - switches
    cpu, ticks = (broker.cpu() - cpu) / taken, (broker.ticks() - ticks) / taken
    fetches = broker.fetches() - fetches
    changed = {path for path, row in broker.files().items() if files.get(path) != row}
    print(f"{broker.binary} {what}: {taken:.0f} s, {after['write_bytes'] - io['write_bytes']} bytes written, "
          f"{after['syscw'] - io['syscw']} calls that write, {len(changed)} files changed, {100 * cpu:.2f} % of a processor "
          f"({100 * ticks:.2f} % by ticks), "
          f"{switches / taken:.0f} switches a second" + (f", {switches / fetches:.2f} for each of {fetches} fetches" if fetches else "") +
          f", {broker.resident():.0f} MiB resident", flush=True)
    for path in sorted(changed)[:5]:
        print(f"  changed: {path.relative_to(broker.home)}", flush=True)


def settle(broker, made):
    """Waits until nothing changes for ten seconds: topics that were just made are still being noted. Some brokers never rest."""
    for _ in range(12):
        before, until = broker.files(), time.monotonic() + 10
        while time.monotonic() < until:
            poll(made) if made else time.sleep(1)
        if broker.files() == before:
            return
    print(f"{broker.binary}: files change all the time", flush=True)


def together(options):
    """One line about each of several brokers that are polled at once."""
    with contextlib.ExitStack() as stack:
        watched = []
        for binary in options.brokers:
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="forebay-idle-", dir=options.home))
            broker = Watched(binary, home, options.partitions)
            stack.callback(broker.process.kill)
            watched.append((broker, members(broker.address, options.groups)))

        def poll_all(seconds):
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                for _, made in watched:
                    poll(made)

        # Topics that were just made are still being noted.
        poll_all(60)
        fetches = [broker.fetches() for broker, _ in watched]
        before = [(broker.cpu(), broker.switches(), time.monotonic()) for broker, _ in watched]
        poll_all(60 * options.minutes)
        after = [(broker.cpu(), broker.switches(), time.monotonic()) for broker, _ in watched]
        for (broker, made), (cpu, switches, begin), (cpu_after, switches_after, end), fetched in zip(watched, before, after, fetches):
            fetched = broker.fetches() - fetched
            print(f"{broker.binary} {options.groups} groups beside others: {end - begin:.0f} s, "
                  f"{100 * (cpu_after - cpu) / (end - begin):.2f} % of a processor, "
                  f"{(switches_after - switches) / fetched:.2f} switches for each of {fetched} fetches", flush=True)
            for consumer in made:
                consumer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers", nargs="+")
    parser.add_argument("--partitions", type=int, default=2181)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--home", help="where the directories are made (default: the system's for temporary files)")
    options = parser.parse_args()
    if options.together:
        together(options)
        return
    for _ in range(options.rounds):
        for binary in options.brokers:
            with tempfile.TemporaryDirectory(prefix="forebay-idle-", dir=options.home) as home:
                broker = Watched(binary, home, options.partitions)
                try:
                    made = members(broker.address, options.groups)
                    settle(broker, made)
                    watch(broker, made, 60 * options.minutes, f"{options.groups} groups" if made else "idle")
                    for consumer in made:
                        consumer.close()
                finally:
                    broker.process.kill()


if __name__ == "__main__":
    main()
