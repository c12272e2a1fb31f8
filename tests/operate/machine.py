"""A machine of its own for a test: this machine's files under a layer that the test may change, in namespaces, with systemd as its
first process. What is installed, started and removed there is real; nothing of it is left when it ends.

Needs root, overlayfs and a cgroup 2 hierarchy. The network is a loopback and nothing else, so the ports of the pages are free.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from peers.process import Process, wait_until

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TOOLS = ["unshare", "nsenter", "pivot_root", "ip", "sudo", "systemctl", "journalctl"]
OPERATOR = "ada"


def missing():
    """Why there can be no such machine here, or None."""
    if os.geteuid() != 0:
        return "a machine of its own needs root"
    for tool in TOOLS:
        if not shutil.which(tool):
            return f"{tool} is missing"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "this kernel has no overlayfs"
    if not cgroups():
        return "there is no cgroup 2 hierarchy"
    return None


def cgroups():
    """Where the cgroup 2 hierarchy is mounted, if it is."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return next((Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)


class Failed(AssertionError):
    """A command on the machine did not do what it should; the message has what it printed."""


class Machine:
    """Running from `__enter__` on. Commands are typed by `ada`, who may use sudo; `root` does what belongs to the test."""

    def __init__(self):
        self.home = Path(tempfile.mkdtemp(prefix="forebay-machine-"))
        self.group = cgroups() / self.home.name
        self.process = self.first = None

    def __enter__(self):
        self.group.mkdir()
        try:
            self._boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _boot(self):
        # The shell joins the group before it has a view of groups of its own.
        script = f'echo $$ > {self.group}/cgroup.procs && exec unshare --mount --pid --fork --kill-child --net --uts --ipc --cgroup ' \
                 f'--propagation private bash {HERE / "boot.sh"} {self.home} {ROOT}'
        self.process = Process(["bash", "-c", script], self.home / "console.log")
        told = self.home / "first"
        self.first = int(wait_until(lambda: self._alive() and told.exists() and told.read_text().strip(), "the first process"))
        wait_until(lambda: self._alive() and Path(f"/proc/{self.first}/comm").read_text() == "systemd\n", "systemd")
        wait_until(self._is_up, "the machine to be up", 60, every=0.2)
        self.root(f"useradd --create-home --shell /bin/bash --groups adm,systemd-journal {OPERATOR}")
        self.root(f"echo '{OPERATOR} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{OPERATOR}")

    def _alive(self):
        if not self.process.alive():
            raise RuntimeError(f"the machine ended:\n{self.process.tail()}")
        return True

    def _is_up(self):
        self._alive()
        state = self.root("systemctl is-system-running", check=False).strip()
        return state in ("running", "degraded")

    def __exit__(self, *_):
        try:
            if self.process:
                self.process.kill()
            if self.group.exists():
                # Whoever has left the first process' view of processes is in the group.
                (self.group / "cgroup.kill").write_text("1")
                # Groups of processes that have been killed go one after the other.
                wait_until(self._remove_groups, "the machine's groups to be empty", 30)
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def _remove_groups(self):
        for directory, _, _ in sorted(os.walk(self.group), key=lambda row: -len(row[0])):
            try:
                os.rmdir(directory)
            except OSError:
                return False
        return True

    def enter(self, *command):
        """The command line that runs something on the machine."""
        return ["nsenter", "--target", str(self.first), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", *map(str, command)]

    def root(self, script, check=True, seconds=240, stdin=None):
        return self._run(self.enter("bash", "-c", script), script, check, seconds, stdin)

    def type(self, script, cwd="~", check=True, seconds=240):
        """What an operator types: a block of a page, or a line."""
        whole = f"cd {cwd} && set -euo pipefail\n{script}"
        return self._run(self.enter("runuser", "-l", OPERATOR, "-c", whole), script, check, seconds)

    def _run(self, command, script, check, seconds, stdin=None):
        done = subprocess.run(command, input=stdin, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                              check=False, **({} if stdin else {"stdin": subprocess.DEVNULL}))
        if check and done.returncode != 0:
            raise Failed(f"{script}\nended with {done.returncode}:\n{done.stdout}\n{self._log()}")
        return done.stdout

    def _log(self):
        """The last lines of services, which say more than a client."""
        command = self.enter("journalctl", "-n", "40", "--no-pager", "-o", "short-monotonic")
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout

    def copy(self, source, to):
        """Copies a file of this machine there."""
        with open(source, "rb") as file:
            subprocess.run(self.enter("bash", "-c", f"mkdir -p $(dirname {to}) && cat > {to}"), stdin=file, check=True)
