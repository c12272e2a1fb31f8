//! Facts of simulated hosts.

use super::*;
use crate::fake::Fake;

#[test]
fn a_node_with_no_cpu_is_none_and_no_nodes_are_one() {
    let fake = Fake::new(&[
        ("sys/devices/system/cpu/online", "0-3"),
        ("sys/devices/system/node/node0/cpulist", "0-1"),
        ("sys/devices/system/node/node1/cpulist", "2-3"),
        ("sys/devices/system/node/node2/cpulist", ""),
    ]);
    let facts = Facts::read(&fake);
    assert_eq!(facts.topology.nodes.len(), 2);
    assert_eq!(facts.topology.node_of(3), Some(1));
    let fake = Fake::new(&[("sys/devices/system/cpu/online", "0-3")]);
    assert_eq!(Facts::read(&fake).topology.nodes[0].cpus.len(), 4);
}

#[test]
fn a_container_has_a_mark_and_processes_of_its_own() {
    let is = |mark: &str, text: &str, pids: &str| {
        let fake = Fake::new(&[(mark, text)]);
        fake.set_link("proc/self/ns/pid", pids);
        Facts::read(&fake).topology.container
    };
    assert!(is(".dockerenv", "", "pid:[4026532281]"));
    assert!(is(
        "proc/1/environ",
        "A=1\0container=podman\0",
        "pid:[4026532281]"
    ));
    assert!(
        !is(".dockerenv", "", "pid:[4026531836]"),
        "an image that became a machine"
    );
    assert!(!is("proc/1/environ", "A=1\0", "pid:[4026532281]"));
}

#[test]
fn a_fingerprint_is_of_what_a_plan_is_made_for() {
    let host = |kernel: &str, memory: &str| {
        let fake = Fake::new(&[
            ("proc/cpuinfo", "model name\t: A\n"),
            ("proc/sys/kernel/osrelease", kernel),
            ("proc/meminfo", memory),
            ("sys/devices/system/cpu/online", "0-3"),
        ]);
        Facts::read(&fake).fingerprint()
    };
    assert_eq!(host("6.1", "MemTotal: 1 kB"), host("6.1", "MemTotal: 2 kB"));
    assert_ne!(host("6.1", ""), host("6.2", ""));
}

#[test]
fn owners_are_programs_and_files() {
    let fake = Fake::new(&[
        ("proc/7/comm", "irqbalance"),
        ("proc/8/comm", "tuned"),
        ("etc/tuned/active_profile", "latency-performance"),
        (
            "usr/lib/tuned/latency-performance/tuned.conf",
            "[main]\n[cpu]\ngovernor=performance\n[sysctl]\nvm.swappiness=10\n",
        ),
        (
            "etc/sysctl.d/60-db.conf",
            "# ours\n-net.core.somaxconn = 1024\nvm/max_map_count=262144\n",
        ),
    ]);
    let owners = Facts::read(&fake).owners;
    let owner = |id: &str| {
        owners
            .iter()
            .find(|owner| owner.has(id))
            .map(|owner| owner.name.as_str())
    };
    assert_eq!(owner("net.eth0.rx-0.irq"), Some("irqbalance"));
    assert_eq!(owner("sysctl.vm.swappiness"), Some("tuned"));
    assert_eq!(owner("cpu.policy0.governor"), Some("tuned"));
    assert_eq!(
        owner("sysctl.net.core.somaxconn"),
        Some("/etc/sysctl.d/60-db.conf")
    );
    assert_eq!(
        owner("sysctl.vm.max_map_count"),
        Some("/etc/sysctl.d/60-db.conf")
    );
    assert_eq!(owner("sysctl.vm.dirty_ratio"), None);
    assert_eq!(owner("net.eth0.rings"), None);
}
