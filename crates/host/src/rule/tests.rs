//! The proposals for hosts.

use super::*;
use crate::cpus::Cpus;
use crate::fake::Fake;
use crate::fixtures;
use crate::plan::OperatorLimits;
use crate::split;

fn found(host: &Fake, profile: Profile) -> RuleOutput {
    propose(&RuleInput::read(host, profile))
}

/// Returns items as `id=want`.
fn items(found: &RuleOutput) -> Vec<String> {
    found
        .items
        .iter()
        .map(|item| format!("{}={}", item.id, item.wanted().unwrap()))
        .collect()
}

#[test]
fn two_sockets_get_interrupts_at_the_cards_node_and_a_server_elsewhere() {
    let host = fixtures::two_sockets();
    let seen = RuleInput::read(&host, Profile::Throughput);
    let near = &seen.facts.topology.nodes[1].cpus;
    let found = propose(&seen);
    let irqs: Vec<&Item> = found
        .items
        .iter()
        .filter(|item| item.id.ends_with(".irq"))
        .collect();
    assert!(!irqs.is_empty());
    let mut used = Cpus::default();
    for item in &irqs {
        let cpus = Cpus::from_list(&item.wanted().unwrap()).unwrap();
        assert!(cpus.without(near).is_empty(), "{item:?} is not at node 1");
        used = used.or(&cpus);
    }
    let split = split::split(&seen.facts).unwrap();
    assert_eq!(split.interrupts, used);
    assert!(split.server.and(&split.interrupts).is_empty());
    assert_eq!(split.server.len() + split.interrupts.len(), 16);
    assert!(found.advice.iter().any(|advice| {
        advice
            .text
            .contains(&format!("process.cpus={}", split.server))
    }));
}

#[test]
fn full_rings_are_doubled_and_backlogs_multiplied_by_four() {
    let items = items(&found(&fixtures::two_sockets(), Profile::Throughput));
    for expect in [
        "net.eth0.rings=rx=1024",
        "sysctl.net.core.netdev_max_backlog=4000",
        "net.eth0.channels=combined=1",
    ] {
        assert!(
            items.iter().any(|item| item == expect),
            "{expect}: {items:?}"
        );
    }
}

#[test]
fn half_a_socket_is_a_node_of_its_own() {
    let host = fixtures::snc();
    let seen = RuleInput::read(&host, Profile::Throughput);
    assert_eq!(seen.facts.topology.nodes_per_package(), 2);
    let split = split::split(&seen.facts).unwrap();
    assert_eq!(
        split.interrupts,
        Cpus::from_list("6").unwrap(),
        "node 2 has the card"
    );
    assert!(
        items(&propose(&seen))
            .iter()
            .any(|item| item == "sysctl.net.core.somaxconn=16384")
    );
}

/// Lists of siblings that contradict each other: no CPU of node 1 is the first of its core.
#[test]
fn a_node_without_a_first_thread_is_divided_all_the_same() {
    let host = fixtures::two_sockets();
    let near = RuleInput::read(&host, Profile::Throughput)
        .facts
        .topology
        .nodes[1]
        .clone();
    for cpu in near.cpus.iter() {
        let siblings = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        host.set(&siblings, "0");
    }
    let found = found(&host, Profile::Throughput);
    let irqs = items(&found)
        .into_iter()
        .filter(|item| item.contains(".irq="));
    assert!(irqs.count() > 0, "{found:?}");
}

#[test]
fn what_a_provider_drops_is_no_ring() {
    let found = found(&fixtures::cloud(), Profile::Throughput);
    assert!(
        !items(&found).iter().any(|item| item.contains("rings")),
        "{found:?}"
    );
    assert!(
        found
            .advice
            .iter()
            .any(|advice| advice.text.contains("allowance")),
        "{found:?}"
    );
}

#[test]
fn where_nothing_is_dropped_nothing_is_proposed() {
    let host = fixtures::cloud();
    host.set("sys/class/net/ens5/statistics/rx_missed_errors", "0");
    assert_eq!(found(&host, Profile::Throughput), RuleOutput::default());
}

