"""`forebay tune rollout` on twelve hosts, which are network namespaces: three sites of four, two groups at each."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest
from test_tune import FOREBAY, HERE, rooted, tune

# The names of its hosts are those of the machine.
pytestmark = pytest.mark.xdist_group("hosts")

HOSTS = [f"tn-h{number}" for number in range(12)]
SOMAXCONN = "/proc/sys/net/core/somaxconn"


def place(host):
    number = int(host.removeprefix("tn-h"))
    return {"site": f"site{number // 4}", "rack": f"rack{number % 2}", "group": f"group{number % 4 // 2}"}


def sh(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


class Fleet:
    def __init__(self, dir):
        self.dir, self.log = dir, dir / "log"
        for host in HOSTS:
            sh("ip", "netns", "add", host)
            (dir / host).mkdir()
        self.original = self.values()

    def remove(self):
        for host in HOSTS:
            # Watchdogs in it end by themselves when their transaction has.
            subprocess.run(["ip", "netns", "del", host], capture_output=True)

    def values(self):
        return [sh("ip", "netns", "exec", host, "cat", SOMAXCONN).strip() for host in HOSTS]

    def begin(self, soak_ms=200, unreachable_max=2):
        print_host = f"{FOREBAY} tune inspect --format json"
        inspected = json.loads(sh("ip", "netns", "exec", HOSTS[0], *print_host.split()))
        (self.dir / "plan.toml").write_text(
            f'version = 1\nhost = "{inspected["fingerprint"]}"\n[[item]]\nid = "sysctl.net.core.somaxconn"\nwant = 8192\n'
            'class = "O"\nwhy = "a test"\nconfidence = "high"\n')
        (self.dir / "hosts.json").write_text(json.dumps({"_meta": {"hostvars": {host: place(host) for host in HOSTS}}}))
        carrier = json.dumps([sys.executable, str(HERE / "carrier.py"), str(FOREBAY), str(self.dir), str(self.log)])
        (self.dir / "rollout.toml").write_text(
            f'version = 1\nplan = "plan.toml"\ninventory = "hosts.json"\nstages = ["1 host", "1 per site", "50%", "100%"]\n'
            f"soak_ms = {soak_ms}\nseed = 3\nunreachable_max = {unreachable_max}\ncarrier = {carrier}\n"
            "at_once = { total = 4, site = 2, rack = 2, group = 1 }\n")
        self.place = self.dir / "rollout"
        tune("rollout", "init", self.dir / "rollout.toml", "-o", self.place, check=0)
        return {host["host"]["name"]: host["stage"] for host in self.status()["hosts"]}

    def run(self, check=None):
        return tune("rollout", "run", self.place, check=check)

    def status(self):
        return json.loads(tune("--format", "json", "rollout", "status", self.place, check=0).stdout)

    def stands(self):
        return {host["host"]["name"]: host["stands"] for host in self.status()["hosts"]}

    def bad(self, host):
        """On that host the plan is refused: anybody could write its journals."""
        state = self.dir / host / "state"
        state.mkdir()
        state.chmod(0o777)

    def limits_were_kept(self):
        """By the log: how many were written to at the same time."""
        now = set()
        for line in self.log.read_text().splitlines():
            event = json.loads(line)
            if event["command"] not in ("apply", "undo"):
                continue
            if event["what"] == "end":
                now.discard(event["host"])
                continue
            now.add(event["host"])
            assert len(now) <= 4, now
            for what, most in (("site", 2), ("group", 1)):
                for host in now:
                    same = [other for other in now if place(other)["site"] == place(host)["site"] and place(other)[what] == place(host)[what]]
                    assert len(same) <= most, (what, now)


@pytest.fixture
def fleet(tmp_path):
    fleet = Fleet(tmp_path)
    try:
        yield fleet
    finally:
        fleet.remove()


@rooted
def test_a_plan_comes_to_all_hosts_in_stages_and_is_kept(fleet):
    fleet.begin()
    fleet.run(check=0)
    assert set(fleet.stands().values()) == {"confirmed"}
    assert fleet.values() == ["8192"] * 12
    fleet.limits_were_kept()


@rooted
def test_one_bad_host_in_the_second_stage_leaves_all_twelve_untouched(fleet):
    stages = fleet.begin()
    fleet.bad(next(host for host, stage in stages.items() if stage == 1))
    fleet.run(check=1)
    assert fleet.values() == fleet.original
    assert "confirmed" not in fleet.stands().values()
    fleet.limits_were_kept()


@rooted
def test_a_controller_that_is_killed_at_random_moments_goes_on(fleet):
    fleet.begin()
    chance = random.Random(7)
    for _ in range(20):
        process = subprocess.Popen(
            [FOREBAY, "tune", "rollout", "run", fleet.place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        time.sleep(chance.uniform(0.1, 1.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    fleet.run(check=0)
    assert set(fleet.stands().values()) == {"confirmed"}
    assert fleet.values() == ["8192"] * 12
    fleet.limits_were_kept()


@rooted
def test_too_many_hosts_out_of_reach_are_for_an_operator(fleet):
    stages = fleet.begin(unreachable_max=0)
    dead = next(host for host, stage in stages.items() if stage == 1)
    (fleet.dir / dead / "dead").write_text("")
    paused = fleet.run(check=4)
    assert "out of reach" in paused.stderr
    tune("rollout", "abort", fleet.place, check=0)
    fleet.run(check=1)
    assert fleet.values() == fleet.original
