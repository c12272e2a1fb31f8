"""How soon a broker answers after `kill -9`, with much in the ring of its journal and many gigabytes in its logs.

    PYTHON tests/figures/full_ring.py BROKER
    --gigabytes 30        in the logs, in batches of 1 MB, before the small writes begin
    --ring 536870912      bytes of each ring, of which there is one for each shard
    --unlanded 67108864   bytes of each that may be in it and not in the segments
    --shards 2            of the broker
    --rate 60MB           of the small writes: single records of 1 KB over 1,000 partitions
    --rounds 3            kills

A round writes until the bytes that are only in the rings grow no more, kills, starts, and asks for metadata without a pause until an answer
lists the broker. For each round: bytes that were only in the rings a moment before the kill, time to the first answer, what the first lines
of `forebay journal show` say, and what the check of all acknowledged records says. Data goes below --home. It takes the Python of the tests
(tests/requirements.txt).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.broker import Forebay, forebay_binary  # noqa: E402
from peers.process import free_port  # noqa: E402

SMALL, LARGE, PARTITIONS = "small", "large", 1000
MIB = 1 << 20


class Journaled(Forebay):
    """A broker with a journal."""

    def __init__(self, home, options):
        self.admin = f"127.0.0.1:{free_port()}"
        super().__init__(home, {"admin.listener": self.admin, "num.shards": options.shards, "journal.bytes": options.ring,
                                "journal.unlanded.bytes.max": options.unlanded, "log.retention.ms": -1})

    def run(self, *arguments):
        done = subprocess.run([forebay_binary(), *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def unlanded(self):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if line.startswith("forebay_storage_journal_unlanded_bytes")]
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in found)

    def load(self, *arguments):
        return [str(forebay_binary()), "bench", "load", "--bootstrap", self.address, *map(str, arguments)]


def fill(broker, gigabytes):
    """Writes that many gigabytes into logs that stay."""
    large = ["--topic", LARGE, "--topics", 1, "--partitions", 4]
    broker.run("topic", "create", f"{LARGE}-0", "-p", 4, "--brokers", broker.address)
    written = broker.load(*large, "--existing", "--record", "240KB", "--batch", "1MB", "--bytes", f"{gigabytes}GB", "--seconds", 3600)
    subprocess.run(written, capture_output=True, check=True)


def kill_when_full(broker, ledger, rate):
    """Writes small records, kills the broker when the ring has all it can, and returns what only the ring has then."""
    command = broker.load("--topic", SMALL, "--partitions", PARTITIONS, "--ledger", ledger, "--keys", "random:1000000", "--batch", "64KB",
                          "--producers", 8, "--linger", 5, "--rate", rate, "--seconds", 3600)
    writer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = []
    try:
        deadline = time.monotonic() + 60
        # Landing begins at the half: 25 looks show where it goes up and down, then the next high is waited for.
        while time.monotonic() < deadline and (len(seen) < 25 or seen[-1] < 0.9 * max(seen)):
            time.sleep(0.2)
            if (now := broker.unlanded()) or seen:
                seen.append(now)
        last = broker.unlanded()
        assert last, "nothing went through the ring"
        broker.kill()
    finally:
        writer.terminate()
        writer.wait(60)
    return last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker")
    parser.add_argument("--gigabytes", type=int, default=30)
    parser.add_argument("--ring", type=int, default=512 << 20)
    parser.add_argument("--unlanded", type=int, default=64 << 20)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--rate", default="60MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--home")
    options = parser.parse_args()
    os.environ["TEST_BROKER"] = str(Path(options.broker).resolve())
    with tempfile.TemporaryDirectory(prefix="full-ring-", dir=options.home) as home:
        broker = Journaled(home, options)
        with broker:
            fill(broker, options.gigabytes)
            for number in range(options.rounds):
                ledger = f"{home}/ledger-{number}"
                only_there = kill_when_full(broker, ledger, options.rate)
                ring = broker.run("journal", "show", broker.data).splitlines()[:8]
                begun = time.monotonic()
                broker.start()
                seconds = time.monotonic() - begun
                checked = broker.run("bench", "check", "--bootstrap", broker.address, ledger)
                print(f"{only_there / MIB:.0f} MiB only in the ring; {seconds:.2f} s to the first answer", flush=True)
                for line in [*ring, *checked.splitlines()]:
                    print(f"  {line}", flush=True)
                broker.run("topic", "delete", f"{SMALL}-0", "--brokers", broker.address)


if __name__ == "__main__":
    main()
