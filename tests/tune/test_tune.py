"""`forebay tune` as a process: on trees of files, and (as root) on namespaces of its own.

Nothing of this machine is changed: trees are copies, and what is set is in a namespace that ends with its process.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FOREBAY = Path(os.environ.get("FOREBAY", ROOT / "target" / "debug" / "forebay"))
PATIENCE = 30

rooted = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces: as root only")


def tune(*arguments, prefix=(), check=None):
    done = subprocess.run([*prefix, FOREBAY, "tune", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if check is not None:
        assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
    return done


class Host:
    """A tree of files that is taken for a host."""

    FILES = {
        "sys/devices/system/cpu/online": "0-3",
        "proc/sys/kernel/random/boot_id": "boot-1",
        "proc/sys/vm/swappiness": "60",
        "proc/sys/net/core/somaxconn": "128",
        "proc/sys/vm/max_map_count": "65530",
    }

    def __init__(self, dir):
        self.dir, self.state = dir / "root", dir / "state"
        for name, text in self.FILES.items():
            path = self.dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        self.plan = dir / "plan.toml"
        self.write_plan({"sysctl.vm.swappiness": 1, "sysctl.net.core.somaxconn": 4096, "sysctl.vm.max_map_count": 262144})

    def tune(self, *arguments, check=None, prefix=()):
        return tune("--sysroot", self.dir, "--state", self.state, *arguments, check=check, prefix=prefix)

    def json(self, *arguments, check=0):
        return json.loads(self.tune("--format", "json", *arguments, check=check).stdout)

    def write_plan(self, wanted):
        host = self.json("inspect")["fingerprint"]
        items = [f'[[item]]\nid = "{id}"\nwant = {want}\nclass = "O"\nwhy = "a test"\nconfidence = "high"\n' for id, want in wanted.items()]
        self.plan.write_text(f'version = 1\nhost = "{host}"\n' + "".join(items))

    def files(self):
        return {name: (self.dir / name).read_text() for name in self.FILES}


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def wait_until(is_so):
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def test_what_nobody_confirms_is_taken_back_when_its_time_is_over(host):
    before = host.files()
    # It has the lock of the journals until it has written all, so the watchdog comes after it however slow it is.
    assert host.json("apply", host.plan, "--confirm-within", "1s")["whole"]
    wait_until(lambda: host.json("status")[-1]["standing"] == "closed")
    assert host.files() == before


def test_what_is_confirmed_stays_and_undo_takes_it_back(host):
    before = host.files()
    transaction = host.json("apply", host.plan)["transaction"]
    host.tune("confirm", transaction, check=0)
    assert all(one["same"] for one in host.json("verify"))
    host.tune("undo", check=0)
    assert host.files() == before


def test_a_second_change_is_refused_while_one_is_open(host):
    host.tune("apply", host.plan, check=0)
    refused = host.tune("apply", host.plan, check=7)
    assert "is open" in refused.stderr
    host.tune("undo", check=0)


def test_a_boot_ends_what_was_not_confirmed_and_nothing_is_written(host):
    host.tune("apply", host.plan, check=0)
    applied = host.files()
    (host.dir / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    host.tune("undo", check=0)
    assert host.json("status")[0]["ended"] == "expired"
    changed = {**applied, "proc/sys/kernel/random/boot_id": "boot-2\n"}
    assert host.files() == changed


def strace(host, at):
    """Applies, and is killed at the write call of this number."""
    inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=write", "-e", f"inject=write:signal=SIGKILL:when={at}"]
    return host.tune("apply", host.plan, "--until-reboot", prefix=inject)


@pytest.mark.skipif(subprocess.run(["which", "strace"], capture_output=True).returncode != 0, reason="strace is not installed")
def test_killed_at_every_write_of_the_process_undo_makes_the_host_as_it_was(host):
    before = host.files()
    killed = 0
    for at in range(1, 60):
        done = strace(host, at)
        host.tune("undo", check=0)
        assert host.files() == before, at
        if done.returncode == 0:
            break
        killed += 1
    else:
        raise AssertionError("it never came to its end")
    assert killed >= 10, killed


def test_the_watchdog_does_not_need_who_started_it(host):
    before = host.files()
    command = [FOREBAY, "tune", "--sysroot", host.dir, "--state", host.state, "apply", host.plan, "--confirm-within", "1s"]
    applying = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, start_new_session=True)
    applying.wait(PATIENCE)
    # The whole session of who applied is ended.
    try:
        os.killpg(applying.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    wait_until(lambda: host.json("status")[-1]["standing"] == "closed")
    assert host.files() == before


def in_namespace(script):
    """Runs a script in namespaces of its own for networks and mounts."""
    command = ["unshare", "--net", "--mount", "bash", "-euc", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


@rooted
def test_a_larger_queue_of_a_listener_is_adopted_and_nothing_is_left_changed(tmp_path):
    """E4: connections that come at once to a queue of 16, against one of 4,096."""
    experiment_on_the_queue(tmp_path, want=4096, verdict="adopt", code=0)


@rooted
def test_a_smaller_queue_of_a_listener_is_harmful_and_taken_back(tmp_path):
    experiment_on_the_queue(tmp_path, want=16, verdict="harmful", code=5, begin=4096)


def experiment_on_the_queue(tmp_path, want, verdict, code, begin=16):
    result = tmp_path / "result.json"
    (tmp_path / "design.toml").write_text(
        f'version = 1\nplan = "plan.toml"\nseed = 7\npairs = 8\npairs_of_same = 6\nblock_ms = 200\n'
        f'load = ["{sys.executable}", "{HERE / "listen_load.py"}"]\n[[primary]]\nname = "turned_away"\n')
    done = in_namespace(
        f"""
        mount -t sysfs none /sys
        ip link set lo up
        echo {begin} > /proc/sys/net/core/somaxconn
        host=$({FOREBAY} tune inspect --format json | {sys.executable} -c 'import json,sys; print(json.load(sys.stdin)["fingerprint"])')
        cat > {tmp_path}/plan.toml <<END
version = 1
host = "$host"
[[item]]
id = "sysctl.net.core.somaxconn"
want = {want}
class = "O"
why = "a test"
confidence = "high"
END
        code=0
        {FOREBAY} tune --state {tmp_path}/state experiment {tmp_path}/design.toml -o {result} || code=$?
        test "$(cat /proc/sys/net/core/somaxconn)" = {begin}
        exit $code
        """)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    kept = json.loads(result.read_text())
    assert kept["verdict"] == verdict, kept["why"]
    assert kept["effects"][0]["p"] < 0.05
