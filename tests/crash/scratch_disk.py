"""An ext4 file system in a file, whose power can be cut: what had not been synced is gone after the next mount.

Needs root and loop devices. Everything is undone on `close`, whatever happened: the file system is unmounted, the loop
device is detached, the image is removed. It tears no sectors and does not reorder within the device: the simulation does.
"""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

# EXT4_IOC_SHUTDOWN (the same number as XFS_IOC_GOINGDOWN): _IOR('X', 125, __u32). The argument 2 drops the journal
# that has not been written, too.
SHUTDOWN = 0x8004587D
WITHOUT_JOURNAL = 2
IMAGE_BYTES = 3 << 30
BUSY_SECONDS_MAX = 10


def missing():
    """Why there can be no scratch disk here, or None."""
    if os.geteuid() != 0:
        return "cutting the power needs root"
    for tool in ("losetup", "mkfs.ext4", "mount", "umount"):
        if not shutil.which(tool):
            return f"{tool} is missing"
    found = subprocess.run(["losetup", "-f"], capture_output=True, text=True, check=False)
    if found.returncode != 0 or not Path(found.stdout.strip()).exists():
        return "there are no loop devices"
    return None


class ScratchDisk:
    """Mounted at `.path`."""

    def __init__(self, size=IMAGE_BYTES):
        self.home = Path(tempfile.mkdtemp(prefix="scratch-disk-"))
        self.image = self.home / "image"
        self.path = self.home / "mounted"
        self.path.mkdir()
        self.device = None
        try:
            with open(self.image, "wb") as image:
                image.truncate(size)
            _run("mkfs.ext4", "-q", "-F", self.image)
            self.device = _run("losetup", "--find", "--show", self.image).strip()
            self._mount()
        except BaseException:
            self.close()
            raise

    def _mount(self):
        _run("mount", "-t", "ext4", self.device, self.path)

    def cut_power(self):
        """From now on every write fails, and what was not synced is lost."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_JOURNAL))
        finally:
            os.close(descriptor)

    def restore_power(self):
        """Mounts what the device still has."""
        self.take_away()
        self.bring_back()

    def take_away(self):
        """Unmounts it: an empty directory is left in its place. No process may have files open there; those of a process that was
        killed just now the kernel may close a little later: requests of its io_uring end behind it."""
        deadline = time.monotonic() + BUSY_SECONDS_MAX
        while True:
            try:
                _run("umount", self.path)
                break
            except subprocess.CalledProcessError as error:
                if "busy" not in error.stderr or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.path} stays mounted: {error.stderr.strip()}") from error
                time.sleep(0.05)  # there is no event to wait for

    def bring_back(self):
        self._mount()

    def close(self):
        if os.path.ismount(self.path):
            with contextlib.suppress(subprocess.CalledProcessError):
                _run("umount", self.path)
        if os.path.ismount(self.path):
            _run("umount", "--lazy", self.path)
        if self.device:
            _run("losetup", "--detach", self.device)
            self.device = None
        shutil.rmtree(self.home)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _run(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
