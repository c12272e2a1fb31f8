"""`forebay tune` as a process: on trees of files, and (as root) on namespaces of its own.

Nothing of this machine is changed: trees are copies, and what is set is in a namespace that ends with its process.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FOREBAY = Path(os.environ.get("FOREBAY", ROOT / "target" / "debug" / "forebay"))
PATIENCE = 30

alone = pytest.mark.alone


def rooted(test):
    """Makes namespaces: as root only."""
    return pytest.mark.root(pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces: as root only")(test))


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
    assert all(one["verdict"] == "same" for one in host.json("verify"))
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
    """Applies, and is killed at the write call of this number. Its watchdog lives on, and has time."""
    inject = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=write", "-e", f"inject=write:signal=SIGKILL:when={at}"]
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


def watchdog_of(host):
    """The process that takes back what is open on this host."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(host.state).encode() in words and b"watchdog" in words:
                return int(entry.name)
    return None


def test_a_journal_that_is_removed_keeps_nothing_from_being_taken_back(host):
    before = host.files()
    host.tune("apply", host.plan, "--confirm-within", "2s", check=0)
    watchdog = watchdog_of(host)
    # Behind a look of the watchdog, which it takes five times a second.
    time.sleep(1)
    shutil.rmtree(host.state)
    wait_until(lambda: host.files() == before)
    wait_until(lambda: not Path(f"/proc/{watchdog}").exists())
    assert not host.state.exists()


def test_a_watchdog_that_was_killed_is_started_again_by_the_watch(host):
    before = host.files()
    host.tune("apply", host.plan, "--confirm-within", "4s", check=0)
    killed = watchdog_of(host)
    os.kill(killed, signal.SIGKILL)
    command = [FOREBAY, "tune", "--sysroot", host.dir, "--state", host.state, "verify", "--watch"]
    watch = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: watchdog_of(host) not in (None, killed))
        wait_until(lambda: host.json("status")[-1]["standing"] == "closed")
        assert host.files() == before
    finally:
        watch.kill()
        watch.wait()


def test_what_was_kept_until_a_reboot_is_no_drift_behind_it(host):
    before = host.files()
    host.tune("apply", host.plan, "--until-reboot", check=0)
    for name, text in before.items():
        (host.dir / name).write_text("boot-2\n" if name.endswith("boot_id") else text)
    assert host.json("verify") == []
    host.tune("boot", check=0)
    assert host.files()["proc/sys/vm/swappiness"] == before["proc/sys/vm/swappiness"]


def test_what_is_kept_and_not_applied_since_a_start_is_said(host):
    before = host.files()
    transaction = host.json("apply", host.plan)["transaction"]
    host.tune("confirm", transaction, check=0)
    for name, text in before.items():
        (host.dir / name).write_text("boot-2\n" if name.endswith("boot_id") else text)
    assert {one["verdict"] for one in host.json("verify", check=3)} == {"unapplied"}
    host.tune("boot", check=0)
    assert {one["verdict"] for one in host.json("verify")} == {"same"}


@alone
@pytest.mark.skipif(subprocess.run(["which", "cc"], capture_output=True).returncode != 0, reason="no C compiler is installed")
def test_a_clock_that_jumps_neither_hastens_nor_delays_the_watchdog(host, tmp_path):
    """The clock on the wall jumps by a day each second, to and fro."""
    jump = tmp_path / "jump.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", jump, HERE / "jump.c", "-ldl"], check=True)
    before, begun = host.files(), time.monotonic()
    applied = host.tune("--format", "json", "apply", host.plan, "--confirm-within", "3s", check=0, prefix=["env", f"LD_PRELOAD={jump}"])
    within = time.monotonic() - begun
    named = int(json.loads(applied.stdout)["transaction"].split("-")[0])
    assert abs(named - time.time()) > 80_000, "the clock did not jump"
    while time.monotonic() - begun < 2.5:
        assert host.files() != before, "taken back too early"
        time.sleep(0.1)
    wait_until(lambda: host.files() == before)
    # The deadline and two seconds; what `apply` itself took may have been before or behind its beginning.
    assert time.monotonic() - begun < within + 3 + 2, time.monotonic() - begun


