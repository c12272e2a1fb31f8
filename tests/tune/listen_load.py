"""The load of the experiment on the queue of a listener: many connections at once to a server that accepts late.

Prints how many connections the kernel turned away (ListenOverflows of this namespace) and the median of connecting.
"""

import json
import select
import socket
import time

CONNECTIONS = 300


def overflows():
    with open("/proc/net/netstat") as file:
        lines = file.read().splitlines()
    for names, values in zip(lines[::2], lines[1::2]):
        if names.startswith("TcpExt:"):
            return int(dict(zip(names.split()[1:], values.split()[1:]))["ListenOverflows"])
    raise SystemExit("no TcpExt in netstat")


def main():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(4096)
    before, begun = overflows(), time.monotonic()
    clients = []
    for _ in range(CONNECTIONS):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(server.getsockname())
        clients.append(client)
    # Those that found room are there at once; the rest try again after a second, which is not waited for.
    _, connected, _ = select.select([], clients, [], 0.2)
    turned_away = overflows() - before
    print(json.dumps({"turned_away": turned_away, "connected": len(connected), "seconds": time.monotonic() - begun}))
    for client in clients:
        client.close()


main()
