"""The medium dax on persistent memory as the kernel knows it: the platform's tests of it, in a machine in software.

By hand only (`./test dax`): it downloads a kernel, and software emulation is slow. What is not seen here is said in
machine.py and docs/dax.md.
"""

import json
import subprocess

import pytest

from dax import guest
from dax.machine import Machine
from peers.broker import ROOT

START_SECONDS = 600


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


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_mapped_files_on_a_dax_mount(fs, tmp_path):
    """The platform's own tests, which elsewhere run emulated."""
    program = built("test", "--no-run", "-p", "forebay-platform", "--test", "dax")
    command = ["env", "FOREBAY_TEST_DAX_DIR=/mnt", "/tests", "--test-threads=1", "--skip", "a_mount_that_is_not_dax"]
    said = Machine(tmp_path, command, programs=[(program, "tests")], fs=fs).run(START_SECONDS)
    print(said)
    assert "dax=always" in said
    assert "test result: ok." in said and "guest: ended with 0" in said
