//! Counters of a host: drops by place, and the work done. Sampled, never reset.
//!
//! Invariant: a missing counter is absent, not zero. Rates are differences of two samples; a
//! counter that went backwards (after a driver reload) has none.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::root::Tree;

/// Counters by name, such as `softnet.dropped` and `net.eth0.rx_missed`.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
#[serde(transparent)]
pub struct Counters(pub BTreeMap<String, u64>);

/// The place of a drop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum DropPlace {
    /// The full ring of a card.
    NicRing,
    /// A card, for another reason.
    NicOther,
    /// A CPU's full backlog.
    Backlog,
    /// A flow that had more than its share of the backlog.
    FlowLimit,
    /// The full buffer of a socket.
    SocketBuffer,
    /// The full queue of connections to be accepted.
    ListenQueue,
    /// The queue of a card in which packets wait to be sent.
    Qdisc,
}

/// The counted columns of `/proc/net/softnet_stat`: (index, name).
const SOFTNET: &[(usize, &str)] = &[
    (0, "softnet.processed"),
    (1, "softnet.dropped"),
    (2, "softnet.squeezed"),
    (10, "softnet.flow_limit"),
];

/// Counters in `/proc/net/netstat` and `/proc/net/snmp`: (protocol, field, name).
const OF_PROTOCOLS: &[(&str, &str, &str)] = &[
    ("TcpExt", "ListenOverflows", "listen.overflows"),
    ("TcpExt", "ListenDrops", "listen.drops"),
    ("TcpExt", "TCPBacklogDrop", "tcp.backlog_drops"),
    ("TcpExt", "TCPRcvQDrop", "tcp.receive_queue_drops"),
    ("Tcp", "RetransSegs", "tcp.retransmits"),
    ("Tcp", "OutSegs", "tcp.sent"),
    ("Udp", "RcvbufErrors", "udp.receive_buffer_errors"),
    ("Udp", "SndbufErrors", "udp.send_buffer_errors"),
    ("Udp", "InDatagrams", "udp.received"),
];

/// Counters in `/sys/class/net/X/statistics`.
const OF_LINKS: &[&str] = &[
    "rx_packets",
    "tx_packets",
    "rx_dropped",
    "tx_dropped",
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_errors",
];

/// What the kernel's account of waiting calls its resources, with the files.
const PRESSURES: &[&str] = &["cpu", "io", "memory"];

/// The names that drivers give to drops of a full ring.
const RING_NAMES: &[&str] = &[
    "rx_missed_errors",
    "rx_no_dma_resources",
    "rx_out_of_buffer",
    "rx_no_buffer_count",
    "rx_fifo_errors",
    "port.rx_dropped",
    "rx_discards_phy",
];

/// Parts of names by which drivers count lost packets in ways that are not known here.
const LOSS_WORDS: &[&str] = &["drop", "discard", "miss", "no_buf", "overrun", "exceeded"];
/// Part of the names of such counters.
const UNKNOWN: &str = ".unknown.";

impl Counters {
    /// Reads all known counters.
    pub fn read(tree: &dyn Tree) -> Counters {
        let mut counters = Counters::default();
        counters.softnet(&tree.read("proc/net/softnet_stat").unwrap_or_default());
        for name in ["proc/net/netstat", "proc/net/snmp"] {
            counters.protocols(&tree.read(name).unwrap_or_default());
        }
        counters.processors(&tree.read("proc/stat").unwrap_or_default());
        counters.schedulers(&tree.read("proc/schedstat").unwrap_or_default());
        for resource in PRESSURES {
            let text = tree.read(&format!("proc/pressure/{resource}"));
            counters.pressure(resource, &text.unwrap_or_default());
        }
        counters.qdiscs(&tree.read("qdisc/all").unwrap_or_default());
        for device in tree
            .names("sys/class/net")
            .iter()
            .filter(|name| *name != "lo")
        {
            counters.link(tree, device);
        }
        counters
    }

    fn add(&mut self, name: String, value: u64) {
        let counter = self.0.entry(name).or_default();
        *counter = counter.saturating_add(value);
    }

