"""The load over a line that delays and loses packets: line_load.py FOREBAY ADDRESS.

Clients of this network write to a broker of the other one and read back, at a steady rate; prints the figures of `forebay bench`, in
which lost records are the slowest. An acknowledged record that does not come back fails the block.
"""

import json
import subprocess
import sys

FOREBAY, ADDRESS = sys.argv[1:]
STEADY = ["--producers", "1", "--consumers", "2", "--record", "1KB", "--rate", "600KB", "--seconds", "2", "--verify"]


def main():
    command = [FOREBAY, "bench", "load", "--format", "json", "--bootstrap", ADDRESS, *STEADY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    print(json.dumps({name: value for name, value in json.loads(done.stdout).items() if isinstance(value, (int, float))}))


main()