@pytest.mark.skipif(subprocess.run(["which", "strace"], capture_output=True).returncode != 0, reason="strace is not installed")
def test_an_apply_that_is_stopped_in_the_middle_keeps_nothing_from_being_taken_back(host):
    before = host.files()
    inject = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=write", "-e", "inject=write:signal=SIGSTOP:when=6"]
    command = [FOREBAY, "tune", "--sysroot", host.dir, "--state", host.state, "apply", host.plan, "--confirm-within", "1s"]
    stopped = subprocess.Popen([*inject, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: (host.state / ".lock").exists())
    wait_until(lambda: host.json("status") and host.json("status")[-1]["standing"] == "closed")
    assert host.files() == before
    assert stopped.wait(PATIENCE) != 0, "it was never stopped"


def test_half_of_each_site_gets_the_change_and_their_days_decide(tmp_path):
    hosts = {f"edge-{number}": {"site": f"site{number // 8}", "model": number % 2} for number in range(24)}
    inventory, arms, days = tmp_path / "hosts.json", tmp_path / "arms.json", tmp_path / "days.json"
    inventory.write_text(json.dumps({"_meta": {"hostvars": hosts}}))
    assign = ["fleet", "assign", inventory, "--block-by", "site,model", "--seed", 3, "-o", arms]
    tune(*assign, check=0)
    of = json.loads(arms.read_text())["hosts"]
    for site in range(3):
        for model in range(2):
            block = [one["arm"] for one in of.values() if one["block"] == f"site{site}, {model}"]
            assert sorted(block) == ["control", "control", "test", "test"]
    first = arms.read_text()
    tune(*assign, check=0)
    assert arms.read_text() == first, "the seed decides"

    def compare(factor, check, without=None):
        numbers = {
            name: {
                "before": [100 + int(name[5:]) + day for day in range(7)],
                "after": [(100 + int(name[5:]) + day) * (factor if one["arm"] == "test" else 1) for day in range(7)]}
            for name, one in of.items() if name != without}
        days.write_text(json.dumps(numbers))
        return tune("--format", "json", "fleet", "compare", arms, days, check=check)

    adopted = json.loads(compare(0.05, 0).stdout)
    assert adopted["verdict"] == "adopt" and adopted["compared"]["p"] < 0.05
    assert 0.93 < adopted["compared"]["benefit"]["estimate"] < 0.96
    assert json.loads(compare(3, 5).stdout)["verdict"] == "harmful"
    assert json.loads(compare(1, 4).stdout)["verdict"] == "no_benefit"
    assert "edge-7 has an arm, and no days" in compare(0.05, 1, without="edge-7").stderr
    few = {"_meta": {"hostvars": {name: hosts[name] for name in list(hosts)[:4]}}}
    inventory.write_text(json.dumps(few))
    assert "cannot give p < 0.05" in tune("fleet", "assign", inventory, "-o", arms, check=1).stderr


def in_namespace(script):
    """Runs a script in namespaces of its own for networks and mounts."""
    command = ["unshare", "--net", "--mount", "bash", "-euc", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def write_plan(path, items):
    """The shell's lines that write a plan for the host that it finds."""
    lines = "".join(
        f"""
[[item]]
id = "{id}"
want = {json.dumps(want)}
class = "O"
why = "a test"
confidence = "high"
"""
        for id, want in items)
    return f"""
        host=$({FOREBAY} tune inspect --format json | {sys.executable} -c 'import json,sys; print(json.load(sys.stdin)["fingerprint"])')
        cat > {path} <<END
version = 1
host = "$host"
{lines}
END
        """


# Two cards that are each other's wire, one of them in a namespace of its own; their ring holds 256 packets and is there only
# where received packets are put together.
CARDS = f"""
        mount -t sysfs none /sys
        mount -t tmpfs none /run
        mkdir -p /run/netns
        ip netns add sender
        ip link add va type veth peer name vb
        ip link set va netns sender
        ip link set lo up
        ip addr add 10.215.0.2/24 dev vb
        ip netns exec sender ip addr add 10.215.0.1/24 dev va
        {sys.executable} {HERE / "features.py"} vb gro on
        ip netns exec sender {sys.executable} {HERE / "features.py"} va tso off
        ip link set vb up
        ip netns exec sender ip link set va up
        ip neigh replace 10.215.0.1 lladdr $(ip netns exec sender cat /sys/class/net/va/address) dev vb
        ip netns exec sender ip neigh replace 10.215.0.2 lladdr $(cat /sys/class/net/vb/address) dev va
        """


def design(path, load, more="", pairs=8, same=6, block=200, primary="lost"):
    load = ", ".join(f'"{part}"' for part in [sys.executable, *load])
    path.write_text(
        f"version = 1\nplan = \"plan.toml\"\nseed = 7\npairs = {pairs}\npairs_of_same = {same}\nblock_ms = {block}\n"
        f'load = [{load}]\n{more}\n[[primary]]\nname = "{primary}"\n')


@rooted
def test_a_larger_queue_of_a_listener_is_adopted_and_nothing_is_left_changed(tmp_path):
    """E4: connections that come at once to a queue of 16, against one of 4,096."""
    experiment_on_the_queue(tmp_path, want=4096, verdict="adopt", code=0)


@rooted
def test_a_smaller_queue_of_a_listener_is_harmful_and_taken_back(tmp_path):
    experiment_on_the_queue(tmp_path, want=16, verdict="harmful", code=5, begin=4096)


def experiment_on_the_queue(tmp_path, want, verdict, code, begin=16):
    design(tmp_path / "design.toml", [HERE / "listen_load.py"], primary="turned_away")
    kept = experiment(
        tmp_path, code,
        before=f"""
        mount -t sysfs none /sys
        ip link set lo up
        echo {begin} > /proc/sys/net/core/somaxconn
        """,
        items=[("sysctl.net.core.somaxconn", want)],
        after=f"""test "$(cat /proc/sys/net/core/somaxconn)" = {begin}""")
    assert kept["verdict"] == verdict, kept["why"]
    assert kept["effects"][0]["p"] < 0.05


def experiment(tmp_path, code, before, items, after="true"):
    """Carries `design.toml` out in a namespace; what was kept of it."""
    result = tmp_path / "result.json"
    done = in_namespace(
        f"""
        {before}
        {write_plan(tmp_path / "plan.toml", items)}
        code=0
        {FOREBAY} tune --state {tmp_path}/state experiment {tmp_path}/design.toml -o {result} || code=$?
        {after}
        exit $code
        """)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    [kept] = json.loads(result.read_text())
    return kept


def broker():
    """The whole binary: FOREBAY may be `tune` alone."""
    return Path(os.environ.get("FOREBAY_BROKER", FOREBAY))


@rooted
def test_a_larger_queue_of_a_broker_is_adopted_while_records_are_produced_and_fetched(tmp_path):
    """E4 with `forebay serve`: clients of another network connect at once, in steps; records go in and come back. The capacity is
    the last step at which all were there."""
    capacity = '[[primary]]\nname = "capacity"\nbetter = "more"'
    design(
        tmp_path / "design.toml", [HERE / "broker_load.py", broker(), tmp_path / "broker"], more=capacity, pairs=7, same=2, block=1000,
        primary="turned_away")
    kept = experiment(
        tmp_path, 0,
        before=CARDS + """
        echo 16 > /proc/sys/net/core/somaxconn
        """,
        items=[("sysctl.net.core.somaxconn", 4096)],
        after='test "$(cat /proc/sys/net/core/somaxconn)" = 16')
    assert kept["verdict"] == "adopt", kept["why"]
    with_change = [sample["figures"] for sample in kept["samples"] if sample["arm"] == "test" and not sample["same"]]
    assert all(figures["turned_away"] == 0 and figures["lost"] == 0 for figures in with_change)
    [times] = [1 + effect["benefit"]["low"] for effect in kept["effects"] if effect["name"] == "capacity"]
    assert times > 10, "of 16 places, and of 4,096"


def thread_cpus(expect):
    """That the thread that polls the card may run where it might before."""
    return f"""
        for thread in /proc/[0-9]*; do
            case "$(cat $thread/comm 2>/dev/null)" in napi/vb-*)
                test "$(grep Cpus_allowed_list $thread/status | cut -f2)" = {expect};;
            esac
        done
        """


def pin_napi(cpu):
    """Threads poll the card, on this CPU."""
    return f"""
        echo 1 > /sys/class/net/vb/threaded
        for thread in /proc/[0-9]*; do
            case "$(cat $thread/comm 2>/dev/null)" in napi/vb-*) taskset -pc {cpu} ${{thread#/proc/}} >/dev/null;; esac
        done
        """


@alone
@rooted
def test_polling_a_card_beside_the_server_is_adopted(tmp_path):
    """E1: the thread that polls the card on the server's CPU, against another."""
    design(tmp_path / "design.toml", [HERE / "napi_load.py", "3"], block=500, pairs=12, same=3)
    kept = experiment(
        tmp_path, 0,
        before=CARDS + pin_napi(0),
        items=[("net.vb.napi-0.cpus", "1")],
        after=thread_cpus(0))
    assert kept["verdict"] == "adopt", kept["why"]
    assert kept["effects"][0]["p"] < 0.05
    assert kept["effects"][0]["benefit"]["estimate"] >= 0.90, kept["why"]


@alone
@rooted
def test_polling_a_card_beside_a_broker_is_adopted_while_records_are_produced_and_fetched(tmp_path):
    """E1 with `forebay serve`: the thread that polls the card on the CPU of the broker, against another."""
    port = 21520
    design(
        tmp_path / "design.toml", [HERE / "broker_napi_load.py", broker(), str(port)], block=1000, pairs=7, same=2)
    kept = experiment(
        tmp_path, 0,
        before=CARDS + pin_napi(0) + f"""
        {broker()} serve node.id=1 listeners=PLAINTEXT://10.215.0.2:{port} log.dirs={tmp_path}/data process.cpus=0 \
            admin.listener=127.0.0.1:21521 > {tmp_path}/broker.log 2>&1 &
        broker=$!
        trap "kill $broker" EXIT
        for try in $(seq 300); do
            (exec 3<>/dev/tcp/10.215.0.2/{port}) 2>/dev/null && break
            sleep 0.1
        done
        """,
        items=[("net.vb.napi-0.cpus", "1")],
        after=thread_cpus(0))
    assert kept["verdict"] == "adopt", kept["why"]
    assert kept["effects"][0]["p"] < 0.05
    assert kept["effects"][0]["benefit"]["estimate"] >= 0.90, kept["why"]


@alone
@rooted
def test_polling_a_card_on_a_busy_server_is_harmful_and_taken_back_within_ten_seconds(tmp_path):
    """E5: threads that poll, on the CPU of a server that is busy."""
    design(tmp_path / "design.toml", [HERE / "napi_load.py", "4"], block=400, pairs=10, same=3)
    kept = experiment(
        tmp_path, 5,
        before=CARDS,
        items=[("net.vb.threaded", 1), ("net.vb.napi-0.cpus", "0")],
        after='test "$(cat /sys/class/net/vb/threaded)" = 0')
    assert kept["verdict"] == "harmful", kept["why"]
    last = max(sample["figures"]["ended"] for sample in kept["samples"])
    undone = newest_end(tmp_path / "state")
    assert undone - last < 10, undone - last


def newest_end(state):
    """When the newest transaction was closed."""
    newest = max(state.glob("*.jsonl"), key=lambda path: [int(part) for part in path.stem.split("-")])
    closed = [json.loads(line) for line in newest.read_text().splitlines()][-1]
    assert closed["kind"] == "closed", closed
    return closed["at_ms"] / 1000


@rooted
def test_what_changes_nothing_is_not_adopted(tmp_path):
    """The null case: a setting that nothing uses. It is never adopted, and at most one of twenty is said to do anything; since that is
    a matter of chance (one of sixty by its sign alone), two of twenty are followed by twenty more."""
    codes = null_cases(tmp_path, range(20))
    if sum(code != 4 for code in codes) > 1:
        codes += null_cases(tmp_path, range(20, 40))
    assert 0 not in codes, codes
    assert sum(code != 4 for code in codes) * 20 <= len(codes), codes


def null_cases(tmp_path, seeds):
    """The exit codes of experiments whose change does nothing, two at a time: the order of the arms is drawn, so that what else happens
    is no reason for a verdict."""

    def one(seed):
        dir = tmp_path / str(seed)
        dir.mkdir()
        design(dir / "design.toml", [HERE / "quiet_load.py"], block=20, pairs=6, same=2, primary="median_us")
        text = (dir / "design.toml").read_text().replace("seed = 7", f"seed = {seed}")
        (dir / "design.toml").write_text(text)
        done = in_namespace(
            f"""
            mount -t sysfs none /sys
            {write_plan(dir / "plan.toml", [("sysctl.net.ipv4.tcp_mtu_probing", 1)])}
            {FOREBAY} tune --state {dir}/state experiment {dir}/design.toml -o {dir}/result.json
            """)
        assert done.returncode in (0, 4, 5), (done.stdout, done.stderr)
        return done.returncode

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, seeds))


