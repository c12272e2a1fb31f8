"""The load of the experiment on who polls a card, with a broker: broker_napi_load.py FOREBAY PORT.

Runs in the namespace of a broker that is confined to CPU 0 (`process.cpus=0`), which it shares with programs that compute, and that
listens on the card. A client of the namespace `sender` writes, reads and checks records over the card at a steady rate, while bursts
of datagrams come over it, too. Prints how many packets found no room in the card's ring. A record that was acknowledged and does not
come back fails the block.
"""

import json
import os
import socket
import subprocess
import sys
import time

from napi_load import ADDRESS, BURST, EVERY, SO_RCVBUFFORCE, child, enter, send, server

FOREBAY, PORT = sys.argv[1], sys.argv[2]
SERVERS = 6


def client(seconds):
    """Starts the client of the other network."""

    def before():
        os.sched_setaffinity(0, {1})
        enter("sender")

    command = [
        FOREBAY, "bench", "load", "--format", "json", "--bootstrap", f"{ADDRESS[0]}:{PORT}", "--topic", f"steady-{os.getpid()}",
        "--producers", "2", "--consumers", "1", "--record", "1KB", "--rate", "500KB", "--seconds", f"{seconds:.2f}", "--verify"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=before, text=True)


def main():
    seconds = int(os.environ["FOREBAY_BLOCK_MS"]) / 1000
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
    receiver.bind(ADDRESS)
    os.sched_setaffinity(0, {1})
    steady = client(seconds)
    servers = [child(server) for _ in range(SERVERS)]
    time.sleep(0.1)
    bursts = max(1, int(seconds / EVERY))
    reading, writing = os.pipe()
    sender = child(lambda: os.write(writing, str(send(bursts)).encode()))
    os.waitpid(sender, 0)
    lost = int(os.read(reading, 32))
    for pid in servers:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    out, _ = steady.communicate()
    if steady.returncode:
        raise SystemExit(f"the client ended with {steady.returncode}")
    figures = json.loads(out)
    print(json.dumps({"lost": lost, "sent": bursts * BURST, "over_the_card_mb": figures["produce_mb"], "p99_ms": figures["produce_p99_ms"]}))


main()
