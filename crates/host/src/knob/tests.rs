//! The files that ids lead to.

use super::*;
use crate::fake::Fake;

#[track_caller]
fn check(id: &str, name: &str) {
    let fake = Fake::default();
    assert_eq!(find(&fake, id).map(|knob| knob.name).as_deref(), Some(name));
}

#[test]
fn ids_lead_to_files() {
    check("sysctl.net.core.somaxconn", "proc/sys/net/core/somaxconn");
    check("block.vda.scheduler", "sys/block/vda/queue/scheduler");
    check(
        "mm.thp.enabled",
        "sys/kernel/mm/transparent_hugepage/enabled",
    );
    check(
        "cpu.policy10.governor",
        "sys/devices/system/cpu/cpufreq/policy10/scaling_governor",
    );
    check("net.eth0.rings", "ethtool/eth0/rings");
    check("net.eth0.rss", "ethtool/eth0/rss");
    check("net.eth0.features", "ethtool/eth0/features");
    check("net.eth0.pause", "ethtool/eth0/pause");
    check(
        "net.eth0.tx-0.bql_max",
        "sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit_max",
    );
    check(
        "cpu.cpu10.latency_us",
        "sys/devices/system/cpu/cpu10/power/pm_qos_resume_latency_us",
    );
    check(
        "cpu.cpu10.state2.off",
        "sys/devices/system/cpu/cpu10/cpuidle/state2/disable",
    );
    check("process.cpus", "etc/forebay/cpus");
    check("firmware.cpu.snoop", "firmware/cpu.snoop");
    // The name of a VLAN contains a dot.
    check("net.eth0.100.rings", "ethtool/eth0.100/rings");
    check(
        "net.eth0.100.rx-3.rps_cpus",
        "sys/class/net/eth0.100/queues/rx-3/rps_cpus",
    );
}

#[test]
fn what_is_in_no_table_is_no_knob() {
    let fake = Fake::default();
    for id in [
        "sysctl.kernel.sysrq",
        "sysctl.net.core.somaxconn/../x",
        "block.vda.write_cache",
        "block.../../etc.scheduler",
        "block.a/b.scheduler",
        "net.eth0.mtu",
        "net.eth0/..rings",
        "cpu.policy0/../x.governor",
        "cpu.cpu0/../x.latency_us",
        "cpu.cpux.latency_us",
        "cpu.cpu0.state.off",
        "cpu.cpu0.other2.off",
        "process.environ",
        "firmware.",
        "firmware.a/b",
        "file.etc.passwd",
        "sysctl",
        "",
    ] {
        assert_eq!(find(&fake, id), None, "{id}");
    }
}

#[test]
fn what_takes_memory_is_bounded_by_what_there_is() {
    let fake = Fake::new(&[(
        "proc/meminfo",
        "MemTotal:        8000000 kB\nHugepagesize:       2048 kB\n",
    )]);
    for (id, most) in [
        ("sysctl.vm.min_free_kbytes", 400_000),
        ("sysctl.vm.nr_hugepages", 1_953),
    ] {
        let form = find(&fake, id).unwrap().form;
        assert!(form.wanted(&most.to_string()).is_ok(), "{id}");
        assert!(form.wanted(&(most + 1).to_string()).is_err(), "{id}");
        let unknown = find(&Fake::default(), id).unwrap().form;
        assert!(unknown.wanted(&(most + 1).to_string()).is_ok(), "{id}");
    }
    fake.set("proc/meminfo", "MemTotal: 8000000 kB\nHugepagesize: 0 kB\n");
    assert!(find(&fake, "sysctl.vm.nr_hugepages").is_some());
}

#[test]
fn an_interrupt_is_found_by_device_and_queue() {
    let fake = Fake::new(&[
        ("sys/class/net/eth0/device/msi_irqs/40", "msix"),
        ("sys/class/net/eth0/device/msi_irqs/41", "msix"),
        (
            "proc/interrupts",
            "  CPU0\n 40: 1 PCI-MSIX eth0-TxRx-0\n 41: 1 PCI-MSIX eth0-TxRx-1\n",
        ),
        ("proc/irq/40/smp_affinity_list", "0"),
        ("proc/irq/41/smp_affinity_list", "0"),
    ]);
    let knob = find(&fake, "net.eth0.rx-1.irq").unwrap();
    assert_eq!(knob.name, "proc/irq/41/smp_affinity_list");
    fake.set(
        "proc/interrupts",
        "  CPU0\n 41: 1 PCI-MSIX eth0-TxRx-0\n 40: 1 PCI-MSIX eth0-TxRx-1\n",
    );
    let knob = find(&fake, "net.eth0.rx-1.irq").unwrap();
    assert_eq!(knob.name, "proc/irq/40/smp_affinity_list", "renumbered");
}

#[test]
fn what_makes_others_anew_comes_first() {
    let mut ids = [
        "sysctl.vm.swappiness",
        "net.eth0.rx-0.rps_cpus",
        "net.eth0.rx-0.irq",
        "net.eth0.rings",
        "net.eth0.features",
        "net.eth0.rss",
        "process.cpus",
        "net.eth0.channels",
    ];
    ids.sort_by_key(|id| turn(id));
    assert_eq!(
        ids,
        [
            "net.eth0.channels",
            "net.eth0.rings",
            "net.eth0.rss",
            "net.eth0.features",
            "net.eth0.rx-0.irq",
            "net.eth0.rx-0.rps_cpus",
            "sysctl.vm.swappiness",
            "process.cpus"
        ]
    );
}