@rooted
def test_what_a_reset_of_a_link_takes_away_is_written_anew(tmp_path):
    """The link goes down and up: the threads that poll the card are new, and on all CPUs."""
    done = in_namespace(
        CARDS + f"""
        echo 1 > /sys/class/net/vb/threaded
        {write_plan(tmp_path / "plan.toml", [("net.vb.napi-0.cpus", "1")])}
        tune="{FOREBAY} tune --state {tmp_path}/state"
        $tune apply {tmp_path}/plan.toml --until-reboot
        cpus() {{
            for thread in /proc/[0-9]*; do
                case "$(cat $thread/comm 2>/dev/null)" in napi/vb-*)
                    grep Cpus_allowed_list $thread/status | cut -f2; return;;
                esac
            done
        }}
        is_back() {{
            for try in $(seq 200); do
                test "$(cpus)" = 1 && return 0
                sleep 0.1
            done
            echo "it is $(cpus)" >&2
            return 1
        }}
        test "$(cpus)" = 1
        $tune verify --watch > {tmp_path}/said &
        watch=$!
        trap "kill $watch" EXIT
        sleep 1
        for round in 1 2; do
            ip link set vb down
            ip link set vb up
            is_back
        done
        kill $watch
        wait $watch || true
        trap - EXIT
        grep -q restored {tmp_path}/said
        # A watch that ends changes nothing; undo does.
        test "$(cpus)" = 1
        $tune undo
        test "$(cpus)" != 1
        """)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)


