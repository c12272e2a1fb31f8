//! Facts of simulated hosts.

use super::*;
use crate::fake::Fake;
use crate::knob;

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
    assert!(is(
        "proc/1/environ",
        "A=1\0KUBERNETES_SERVICE_HOST=10.0.0.1\0",
        "pid:[4026532281]"
    ));
    let read_only =
        "35 34 0:5 / /proc rw - proc proc rw\n36 35 0:5 /sys /proc/sys ro,nosuid - proc proc rw\n";
    assert!(is("proc/self/mountinfo", read_only, "pid:[4026532281]"));
    let writable = read_only.replace("ro,nosuid", "rw,nosuid");
    assert!(!is("proc/self/mountinfo", &writable, "pid:[4026532281]"));
    assert!(
        !is("proc/self/mountinfo", read_only, "pid:[4026531836]"),
        "a service of the host that may not set the kernel"
    );
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

/// A driver with names of its own, and a kernel that tells what polls each queue.
#[test]
fn the_kernels_own_map_of_queues_counts_before_the_names_of_drivers() {
    let fake = Fake::new(&[
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
        ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0"),
        ("sys/class/net/eth0/device/msi_irqs/40", "msix"),
        ("sys/class/net/eth0/device/msi_irqs/41", "msix"),
        (
            "proc/interrupts",
            "  CPU0\n 40: 5 PCI-MSIX atl-vec-b\n 41: 7 PCI-MSIX eth0-TxRx-0\n",
        ),
        ("proc/irq/40/smp_affinity_list", "2"),
        ("proc/irq/41/smp_affinity_list", "3"),
        (
            "netdev/eth0",
            "rx-0 napi=515 irq=40\nrx-1 napi=516 irq=41\ntx-0 napi=515 irq=40\nnonsense\n",
        ),
    ]);
    let nic = &Facts::read(&fake).nics[0];
    let found: Vec<(&str, String, u64)> = nic
        .interrupts
        .iter()
        .map(|one| (one.queue.as_str(), one.cpus.to_string(), one.times))
        .collect();
    assert_eq!(
        found,
        [("rx-0", "2".to_owned(), 5), ("rx-1", "3".to_owned(), 7)]
    );
    let knob = |id: &str| knob::find(&fake, id).map(|knob| knob.name);
    let first = knob("net.eth0.rx-0.irq");
    assert_eq!(first.as_deref(), Some("proc/irq/40/smp_affinity_list"));
    let ids = knob::all(&fake).into_iter().map(|knob| knob.id);
    let irqs: Vec<String> = ids.filter(|id| id.ends_with(".irq")).collect();
    assert_eq!(irqs, ["net.eth0.rx-0.irq", "net.eth0.rx-1.irq"]);
    // Without it the names are all there is, and they mislead.
    fake.remove("netdev/eth0");
    assert_eq!(
        knob("net.eth0.rx-0.irq").as_deref(),
        Some("proc/irq/41/smp_affinity_list")
    );
    assert_eq!(knob("net.eth0.rx-1.irq"), None);
}

/// A large host: the table of interrupts is read a few times, not once for each queue.
#[test]
fn the_table_of_interrupts_is_not_read_for_each_queue() {
    let fake = Fake::default();
    let mut table = "  CPU0\n".to_owned();
    for queue in 0..64 {
        let line = format!(" {}: 1 PCI-MSIX eth0-TxRx-{queue}\n", 40 + queue);
        table.push_str(&line);
        let dir = format!("sys/class/net/eth0/queues/rx-{queue}");
        fake.set(&format!("{dir}/rps_cpus"), "0");
        fake.set(&format!("proc/irq/{}/smp_affinity_list", 40 + queue), "0");
        fake.set(
            &format!("sys/class/net/eth0/device/msi_irqs/{}", 40 + queue),
            "",
        );
    }
    fake.set("proc/interrupts", &table);
    let before = fake.reads_of("proc/interrupts");
    let facts = Facts::read(&fake);
    assert_eq!(facts.nics[0].interrupts.len(), 64);
    assert!(knob::all(&fake).len() >= 128);
    let reads = fake.reads_of("proc/interrupts") - before;
    assert!(reads <= 4, "{reads}");
}

