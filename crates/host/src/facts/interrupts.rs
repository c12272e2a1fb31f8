//! Interrupts: how often each CPU handled each, and which queue of a card each belongs to.
//!
//! The mapping is the kernel's own where it tells ([`super::queues`]), else it uses the device's
//! own list of interrupts and the names that drivers give them. Names differ between drivers; an
//! unknown name gives no queue instead of a wrong one. The table is long on a large host, so
//! callers that want several read it once.

use super::queues::{self, PolledQueue};
use crate::cpus::Cpus;
use crate::root::Tree;

/// A line of `/proc/interrupts`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interrupt {
    /// Its number, which can change and must not be stored.
    pub number: u32,
    /// How often each CPU handled it, as (CPU, times).
    pub counts: Vec<(usize, u64)>,
    /// The driver's name for it.
    pub name: String,
}

/// The queue that an interrupt belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Whether it is for received packets.
    pub receives: bool,
    /// Whether it is for sent packets.
    pub sends: bool,
    /// Its index among the card's queues.
    pub number: usize,
}

/// Returns all numbered interrupts.
pub fn all(tree: &dyn Tree) -> Vec<Interrupt> {
    parse(&tree.read("proc/interrupts").unwrap_or_default())
}

fn parse(text: &str) -> Vec<Interrupt> {
    let mut lines = text.lines();
    let heads = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Vec<usize> = heads
        .filter_map(|head| head.strip_prefix("CPU")?.parse().ok())
        .collect();
    let interrupt = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let mut words = rest.split_ascii_whitespace();
        let mut counts = Vec::with_capacity(cpus.len());
        for cpu in &cpus {
            counts.push((*cpu, words.next()?.parse().ok()?));
        }
        let name = words.next_back().unwrap_or_default().to_owned();
        Some(Interrupt {
            number,
            counts,
            name,
        })
    };
    lines.filter_map(interrupt).collect()
}

/// Returns those of all interrupts that belong to a card.
pub fn of_device(tree: &dyn Tree, all: &[Interrupt], device: &str) -> Vec<Interrupt> {
    let card = format!("sys/class/net/{device}/device");
    let listed = tree.names(&format!("{card}/msi_irqs"));
    let listed: Vec<u32> = listed.iter().filter_map(|name| name.parse().ok()).collect();
    // Those of a virtio device are listed at the bus device above it, but carry its name.
    let virtio = virtio_of(tree, device).map(|name| format!("{name}-"));
    let is_own = |one: &Interrupt| {
        let named = one
            .name
            .split(['-', '_', '@', ':', '.'])
            .any(|part| part == device);
        let of_virtio = virtio
            .as_ref()
            .is_some_and(|prefix| one.name.starts_with(prefix));
        listed.contains(&one.number) || named || of_virtio
    };
    all.iter().filter(|one| is_own(one)).cloned().collect()
}

/// Returns the virtio device of this card.
fn virtio_of(tree: &dyn Tree, device: &str) -> Option<String> {
    const DRIVER: &str = "sys/bus/virtio/drivers/virtio_net";
    let mut devices = tree
        .names(DRIVER)
        .into_iter()
        .filter(|name| name.starts_with("virtio"));
    devices.find(|name| {
        tree.read(&format!("{DRIVER}/{name}/net/{device}/ifindex"))
            .is_ok()
    })
}

/// The interrupts of a card's queues: by the kernel's map, and by name.
#[derive(Debug)]
pub struct OfQueues {
    told: Vec<PolledQueue>,
    named: Vec<Interrupt>,
}

impl OfQueues {
    /// Reads what the kernel tells of a card.
    pub fn read(tree: &dyn Tree, all: &[Interrupt], device: &str) -> OfQueues {
        OfQueues {
            told: queues::of_device(tree, device),
            named: of_device(tree, all, device),
        }
    }

    /// Returns the current interrupt number of a queue (`rx-0`, `tx-3`).
    pub fn number(&self, queue: &str) -> Option<u32> {
        let told = self.told.iter().find(|one| one.queue == queue);
        told.and_then(|one| one.irq)
            .or_else(|| by_name(&self.named, queue))
    }

    /// Returns each queue with its interrupt; several may share one.
    pub fn each(&self) -> Vec<(String, u32)> {
        let told = self.told.iter();
        let mut found: Vec<(String, u32)> = told
            .filter_map(|one| Some((one.queue.clone(), one.irq?)))
            .collect();
        for one in &self.named {
            let Some(queue) = queue_of(&one.name) else {
                continue;
            };
            let directions = [("rx", queue.receives), ("tx", queue.sends)];
            for (direction, _) in directions.into_iter().filter(|(_, has)| *has) {
                let name = format!("{direction}-{}", queue.number);
                if found.iter().all(|(known, _)| *known != name) {
                    found.push((name, one.number));
                }
            }
        }
        found
    }

