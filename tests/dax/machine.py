"""A machine with persistent memory, in software: QEMU with an NVDIMM, a file on the host behind it.

The guest makes an `fsdax` namespace and a file system the first time, mounts it with `-o dax=always`, and runs one program.
`kill` is SIGKILL to the QEMU process: the guest stops between two instructions, as at a loss of power, and what its
processor had stored to the NVDIMM is in the file. QEMU models no cache in between: that a store which was not
flushed is lost cannot be seen here (the simulated disk tears at cache lines for that).
"""

import shlex
import subprocess
from pathlib import Path

from dax import guest
from peers.process import Process

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for module in /modules/*.ko; do insmod $module || echo "guest: no $module"; done
nd=/sys/bus/nd
if [ "$(cat $nd/devices/namespace0.0/mode)" = raw ]; then
    echo namespace0.0 > $nd/drivers/nd_pmem/unbind
    cd $nd/devices/pfn0.0
    echo ram > mode; echo 2097152 > align; cat /proc/sys/kernel/random/uuid > uuid
    echo namespace0.0 > namespace
    echo pfn0.0 > $nd/drivers/nd_pmem/bind
    cd /
    {mkfs}
fi
mount -t {fs} -o dax=always /dev/pmem0 /mnt || {{ echo "guest: no DAX mount"; poweroff -f; }}
echo "guest: $(grep ' /mnt ' /proc/mounts)"
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
ulimit -n 65536
{command}
echo "guest: ended with $?"
poweroff -f
"""

# The namespace's block size for the file system is the kernel's page.
MKFS = {
    "ext4": "/sbin/mkfs.ext4 -q -b 4096 /dev/pmem0",
    # Shared extents and DAX exclude each other in this kernel.
    "xfs": "/sbin/mkfs.xfs -q -m reflink=0 /dev/pmem0",
}


class Machine:
    """Built once; started, killed and started again on the same NVDIMM."""

    def __init__(self, home, command, files=None, programs=(), fs="ext4", nvdimm_mib=1024, forward=()):
        guest.need_tools(fs)
        self.home = Path(home)
        self.kernel = guest.kernel()
        self.nvdimm = self.home / "nvdimm"
        with open(self.nvdimm, "wb") as memory:
            memory.truncate(nvdimm_mib << 20)
        self.nvdimm_mib = nvdimm_mib
        self.initramfs = self.home / "initramfs.gz"
        self.forward = forward
        all_files = dict(files or {})
        all_files.update(guest.program_files(guest.find(f"mkfs.{fs}"), f"sbin/mkfs.{fs}"))
        for program, name in programs:
            all_files.update(guest.program_files(self.stripped(program), name))
        init = INIT.format(fs=fs, mkfs=MKFS[fs], command=" ".join(shlex.quote(str(word)) for word in command))
        guest.initramfs(self.initramfs, self.kernel, init, all_files)
        self.process = None

    @property
    def console(self):
        return self.home / "console.log"

    def stripped(self, program):
        """A program without what only debuggers want: all of it has to be loaded at every start."""
        target = self.home / f"{Path(program).name}.stripped"
        done = subprocess.run(["strip", "-o", target, program], capture_output=True) if guest.find("strip") else None
        return target if done and done.returncode == 0 else program

    def argv(self):
        forward = "".join(f",hostfwd=tcp:127.0.0.1:{port}-:{port}" for port in self.forward)
        size = f"{self.nvdimm_mib}M"
        memory = f"memory-backend-file,id=mem,share=on,mem-path={self.nvdimm},size={size},align=2M"
        return [
            "nice", "-n", "5", "qemu-system-x86_64", "-accel", "tcg", "-machine", "pc,nvdimm=on", "-cpu", "max", "-smp", "2",
            "-m", "2G,slots=2,maxmem=8G", "-object", memory, "-device", "nvdimm,id=nvdimm,memdev=mem",
            "-kernel", self.kernel.image, "-initrd", self.initramfs, "-append", "console=ttyS0 quiet panic=-1",
            "-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot",
            "-nic", f"user,model=e1000,restrict=on{forward}" if self.forward else "none",
        ]

    def start(self):
        self.process = Process(self.argv(), self.console)
        return self.process

    def run(self, seconds):
        """Starts it and waits for its end; gives what it said."""
        before = self.console.stat().st_size if self.console.exists() else 0
        self.start()
        try:
            self.process.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise TimeoutError(f"the machine ran for more than {seconds} s:\n{self.process.tail()}") from None
        return self.console.read_bytes()[before:].decode(errors="replace")
