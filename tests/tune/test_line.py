"""Clients behind a line that delays and loses packets, for kernels without netem: the line itself, and requests over it."""

import json
import statistics
import sys

from test_tune import CARDS, HERE, alone, broker, experiment, in_namespace, rooted

LINE = f"""
        {sys.executable} {HERE / "relay.py"} {{delay}} {{loss}} > {{log}} &
        line=$!
        trap 'kill $line' EXIT
        for try in $(seq 100); do grep -q ready {{log}} && break; sleep 0.05; done
        grep -q ready {{log}}
        """


def line(tmp_path, delay, loss):
    return LINE.format(delay=delay, loss=loss, log=tmp_path / "line.log")


@alone
@rooted
def test_the_line_delays_and_loses_as_it_was_told(tmp_path):
    echo = tmp_path / "echo.py"
    echo.write_text(
        """
import ctypes, json, os, socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.216.0.2", 7))
if os.fork() == 0:
    server.settimeout(5)
    try:
        while True:
            data, peer = server.recvfrom(64)
            server.sendto(data, peer)
    except TimeoutError:
        os._exit(0)
with open("/run/netns/sender") as file:
    assert ctypes.CDLL(None).setns(file.fileno(), 0x40000000) == 0
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect(("10.216.0.2", 7))
client.settimeout(0.5)
times = []
sent = time.monotonic()
for number in range(1000):
    client.send(str(number).encode() + b" " + str(time.monotonic()).encode())
    time.sleep(0.0005)
    client.setblocking(False)
    try:
        while True:
            times.append((time.monotonic() - float(client.recv(64).split()[1])) * 1000)
    except BlockingIOError:
        pass
end = time.monotonic() + 0.5
while time.monotonic() < end:
    try:
        times.append((time.monotonic() - float(client.recv(64).split()[1])) * 1000)
    except BlockingIOError:
        time.sleep(0.001)
print(json.dumps(times))
""")
    done = in_namespace(CARDS + line(tmp_path, 10, 5) + f"{sys.executable} {echo}")
    assert done.returncode == 0, done.stderr
    times = json.loads(done.stdout)
    assert min(times) >= 20, min(times)
    assert statistics.median(times) < 35, statistics.median(times)
    # Each way loses 5 of 100: 902.5 come back, give or take four deviations.
    assert 860 <= len(times) <= 945, len(times)


@alone
@rooted
def test_a_congestion_control_that_bears_loss_is_adopted_by_the_slowest_requests_over_a_line(tmp_path):
    """Produce and fetch over a line with delay and loss, on the host of the clients."""
    port = 21540
    (tmp_path / "design.toml").write_text(
        f"""
version = 1
plan = "plan.toml"
seed = 3
pairs = 6
pairs_of_same = 2
block_ms = 1000
load = {json.dumps([sys.executable, str(HERE / "line_load.py"), str(broker()), f"10.216.0.1:{port}"])}
[[primary]]
name = "produce_p99_ms"
threshold = 0.10
""")
    kept = experiment(
        tmp_path, 0,
        before=CARDS + line(tmp_path, 10, 2) + f"""
        echo reno > /proc/sys/net/ipv4/tcp_congestion_control
        ip netns exec sender ip link set lo up
        ip netns exec sender {broker()} serve node.id=1 listeners=PLAINTEXT://10.216.0.1:{port} log.dirs={tmp_path}/data \
            admin.listener=127.0.0.1:{port + 1} > {tmp_path}/broker.log 2>&1 &
        broker=$!
        trap 'kill $broker $line' EXIT
        for try in $(seq 300); do
            (exec 3<>/dev/tcp/10.216.0.1/{port}) 2>/dev/null && break
            sleep 0.1
        done
        """,
        items=[("sysctl.net.ipv4.tcp_congestion_control", "bbr")],
        after='test "$(cat /proc/sys/net/ipv4/tcp_congestion_control)" = reno')
    assert kept["verdict"] == "adopt", kept["why"]
    benefit = kept["effects"][0]["benefit"]
    assert benefit["low"] > 0.10 and kept["effects"][0]["p"] < 0.05, kept["why"]
    assert all(sample["figures"].get("produce_lost", 0) == 0 for sample in kept["samples"])
