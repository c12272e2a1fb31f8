"""What the machine boots: Debian's kernel, and a first file system with busybox, the modules of NVDIMM and the test's files.

The kernel comes from Debian's package, taken out with dpkg-deb into the user's cache, not installed. Modules are loaded in
the order of their dependencies, which each of them names; the archive is written here (newc cpio).
"""

import gzip
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "forebay" / "dax"
MODULES = ["nfit", "nd_pmem", "crc32c_generic", "ext4", "xfs", "e1000"]
PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static"}
MKFS = {"ext4": ("mkfs.ext4", "e2fsprogs"), "xfs": ("mkfs.xfs", "xfsprogs")}


class Missing(Exception):
    """Something the test needs is not on this machine, and could not be got."""


def need_tools(fs):
    """Sees to it that the programs are there: installs their packages when this is root on Debian."""
    needed = [*PACKAGES.items(), MKFS[fs]]
    lacking = [package for program, package in needed if not find(program)]
    if not lacking:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *lacking]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Missing(f"needs {' '.join(lacking)}: {' '.join(command)}")
    subprocess.run(["apt-get", "update", "-qq"], check=False)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"{' '.join(command)} failed:\n{done.stderr}")


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Kernel:
    """A kernel taken out of its package."""

    def __init__(self, root):
        self.root = root
        self.image = next(iter(sorted((root / "boot").glob("vmlinuz-*"))))
        self.modules = {}
        for path in (root / "lib" / "modules").rglob("*.ko"):
            self.modules[path.stem.replace("-", "_")] = path

    def in_order(self, wanted):
        """The files of the modules wanted and of those they depend on, each after those."""
        order = []

        def add(name):
            if name in order or name not in self.modules:
                return  # Built in.
            said = re.search(rb"\0depends=([^\0]*)\0", self.modules[name].read_bytes())
            for other in (said.group(1).decode() if said else "").split(","):
                if other:
                    add(other.replace("-", "_"))
            order.append(name)

        for name in wanted:
            add(name)
        return [self.modules[name] for name in order]


def kernel():
    """Debian's present kernel, from the cache or its mirror."""
    root = CACHE / "kernel"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        said = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True).stdout
        name = re.search(r"Depends: (linux-image-[0-9]\S+)", said)
        if not name:
            raise Missing("apt knows no linux-image-amd64: this test needs Debian's packages")
        done = subprocess.run(["apt-get", "download", name.group(1)], cwd=root, capture_output=True, text=True)
        package = next(root.glob("*.deb"), None)
        if done.returncode != 0 or not package:
            raise Missing(f"cannot download {name.group(1)}:\n{done.stderr}")
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        package.unlink()
        (root / "complete").touch()
    return Kernel(root)


def initramfs(target, kernel, init, files):
    """Writes the first file system: `init` is its first program (a script), `files` are name: path."""
    archive = Archive()
    for directory in ["bin", "sbin", "dev", "proc", "sys", "mnt", "tmp", "modules"]:
        archive.directory(directory)
    archive.file("init", init.encode(), 0o755)
    archive.file("bin/busybox", Path(find("busybox")).read_bytes(), 0o755)
    for at, module in enumerate(kernel.in_order(MODULES)):
        archive.file(f"modules/{at:02}-{module.name}", module.read_bytes(), 0o644)
    for name, path in files.items():
        for parent in reversed(Path(name).parents):
            archive.directory(str(parent))
        archive.file(name, Path(path).read_bytes(), stat.S_IMODE(os.stat(path).st_mode))
    target.write_bytes(gzip.compress(archive.finish(), compresslevel=1))


def program_files(program, name):
    """A program and the libraries it is linked with, for `initramfs`."""
    files = {name: program}
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for path in re.findall(r"(?:=> )?(/\S+) \(0x", said):
        files[path.lstrip("/")] = path
    return files


class Archive:
    """A cpio archive as the kernel takes it."""

    def __init__(self):
        self.out = bytearray()
        self.names = {"."}

    def directory(self, name):
        if name not in self.names:
            self.entry(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name, content, mode):
        self.entry(name, stat.S_IFREG | mode, content)

    def entry(self, name, mode, content):
        self.names.add(name)
        raw = name.encode() + b"\0"
        fields = [len(self.names), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(raw), 0]
        self.out += b"070701" + b"".join(b"%08x" % field for field in fields) + raw
        self.pad()
        self.out += content
        self.pad()

    def pad(self):
        self.out += b"\0" * (-len(self.out) % 4)

    def finish(self):
        self.entry("TRAILER!!!", 0, b"")
        return bytes(self.out)
