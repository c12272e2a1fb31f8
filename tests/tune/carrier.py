"""Carries steps to hosts that are network namespaces of this machine, each with a directory: carrier.py FOREBAY DIR LOG.

Hosts are told at the same time. The log has a line for the beginning and the end of each.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

forebay, dir, log = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
request = json.load(sys.stdin)
answers, lock = {}, threading.Lock()


def note(what, host, command):
    with lock, open(log, "a") as file:
        file.write(json.dumps({"at": time.monotonic(), "what": what, "host": host, "command": command}) + "\n")


def carry(host, arguments):
    command = arguments[2]
    arguments = [request["plan"] if word == "{plan}" else word for word in arguments]
    if (dir / host / "dead").exists():
        return
    note("begin", host, command)
    done = subprocess.run(
        ["ip", "netns", "exec", host, forebay, "tune", "--state", dir / host / "state", *arguments],
        capture_output=True, text=True)
    note("end", host, command)
    with lock:
        answers[host] = {"code": done.returncode, "out": done.stdout or done.stderr}


threads = [threading.Thread(target=carry, args=item) for item in request["hosts"].items()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(answers))
