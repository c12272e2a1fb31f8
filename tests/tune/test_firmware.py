"""Settings of the firmware: one host with a double of its controller, and a rollout that restarts twelve hosts.

Hosts are directories; nothing of this machine is changed, and nothing but 127.0.0.1 is asked.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from test_tune import FOREBAY, HERE, tune, wait_until

HOSTS = [f"m{number}" for number in range(12)]
ITEM = '[[item]]\nid = "firmware.cpu.snoop"\nwant = "home"\nclass = "B"\nwhy = "a test"\nconfidence = "high"\n'


def place(host):
    number = int(host[1:])
    return {"site": f"site{number // 4}", "rack": f"rack{number % 2}", "group": f"group{number % 4 // 2}"}


class Machines:
    def __init__(self, dir):
        self.dir = dir
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (dir / "port").write_text(str(self.port))
        self.double = subprocess.Popen([sys.executable, str(HERE / "redfish.py"), str(self.port), *HOSTS])
        for host in HOSTS:
            root = dir / host / "root"
            for name, text in {
                "sys/devices/system/cpu/online": "0-3",
                "proc/sys/kernel/random/boot_id": "boot-1",
                "proc/sys/vm/swappiness": "60",
            }.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text + "\n")
            login = dir / host / "login"
            login.write_text("root:secret\n")
            login.chmod(0o600)
            (dir / host / "redfish.toml").write_text(
                f'url = "http://127.0.0.1:{self.port}"\nsystem = "/redfish/v1/Systems/{host}"\nlogin = "login"\n')
        wait_until(self.is_up)
        fingerprint = json.loads(self.tune("m0", "--format", "json", "inspect", check=0).stdout)["fingerprint"]
        self.plan = dir / "plan.toml"
        self.plan.write_text(f'version = 1\nhost = "{fingerprint}"\n{ITEM}')

    def is_up(self):
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def tune(self, host, *arguments, check=None):
        prefix = ["env", f"FOREBAY_REDFISH={self.dir / host / 'redfish.toml'}"]
        return tune(
            "--sysroot", self.dir / host / "root", "--state", self.dir / host / "state", *arguments, check=check, prefix=prefix)

    def post(self, what, host):
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}/{what}/{host}", method="POST")).close()

    def restart(self, host):
        self.post("restart", host)
        (self.dir / host / "root/proc/sys/kernel/random/boot_id").write_text(f"boot-{time.monotonic_ns()}\n")

    def settings(self):
        """Of each machine what is in effect, and what is staged."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/systems") as answer:
            return {host: tuple(both) for host, both in json.load(answer).items()}

    def begin(self):
        # A restart may take as long as it does on a machine that has other things to do: no test here is about its time.
        (self.dir / "hosts.json").write_text(json.dumps({"_meta": {"hostvars": {host: place(host) for host in HOSTS}}}))

        def program(what, *more):
            return json.dumps([sys.executable, str(HERE / "machines.py"), what, str(FOREBAY), str(self.dir), *more])

        steps = ", ".join(f"{step} = {program(step, '{host}')}" for step in ("drain", "restart", "ready"))
        (self.dir / "rollout.toml").write_text(
            'version = 1\nplan = "plan.toml"\ninventory = "hosts.json"\nstages = ["1 host", "1 per site", "50%", "100%"]\n'
            f'soak_ms = 100\nseed = 3\nclass_max = "B"\ncarrier = {program("carry")}\n'
            f"restart = {{ {steps}, within_ms = 600000 }}\nat_once = {{ total = 6, site = 2, rack = 2, group = 1 }}\n")
        tune("rollout", "init", self.dir / "rollout.toml", "-o", self.dir / "rollout", check=0)
        return {host["host"]["name"]: host["stage"] for host in self.status()}

    def roll(self, check):
        done = tune("rollout", "run", self.dir / "rollout")
        assert done.returncode == check, (done.returncode, done.stdout, done.stderr, self.status())
        return done

    def status(self):
        return json.loads(tune("--format", "json", "rollout", "status", self.dir / "rollout", check=0).stdout)["hosts"]

    def limits_were_kept(self):
        """By the log: no host is restarted undrained, and never two of a group are out of service."""
        away = set()
        for line in (self.dir / "log").read_text().splitlines():
            event = json.loads(line)
            host = event["host"]
            if (event["command"], event["what"]) == ("drain", "end"):
                away.add(host)
            elif (event["command"], event["what"]) == ("ready", "end"):
                away.discard(host)
            elif event["command"] == "restart":
                assert host in away, (host, away)
            groups = [(place(host)["site"], place(host)["group"]) for host in away]
            assert len(groups) == len(set(groups)), away
        return away


@pytest.fixture
def machines(tmp_path):
    machines = Machines(tmp_path)
    try:
        yield machines
    finally:
        machines.double.kill()
        machines.double.wait()


