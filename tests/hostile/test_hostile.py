"""An honest load with a ledger, and everything that clients who mean harm can do beside it, in a loop from several connections.

Rounds of five minutes at most, because what a ledger names must stay on the disk: first the honest load alone for a while,
then the same load beside the attacks. Nothing that was acknowledged is missing, memory and descriptors come back to what they
were, and at the end the honest p99 is at most doubled: that of the middle round, for a machine's own disk has bad minutes.
"""

import contextlib
import os
import random
import re
import statistics
import subprocess
import tempfile
import threading
import time

import pytest

from peers import hostile
from peers.broker import Forebay, forebay_binary
from peers.hostile import Prey
from peers.process import die_with_parent, free_port, wait_until
from peers.rawwire import Closed

MB = 1 << 20
ATTACKERS = 4
ROUND_SECONDS = 300
DESCRIPTORS = 4096
SETTINGS = {"log.cache.bytes": 256 * MB, "queued.max.request.bytes": 512 * MB, "message.max.bytes": 2 * MB,
            "offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 4}
# A p99 below this is not worth comparing: the steps of a disk's syncs are larger.
P99_FLOOR_MS = 20
KEPT_MAX = 512 * MB

ATTACKS = [
    hostile.fetch_of_one_diverging_partition, hostile.static_members_without_patience, hostile.telemetry_with_long_names,
    hostile.list_of_names_for_a_setting, hostile.settings_of_many_resources, hostile.directories_of_many_topics,
    hostile.members_with_many_protocols, hostile.sleepy_frames, hostile.sleepy_readers,
    hostile.transaction_that_ends_while_it_is_checked, hostile.fetches_that_nobody_waits_for, hostile.no_more_connections,
    hostile.admin_port_half_asked, hostile.herd, hostile.producers_that_nobody_knows, hostile.sessions_of_what_is_not_there,
    hostile.groups_of_nobody, hostile.many_aborted_transactions, lambda prey: hostile.crowd(prey, DESCRIPTORS + 500),
]


class Bounded(Forebay):
    """With as many descriptors as the crowd can exhaust."""

    def argv(self):
        return ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", *super().argv()]

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as pages:
            return int(pages.read().split()[1]) * 4096

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Attacker(threading.Thread):
    """Goes through the attacks in an order of its own, again and again."""

    def __init__(self, broker, number, seed, ending):
        super().__init__(daemon=True)
        self.prey = Prey(broker.port, int(broker.properties["admin.listener"].rsplit(":", 1)[1]), seed=seed * 100 + number + 1)
        self.dice, self.ending, self.done, self.failed = random.Random(seed * 100 + number), ending, 0, []

    def run(self):
        stand_back()
        while not self.ending.is_set():
            for attack in self.dice.sample(ATTACKS, len(ATTACKS)):
                if self.ending.is_set():
                    return
                # How an attack fares is not the question; refused and closed connections are what it deserves.
                try:
                    attack(self.prey)
                except (Closed, OSError, AssertionError) as error:
                    self.failed.append(f"{getattr(attack, '__name__', 'crowd')}: {error!r}")
                self.done += 1


def stand_back():
    """For attackers, which stand for other machines: what they compute takes nothing from this one, on which the broker runs."""
    os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))


@contextlib.contextmanager
def session_behind_others():
    """Where each session is a group of its own (autogroup), the idle class orders threads of one group only; the broker is in another."""
    try:
        with open("/proc/self/autogroup") as group:
            before = group.read().rsplit(" ", 1)[1]
    except (OSError, IndexError):
        yield
        return
    try:
        _set_group("19")
        yield
    finally:
        _set_group(before)


def _set_group(nice):
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:
        group.write(nice)


def as_if_elsewhere():
    """For a load that stands for other machines, too: its threads do not wait for a processor while the broker has work."""
    die_with_parent()
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