    /// Adds columns of hexadecimal numbers, a row per CPU; the CPU's number is in column 13, not
    /// the row's.
    fn softnet(&mut self, text: &str) {
        for row in text.lines() {
            let columns: Vec<&str> = row.split_ascii_whitespace().collect();
            for (at, name) in SOFTNET {
                let value = columns
                    .get(*at)
                    .and_then(|text| u64::from_str_radix(text, 16).ok());
                if let Some(value) = value {
                    self.add((*name).to_owned(), value);
                }
            }
        }
    }

    /// Adds ticks of each CPU: all of them, and those for packets and other deferred work.
    fn processors(&mut self, text: &str) {
        const SOFTIRQ: usize = 6;
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let cpu = words
                .next()
                .and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
            let Some(cpu) = cpu else { continue };
            // User time already includes guest time.
            let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
            let all = ticks
                .iter()
                .fold(0_u64, |all, ticks| all.saturating_add(*ticks));
            self.add(format!("cpu{cpu}.ticks"), all);
            self.add(
                format!("cpu{cpu}.softirq"),
                ticks.get(SOFTIRQ).copied().unwrap_or(0),
            );
        }
    }

    /// Adds the microseconds in which tasks ran on each CPU, and in which they were ready and
    /// waited for it.
    fn schedulers(&mut self, text: &str) {
        /// Positions behind the name: nanoseconds of running, and of waiting.
        const RAN: usize = 6;
        const WAITED: usize = 7;
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let Some((name, values)) = words.split_first() else {
                continue;
            };
            let cpu = name
                .strip_prefix("cpu")
                .and_then(|number| number.parse::<usize>().ok());
            let Some(cpu) = cpu else { continue };
            for (place, what) in [(RAN, "ran_us"), (WAITED, "waited_us")] {
                let value = values.get(place).and_then(|word| word.parse::<u64>().ok());
                if let Some(nanoseconds) = value {
                    self.add(format!("cpu{cpu}.{what}"), nanoseconds / 1_000);
                    self.add(format!("sched.{what}"), nanoseconds / 1_000);
                }
            }
        }
    }

    /// Adds the microseconds in which some tasks, or all of them, waited for a resource.
    fn pressure(&mut self, resource: &str, text: &str) {
        for line in text.lines() {
            let (who, rest) = line.split_once(' ').unwrap_or((line, ""));
            let total = rest
                .split_once("total=")
                .and_then(|(_, total)| total.trim().parse().ok());
            if let (Some(total), "some" | "full") = (total, who) {
                self.add(format!("pressure.{resource}.{who}_us"), total);
            }
        }
    }

    /// Adds what the queues of cards dropped, a line for each card.
    fn qdiscs(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(device), Some(_kind)) = (words.next(), words.next()) else {
                continue;
            };
            let drops = words.find_map(|word| word.strip_prefix("drops=")?.parse().ok());
            if let Some(drops) = drops.filter(|_| device != "lo") {
                self.add(format!("net.{device}.qdisc_drops"), drops);
            }
        }
    }

    /// Adds pairs of lines: names, then values.
    fn protocols(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            let (Some((protocol, names)), Some((_, values))) =
                (pair[0].split_once(':'), pair[1].split_once(':'))
            else {
                continue;
            };
            let values = values.split_ascii_whitespace();
            for (name, value) in names.split_ascii_whitespace().zip(values) {
                let known = OF_PROTOCOLS
                    .iter()
                    .find(|(of, known, _)| *of == protocol && *known == name);
                if let (Some((.., ours)), Ok(value)) = (known, value.parse()) {
                    self.add((*ours).to_owned(), value);
                }
            }
        }
    }

    fn link(&mut self, tree: &dyn Tree, device: &str) {
        for name in OF_LINKS {
            let value = tree.number(&format!("sys/class/net/{device}/statistics/{name}"));
            if let Some(value) = value.and_then(|value| u64::try_from(value).ok()) {
                self.add(format!("net.{device}.{name}"), value);
            }
        }
        let text = tree
            .read(&format!("ethtool/{device}/statistics"))
            .unwrap_or_default();
        for line in text.lines() {
            let Some((name, value)) = line.rsplit_once(": ") else {
                continue;
            };
            let (name, Ok(value)) = (name.trim(), value.trim().parse()) else {
                continue;
            };
            if RING_NAMES.contains(&name) {
                self.add(format!("net.{device}.driver.{name}"), value);
            } else if value > 0 && LOSS_WORDS.iter().any(|word| name.contains(word)) {
                self.add(format!("net.{device}{UNKNOWN}{name}"), value);
            }
        }
    }

    /// Returns a counter by name.
    pub fn of(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Returns the difference to an earlier sample.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        let added = |(name, now): (&String, &u64)| {
            let before = earlier.of(name)?;
            Some((name.clone(), now.checked_sub(before)?))
        };
        Counters(self.0.iter().filter_map(added).collect())
    }

    /// Returns drops by place.
    ///
    /// A drop is counted once: for a full ring that both link and driver count, the larger value is
    /// used.
    pub fn drops(&self) -> BTreeMap<DropPlace, u64> {
        let mut drops = BTreeMap::new();
        // A driver may say any number, and the watchdog must outlive it.
        let mut add = |place: DropPlace, count: u64| {
            let sum = drops.entry(place).or_insert(0_u64);
            *sum = sum.saturating_add(count);
        };
        let of = |name: &str| self.of(name).unwrap_or(0);
        add(DropPlace::Backlog, of("softnet.dropped"));
        add(DropPlace::FlowLimit, of("softnet.flow_limit"));
        add(DropPlace::ListenQueue, of("listen.overflows"));
        add(DropPlace::SocketBuffer, of("udp.receive_buffer_errors"));
        add(DropPlace::SocketBuffer, of("tcp.backlog_drops"));
        add(DropPlace::SocketBuffer, of("tcp.receive_queue_drops"));
        for device in self.devices() {
            let ring = self.ring_drops(&device);
            add(DropPlace::NicRing, ring);
            add(DropPlace::NicOther, of(&format!("net.{device}.rx_dropped")));
            add(DropPlace::Qdisc, of(&format!("net.{device}.qdisc_drops")));
        }
        drops
    }

    /// Returns the packets that the cards received.
    pub fn packets(&self) -> u64 {
        let of_cards = self
            .0
            .iter()
            .filter(|(name, _)| name.starts_with("net.") && name.ends_with(".rx_packets"));
        of_cards.fold(0, |all, (_, count)| all.saturating_add(*count))
    }

    /// Returns the packets dropped because the ring of a card was full.
    pub fn ring_drops(&self, device: &str) -> u64 {
        let link = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];
        let link = link
            .iter()
            .filter_map(|name| self.of(&format!("net.{device}.{name}")));
        let driver = RING_NAMES
            .iter()
            .filter_map(|name| self.of(&format!("net.{device}.driver.{name}")));
        link.chain(driver).max().unwrap_or(0)
    }

    /// Returns what drivers counted under names that sound like lost packets and are not known:
    /// they may be in the drops by place already, so they are in no sum.
    pub fn unknown(&self) -> BTreeMap<String, u64> {
        let all = self.0.iter().filter(|(name, _)| name.contains(UNKNOWN));
        all.map(|(name, value)| (name.replace(UNKNOWN, "."), *value))
            .collect()
    }

    fn devices(&self) -> Vec<String> {
        let names = self
            .0
            .keys()
            .filter_map(|name| name.strip_prefix("net.")?.strip_suffix(".rx_packets"));
        names.map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn host() -> Fake {
        Fake::new(&[
            (
                "proc/net/softnet_stat",
                "0000ffff 00000002 0000000a 0 0 0 0 0 0 0 00000003 00000000 00000001\n00000001 00000001 00000000 0 0 0 0 0 0 0 00000000 00000000 00000005\n",
            ),
            (
                "proc/net/netstat",
                "TcpExt: ListenOverflows Other ListenDrops\nTcpExt: 7 1 8\nIpExt: A\nIpExt: 1\n",
            ),
            (
                "proc/net/snmp",
                "Udp: InDatagrams RcvbufErrors\nUdp: 100 386\n",
            ),
            ("sys/class/net/eth0/statistics/rx_packets", "1000"),
            ("sys/class/net/eth0/statistics/rx_dropped", "4"),
            ("sys/class/net/eth0/statistics/rx_missed_errors", "11"),
            (
                "ethtool/eth0/statistics",
                "rx_missed_errors: 11\nother: 9\nrx_out_of_range_discards: 5\nq0_drops: 0\n",
            ),
            ("sys/class/net/lo/statistics/rx_packets", "5"),
            (
                "proc/schedstat",
                "version 17\ntimestamp 4295\ncpu0 0 0 5 1 3 2 7000000 2000000 4\ndomain0 MC 3 0 0\ncpu1 0 0 5 1 3 2 1000 9000 4\ncpux 1\n",
            ),
            (
                "qdisc/all",
                "lo noqueue drops=9 overlimits=0\neth0 pfifo_fast drops=8 overlimits=2\n",
            ),
            (
                "proc/pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=1.50 total=700\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=400\n",
            ),
        ])
    }

    #[test]
    fn every_drop_has_one_place() {
        let drops = Counters::read(&host()).drops();
        let expect = [
            (DropPlace::NicRing, 11),
            (DropPlace::NicOther, 4),
            (DropPlace::Backlog, 3),
            (DropPlace::FlowLimit, 3),
            (DropPlace::SocketBuffer, 386),
            (DropPlace::ListenQueue, 7),
            (DropPlace::Qdisc, 8),
        ];
        assert_eq!(drops, BTreeMap::from(expect));
        // What is not known stays visible, and is in no sum.
        let unknown = Counters::read(&host()).unknown();
        assert_eq!(
            unknown,
            BTreeMap::from([("net.eth0.rx_out_of_range_discards".to_owned(), 5)])
        );
    }

    /// A driver that says nonsense does not end the watchdog, which looks once a second.
    #[test]
    fn numbers_at_their_limit_are_added() {
        let most = u64::MAX;
        let fake = Fake::default();
        for device in ["eth0", "eth1"] {
            fake.set(
                &format!("sys/class/net/{device}/statistics/rx_packets"),
                "1",
            );
            let name = format!("ethtool/{device}/statistics");
            fake.set(&name, &format!("rx_out_of_buffer: {most}"));
        }
        fake.set(
            "proc/net/netstat",
            &format!("TcpExt: TCPBacklogDrop TCPRcvQDrop\nTcpExt: {most} {most}"),
        );
        fake.set("proc/stat", &format!("cpu0 {most} {most} 0 0 0 0 {most}"));
        fake.set("proc/pressure/cpu", &format!("some total={most}"));
        let counters = Counters::read(&fake);
        assert_eq!(counters.drops()[&DropPlace::NicRing], u64::MAX);
        assert_eq!(counters.drops()[&DropPlace::SocketBuffer], u64::MAX);
    }

    #[test]
    fn waiting_is_counted_in_microseconds() {
        let counters = Counters::read(&host());
        assert_eq!(counters.of("pressure.memory.some_us"), Some(700));
        assert_eq!(counters.of("pressure.memory.full_us"), Some(400));
        assert_eq!(
            counters.of("pressure.cpu.some_us"),
            None,
            "the kernel does not account for it"
        );
        assert_eq!(counters.of("cpu0.ran_us"), Some(7_000));
        assert_eq!(counters.of("cpu1.waited_us"), Some(9));
        assert_eq!(counters.of("sched.waited_us"), Some(2_009));
        assert_eq!(counters.packets(), 1_000);
    }

    #[test]
    fn what_went_backwards_is_no_rate() {
        let fake = host();
        let before = Counters::read(&fake);
        fake.set("sys/class/net/eth0/statistics/rx_packets", "10");
        fake.set("sys/class/net/eth0/statistics/rx_dropped", "6");
        let added = Counters::read(&fake).since(&before);
        assert_eq!(added.of("net.eth0.rx_packets"), None);
        assert_eq!(added.of("net.eth0.rx_dropped"), Some(2));
    }
}