def test_a_setting_of_the_firmware_waits_for_the_start_and_is_taken_back_by_another(machines):
    shown = json.loads(machines.tune("m0", "--format", "json", "inspect", check=0).stdout)
    assert shown["boot"]["snoop"] == "early"
    assert "B" in machines.tune("m0", "apply", machines.plan, check=7).stderr
    applied = machines.tune("m0", "--format", "json", "apply", machines.plan, "--class-max", "B", check=6)
    transaction = json.loads(applied.stdout)["transaction"]
    assert machines.settings()["m0"] == ("EarlySnoop", "HomeSnoop")
    machines.tune("m0", "verify", check=6)
    machines.restart("m0")
    machines.tune("m0", "boot", check=0)
    machines.tune("m0", "verify", check=0)
    machines.tune("m0", "confirm", transaction, check=0)
    machines.tune("m0", "undo", check=0)
    assert machines.settings()["m0"] == ("HomeSnoop", "EarlySnoop")
    machines.restart("m0")
    assert machines.settings()["m0"] == ("EarlySnoop", None)
    journal = "".join(path.read_text() for path in (machines.dir / "m0/state").glob("*.jsonl"))
    assert "secret" not in journal


def test_what_nobody_confirms_after_the_start_is_staged_back(machines):
    machines.tune("m0", "apply", machines.plan, "--class-max", "B", "--confirm-within", "2s", check=6)
    machines.restart("m0")
    # The watchdog of the boot before knows that this is another one.
    machines.tune("m0", "boot", check=0)
    wait_until(lambda: machines.settings()["m0"] == ("HomeSnoop", "EarlySnoop"))


def test_settings_that_the_controller_could_not_apply_are_its_words(machines):
    machines.post("stubborn", "m0")
    machines.tune("m0", "apply", machines.plan, "--class-max", "B", check=6)
    machines.restart("m0")
    drifted = machines.tune("m0", "verify", check=3)
    assert "SnoopMode cannot be applied" in drifted.stderr
    machines.tune("m0", "undo", check=0)
    assert machines.settings()["m0"] == ("EarlySnoop", None)


def test_killed_at_every_write_of_the_process_undo_makes_the_firmware_as_it_was(machines):
    if subprocess.run(["which", "strace"], capture_output=True).returncode != 0:
        pytest.skip("strace is not installed")
    killed = 0
    for at in range(1, 60):
        inject = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=write,writev,sendto", "-e", f"inject=write,writev,sendto:signal=SIGKILL:when={at}"]
        place = machines.dir / "m0"
        done = subprocess.run(
            ["env", f"FOREBAY_REDFISH={place / 'redfish.toml'}", *inject, FOREBAY, "tune", "--sysroot", place / "root", "--state",
             place / "state", "apply", machines.plan, "--class-max", "B"], capture_output=True)
        machines.tune("m0", "undo", check=0)
        now, staged = machines.settings()["m0"]
        assert now == "EarlySnoop" and staged in (None, "EarlySnoop"), (at, now, staged)
        if done.returncode == 6:
            break
        killed += 1
    assert killed >= 5, killed


def test_twelve_hosts_are_drained_restarted_and_confirmed(machines):
    machines.begin()
    machines.roll(check=0)
    assert {host["stands"] for host in machines.status()} == {"confirmed"}
    assert set(machines.settings().values()) == {("HomeSnoop", None)}
    assert machines.limits_were_kept() == set()


def test_a_host_whose_firmware_does_not_take_it_takes_it_back_on_all_by_another_restart(machines):
    stages = machines.begin()
    machines.post("stubborn", next(host for host, stage in stages.items() if stage == 1))
    machines.roll(check=1)
    assert {now for now, _ in machines.settings().values()} == {"EarlySnoop"}
    assert not {host["stands"] for host in machines.status()} & {"confirmed", "quarantined"}
    assert machines.limits_were_kept() == set()


def test_a_host_that_cannot_be_drained_is_left_in_service_and_its_group_too(machines):
    stages = machines.begin()
    full = next(host for host, stage in stages.items() if stage == 1)
    (machines.dir / full / "full").write_text("")
    paused = machines.roll(check=4)
    assert "quarantined" in paused.stderr
    settings = machines.settings()
    same = [host for host in HOSTS if place(host)["site"] == place(full)["site"] and place(host)["group"] == place(full)["group"]]
    assert all(settings[host][0] == "EarlySnoop" for host in same), settings
    assert machines.limits_were_kept() == set()


def test_a_controller_that_is_killed_while_hosts_restart_goes_on(machines):
    machines.begin()
    chance = random.Random(5)
    for _ in range(8):
        process = subprocess.Popen(
            [FOREBAY, "tune", "rollout", "run", machines.dir / "rollout"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        time.sleep(chance.uniform(0.1, 1.2))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    machines.roll(check=0)
    assert {host["stands"] for host in machines.status()} == {"confirmed"}
    assert set(machines.settings().values()) == {("HomeSnoop", None)}
    assert machines.limits_were_kept() == set()
