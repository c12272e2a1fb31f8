//! What is recorded, and that every name that is read exists somewhere.

use std::collections::BTreeSet;

use super::*;
use crate::facts::machine;
use crate::fake::Fake;
use crate::fixtures;
use crate::root::Root;
use crate::rule::{Profile, RuleInput};

#[test]
fn nothing_secret_is_recorded() {
    let fake = Fake::new(&[
        ("proc/1/environ", "PASSWORD=secret\0container=docker"),
        ("proc/7/comm", "irqbalance"),
        ("etc/sysctl.d/1.conf", "# secret\nvm.swappiness=1\n"),
        ("proc/8/comm", "secret-program"),
        ("proc/sys/kernel/random/boot_id", "secret-id"),
        ("sys/class/net/eth0/address", "52:54:00:secret"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
        ("sys/block/vda/serial", "secret-serial"),
        ("proc/cmdline", "isolcpus=2 root=secret -- --token secret"),
        ("proc/cpuinfo", "model name : A\nSerial : secret\n"),
        ("run/.containerenv", "name=\"secret\""),
        (
            "etc/sysctl.d/2.conf",
            "net.ipv4.tcp_fastopen_key = secret\nkernel.hostname=secret\n",
        ),
        (
            "etc/systemd/network/1.link",
            "[Match]\nMACAddress=secret\nOriginalName=eth0\n[Link]\nAlias=secret\nRxBufferSize=8\n",
        ),
        ("proc/9/comm", "tuned"),
        ("etc/tuned/active_profile", "a"),
        (
            "etc/tuned/a/tuned.conf",
            "[main]\nsummary=secret\n[sysctl]\nvm.swappiness=secret\n[script]\nscript=secret\n",
        ),
        (
            "etc/NetworkManager/system-connections/secret.nmconnection",
            "[connection]\ninterface-name=eth0\n[wifi-security]\npsk=secret\n[ethtool]\nring-rx=8\n",
        ),
        ("sys/class/net/enx5254005ec4e7/operstate", "up"),
        ("ethtool/enx5254005ec4e7/rss_key", "c0ffee"),
        ("etc/default/grub", "GRUB_CMDLINE_LINUX=secret"),
        (
            "etc/cloud/cloud.cfg",
            "password: secret\nruncmd: [sysctl -w vm.swappiness=1]\n",
        ),
    ]);
    let entries = record(&fake);
    let text = format!("{entries:?}");
    assert!(!text.contains("secret"), "{text}");
    assert!(!text.contains("5254005ec4e7"), "{text}");
    assert!(!text.contains("c0ffee"), "{text}");
    assert!(entries.contains_key("sys/class/net/enx000000000001/operstate"));
    // What the facts follow from is there.
    let recorded = Fake::default();
    for (name, entry) in &entries {
        match entry {
            Entry::Text(text) => recorded.set(name, text),
            Entry::Link(target) => recorded.set_link(name, target),
        }
    }
    let knobs = |tree: &Fake| -> Vec<Vec<String>> {
        let owners = Facts::read(tree).owners;
        owners.into_iter().map(|owner| owner.knobs).collect()
    };
    assert_eq!(knobs(&recorded), knobs(&fake));
    for name in [
        "proc/7/comm",
        "proc/cpuinfo",
        "sys/class/net/eth0/queues/rx-0/rps_cpus",
    ] {
        assert!(entries.contains_key(name), "{name}");
    }
}

#[test]
fn a_recorded_host_gives_the_facts_of_the_host() {
    for (name, host) in fixtures::all() {
        let recorded = Fake::default();
        for (name, entry) in record(&host) {
            match entry {
                Entry::Text(text) => recorded.set(&name, &text),
                Entry::Link(target) => recorded.set_link(&name, &target),
            }
        }
        assert_eq!(Facts::read(&recorded), Facts::read(&host), "{name}");
        assert_eq!(Counters::read(&recorded), Counters::read(&host), "{name}");
    }
}

/// By a host whose loader has an entry for each kernel: its way is grubby's.
#[test]
fn a_recorded_host_has_its_loader_and_not_the_number_of_the_machine() {
    let entry = "boot/loader/entries/0123456789abcdef0123456789abcdef-6.1.conf";
    let fake = Fake::new(&[("etc/default/grub", "SECRET=1"), (entry, "title x")]);
    let entries = record(&fake);
    assert!(!format!("{entries:?}").contains("0123456789abcdef"));
    assert!(!format!("{entries:?}").contains("SECRET"));
    let recorded = Fake::default();
    for (name, entry) in entries {
        let Entry::Text(text) = entry else { continue };
        recorded.set(&name, &text);
    }
    let loader = |tree: &Fake| Facts::read(tree).boot.loader;
    assert_eq!(loader(&recorded), Some(loader::Loader::Grubby));
    assert_eq!(loader(&recorded), loader(&fake));
}

#[test]
fn a_tar_is_blocks_with_sums() {
    let entries = BTreeMap::from([
        ("proc/a".to_owned(), Entry::Text("1\n".to_owned())),
        ("sys/l".to_owned(), Entry::Link("../driver".to_owned())),
        ("n".repeat(101), Entry::Text(String::new())),
    ]);
    let mut tar = Vec::new();
    let left_out = write(&entries, &mut tar).unwrap();
    assert_eq!(left_out, ["n".repeat(101)]);
    assert_eq!(tar.len(), 512 * 5);
    assert_eq!(&tar[..7], b"proc/a\0");
    assert_eq!(&tar[512..514], b"1\n");
    assert_eq!(tar[1024 + 156], b'2');
    let sum: u32 = tar[..512]
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            if (148..156).contains(&at) {
                32
            } else {
                u32::from(*byte)
            }
        })
        .sum();
    assert_eq!(&tar[148..155], format!("{sum:06o}\0").as_bytes());
}

