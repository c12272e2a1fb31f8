"""irqbalance itself beside `forebay tune`: it owns the interrupts of queues, but for those that it was told to leave alone.

Interrupts are the machine's: what this and irqbalance set is put back at the end.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from test_tune import rooted, tune, wait_until

# irqbalance looks once a second here; the default is ten.
LOOKS = 15


def affinities():
    return {path: path.read_text().strip() for path in Path("/proc/irq").glob("*/smp_affinity_list")}


@pytest.fixture
def interrupts():
    before = affinities()
    try:
        yield before
    finally:
        for path, text in before.items():
            if path.exists() and path.read_text().strip() != text:
                try:
                    path.write_text(text)
                except OSError:
                    # One that the kernel manages was not moved by a program.
                    pass


def inspected():
    return json.loads(tune("--format", "json", "inspect", check=0).stdout)


def queue(shown):
    """A queue of a card with an interrupt of its own, and the number of it."""
    for knob in shown["knobs"]:
        if knob["id"].endswith(".irq"):
            card, name = knob["id"].removeprefix("net.").removesuffix(".irq").rsplit(".", 1)
            device = Path(f"/sys/class/net/{card}/device").resolve().name
            number = name.split("-")[1]
            for line in Path("/proc/interrupts").read_text().splitlines()[1:]:
                if line.split()[-1:] in ([f"{device}-input.{number}"], [f"{card}-TxRx-{number}"], [f"{card}-rx-{number}"]):
                    return knob["id"], int(line.split(":")[0])
    pytest.skip("no queue of a card has an interrupt of its own here")


@rooted
@pytest.mark.skipif(not shutil.which("irqbalance"), reason="irqbalance is not installed")
def test_irqbalance_leaves_the_interrupt_of_a_plan_alone_that_it_was_told_to(tmp_path, interrupts):
    shown = inspected()
    item, number = queue(shown)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'version = 1\nhost = "{shown["fingerprint"]}"\n[[item]]\nid = "{item}"\nwant = "0"\nclass = "O"\nwhy = "a test"\n'
        'confidence = "high"\n')
    state = ("--state", tmp_path / "state")
    path = Path(f"/proc/irq/{number}/smp_affinity_list")

    def balance(*options):
        return subprocess.Popen(
            ["irqbalance", "--foreground", "--interval=1", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    running = balance()
    try:
        wait_until(lambda: any(owner["name"] == "irqbalance" for owner in inspected()["owners"]))
        refused = tune(*state, "apply", plan, check=7)
        assert "irqbalance sets it" in refused.stderr
    finally:
        running.terminate()
        running.wait(30)
    running = balance(f"--banirq={number}")
    try:
        time.sleep(0.5)
        tune(*state, "apply", plan, check=0)
        for _ in range(LOOKS):
            time.sleep(1)
            assert path.read_text().strip() == "0"
        if running.poll() is not None:
            pytest.skip("irqbalance does nothing here: all CPUs have one cache")
        assert all(one["verdict"] == "same" for one in json.loads(tune(*state, "--format", "json", "verify", check=0).stdout))
    finally:
        running.terminate()
        running.wait(30)
        tune(*state, "undo", check=0)
    assert path.read_text().strip() == interrupts[path]
