"""The CPUs of a broker that runs, and those that it starts with. No other one may run of the same program."""

import json
import os
import socket
import subprocess
import time

import pytest
from test_tune import FOREBAY, PATIENCE, alone, rooted, tune


def free_port():
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]


def cpus_of(pid):
    """The CPUs of the broker's own threads."""
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm") as file:
                if not file.read().startswith("iou-"):
                    found.add(frozenset(os.sched_getaffinity(int(thread))))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@alone
@rooted
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU cannot be divided")
def test_a_broker_that_runs_is_moved_and_moved_back(tmp_path):
    port = free_port()
    serving = subprocess.Popen(
        [FOREBAY, "serve", "node.id=1", f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={tmp_path}/data",
         f"admin.listener=127.0.0.1:{free_port()}"], stdout=open(tmp_path / "log", "w"), stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < end and serving.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.05)
        before = cpus_of(serving.pid)
        shown = json.loads(tune("--format", "json", "inspect", check=0).stdout)
        assert any(knob["id"] == "server.cpus" for knob in shown["knobs"])
        (tmp_path / "plan.toml").write_text(
            f'version = 1\nhost = "{shown["fingerprint"]}"\n[[item]]\nid = "server.cpus"\nwant = "0"\nclass = "O"\nwhy = "a test"\n'
            'confidence = "high"\n')
        state = ("--state", tmp_path / "state")
        tune(*state, "apply", tmp_path / "plan.toml", check=0)
        assert cpus_of(serving.pid) == {frozenset({0})}
        tune(*state, "undo", check=0)
        assert cpus_of(serving.pid) == before
        # Threads that have CPUs of their own are left.
        os.sched_setaffinity(serving.pid, {1})
        refused = tune(*state, "apply", tmp_path / "plan.toml", check=7)
        assert "CPUs of their own" in refused.stderr
    finally:
        serving.terminate()
        serving.wait(PATIENCE)
