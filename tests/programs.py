"""Builds the tests of the workspace and runs their programs beside each other.

    python3 tests/programs.py

`cargo test` runs one program after the other: a processor idles while a program waits, or has one long test left. Here two run at a
time, each with half of the processors for its tests, so that no more tests run at once than cargo would run. What a program says is
printed when it has ended, as cargo prints it; the exit code is 1 if one failed.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TOGETHER = 2
# They take the longest: begun last, one of them would run alone in the end.
FIRST = ["served", "tiers", "seeds", "crash", "log"]
# What is shipped has no librdkafka; the load generator's second driver has. Of the whole workspace, because a package that is asked for
# alone has what it uses with other features, which is compiled again.
DRIVER = ["--features", "forebay-bench/librdkafka", "--test", "load"]

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


class Program(NamedTuple):
    name: str
    path: str
    home: Path


def end_with_parent():
    """For `preexec_fn`: what was started ends when this process ends, however it ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def build(*selection):
    """The programs that cargo makes of what is selected; it tells what does not compile itself."""
    command = ["cargo", "test", "-q", "--locked", "--workspace", *selection, "--no-run", "--message-format", "json-render-diagnostics"]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=end_with_parent).stdout
    return [
        Program(f"{Path(one['manifest_path']).parent.name}/{one['target']['name']}", one["executable"], Path(one["manifest_path"]).parent)
        for one in map(json.loads, told.splitlines())
        if one["reason"] == "compiler-artifact" and one["profile"]["test"] and one["executable"]
    ]


def environment():
    """What cargo would set: a variable that is set already stays as it is."""
    with open(ROOT / ".cargo/config.toml", "rb") as config:
        threads = max(1, (os.cpu_count() or 1) // TOGETHER)
        return {"RUST_TEST_THREADS": str(threads), **tomllib.load(config)["env"], **os.environ}


def run(program, only=()):
    begun = time.monotonic()
    done = subprocess.run([program.path, "--quiet", *only], cwd=program.home, env={**environment(), "CARGO_MANIFEST_DIR": str(program.home)},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=end_with_parent)
    took = time.monotonic() - begun
    # One call: what two programs say is not mixed.
    print(f"     Running {program.name} ({took:.1f} s)\n{done.stdout.decode(errors='replace')}", end="", flush=True)
    if done.returncode:
        print(f"error: {program.name} ended with {done.returncode}", flush=True)
    return done.returncode == 0


def driver():
    """The tests of the ordinary client, whose library takes a C compiler a minute while other tests run."""
    return all([run(program, ["ordinary"]) for program in build(*DRIVER)])


def order(program):
    """Long ones first, the others as cargo has them."""
    name = program.name.partition("/")[2]
    return FIRST.index(name) if name in FIRST else len(FIRST)


def main():
    try:
        programs = sorted(build("--tests"), key=order)
        with ThreadPoolExecutor(TOGETHER) as pool:
            running = [pool.submit(driver), *(pool.submit(run, program) for program in programs)]
            passed = [one.result() for one in running]
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: {' '.join(error.cmd)}: {error.returncode}")
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