/// Most of tuned's own profiles are made of others.
#[test]
fn what_a_profile_of_tuned_includes_is_its_own() {
    let profile = |include: &str, section: &str| format!("[main]\ninclude={include}\n{section}\n");
    let fake = Fake::new(&[
        ("proc/8/comm", "tuned"),
        ("etc/tuned/active_profile", "ours"),
    ]);
    fake.set(
        "etc/tuned/profiles/ours/tuned.conf",
        &profile("network-throughput", "[net]\nring=rx 4096"),
    );
    fake.set(
        "usr/lib/tuned/profiles/network-throughput/tuned.conf",
        &profile("throughput, ours", "[sysctl]\nnet.core.somaxconn=2048"),
    );
    fake.set(
        "usr/lib/tuned/throughput/tuned.conf",
        "[main]\n[disk]\nreadahead=4096\n",
    );
    let owners = Facts::read(&fake).owners;
    let has = |id: &str| owners.iter().any(|owner| owner.has(id));
    for id in [
        "net.eth0.rings",
        "sysctl.net.core.somaxconn",
        "block.vda.read_ahead_kb",
    ] {
        assert!(has(id), "{id}");
    }
    assert!(!has("cpu.policy0.governor"));
}

#[test]
fn files_of_cards_and_units_of_other_tuners_own_their_knobs() {
    let wants = "etc/systemd/system/multi-user.target.wants/set_irq_affinity.service";
    let fake = Fake::new(&[
        (
            "etc/systemd/network/10-eth0.link",
            "[Match]\nOriginalName=eth0\n[Link]\nRxBufferSize=4096\n",
        ),
        (
            "usr/lib/systemd/network/99-default.link",
            "[Match]\nOriginalName=*\n[Link]\nNamePolicy=keep\n",
        ),
        (
            "etc/NetworkManager/system-connections/lan.nmconnection",
            "[connection]\ninterface-name=eth1\n[wifi-security]\npsk=secret\n[ethtool]\nfeature-gro=false\n",
        ),
        (wants, ""),
    ]);
    let owners = Facts::read(&fake).owners;
    let owner = |id: &str| {
        let found = owners.iter().find(|owner| owner.has(id));
        found.map(|owner| owner.name.as_str())
    };
    assert_eq!(
        owner("net.eth0.rings"),
        Some("/etc/systemd/network/10-eth0.link")
    );
    assert_eq!(owner("net.eth1.rings"), None);
    let lan = "/etc/NetworkManager/system-connections/lan.nmconnection";
    assert_eq!(owner("net.eth1.features"), Some(lan));
    assert_eq!(owner("net.eth0.features"), None);
    assert_eq!(owner("net.eth7.rx-0.irq"), Some("set_irq_affinity.service"));
    assert!(!format!("{:?}", crate::record::record(&fake)).contains("secret"));
}

#[test]
fn irqbalance_leaves_alone_what_it_was_told_to() {
    let fake = Fake::new(&[
        ("proc/7/comm", "irqbalance"),
        (
            "proc/7/cmdline",
            "/usr/sbin/irqbalance\0--foreground\0--banirq=41\0-i\x0042\0",
        ),
        ("sys/class/net/eth0/device/msi_irqs/40", "msix"),
        ("sys/class/net/eth0/device/msi_irqs/41", "msix"),
        (
            "proc/interrupts",
            "  CPU0\n 40: 1 PCI-MSIX eth0-TxRx-0\n 41: 1 PCI-MSIX eth0-TxRx-1\n",
        ),
    ]);
    let owners = Facts::read(&fake).owners;
    let is_owned = |id: &str| owners.iter().any(|owner| owner.has(id));
    assert!(is_owned("net.eth0.rx-0.irq"));
    assert!(!is_owned("net.eth0.rx-1.irq"), "irqbalance leaves 41 alone");
    fake.set("proc/7/cmdline", "/usr/sbin/irqbalance\0");
    assert!(Facts::read(&fake).owners[0].has("net.eth0.rx-1.irq"));
}