#[test]
fn what_people_disagree_about_is_only_an_experiment() {
    let host = fixtures::cloud();
    host.set("sys/class/net/ens5/threaded", "0");
    let found = found(&host, Profile::Latency);
    assert!(items(&found).contains(&"net.ens5.threaded=1".to_owned()));
    assert!(
        found
            .items
            .iter()
            .all(|item| item.confidence == Confidence::Experiment)
    );
}

#[test]
fn what_is_proposed_can_be_applied_to_the_host_it_was_proposed_for() {
    for (name, host) in fixtures::all() {
        for profile in [Profile::Latency, Profile::Throughput, Profile::Keyed] {
            let seen = RuleInput::read(&host, profile);
            let found = propose(&seen);
            let text = plan(&seen, &found).text().unwrap();
            let plan = Plan::parse(&text).unwrap();
            let allowed = OperatorLimits {
                class_max: knob::Class::B,
                only: found.items.iter().map(|item| item.id.clone()).collect(),
                take_over: Vec::new(),
            };
            let changes = plan.changes(&host, &seen.facts, &seen.evidence, &allowed);
            assert_eq!(changes.unwrap().len(), found.items.len(), "{name}");
            // Without its evidence an item is void.
            let gone = plan.changes(&host, &seen.facts, &BTreeMap::new(), &allowed);
            let with_evidence = found
                .items
                .iter()
                .filter(|item| !item.evidence.is_empty())
                .count();
            assert_eq!(
                gone.map_or_else(|refusals| refusals.len(), |_| 0),
                with_evidence,
                "{name}"
            );
        }
    }
}

/// Machines whose description their owners have published: where the interrupts would go.
#[test]
fn real_machines_are_divided_at_the_nodes_of_their_cards() {
    let divided = |host: &Fake| {
        let split = split::split(&Facts::read(host)).unwrap();
        (split.interrupts.to_string(), split.server.to_string())
    };
    let pair = |interrupts: &str, server: &str| (interrupts.to_owned(), server.to_owned());
    // The first thread of the first core of node 1, which has CPUs 8-15 and 24-31.
    assert_eq!(divided(&fixtures::x9drg()), pair("8", "0-7,9-31"));
    assert_eq!(divided(&fixtures::b200m4()), pair("0", "1-27"));
    // Nothing is known of its nodes: they are one.
    assert_eq!(divided(&fixtures::eks()), pair("0", "1-3"));
    // 132 million interrupts, spread over four queues within a tenth: nothing is proposed.
    let seen = RuleInput::read(&fixtures::eks(), Profile::Throughput);
    assert!(seen.of("net.eth0.imbalance") < 0.1);
    assert_eq!(propose(&seen), RuleOutput::default());
}

/// The broker asks the kernel for small pages: the setting is that of other programs.
#[test]
fn huge_pages_are_not_proposed_to_a_broker_that_has_none() {
    let host = fixtures::two_sockets();
    host.set(
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never",
    );
    host.set("proc/sys/kernel/numa_balancing", "1");
    let keyed = items(&found(&host, Profile::Keyed));
    assert!(
        keyed.contains(&"sysctl.kernel.numa_balancing=0".to_owned()),
        "{keyed:?}"
    );
    for shown in ["always [madvise] never", "[always] madvise never"] {
        host.set("sys/kernel/mm/transparent_hugepage/enabled", shown);
        for profile in [Profile::Keyed, Profile::Latency] {
            let items = items(&found(&host, profile));
            assert!(!items.iter().any(|item| item.starts_with("mm.thp")));
        }
    }
}

