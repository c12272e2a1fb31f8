"""Hosts that are directories, with a double of their controllers: a carrier, and the programs of a restart.

    machines.py carry FOREBAY DIR           the carrier of a rollout
    machines.py drain|restart|ready FOREBAY DIR HOST

Each host has a tree (`root`), journals (`state`) and the place of its controller. The log has a line for each beginning and end. A
host is restarted as a machine is: what its firmware has staged comes into effect, it has another boot, and its boot service runs.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from pathlib import Path

what, forebay, dir, *rest = sys.argv[1:]
dir = Path(dir)
lock = threading.Lock()


def note(what, host, command):
    with lock, open(dir / "log", "a") as file:
        file.write(json.dumps({"at": time.monotonic(), "what": what, "host": host, "command": command}) + "\n")


def tune(host, *arguments):
    place = dir / host
    return subprocess.run(
        [forebay, "tune", "--sysroot", place / "root", "--state", place / "state", *arguments],
        capture_output=True, text=True, env={**os.environ, "FOREBAY_REDFISH": str(place / "redfish.toml")})


def carry():
    request, answers = json.load(sys.stdin), {}

    def one(host, arguments):
        note("begin", host, arguments[2])
        done = tune(host, *(request["plan"] if word == "{plan}" else word for word in arguments))
        note("end", host, arguments[2])
        with lock:
            answers[host] = {"code": done.returncode, "out": done.stdout or done.stderr}

    threads = [threading.Thread(target=one, args=item) for item in request["hosts"].items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(answers))


def serve(host):
    away = dir / host / "away"
    note("begin", host, what)
    if what == "drain":
        if (dir / host / "full").exists():
            sys.exit("a partition would have too few replicas")
        away.write_text("")
    elif what == "ready":
        away.unlink(missing_ok=True)
    else:
        assert away.exists(), f"{host} is restarted undrained"
        port = (dir / "port").read_text()
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/restart/{host}", method="POST")).close()
        (dir / host / "root/proc/sys/kernel/random/boot_id").write_text(f"{uuid.uuid4()}\n")
        done = tune(host, "boot")
        assert done.returncode == 0, done.stderr
    note("end", host, what)


if what == "carry":
    carry()
else:
    serve(rest[0])