#[test]
fn what_the_boot_decided_is_reported() {
    let fake = Fake::new(&[
        ("sys/devices/system/cpu/online", "0-3"),
        (
            "proc/cmdline",
            "root=/dev/sda1 isolcpus=2-3 mitigations=off idle=poll quiet -- isolcpus=1",
        ),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1"),
        (
            "sys/devices/system/cpu/vulnerabilities/mds",
            "Vulnerable; SMT vulnerable",
        ),
        (
            "sys/devices/system/cpu/vulnerabilities/l1tf",
            "Not affected",
        ),
    ]);
    let boot = Facts::read(&fake).boot;
    assert_eq!(
        boot.options,
        ["isolcpus=2-3", "mitigations=off", "idle=poll"]
    );
    let states: Vec<_> = boot
        .idle
        .iter()
        .map(|state| (state.name.as_str(), state.latency_us, state.disabled))
        .collect();
    assert_eq!(states, [("POLL", 0, false), ("C6", 133, true)]);
    assert_eq!(boot.vulnerable, ["mds"]);
    assert_eq!(boot.snoop, None, "Linux does not show it");
}

/// What hwloc says of two machines whose descriptions its tests carry, and what Linux says by the
/// same CPUs. hwloc is the second opinion: these trees have the same kernel values.
#[test]
fn machines_that_hwloc_describes_are_described_the_same() {
    let lists = |nodes: &[topology::Node]| -> Vec<String> {
        nodes.iter().map(|node| node.cpus.to_string()).collect()
    };
    let smt = Facts::read(&crate::fixtures::x9drg());
    assert_eq!(smt.topology.packages, 2);
    assert_eq!(smt.boot.nodes_per_package, 1);
    assert_eq!(lists(&smt.topology.nodes), ["0-7,16-23", "8-15,24-31"]);
    assert_eq!(smt.topology.cores.to_string(), "0-15");
    assert_eq!(smt.topology.memory_bytes, 34_330_173_440 + 34_359_738_368);
    let cards: Vec<_> = smt
        .nics
        .iter()
        .map(|nic| (nic.name.as_str(), nic.node))
        .collect();
    assert_eq!(cards, [("eth0", Some(1)), ("eth1", Some(1))]);
    let cod = Facts::read(&crate::fixtures::b200m4());
    assert_eq!(cod.topology.packages, 2);
    assert_eq!(cod.boot.nodes_per_package, 2);
    assert_eq!(
        lists(&cod.topology.nodes),
        ["0-6", "7-13", "14-20", "21-27"]
    );
    assert_eq!(
        cod.topology.cores.to_string(),
        "0-27",
        "without second threads"
    );
    let cards: Vec<_> = cod
        .nics
        .iter()
        .map(|nic| (nic.name.as_str(), nic.node))
        .collect();
    assert_eq!(cards, [("enp6s0", Some(0)), ("enp12s0", Some(0))]);
}

#[test]
fn interrupts_of_a_recorded_cloud_node_are_found_by_queue() {
    let host = crate::fixtures::eks();
    let facts = Facts::read(&host);
    let queues: Vec<_> = facts.nics[0]
        .interrupts
        .iter()
        .map(|one| (one.queue.as_str(), one.times))
        .collect();
    assert_eq!(
        queues,
        [
            ("rx-0", 36_883_390),
            ("rx-1", 37_204_920),
            ("rx-2", 27_814_182),
            ("rx-3", 30_257_521)
        ],
        "without the card's own interrupt"
    );
    assert!(
        facts
            .nics
            .iter()
            .all(|nic| nic.cloud && nic.interrupts.len() == 4)
    );
    assert_eq!(interrupts::of_queue(&host, "eth1", "tx-2"), Some(35));
}
