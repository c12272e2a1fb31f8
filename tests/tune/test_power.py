"""The power of the disk with the journals fails while `forebay tune` works: what it changed can be taken back, what it keeps is kept."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_tune import FOREBAY, Host

from crash import scratch_disk
from crash.scratch_disk import ScratchDisk

# A namespace of mounts that another test makes meanwhile would keep the disk mounted.
pytestmark = pytest.mark.alone

ROUNDS = 15


@pytest.fixture
def disk():
    why = scratch_disk.missing()
    if why:
        pytest.skip(f"NO POWER CUT WAS TESTED: {why}")
    with ScratchDisk(64 << 20) as disk:
        yield disk


@pytest.fixture
def host(tmp_path, disk):
    """The host's settings are in memory, as a kernel's are; its journals are on the disk."""
    host = Host(tmp_path)
    host.state = disk.path / "state"
    return host


def end_all(state):
    """What a power cut does to processes: those that use this directory end at once. They were all started here."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(state).encode() in words:
                os.kill(int(entry.name), signal.SIGKILL)


def test_a_power_cut_at_any_moment_leaves_a_change_that_can_be_taken_back(host, disk):
    before, dice, changed = host.files(), random.Random(1), 0
    for turn in range(ROUNDS):
        applying = subprocess.Popen(
            list(map(str, [FOREBAY, "tune", "--sysroot", host.dir, "--state", host.state, "apply", host.plan])),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # The moment of the cut, not a wait for anything.
        time.sleep(dice.uniform(0.0, 0.25))
        # In this order: the cut is no real one for a sync that is under way, which may return as if it had been done. A process that
        # has ended does not write a setting after it.
        applying.kill()
        applying.wait()
        end_all(host.state)
        disk.cut_power()
        disk.restore_power()
        changed += host.files() != before
        # The settings of this boot are still there: the journal has to know of each that was written.
        undone = host.tune("undo", check=0)
        journals = "".join(path.name + "\n" + path.read_text() for path in sorted(host.state.glob("*.jsonl"))[-2:])
        assert host.files() == before, (turn, undone.stdout, journals)
    assert changed > 0, "every cut came before the first write"


@pytest.mark.parametrize("how", ["read-only", "dead"])
def test_a_disk_that_fails_behind_a_change_keeps_nothing_from_being_taken_back(host, disk, how):
    """By the watchdog at the deadline, and by hand before it."""
    before = host.files()
    for by_hand in (False, True):
        host.tune("apply", host.plan, "--confirm-within", "60s" if by_hand else "2s", check=0)
        assert host.files() != before
        # The watchdog has looked since.
        time.sleep(2.5 if by_hand else 1)
        if how == "dead":
            disk.cut_power()
        else:
            # What ext4 does by itself where an error of the disk says so.
            subprocess.run(["mount", "-o", "remount,abort", disk.path], check=True, capture_output=True)
        if by_hand and how == "read-only":
            told = host.tune("undo", check=1)
            assert "could not be written to the journal" in told.stderr, told.stderr
        if not (by_hand and how == "dead"):
            end = time.monotonic() + 30
            while host.files() != before:
                assert time.monotonic() < end, "it was not taken back"
                time.sleep(0.1)
        end_all(host.state)
        for name, text in before.items():
            (host.dir / name).write_text(text)
        disk.restore_power()
        # Nothing is in effect, and the journal comes to know it.
        host.tune("undo", check=0)
        assert host.files() == before


def test_what_was_confirmed_is_applied_again_after_a_power_cut(host, disk):
    before = host.files()
    transaction = host.json("apply", host.plan)["transaction"]
    host.tune("confirm", transaction, check=0)
    end_all(host.state)
    disk.cut_power()
    disk.restore_power()
    # Another boot, with the kernel's own values.
    for name, text in before.items():
        (host.dir / name).write_text("boot-2\n" if name.endswith("boot_id") else text)
    host.tune("boot", check=0)
    files = host.files()
    assert files["proc/sys/vm/swappiness"] == "1\n" and files["proc/sys/net/core/somaxconn"] == "4096\n"
