"""The load of the null case: what no setting changes. Round trips over the loopback, their median in microseconds."""

import json
import os
import socket
import time

ours, theirs = socket.socketpair()
end = time.monotonic() + int(os.environ["FOREBAY_BLOCK_MS"]) / 1000
times = []
while not times or time.monotonic() < end:
    begun = time.perf_counter()
    ours.send(b"x")
    theirs.recv(1)
    times.append(time.perf_counter() - begun)
print(json.dumps({"median_us": sorted(times)[len(times) // 2] * 1e6}))
