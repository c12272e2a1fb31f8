"""The load of the experiment on the queue of a broker's listener: broker_load.py FOREBAY DIR.

A broker is started, since a listener has the queue it was given when it began to listen. Clients of another network connect at once
while it does not run for a moment: some, then more, then 300; then records are produced and fetched back. Prints how many connections the
kernel turned away at the last step, and the capacity: the last step at which all were there at once. A record that does not come
back fails the block.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

FOREBAY, DIR = sys.argv[1], Path(sys.argv[2])
ADDRESS = ("10.215.0.2", 21510)
STEPS, RECORDS = (8, 64, 300), 200
PATIENCE = 40


def overflows():
    with open("/proc/net/netstat") as file:
        lines = file.read().splitlines()
    for names, values in zip(lines[::2], lines[1::2]):
        if names.startswith("TcpExt:"):
            return int(dict(zip(names.split()[1:], values.split()[1:]))["ListenOverflows"])
    raise SystemExit("no TcpExt in netstat")


def start():
    shutil.rmtree(DIR, ignore_errors=True)
    DIR.mkdir()
    broker = subprocess.Popen(
        [FOREBAY, "serve", "node.id=1", f"listeners=PLAINTEXT://{ADDRESS[0]}:{ADDRESS[1]}", f"log.dirs={DIR}/data",
         "socket.listen.backlog.size=4096", "admin.listener=127.0.0.1:21511"],
        stdout=open(DIR / "log", "w"), stderr=subprocess.STDOUT)
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(ADDRESS, timeout=1).close()
            return broker
        except OSError:
            if broker.poll() is not None or time.monotonic() > end:
                raise SystemExit("the broker does not start: " + (DIR / "log").read_text()[-2000:])
            time.sleep(0.02)


def waiting():
    """How many connections are in the listener's queue."""
    address = f"{int.from_bytes(socket.inet_aton(ADDRESS[0]), sys.byteorder):08X}:{ADDRESS[1]:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == address and fields[3] == "0A":
            return int(fields[4].split(":")[1], 16)
    raise SystemExit("nobody listens")


def burst(connections):
    """Connects from the other network; how many were there at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/run/netns/sender") as file:
        if libc.setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")
    clients = []
    for _ in range(connections):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(ADDRESS)
        clients.append(client)
    # Those that found room are there at once; the rest try again after a second, which is not waited for.
    left, connected, end = clients, 0, time.monotonic() + 0.3
    while left and (wait := end - time.monotonic()) > 0:
        _, done, _ = select.select([], left, [], wait)
        connected += sum(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 for client in done)
        left = [client for client in left if client not in done]
    return connected


def step(broker, connections):
    """How many of so many clients were there at once, and how many the kernel turned away."""
    end = time.monotonic() + PATIENCE
    while waiting():
        if time.monotonic() > end:
            raise SystemExit("the broker does not accept")
        time.sleep(0.01)
    before = overflows()
    broker.send_signal(signal.SIGSTOP)
    reading, writing = os.pipe()
    connecting = os.fork()
    if connecting == 0:
        try:
            os.write(writing, str(burst(connections)).encode())
        finally:
            os._exit(0)
    connected = int(os.read(reading, 16) or b"0")
    os.waitpid(connecting, 0)
    broker.send_signal(signal.SIGCONT)
    return connected, overflows() - before


def main():
    broker = start()
    try:
        capacity, is_kept = 0, True
        for connections in STEPS:
            connected, turned_away = step(broker, connections)
            is_kept = is_kept and connected == connections and turned_away == 0
            capacity = connections if is_kept else capacity
        servers = f"{ADDRESS[0]}:{ADDRESS[1]}"
        producer = KafkaProducer(bootstrap_servers=servers, acks="all")
        begun = time.monotonic()
        sent = [producer.send("cars", str(number).encode(), partition=0) for number in range(RECORDS)]
        for one in sent:
            one.get(timeout=PATIENCE)
        consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
        consumer.assign([TopicPartition("cars", 0)])
        values = set()
        for record in consumer:
            values.add(record.value)
            if len(values) == RECORDS:
                break
        lost = RECORDS - len(values)
        print(json.dumps({
            "turned_away": turned_away, "connected": connected, "capacity": capacity, "lost": lost,
            "round_ms": (time.monotonic() - begun) * 1000}))
        producer.close()
        consumer.close()
        return 1 if lost else 0
    finally:
        broker.send_signal(signal.SIGCONT)
        broker.terminate()
        broker.wait(PATIENCE)


sys.exit(main())
