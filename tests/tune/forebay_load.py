"""The load of the experiment on this machine's own settings: forebay_load.py FOREBAY.

For each block a broker is started, since a listener has the queue that the kernel allowed when it began to listen. Clients connect
to it at once, as after a restart; then `forebay bench` writes and reads at a steady rate, and then in steps, for the capacity at an
objective. Prints the figures of all three. A record that was acknowledged and does not come back fails the block.
"""

import json
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOREBAY = sys.argv[1]
CLIENTS = 6000
PATIENCE = 30
STEADY = ["--producers", "8", "--consumers", "4", "--record", "1KB", "--rate", "40MB", "--seconds", "3", "--verify"]
STEPS = [
    "--producers", "8", "--record", "10KB", "--rate", "step:75MB,125MB,175MB,225MB,275MB,325MB,400MB,500MB/0.5", "--seconds", "4",
    "--interval", "0.25", "--objective-p99", "50"]


def free_port():
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]


def start(directory, port):
    broker = subprocess.Popen(
        [FOREBAY, "serve", "node.id=1", f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={directory}/data",
         "socket.listen.backlog.size=65535", f"admin.listener=127.0.0.1:{free_port()}"],
        stdout=open(directory / "log", "w"), stderr=subprocess.STDOUT)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and broker.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return broker
        except OSError:
            time.sleep(0.02)
    raise SystemExit("the broker does not start: " + (directory / "log").read_text()[-2000:])


def storm(port):
    """Clients connect at once; how long they wait, in milliseconds. One that is turned away tries again after a second."""
    poll = select.epoll()
    waiting, times = {}, []
    for _ in range(CLIENTS):
        client = socket.socket()
        client.setblocking(False)
        waiting[client.fileno()] = (client, time.monotonic())
        client.connect_ex(("127.0.0.1", port))
        poll.register(client, select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP)
    open_clients = []
    end = time.monotonic() + 10
    while waiting and time.monotonic() < end:
        for number, _ in poll.poll(0.1):
            poll.unregister(number)
            client, begun = waiting.pop(number)
            open_clients.append(client)
            if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                times.append((time.monotonic() - begun) * 1000)
    # Those that did not come to be count as the slowest.
    times = sorted(times) + [10_000.0] * (CLIENTS - len(times))
    for client, _ in waiting.values():
        client.close()
    for client in open_clients:
        client.close()
    return {"connect_p50_ms": times[CLIENTS // 2], "connect_p99_ms": times[CLIENTS * 99 // 100]}


def bench(port, prefix, *arguments):
    command = [FOREBAY, "bench", "load", "--format", "json", "--bootstrap", f"127.0.0.1:{port}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise SystemExit(f"{prefix}: {done.stderr[-2000:]}")
    return {f"{prefix}_{name}": value for name, value in json.loads(done.stdout).items()}


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    port = free_port()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        broker = start(Path(name), port)
        try:
            figures = storm(port)
            time.sleep(0.2)
            figures.update(bench(port, "steady", *STEADY))
            figures.update(bench(port, "steps", *STEPS))
        finally:
            broker.terminate()
            broker.wait(PATIENCE)
    print(json.dumps(figures))


main()
