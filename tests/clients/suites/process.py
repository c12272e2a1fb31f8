"""Runs a foreign program to its end, its output in a file."""

import os
import subprocess

from peers.process import die_with_parent


def run(command, log, seconds, cwd=None, env=None):
    """Everything it printed, whatever its verdict: the caller reads that. A program that does not end is killed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as out:
        try:
            subprocess.run(
                [str(part) for part in command], cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, timeout=seconds, preexec_fn=die_with_parent, check=False)
        except subprocess.TimeoutExpired:
            out.write(f"\npanic: did not end within {seconds} s\n")
    return log.read_text(errors="replace")
