"""The load of the experiments on who polls a card: bursts of datagrams over a veth to a host whose server is busy.

Runs in the namespace of the receiver; the sender's is named `sender`. Prints how many of those that were sent were lost.
The server is a process that computes on CPU 0, the datagrams are taken and sent on CPU 1: only where the card is polled differs.
"""

import ctypes
import json
import os
import socket
import sys
import time

BURST, EVERY = 200, 0.005
ADDRESS = ("10.215.0.2", 21500)
SO_RCVBUFFORCE = 33


def dropped():
    """Packets for which the ring of the pair of cards had no room, by the sender's card."""
    with open("/proc/thread-self/net/dev") as file:
        [line] = [line for line in file if line.strip().startswith("va:")]
    return int(line.split(":")[1].split()[11])


def enter(name):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{name}") as file:
        if libc.setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


def child(body):
    pid = os.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    return pid


def server():
    os.sched_setaffinity(0, {0})
    while True:
        sum(range(10_000))


def send(bursts):
    os.sched_setaffinity(0, {1})
    enter("sender")
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect(ADDRESS)
    payload = bytes(64)
    before = dropped()
    due = time.monotonic()
    for _ in range(bursts):
        for _ in range(BURST):
            try:
                out.send(payload)
            except OSError:
                pass
        due += EVERY
        time.sleep(max(0.0, due - time.monotonic()))
    return dropped() - before


def main():
    bursts = max(1, int(int(os.environ["FOREBAY_BLOCK_MS"]) / 1000 / EVERY))
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
    receiver.bind(ADDRESS)
    os.sched_setaffinity(0, {1})
    servers = [child(server) for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1)]
    time.sleep(0.05)
    reading, writing = os.pipe()
    sender = child(lambda: os.write(writing, str(send(bursts)).encode()))
    os.waitpid(sender, 0)
    lost = int(os.read(reading, 32))
    for pid in servers:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    print(json.dumps({"lost": lost, "sent": bursts * BURST, "ended": time.time()}))


if __name__ == "__main__":
    main()
