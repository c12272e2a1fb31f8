"""The collection with Ansible itself, on hosts that are directories: nothing of this machine is changed but its files of tests.

ANSIBLE names the directory of Ansible's programs; without it and without Ansible these tests are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from test_tune import FOREBAY, ROOT, Host, tune

COLLECTION = ROOT / "deploy/ansible/forebay.tune"
PROGRAMS = os.environ.get("ANSIBLE") or os.path.dirname(shutil.which("ansible-playbook") or "")

pytestmark = pytest.mark.skipif(not PROGRAMS, reason="Ansible is not installed")


class Fleet:
    """Hosts whose program has a tree and journals of its own."""

    def __init__(self, dir, names):
        self.dir, self.hosts = dir, {}
        lines = []
        for name in names:
            (dir / name).mkdir()
            host = self.hosts[name] = Host(dir / name)
            program = dir / name / "forebay"
            program.write_text(f'#!/bin/sh\nshift\nexec {FOREBAY} tune --sysroot {host.dir} --state {host.state} "$@"\n')
            program.chmod(0o755)
            lines.append(
                f"{name} ansible_connection=local ansible_python_interpreter={sys.executable} forebay_program={program} "
                f"forebay_tune_program={program} forebay_plan_there={dir}/{name}/there/plan.toml "
                f"forebay_tune_plan_there={dir}/{name}/there/plan.toml site={name}")
        self.inventory = dir / "hosts"
        self.inventory.write_text("[fleet]\n" + "\n".join(lines) + "\n")
        places = dir / "collections/ansible_collections/forebay"
        places.mkdir(parents=True)
        (places / "tune").symlink_to(COLLECTION)
        self.env = {
            **os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "ANSIBLE_HOME": str(dir / "home"), "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_REMOTE_TEMP": str(dir / "remote"),
            "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false"}

    def playbook(self, text, *options):
        playbook = self.dir / "playbook.yml"
        playbook.write_text(text)
        places = {"ANSIBLE_COLLECTIONS_PATH": str(self.dir / "collections")}
        return subprocess.run(
            ["ansible-playbook", "-i", self.inventory, *options, playbook], capture_output=True, text=True, timeout=240,
            env={**self.env, **places})

    def rollout(self, **design):
        """A rollout of the first host's plan; what `run` said."""
        listed = subprocess.run(
            ["ansible-inventory", "-i", self.inventory, "--list", "--export"], capture_output=True, text=True, check=True, env=self.env)
        (self.dir / "hosts.json").write_text(listed.stdout)
        first = next(iter(self.hosts.values()))
        (self.dir / "plan.toml").write_text(first.plan.read_text())
        carrier = json.dumps([str(COLLECTION / "carrier"), str(self.inventory)])
        more = "".join(f"{key} = {value}\n" for key, value in design.items())
        (self.dir / "rollout.toml").write_text(
            f'version = 1\nplan = "plan.toml"\ninventory = "hosts.json"\nstages = ["100%"]\nsoak_ms = 100\ncarrier = {carrier}\n'
            f"at_once = {{ total = 9 }}\n{more}")
        place = self.dir / "rollout"
        tune("rollout", "init", self.dir / "rollout.toml", "-o", place, check=0)
        done = subprocess.run(
            [FOREBAY, "tune", "rollout", "run", place], capture_output=True, text=True, timeout=280, env=self.env)
        shown = tune("--format", "json", "rollout", "status", place, check=0)
        return done, {host["host"]["name"]: host["stands"] for host in json.loads(shown.stdout)["hosts"]}


APPLY = """
- hosts: fleet
  gather_facts: false
  roles: [forebay.tune.apply]
  vars:
    forebay_tune_soak_seconds: 0
    forebay_tune_plan: "{{ playbook_dir }}/a/plan.toml"
"""


