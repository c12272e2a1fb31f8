#!/bin/bash
# Inside new namespaces: lays a writable layer over this machine's files, makes it the root, and becomes systemd.
#   boot.sh HOME PROJECT
set -euo pipefail
home=$1 project=$2
# The number of this process outside, where /proc still is that of outside.
read -r number _ < /proc/self/stat
echo "$number" > "$home/first"
mkdir -p "$home/layer"
mount -t tmpfs -o size=8g tmpfs "$home/layer"
mkdir "$home"/layer/{upper,work,root}
root=$home/layer/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$home/layer/upper,workdir=$home/layer/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
    mknod -m 666 "$root/dev/${device% *}" c 1 "${device#* }"
done
mknod -m 666 "$root/dev/tty" c 5 0
mkdir "$root"/dev/{pts,shm}
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for name in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${name%:*}" "$root/dev/${name#*:}"; done
mkdir -p "$root$project"
mount --bind -o ro "$project" "$root$project"
ip link set lo up
echo machine > "$root/etc/hostname"
printf '127.0.0.1 localhost machine\n' > "$root/etc/hosts"
# What this machine starts is not wanted there, and there is no network to wait for.
for unit in systemd-networkd systemd-networkd-wait-online systemd-resolved systemd-timesyncd systemd-udevd systemd-udev-trigger \
    systemd-logind console-getty getty@tty1 ssh cron; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
done
rm -f "$root/etc/systemd/system/multi-user.target.wants"/* "$root/etc/machine-id"
: > "$root/etc/machine-id"
mkdir -p "$root/.before"
cd "$root"
pivot_root . .before
umount -l /.before
rmdir /.before
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target </dev/null
