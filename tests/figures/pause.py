"""For how long `forebay backup` stops a broker, by the number of its logs, while records are written to all of them.

    PYTHON tests/figures/pause.py BROKER
    --partitions 100,2181,10000   of the brokers, one after the other
    --rounds 5                    backups of each
    --rate 2000                   records of 1,000 bytes each second, to partitions at random

For each broker one line: the pauses that the command printed, in milliseconds, and the longest time between two acknowledgements that a
producer saw meanwhile. The command holds all files of the directories open: where that is allowed, this raises the limit of open files
for it. It takes the Python of the tests (tests/requirements.txt).
"""

import argparse
import contextlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Producer  # noqa: E402
from figures.idle import TOPICS, Watched  # noqa: E402

RECORD = bytes(1000)
FILES_MAX = 1 << 20


class Load:
    """Records at a rate, to all partitions; running from its making on."""

    def __init__(self, address, partitions, rate):
        self.partitions, self.rate = partitions, rate
        self.producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": "all", "log_level": 0})
        self.acknowledged = [time.monotonic()]
        self.failed = None
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _told(self, error, _):
        self.failed = self.failed or error
        self.acknowledged.append(time.monotonic())

    def _run(self):
        begin, sent = time.monotonic(), 0
        while not self.ending.is_set():
            while sent < (time.monotonic() - begin) * self.rate:
                self.producer.produce("many", RECORD, partition=random.randrange(self.partitions), on_delivery=self._told)
                sent += 1
            self.producer.poll(0.001)
        self.producer.flush(60)

    def longest_gap(self, begin):
        """The longest time without an acknowledgement since then, in milliseconds."""
        times = [at for at in list(self.acknowledged) if at >= begin]
        return max((later - at) * 1000 for at, later in zip(times, times[1:], strict=False))

    def end(self):
        self.ending.set()
        self.thread.join()
        assert not self.failed, self.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker")
    parser.add_argument("--partitions", default="100,2181,10000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=2000)
    options = parser.parse_args()
    binary = Path(options.broker).resolve()
    # Root of a container may not.
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    for partitions in map(int, options.partitions.split(",")):
        with tempfile.TemporaryDirectory(prefix="pause-") as home:
            broker = Watched(binary, home, partitions + TOPICS)
            try:
                load = Load(broker.address, partitions, options.rate)
                time.sleep(10)  # most logs have records
                pauses, begin = [], time.monotonic()
                for _ in range(options.rounds):
                    done = subprocess.run([binary, "backup", f"{home}/data", f"{home}/copy", "--pause-max", "5000"],
                                          capture_output=True, text=True, check=False)
                    assert done.returncode == 0, done.stderr
                    pauses.append(int(re.search(r"stopped for (\d+) ms", done.stdout)[1]))
                    shutil.rmtree(f"{home}/copy")
                gap = load.longest_gap(begin)
                load.end()
            finally:
                broker.process.kill()
        print(f"{partitions} partitions: paused for {', '.join(map(str, sorted(pauses)))} ms; longest time without an acknowledgement "
              f"{gap:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
