"""Kills `forebay tune apply` at each of its writes, on the settings of the kernel: kill_everywhere.py FOREBAY PLAN STATE.

Runs in a network namespace of its own. After each kill the change is taken back, and every file of the plan has to hold what it held
before, byte by byte. Prints at how many writes it was killed.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

forebay, plan, state = sys.argv[1:]
items = [item["id"] for item in tomllib.loads(Path(plan).read_text())["item"]]


def file(item):
    area, rest = item.split(".", 1)
    if area == "sysctl":
        return Path("/proc/sys", rest.replace(".", "/"))
    parts = rest.split(".")
    device = Path("/sys/class/net", parts[0])
    return device / parts[1] if len(parts) == 2 else device / "queues" / parts[1] / parts[2]


def values():
    return {item: file(item).read_bytes() for item in items}


def tune(*arguments, prefix=()):
    return subprocess.run([*prefix, forebay, "tune", "--state", state, *arguments], capture_output=True, text=True)


before = values()
for at in range(1, 1000):
    inject = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=write", "-e", f"inject=write:signal=SIGKILL:when={at}"]
    done = tune("apply", plan, "--until-reboot", prefix=inject)
    changed = values() != before
    undone = tune("undo")
    assert values() == before, (at, undone.stdout, undone.stderr)
    if done.returncode == 0:
        assert changed, "the last one applied nothing"
        break
else:
    raise SystemExit("it never came to its end")
print(at - 1)
