"""A line between two network namespaces that delays and loses packets, for kernels without netem: relay.py DELAY_MS LOSS_PERCENT.

Started in the receiver's namespace; the sender's is named `sender`. Each gets a TUN device `line` (10.216.0.2 and 10.216.0.1), and
packets go from one to the other after the delay, except a random share. Prints `ready`, and at SIGTERM what it carried.
"""

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
QUEUE_MAX = 4096
NAME = "line"


def enter(path):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path) as file:
        if libc.setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


def tun(address):
    """A device of this thread's namespace."""
    line = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(line, TUNSETIFF, struct.pack("16sH22x", NAME.encode(), IFF_TUN | IFF_NO_PI))
    for command in (
            ["ip", "addr", "add", f"{address}/24", "dev", NAME], ["ip", "link", "set", NAME, "txqueuelen", "10000", "up"]):
        subprocess.run(command, check=True)
    return line


def main():
    delay, loss = float(sys.argv[1]) / 1000, float(sys.argv[2]) / 100
    here = tun("10.216.0.2")
    enter("/run/netns/sender")
    there = tun("10.216.0.1")
    chance, waiting, counts = random.Random(1), [], {"carried": 0, "lost": 0, "full": 0}
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    other = {here: there, there: here}
    print("ready", flush=True)
    number = 0
    while not ended:
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.2
        for line in select.select([here, there], [], [], wait)[0]:
            for _ in range(64):
                try:
                    packet = os.read(line, 65536)
                except BlockingIOError:
                    break
                if chance.random() < loss:
                    counts["lost"] += 1
                elif len(waiting) >= QUEUE_MAX:
                    counts["full"] += 1
                else:
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + delay, number, other[line], packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            *_, line, packet = heapq.heappop(waiting)
            try:
                os.write(line, packet)
                counts["carried"] += 1
            except OSError:
                counts["full"] += 1
    print(json.dumps(counts), flush=True)


main()
