"""The load over a line that delays and loses packets: line_load.py FOREBAY ADDRESS.

A client of this network writes to a broker of the other one and reads back, at twice the rate that Reno reaches over the line of
the test (2 of 100 packets lost each way, 20 ms there and back), and BBR does: which of them it is shows whatever else the machine
does. Prints the figures of `forebay bench`, in which lost records are the slowest. An acknowledged record that does not come back fails the block.
"""

import json
import subprocess
import sys

FOREBAY, ADDRESS = sys.argv[1:]
STEADY = ["--producers", "1", "--consumers", "1", "--record", "1KB", "--rate", "1200KB", "--seconds", "1", "--verify"]


def main():
    command = [FOREBAY, "bench", "load", "--format", "json", "--bootstrap", ADDRESS, *STEADY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    print(json.dumps({name: value for name, value in json.loads(done.stdout).items() if isinstance(value, (int, float))}))


main()
