//! A recorded machine.

use super::*;
use crate::root::Root;

fn recorded() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let files = [
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Some CPU @ 2.60GHz\nflags\t\t: fpu sse4_2 avx2 hypervisor\n\n\
             processor\t: 1\nmodel name\t: Some CPU @ 2.60GHz\n",
        ),
        (
            "proc/meminfo",
            "MemTotal: 25165824 kB\nMemAvailable: 1024 kB\nSwapTotal: 0 kB\n",
        ),
        ("proc/sys/kernel/ostype", "Linux\n"),
        ("proc/sys/kernel/osrelease", "6.18.0\n"),
        ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 1\"\n"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        ),
        (
            "proc/self/mountinfo",
            "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
             30 27 0:25 / /data rw,relatime - tmpfs none rw,size=9k\n",
        ),
        ("sys/dev/block/254:0/queue/rotational", "0\n"),
        ("sys/dev/block/254:0/queue/write_cache", "write back\n"),
    ];
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

#[test]
fn facts_are_read_and_what_is_not_known_is_left_away() {
    let root = recorded();
    let facts = facts(&Root::new(root.path()));
    let facts: Vec<_> = facts
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        facts,
        [
            ("processor", "Some CPU @ 2.60GHz"),
            ("cores", "2"),
            ("instruction sets", "sse4_2 avx2"),
            ("memory", "24.0 GiB"),
            ("kernel", "Linux 6.18.0"),
            ("operating system", "Some Linux 1"),
            ("virtualisation", "a virtual machine"),
            ("transparent huge pages", "madvise"),
        ]
    );
    assert_eq!(memory_available(&Root::new(root.path())), Some(1024 * 1024));
}

#[test]
fn a_directory_is_on_the_nearest_mount_above_it() {
    let root = recorded();
    let of = |dir: &str| directory(&Root::new(root.path()), Path::new(dir)).unwrap();
    assert_eq!(
        of("/var/x"),
        "/dev/vda, ext4 (rw,discard), not rotational, write back"
    );
    assert_eq!(of("/data/y"), "none, tmpfs (rw,size=9k)");
    assert_eq!(
        of("/database"),
        "/dev/vda, ext4 (rw,discard), not rotational, write back"
    );
}

#[test]
fn a_partition_is_on_its_disk() {
    use std::os::unix::fs::symlink;
    let root = recorded();
    let disk = root.path().join("sys/devices/pci/block/sda");
    std::fs::create_dir_all(disk.join("queue")).unwrap();
    std::fs::create_dir_all(disk.join("device")).unwrap();
    std::fs::create_dir_all(disk.join("sda2")).unwrap();
    std::fs::write(disk.join("queue/rotational"), "1\n").unwrap();
    std::fs::write(disk.join("device/model"), "ST4000NM0035  \n").unwrap();
    let of = |name: &str| root.path().join("sys").join(name);
    std::fs::create_dir_all(of("block")).unwrap();
    symlink("../devices/pci/block/sda", of("block/sda")).unwrap();
    symlink("../../devices/pci/block/sda/sda2", of("dev/block/8:2")).unwrap();
    std::fs::write(
        root.path().join("proc/self/mountinfo"),
        "27 1 8:2 / / rw - xfs /dev/sda2 rw\n",
    )
    .unwrap();
    assert_eq!(
        directory(&Root::new(root.path()), Path::new("/var/x")).unwrap(),
        "/dev/sda2, xfs (rw), ST4000NM0035, rotational"
    );
}
