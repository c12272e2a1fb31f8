"""Settings and counters of cards that need the kernel's own interfaces: features, queues, reasons of drops; and the plan's guard."""

import json
import sys
import time

from test_tune import CARDS, FOREBAY, Host, alone, in_namespace, rooted, wait_until, write_plan


def shown(script, more=""):
    """What `inspect` shows after a script in a namespace of its own."""
    done = in_namespace(f"{CARDS}\n{script}\n{FOREBAY} tune inspect --format json {more}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@rooted
def test_features_of_a_card_are_switched_and_back(tmp_path):
    state, plan = tmp_path / "state", tmp_path / "plan.toml"
    plan_of = write_plan(plan, [])
    done = in_namespace(
        f"""
        {CARDS}
        {plan_of}
        cat >> {plan} <<END
[[item]]
id = "net.vb.features"
want = {{ gro = 0, tso = 0 }}
class = "F"
why = "a test"
confidence = "high"
END
        value() {{ {FOREBAY} tune inspect --format json | {sys.executable} -c '
import json, sys
print([knob["value"] for knob in json.load(sys.stdin)["knobs"] if knob["id"] == "net.vb.features"][0])'; }}
        before=$(value)
        {FOREBAY} tune --state {state} apply {plan} >&2
        echo "$before"
        value
        {FOREBAY} tune --state {state} undo >&2
        value
        """)
    assert done.returncode == 0, done.stderr
    before, with_it, after = done.stdout.splitlines()
    assert "gro=1" in before and "tso=1" in before, before
    assert "gro=0" in with_it and "tso=0" in with_it, with_it
    assert after == before


@rooted
def test_what_a_queue_drops_before_sending_is_counted(tmp_path):
    found = shown(
        f"""
        tc qdisc add dev vb root tbf rate 1mbit burst 2kb limit 3000
        {sys.executable} -c '
import socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(200):
    try:
        out.sendto(bytes(1000), ("10.215.0.1", 9))
    except OSError:
        pass
'
        tc -s qdisc show dev vb > {tmp_path}/tc
        """)
    [dropped] = [int(part.split(",")[0]) for part in (tmp_path / "tc").read_text().split("dropped ")[1:]]
    assert dropped > 0
    assert found["counters"]["net.vb.qdisc_drops"] == dropped
    assert {"place": "qdisc", "count": dropped} in found["drops"]


@alone
@rooted
def test_why_packets_are_dropped_is_what_the_kernel_counts(tmp_path):
    """2,000 datagrams for a socket that is not read: the sum of the reason is the kernel's own counter."""
    load = tmp_path / "load.py"
    load.write_text(
        """
import glob, socket, time
while not glob.glob("/sys/kernel/tracing/instances/forebay-*/events/skb/kfree_skb"):
    time.sleep(0.01)
time.sleep(0.5)
taking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
taking.bind(("127.0.0.1", 21590))
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(2000):
    out.sendto(bytes(64), ("127.0.0.1", 21590))
time.sleep(3)
""")
    found = shown(
        f"""
        mount -t tracefs nodev /sys/kernel/tracing
        {sys.executable} {load} &
        """, more="--reasons 4s")
    counted = found["counters"]["udp.receive_buffer_errors"]
    traced = sum(one["count"] for one in found["reasons"] if one["reason"] == "SOCKET_RCVBUFF")
    assert counted > 1_000, counted
    assert abs(traced - counted) <= counted / 100, (traced, counted)
    assert all(one["location"] for one in found["reasons"])


def test_a_plan_whose_guard_is_violated_is_taken_back_before_its_time(tmp_path):
    Host.FILES["sys/class/net/eth0/statistics/rx_packets"] = "1000000"
    Host.FILES["sys/class/net/eth0/statistics/rx_missed_errors"] = "5"
    try:
        host = Host(tmp_path)
        before = host.files()
        plan = host.plan.read_text()
        host.plan.write_text(plan + '\n[guard]\np99_ratio_max = 1.1\n')
        assert "needs metrics" in host.tune("apply", host.plan, check=7).stderr
        host.plan.write_text(plan + '\n[guard]\ndrop_ppm_max = 50\nwindow = "1m"\n')
        host.tune("apply", host.plan, "--confirm-within", "10m", check=0)
        applied = host.files()
        assert applied != before
        time.sleep(2.5)
        assert host.files() == applied, "nothing was lost"
        for name, text in (("rx_packets", "1100000"), ("rx_missed_errors", "905")):
            (host.dir / "sys/class/net/eth0/statistics" / name).write_text(text + "\n")
        begun = time.monotonic()
        wait_until(lambda: host.json("status")[-1]["standing"] == "closed")
        assert time.monotonic() - begun < 10
        assert "9000 of a million packets" in host.json("status")[-1]["ended"]
        changed = ("rx_packets", "rx_missed_errors")
        assert {name: text for name, text in host.files().items() if not name.endswith(changed)} == {
            name: text for name, text in before.items() if not name.endswith(changed)}
    finally:
        for name in ("rx_packets", "rx_missed_errors"):
            del Host.FILES[f"sys/class/net/eth0/statistics/{name}"]