    /// Returns the queues that have an interrupt; of those that share one, the first.
    pub fn all(&self) -> Vec<(String, u32)> {
        let mut found: Vec<(String, u32)> = Vec::new();
        for (queue, number) in self.each() {
            if found.iter().all(|(_, known)| *known != number) {
                found.push((queue, number));
            }
        }
        found
    }

    /// Returns the interrupt of a number.
    pub fn named(&self, number: u32) -> Option<&Interrupt> {
        self.named.iter().find(|one| one.number == number)
    }
}

/// Returns the current interrupt number of a queue (`rx-0`, `tx-3`).
pub fn of_queue(tree: &dyn Tree, device: &str, queue: &str) -> Option<u32> {
    OfQueues::read(tree, &all(tree), device).number(queue)
}

fn by_name(named: &[Interrupt], queue: &str) -> Option<u32> {
    let (direction, number) = queue.split_once('-')?;
    let number: usize = number.parse().ok()?;
    let fits = |one: &&Interrupt| {
        queue_of(&one.name).is_some_and(|queue| {
            queue.number == number
                && (if direction == "rx" {
                    queue.receives
                } else {
                    queue.sends
                })
        })
    };
    named.iter().find(fits).map(|one| one.number)
}

/// Returns the queue that a driver's name for an interrupt denotes.
pub fn queue_of(name: &str) -> Option<Queue> {
    let name = name
        .split('@')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let digits = name.len()
        - name
            .trim_end_matches(|letter: char| letter.is_ascii_digit())
            .len();
    let (before, number) = name.split_at(name.len() - digits);
    let number = number.parse().ok()?;
    let has = |words: &[&str]| words.iter().any(|word| before.contains(word));
    let (receives, sends) = match () {
        // Flow director interrupts have no queue.
        () if has(&["fdir"]) => return None,
        () if has(&["-fp-"]) || before == "mlx4-" => (true, true),
        () if has(&["txrx", "tx-rx", "rxtx", "comp"]) => (true, true),
        () if has(&["input", "-rx-", "rx-", "_rx"]) => (true, false),
        () if has(&["output", "-tx-", "tx-", "_tx"]) => (false, true),
        () => return None,
    };
    Some(Queue {
        receives,
        sends,
        number,
    })
}

/// Returns the CPUs that currently handle the interrupts of cards' queues.
///
/// Uses the effective affinity; if it is not shown, the allowed one.
pub fn cpus_of_cards(tree: &dyn Tree) -> Cpus {
    let mut cpus = Cpus::default();
    let all = all(tree);
    for device in tree
        .names("sys/class/net")
        .iter()
        .filter(|name| *name != "lo")
    {
        for (_, number) in OfQueues::read(tree, &all, device).all() {
            let of =
                |name: &str| Cpus::from_list(&tree.text(&format!("proc/irq/{number}/{name}"))?);
            let is_some = |cpus: &Cpus| !cpus.is_empty();
            let now = of("effective_affinity_list")
                .filter(is_some)
                .or_else(|| of("smp_affinity_list"));
            cpus = cpus.or(&now.unwrap_or_default());
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_say_queues() {
        let both = |number| Some((true, true, number));
        for (name, expect) in [
            ("eth0-TxRx-3", both(3)),
            ("i40e-eth0-TxRx-12", both(12)),
            ("mlx5_comp7@pci:0000:5e:00.0", both(7)),
            ("eth0-Tx-Rx-0", both(0)),
            ("virtio3-input.1", Some((true, false, 1))),
            ("virtio3-output.1", Some((false, true, 1))),
            ("eth0-rx-2", Some((true, false, 2))),
            ("eth0-tx-2", Some((false, true, 2))),
            ("eth0-fp-3", both(3)),
            ("mlx4-6@0000:03:00.0", both(6)),
            ("eth0:fdir-TxRx-3", None),
            ("i40e-0000:5e:00.0:fdir-TxRx-0", None),
            ("virtio3-config", None),
            ("mlx5_async0@pci:0000:5e:00.0", None),
            ("ena-mgmnt@pci:0000:00:05.0", None),
            ("virtio1-req.0", None),
            ("ttyS0", None),
        ] {
            let found = queue_of(name).map(|queue| (queue.receives, queue.sends, queue.number));
            assert_eq!(found, expect, "{name}");
        }
    }

    #[test]
    fn the_cpus_of_cards_are_those_in_effect() {
        let host = crate::fixtures::two_sockets();
        assert_eq!(cpus_of_cards(&host).to_string(), "0-15");
        for queue in 0..16 {
            host.set(
                &format!("proc/irq/{}/effective_affinity_list", 40 + queue),
                "8",
            );
        }
        assert_eq!(cpus_of_cards(&host).to_string(), "8");
    }

    #[test]
    fn a_line_is_counts_and_a_name() {
        let text = "            CPU0       CPU2\n  24:          1          7  IO-APIC   5-edge      ACPI:Ged\n NMI: 0 0 Non-maskable\n";
        let found = parse(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].counts, [(0, 1), (2, 7)]);
        assert_eq!(found[0].name, "ACPI:Ged");
    }
}
