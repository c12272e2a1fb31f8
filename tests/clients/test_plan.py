"""`topics.sh` of every shipped plan, run against whatever broker is the target: it makes the topics that were planned."""

import json
import os
import subprocess

import pytest

from peers.broker import forebay_binary
from peers.process import die_with_parent, wait_until

SCENARIOS = ("car-ingest", "burst", "steady", "linkedin", "keyed")


def run(command, **environment):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, **environment}, preexec_fn=die_with_parent)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_topics_of_a_plan_are_made_as_planned(broker, scenario, tmp_path):
    run([forebay_binary(), "plan", scenario, "--out", tmp_path, "--today", "2026-11"])
    planned = json.loads((tmp_path / "plan.json").read_text())["chosen"]["topics"]
    for _ in range(2):
        # A second run finds everything there.
        run(["sh", tmp_path / "topics.sh", broker.address], FOREBAY=str(forebay_binary()), REPLICAS="1", XDG_CONFIG_HOME=str(tmp_path))
    for topic in planned:
        def described(topic=topic):
            shown = run([forebay_binary(), "topic", "describe", topic["name"], "-b", broker.address, "--format", "json"], XDG_CONFIG_HOME=str(tmp_path))
            return json.loads(shown)[0]

        wait_until(lambda: len(described()["partitions"]) == topic["partitions"], f"the partitions of {topic['name']}")
        run([forebay_binary(), "topic", "delete", topic["name"], "-b", broker.address], XDG_CONFIG_HOME=str(tmp_path))

