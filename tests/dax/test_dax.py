"""The medium dax on persistent memory as the kernel knows it: a machine in software whose power is cut in mid-write.

By hand only (`./test dax`): it downloads a kernel, and software emulation is slow. What is not seen here is said in
machine.py and docs/dax.md.
"""

import json
import random
import re
import subprocess
import time

import pytest

from dax import guest
from dax.machine import Machine
from peers.broker import ROOT
from peers.process import wait_until

ROUNDS = 10
START_SECONDS = 600
# Of the program that writes in the machine (crates/storage/examples/dax_ledger.rs).
LOGS = 3
# Records that are acknowledged at least between two cuts: from none to some segments of 1 MiB.
ACKED = (1, 700)


@pytest.fixture(autouse=True)
def can_emulate():
    try:
        guest.need_tools("ext4")
        guest.kernel()
    except guest.Missing as why:
        pytest.fail(f"NO PERSISTENT MEMORY WAS TESTED: {why}")


def built(*what):
    """The program that cargo builds for one test or example."""
    command = ["cargo", *what, "-q", "--locked", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    artifacts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wanted = what[-1]
    return next(a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == wanted)


class Ledger:
    """What the logs in the machine said on its console, read as it grows."""

    def __init__(self, console):
        self.console, self.at = console, 0
        self.acked = {}
        # Of the lives before this one.
        self.promised = {}
        self.found = {}
        self.pooled = None

    def read(self):
        """Takes in what is new and whole; the line that the power cut is not."""
        with open(self.console, "rb") as lines:
            lines.seek(self.at)
            said = lines.read()
        whole = said[: said.rfind(b"\n") + 1]
        self.at += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            words = re.match(r"(found|acked|pooled) (\d+)(?: (\d+))?(?: (\d+))?$", line.strip())
            if not words:
                continue
            what, numbers = words[1], [int(number) for number in words.groups()[1:] if number]
            if what == "pooled":
                self.pooled = numbers[0]
            elif what == "acked":
                log, end = numbers
                assert end >= self.acked.get(log, 0), f"log {log} went back: {line}"
                self.acked[log] = end
            else:
                log, *self.found[log] = numbers
        return self

    def total(self):
        return sum(self.read().acked.values())

    def restarted(self):
        """The machine is off: what comes next is another life."""
        self.read()
        self.at = self.console.stat().st_size
        self.promised = dict(self.acked)
        self.found, self.pooled = {}, None


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_power_cuts(fs, request, tmp_path):
    rounds = request.config.getoption("--rounds") or ROUNDS
    seed = request.config.getoption("--seed")
    dice = random.Random(seed)
    program = built("build", "-p", "forebay-storage", "--example", "dax_ledger")
    machine = Machine(tmp_path, ["/ledger", "/mnt/data"], programs=[(program, "ledger")], fs=fs)
    ledger = Ledger(machine.console)
    adopted = 0
    try:
        for turn in range(rounds + 1):
            process = machine.start()

            def has_checked(process=process):
                assert process.alive(), process.tail()
                return len(ledger.read().found) == LOGS

            wait_until(has_checked, "the logs to be open", START_SECONDS, every=0.2)
            for log, (_, end) in ledger.found.items():
                acked = ledger.promised.get(log, 0)
                assert end >= acked, f"log {log} ends at {end}, acknowledged were {acked}"
            adopted += ledger.pooled
            print(f"{fs}, start {turn}: {sum(ledger.promised.values())} records acknowledged, none lost; "
                  f"{ledger.pooled} pooled files; {ledger.found}", flush=True)
            target = ledger.total() + dice.randint(*ACKED)
            wait_until(lambda: ledger.total() >= target or not process.alive(), "a load", START_SECONDS, every=0.2)
            time.sleep(dice.uniform(0.0, 2.0))  # the moment of the cut, not a wait for anything
            assert process.alive(), process.tail()
            process.kill()
            ledger.restarted()
    except BaseException:
        print(f"seed {seed}; console {machine.console}", flush=True)
        raise
    finally:
        if machine.process and machine.process.alive():
            machine.process.kill()
    console = machine.console.read_text(errors="replace")
    assert "dax=always" in console and "emulated: false" in console
    assert adopted > 0, "no life left files in the pool"


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_mapped_files_on_a_dax_mount(fs, tmp_path):
    """The platform's own tests, which elsewhere run emulated."""
    program = built("test", "--no-run", "-p", "forebay-platform", "--test", "dax")
    # The refusal needs a mount that is not DAX.
    command = ["env", "FOREBAY_TEST_DAX_DIR=/mnt", "/tests", "--test-threads=1", "--skip", "a_mount_that_is_not_dax"]
    said = Machine(tmp_path, command, programs=[(program, "tests")], fs=fs).run(START_SECONDS)
    print(said)
    assert "dax=always" in said
    assert "test result: ok." in said and "guest: ended with 0" in said


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_a_bad_block(fs, tmp_path):
    program = built("build", "-p", "forebay-platform", "--example", "dax_bad_block")
    command = ["/bad_block", "/mnt", "/sys/block/pmem0/badblocks"]
    said = Machine(tmp_path, command, programs=[(program, "bad_block")], fs=fs).run(START_SECONDS)
    print(said)
    assert "dax=always" in said
    assert "told to those who touched it, and to nobody else" in said and "guest: ended with 0" in said