/// Replaces numbers and devices in a name, so that `cpu3` stands for every CPU.
fn pattern(name: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    let mut shown = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| parts[before]);
        let is_device =
            matches!(before, "net" | "block" | "ethtool" | "netdev") && parts[0] != "proc";
        if is_device {
            shown.push("DEVICE".to_owned());
            continue;
        }
        let mut text = String::new();
        for letter in part.chars() {
            match letter {
                digit if digit.is_ascii_digit() => {
                    if !text.ends_with('#') {
                        text.push('#');
                    }
                }
                other => text.push(other),
            }
        }
        shown.push(text);
    }
    shown.join("/")
}

/// A tree that notes which names were asked for, those of directories with a slash behind them, and
/// which are there.
struct AskedTree<'a> {
    tree: &'a dyn Tree,
    there: RefCell<BTreeSet<String>>,
    asked: RefCell<BTreeSet<String>>,
}

impl AskedTree<'_> {
    fn note<T>(&self, name: &str, read: io::Result<T>) -> io::Result<T> {
        let name = pattern(name);
        if read.is_ok() {
            self.there.borrow_mut().insert(name.clone());
        }
        self.asked.borrow_mut().insert(name);
        read
    }
}

impl Tree for AskedTree<'_> {
    fn read(&self, name: &str) -> io::Result<String> {
        self.note(name, self.tree.read(name))
    }

    fn write(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.note(&format!("{dir}/"), self.tree.list(dir))
    }

    fn link(&self, name: &str) -> io::Result<String> {
        self.note(name, self.tree.link(name))
    }
}

/// Files of other programs, not of the kernel, and what this program adds to the tree.
const OF_OTHERS: &[&str] = &[
    "proc/#/environ",
    ".dockerenv",
    "run/.containerenv",
    "run/ostree-booted",
    "run/sysctl.d/",
    "run/systemd/network/",
    "etc/",
    "usr/lib/",
    "boot/",
    "efi/",
    "var/lib/cloud/",
    // What an `ioctl` asks of a card.
    "ethtool/",
    // Of a broker, where one runs.
    "server/",
    // Of the machine's controller, where it is named.
    "firmware/",
    "firmware-now/",
];

/// Names of the kernel that no recorded tree has: where in its sources they are.
const DOCUMENTED: &[(&str, &str)] = &[
    ("proc/schedstat", "Documentation/scheduler/sched-stats.rst"),
    (
        "sys/block/DEVICE/device/numa_node",
        "drivers/nvme/host/sysfs.c",
    ),
    (
        "sys/bus/nd/devices/",
        "Documentation/ABI/testing/sysfs-bus-nd",
    ),
    ("sys/class/dmi/id/product_name", "drivers/firmware/dmi-id.c"),
    (
        "sys/class/net/DEVICE/device/msi_irqs/",
        "Documentation/ABI/testing/sysfs-bus-pci",
    ),
    (
        "sys/class/net/DEVICE/queues/tx-#/xps_cpus",
        "Documentation/ABI/testing/sysfs-class-net-queues",
    ),
    (
        "sys/devices/system/cpu/cpu#/cpufreq/scaling_governor",
        "Documentation/admin-guide/pm/cpufreq.rst",
    ),
    (
        "sys/devices/system/cpu/cpufreq/boost",
        "Documentation/admin-guide/pm/cpufreq.rst",
    ),
    (
        "sys/devices/system/cpu/cpufreq/policy#/energy_performance_preference",
        "Documentation/admin-guide/pm/intel_pstate.rst",
    ),
    (
        "sys/devices/system/cpu/cpufreq/policy#/scaling_governor",
        "Documentation/admin-guide/pm/cpufreq.rst",
    ),
];

/// Guards against a path that does not exist and is wrong in the fixture, too, as in a rival
/// program: trees that were written by hand prove nothing here.
#[test]
fn every_name_that_is_read_exists_on_some_kernel() {
    let mut there = BTreeSet::new();
    let mut asked = BTreeSet::new();
    let mut look = |tree: &dyn Tree, is_real: bool| {
        let asking = AskedTree {
            tree,
            there: RefCell::default(),
            asked: RefCell::default(),
        };
        read_all(&asking);
        drop(RuleInput::read(&asking, Profile::Latency));
        drop(machine::facts(&asking));
        let _memory = machine::memory_available(&asking);
        drop(crate::boot::id(&asking));
        drop(crate::undo::network::name(&asking));
        asked.extend(asking.asked.into_inner());
        if is_real {
            there.extend(asking.there.into_inner());
        }
    };
    for (name, host) in fixtures::all() {
        look(&host, !["two-sockets", "snc", "cloud"].contains(&name));
    }
    look(&Root::new("/"), true);
    let is_documented = |name: &str| DOCUMENTED.iter().any(|(known, _)| *known == name);
    let missing: Vec<&String> = asked
        .difference(&there)
        .filter(|name| {
            let of_others = OF_OTHERS.iter().any(|known| {
                *known == name.as_str() || (known.ends_with('/') && name.starts_with(known))
            });
            !of_others && !is_documented(name)
        })
        .collect();
    assert!(
        missing.is_empty(),
        "in no recorded tree and not on this kernel: {missing:#?}"
    );
}