#[test]
fn a_table_that_leaves_queues_out_is_made_equal() {
    let host = fixtures::eks();
    host.set("ethtool/eth0/rss", "0 0 0 0 1 1 1 1");
    for queue in 0..4 {
        host.set(
            &format!("sys/class/net/eth0/queues/rx-{queue}/rps_flow_cnt"),
            "0",
        );
    }
    let mut seen = RuleInput::read(&host, Profile::Throughput);
    assert!(
        !items(&propose(&seen))
            .iter()
            .any(|item| item.contains(".rss=")),
        "they are even"
    );
    seen.evidence.insert("net.eth0.imbalance".to_owned(), 0.6);
    let items = items(&propose(&seen));
    assert!(
        items.contains(&"net.eth0.rss=equal=4".to_owned()),
        "{items:?}"
    );
}

#[test]
fn a_queue_that_was_full_before_sending_is_doubled_if_it_counts_packets() {
    let host = fixtures::two_sockets();
    let length = |qdisc: &str| {
        host.set("qdisc/all", qdisc);
        let items = items(&found(&host, Profile::Throughput));
        items.into_iter().find(|item| item.contains("tx_queue_len"))
    };
    assert_eq!(
        length("eth0 pfifo_fast drops=7 overlimits=0"),
        Some("net.eth0.tx_queue_len=2000".to_owned())
    );
    assert_eq!(length("eth0 pfifo_fast drops=0 overlimits=0"), None);
    assert_eq!(
        length("eth0 fq_codel drops=7 overlimits=0"),
        None,
        "it drops on purpose"
    );
}

#[test]
fn the_servers_cpus_are_an_item_where_it_reads_them_from_a_file() {
    let host = fixtures::two_sockets();
    host.set("etc/forebay/cpus", "0-15");
    host.set("server/cpus", "0-15");
    let found = found(&host, Profile::Throughput);
    let split = split::split(&Facts::read(&host)).unwrap();
    let of_server = found
        .items
        .iter()
        .find(|item| item.id == "process.cpus")
        .unwrap();
    assert_eq!(of_server.wanted().unwrap(), split.server.to_string());
    assert_eq!(of_server.class, knob::Class::P);
    let running = found
        .items
        .iter()
        .find(|item| item.id == "server.cpus")
        .unwrap();
    assert_eq!(running.wanted().unwrap(), split.server.to_string());
    assert!(
        !found
            .advice
            .iter()
            .any(|advice| advice.about == "process.cpus")
    );
}

#[test]
fn deep_idle_states_are_an_experiment() {
    let items = items(&found(&fixtures::two_sockets(), Profile::Latency));
    let server = split::split(&Facts::read(&fixtures::two_sockets()))
        .unwrap()
        .server;
    let wakes: Vec<&String> = items
        .iter()
        .filter(|item| item.ends_with(".latency_us=20"))
        .collect();
    assert_eq!(
        wakes.len(),
        server.len(),
        "those that take interrupts are left: {items:?}"
    );
    assert!(items.contains(&"net.eth0.features=gro=0".to_owned()));
}

#[test]
fn the_snoop_mode_is_advice_and_waiting_is_said() {
    let advice = |host: &Fake, profile: Profile| {
        let found = found(host, profile);
        let about = found.advice.into_iter().map(|advice| advice.about);
        about.collect::<Vec<_>>()
    };
    assert!(advice(&fixtures::snc(), Profile::Latency).contains(&"firmware.cpu.snoop".to_owned()));
    let host = fixtures::two_sockets();
    assert!(!advice(&host, Profile::Throughput).contains(&"pressure.memory".to_owned()));
    host.set("server/limits", "Max open files 1024 524288 files");
    assert!(advice(&host, Profile::Throughput).contains(&"limits.nofile".to_owned()));
    host.set("server/limits", "Max open files 1048576 1048576 files");
    assert!(!advice(&host, Profile::Throughput).contains(&"limits.nofile".to_owned()));
    host.set(
        "proc/pressure/memory",
        "some avg10=0 total=9\nfull avg10=0 avg60=0 avg300=2.1 total=18000000000\n",
    );
    assert!(advice(&host, Profile::Throughput).contains(&"pressure.memory".to_owned()));
}
