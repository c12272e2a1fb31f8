"""Child processes of the tests: started in their own session, ended by the pid that was started, never by name.

A process started here dies with the test run (the kernel's parent-death signal), so that an interrupted run leaves
nothing behind. Output goes to a file, because a pipe that nobody reads stops the child.
"""

import ctypes
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """For `preexec_fn`: the child is killed when this process ends, however it ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """A TCP port on the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=60.0, every=0.02):
    """Waits for a condition with a deadline; returns its first true value, or fails saying what it waited for."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)


def answers(port):
    """Whether something accepts connections on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class Process:
    """One child process with its log file."""

    def __init__(self, argv, log: Path, env=None, cwd=None):
        self.argv = [str(arg) for arg in argv]
        self.log = Path(log)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as out:
            self.child = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self):
        return self.child.pid

    def alive(self):
        return self.child.poll() is None

    def tail(self, lines=40):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_for_port(self, port, seconds=90.0):
        def ready():
            if not self.alive():
                raise RuntimeError(f"{self.argv[0]} ended with {self.child.returncode}:\n{self.tail()}")
            return answers(port)

        wait_until(ready, f"port {port} of {self.argv[0]}", seconds)

    def stop(self, seconds=60.0):
        """SIGTERM, then the exit code; a process that does not end in time is killed and reported."""
        if self.alive():
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"{self.argv[0]} did not stop within {seconds:.0f} s of SIGTERM:\n{self.tail()}") from None

    def kill(self):
        """SIGKILL, and waits for the end."""
        if self.alive():
            self.child.kill()
        self.child.wait()