@rooted
def test_what_a_change_of_channels_takes_away_is_written_anew(tmp_path):
    """From four queues to two and back: the new ones have no steering, and their threads are on all CPUs."""
    cards = CARDS.replace(
        "ip link add va type veth peer name vb",
        "ip link add va numrxqueues 4 numtxqueues 4 type veth peer name vb numrxqueues 4 numtxqueues 4")
    done = in_namespace(
        cards + f"""
        {sys.executable} {HERE / "channels.py"} vb 4
        echo 1 > /sys/class/net/vb/threaded
        {write_plan(tmp_path / "plan.toml", [("net.vb.napi-3.cpus", "1"), ("net.vb.rx-3.rps_cpus", "0")])}
        tune="{FOREBAY} tune --state {tmp_path}/state"
        $tune apply {tmp_path}/plan.toml --until-reboot
        # Of the last thread by number, which is that of the last queue.
        cpus() {{
            for thread in /proc/[0-9]*; do
                case "$(cat $thread/comm 2>/dev/null)" in napi/vb-*)
                    echo "$(cut -d- -f2 < $thread/comm) $(grep Cpus_allowed_list $thread/status | cut -f2)";;
                esac
            done | sort -n | tail -1 | cut -d' ' -f2
        }}
        is_there() {{
            test "$(cpus)" = 1 && test "$(cat /sys/class/net/vb/queues/rx-3/rps_cpus)" = 1
        }}
        is_there
        $tune verify --watch > {tmp_path}/said &
        watch=$!
        trap "kill $watch" EXIT
        sleep 1
        {sys.executable} {HERE / "channels.py"} vb 2
        sleep 0.2
        {sys.executable} {HERE / "channels.py"} vb 4
        for try in $(seq 200); do
            is_there && break
            sleep 0.1
        done
        is_there
        grep -q restored {tmp_path}/said
        """)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)


