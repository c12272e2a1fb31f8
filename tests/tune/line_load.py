"""The load over a line that delays and loses packets: line_load.py FOREBAY ADDRESS.

Clients of this network write to a broker of the other one and read back, at a rate that rises in steps; prints the capacity at an
objective, in megabytes a second, and the other figures of `forebay bench`. An acknowledged record that does not come back fails the
block.
"""

import json
import subprocess
import sys

FOREBAY, ADDRESS = sys.argv[1:]
STEPS = [
    "--producers", "1", "--consumers", "2", "--record", "1KB", "--rate", "step:500KB,1MB,2MB,4MB/0.6", "--seconds", "2.4",
    "--interval", "0.2", "--objective-p99", "700", "--verify"]


def main():
    command = [FOREBAY, "bench", "load", "--format", "json", "--bootstrap", ADDRESS, *STEPS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    print(json.dumps({name: value for name, value in json.loads(done.stdout).items() if isinstance(value, (int, float))}))


main()