class Honest:
    """Runs of `forebay bench load` with one ledger.

    Its batches wait for 5 ms, as Kafka's producers do by default. Without that, every few records are a request with a sync of its
    own, and the load alone takes all of two processors: its p99 then says what anything else costs, not what harms.
    """

    def __init__(self, broker, home, name, rate):
        self.arguments = ["--bootstrap", broker.address, "--topic", name, "--partitions", 8, "--producers", 4, "--consumers", 2,
                          "--record", "1KB", "--linger", 5, "--idempotent", "--rate", rate, "--ledger", home / f"{name}.ledger"]

    def load(self, seconds, when_counted=lambda: None):
        """Runs, and gives the p99 of writing in milliseconds; fails if a record is missing.

        `when_counted` is called once the clients are connected and warm: an attack may shut the door for a while
        (`max.connections=1`), and then nobody new gets in, which is what an operator would want of the setting.
        """
        command = [forebay_binary(), "bench", "load", *self.arguments, "--seconds", seconds, "--warmup", 3]
        with tempfile.TemporaryFile("w+") as out:
            run = subprocess.Popen([str(part) for part in command], stdout=out, stderr=subprocess.PIPE, text=True, preexec_fn=as_if_elsewhere)
            late = threading.Timer(seconds * 3 + 600, run.kill)
            late.start()
            told, waiting = [], True
            with run.stderr:
                for line in run.stderr:
                    told.append(line)
                    if waiting and re.match(r"\s*\d+\.\d s", line) and "(warm-up)" not in line:
                        waiting = False
                        when_counted()
            code = run.wait()
            late.cancel()
            out.seek(0)
            text = out.read()
        assert code == 0, text[-3000:] + "".join(told)[-3000:]
        print("\n".join(text.splitlines()[-7:]), flush=True)
        value, unit = re.search(r"written.*\n\s+latency .*p99 ([\d.]+) (\S+?),", text).groups()
        return float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


@pytest.fixture
def victim(make_broker):
    broker = make_broker(Bounded, properties={**SETTINGS, "admin.listener": f"127.0.0.1:{free_port()}"}).start()
    Prey(broker.port).prepare()
    broker.kill()
    broker.start()
    hostile.fill(Prey(broker.port).prepare(), 64)
    return broker


def test_hostile(victim, request, tmp_path):
    seed, rate = request.config.getoption("--seed"), request.config.getoption("--rate")
    left = 60 * request.config.getoption("--minutes")
    before = None
    number = 0
    latencies = []
    while left > 0:
        seconds = int(min(left, ROUND_SECONDS))
        left -= seconds
        kept, latency = one_round(victim, tmp_path, f"honest-{number}", rate, seconds, seed + number)
        latencies.append(latency)
        # The first round fills what is kept anyway: caches, pools.
        before = before or kept
        assert kept[0] < before[0] + KEPT_MAX, f"{kept[0] // MB} MB resident, {before[0] // MB} after the first round"
        assert kept[1] < before[1] + 100, f"{kept[1]} descriptors, {before[1]} after the first round"
        number += 1
    assert victim.stop() == 0, victim.process.tail()
    alone, beside = (statistics.median(column) for column in zip(*latencies, strict=True))
    print(f"p99 of the middle round of {len(latencies)}: {alone:.1f} ms alone, {beside:.1f} ms beside the attacks", flush=True)
    assert beside <= 2 * max(alone, P99_FLOOR_MS), f"p99 {beside:.1f} ms beside the attacks, {alone:.1f} ms alone"


def one_round(victim, home, name, rate, seconds, seed):
    """The load alone and beside the attacks; memory and descriptors when all is over, and the p99 of both in ms."""
    # A topic each: readers would begin with all that was written alone.
    alone = Honest(victim, home, f"{name}-alone", rate).load(max(15, seconds // 10))
    ending = threading.Event()
    attackers = [Attacker(victim, number, seed, ending) for number in range(ATTACKERS)]
    begun = time.monotonic()

    def attack():
        for attacker in attackers:
            attacker.start()

    with session_behind_others():
        try:
            beside = Honest(victim, home, name, rate).load(seconds, attack)
        finally:
            ending.set()
        for attacker in attackers:
            attacker.join(180)
        assert not attacker.is_alive(), "an attack that never ends"
    assert victim.alive(), victim.process.tail(80)
    done = sum(attacker.done for attacker in attackers)
    failed = sorted({line for attacker in attackers for line in attacker.failed})
    print(f"{name}: p99 {alone:.1f} ms alone, {beside:.1f} ms beside {done} attacks in {time.monotonic() - begun:.0f} s", flush=True)
    print("\n".join(f"  {line[:200]}" for line in failed[:20]), flush=True)
    assert done >= len(ATTACKS) or seconds < 120, "too few attacks to say anything"
    wait_until(lambda: hostile.connections_again(Prey(victim.port)), "the settings that let nobody in to be taken back", 60, every=1)
    with contextlib.suppress(Closed, OSError), Prey(victim.port).client() as client:
        for topic in (f"{name}-alone-0", f"{name}-0"):
            client.delete_topic(topic)
    counts = []

    def are_forgotten():
        counts.append(victim.descriptors())
        return counts[-1] < DESCRIPTORS // 4 and len(counts) >= 50 and len(set(counts[-50:])) == 1

    # A crowd that has just gone is forgotten one by one.
    wait_until(are_forgotten, "the connections to be forgotten", 60)
    return (victim.resident(), victim.descriptors()), (alone, beside)