def test_a_rollout_is_carried_and_a_host_out_of_reach_is_left(tmp_path):
    fleet = Fleet(tmp_path, ["a", "b", "gone"])
    # A host that answers to no connection: its shell is not there.
    text = fleet.inventory.read_text()
    fleet.inventory.write_text(text.replace("gone ansible_connection=local", "gone ansible_connection=local ansible_shell_executable=/none"))
    before = {name: host.files() for name, host in fleet.hosts.items()}
    done, stands = fleet.rollout()
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert stands == {"a": "confirmed", "b": "confirmed", "gone": "quarantined"}, done.stderr
    for name in ("a", "b"):
        assert fleet.hosts[name].files()["proc/sys/vm/swappiness"] == "1\n"
    assert fleet.hosts["gone"].files() == before["gone"]


def test_a_host_that_hangs_holds_nobody(tmp_path):
    fleet = Fleet(tmp_path, ["a", "slow"])
    program = tmp_path / "slow/forebay"
    program.write_text("#!/bin/sh\nexec sleep 40\n")
    with open(fleet.inventory, "a") as file:
        file.write("[fleet:vars]\nforebay_step_timeout=5\n")
    begun = time.monotonic()
    done, stands = fleet.rollout()
    assert stands == {"a": "confirmed", "slow": "quarantined"}, (done.stdout, done.stderr)
    assert time.monotonic() - begun < 120


def test_a_host_that_refuses_takes_it_back_on_the_others(tmp_path):
    fleet = Fleet(tmp_path, ["a", "bad"])
    fleet.hosts["bad"].state.mkdir()
    fleet.hosts["bad"].state.chmod(0o777)
    before = fleet.hosts["a"].files()
    done, stands = fleet.rollout()
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "writable by others" in done.stderr
    assert fleet.hosts["a"].files() == before
    assert "confirmed" not in stands.values()


def test_a_role_applies_and_keeps_a_plan_and_only_looks_in_check_mode(tmp_path):
    fleet = Fleet(tmp_path, ["a"])
    host = fleet.hosts["a"]
    before = host.files()
    done = fleet.playbook(APPLY, "--check")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert host.files() == before and host.json("status") == []
    done = fleet.playbook(APPLY)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert host.json("status")[-1]["standing"] == "confirmed"
    assert host.files()["proc/sys/vm/swappiness"] == "1\n"
    host.tune("undo", check=0)
    # A plan for another host is refused, and the play says why.
    host.plan.write_text(host.plan.read_text().replace("sha256:", "sha256:0"))
    done = fleet.playbook(APPLY)
    assert done.returncode != 0 and "the plan is for" in done.stdout, done.stdout
    assert host.files() == before


def test_what_takes_a_host_out_of_service_is_played(tmp_path):
    """`service ready` against a port where a page says that it is ready, and one where none does."""
    fleet = Fleet(tmp_path, ["a"])
    page = tmp_path / "page"
    page.mkdir()
    (page / "readyz").write_text("{}")
    serving = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"], cwd=page, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True)
    try:
        port = serving.stdout.readline().split(" port ")[1].split()[0]
        service = [COLLECTION / "service", "ready", fleet.inventory, "a"]
        url = f"forebay_admin_url=http://127.0.0.1:{port}"
        done = subprocess.run([*service, "-e", url], capture_output=True, text=True, timeout=240, env=fleet.env)
        assert done.returncode == 0, (done.stdout, done.stderr)
        (page / "readyz").unlink()
        more = ["-e", url, "-e", "forebay_ready_retries=0"]
        done = subprocess.run([*service, *more], capture_output=True, text=True, timeout=240, env=fleet.env)
        assert done.returncode != 0 and "404" in done.stderr, (done.stdout, done.stderr)
    finally:
        serving.terminate()
        serving.wait(30)
    wrong = subprocess.run([COLLECTION / "service", "reboot", "x", "y"], capture_output=True, text=True)
    assert wrong.returncode != 0 and "none of drain" in wrong.stderr