@rooted
@pytest.mark.skipif(subprocess.run(["which", "strace"], capture_output=True).returncode != 0, reason="strace is not installed")
def test_killed_at_every_write_the_settings_of_the_kernel_are_as_they_were(tmp_path):
    """A plan of twenty items, all of them settings of a namespace."""
    items = [
        ("sysctl.net.core.somaxconn", 8192), ("sysctl.net.ipv4.tcp_max_syn_backlog", 8192),
        ("sysctl.net.ipv4.tcp_rmem", "4096 131072 16777216"), ("sysctl.net.ipv4.tcp_wmem", "4096 65536 16777216"),
        ("sysctl.net.ipv4.tcp_slow_start_after_idle", 0), ("sysctl.net.ipv4.tcp_notsent_lowat", 131072),
        ("sysctl.net.ipv4.tcp_fin_timeout", 30), ("sysctl.net.ipv4.tcp_tw_reuse", 1), ("sysctl.net.ipv4.tcp_mtu_probing", 1),
        ("sysctl.net.ipv4.tcp_congestion_control", "reno"),
    ]
    for card in ("vb", "vc"):
        items += [
            (f"net.{card}.tx_queue_len", 2000), (f"net.{card}.napi_defer_hard_irqs", 2), (f"net.{card}.gro_flush_timeout", 20000),
            (f"net.{card}.rx-0.rps_cpus", "1"), (f"net.{card}.rx-0.rps_flow_cnt", 3000)]
    assert len(items) == 20
    done = in_namespace(
        CARDS + f"""
        ip link add vc type veth peer name vd
        {write_plan(tmp_path / "plan.toml", items)}
        {sys.executable} {HERE / "kill_everywhere.py"} {FOREBAY} {tmp_path}/plan.toml {tmp_path}/state
        """)
    assert done.returncode == 0, (done.stdout, done.stderr)
    # An intent, the setting and its outcome for each.
    assert int(done.stdout.split()[-1]) >= 3 * len(items), done.stdout
