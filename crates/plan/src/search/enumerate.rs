//! The mixes of a catalogue, in groups that differ only in the numbers of devices.
//!
//! Invariant: only the groups of one server are kept at a time, so a catalogue of any size takes
//! little memory. Counts that do not fit into the slots of a server are cut from a group before it
//! is examined.

use std::collections::BTreeMap;

use super::Problem;
use crate::catalogue::{Class, Device, Server};
use crate::cost::is_stale;
use crate::load::GivenTier;

/// A mix, by its positions in the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Choice {
    /// Server.
    pub server: u16,
    /// Network interface; `None` for the built-in one.
    pub nic: Option<u16>,
    /// Position among the server's amounts of memory.
    pub memory: u16,
    /// Device and count of the first of two tiers.
    pub fast: Option<(u16, u16)>,
    /// Device and count of the only or second tier.
    pub bulk: (u16, u16),
}

impl Choice {
    /// Returns the order among equals: that of the catalogue, one tier before two, smaller counts
    /// first.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (
            (self.server, self.nic, self.memory),
            (self.bulk.0, self.fast, self.bulk.1),
        )
    }
}

/// Least and largest number of devices.
type Counts = (u16, u16);

/// Devices of one tier, with the range of their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    device: u16,
    counts: Counts,
}

impl Range {
    fn wide(self) -> u16 {
        self.counts.1.saturating_sub(self.counts.0)
    }

    /// Returns both halves of the range; `None` if it has one count.
    fn halves(self) -> Option<(Self, Self)> {
        let (low, high) = self.counts;
        (low < high).then(|| {
            let middle = low + (high - low) / 2;
            let of = |counts| Self { counts, ..self };
            (of((low, middle)), of((middle + 1, high)))
        })
    }
}

/// The devices of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tiers {
    fast: Option<Range>,
    bulk: Range,
    /// Slots that both tiers share.
    shared: Option<u16>,
}

/// Mixes with the same server, interface, amount of memory and devices, which differ in the number
/// of devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    server: u16,
    nic: Option<u16>,
    memory: u16,
    tiers: Tiers,
}

impl Group {
    /// Returns the mix with the fewest devices.
    pub(super) fn least(&self) -> Choice {
        self.choice(|range| range.counts.0)
    }

    /// Returns the mix with the most devices; they may not all fit.
    pub(super) fn most(&self) -> Choice {
        self.choice(|range| range.counts.1)
    }

    fn choice(&self, count: impl Fn(&Range) -> u16) -> Choice {
        let of = |range: &Range| (range.device, count(range));
        Choice {
            server: self.server,
            nic: self.nic,
            memory: self.memory,
            fast: self.tiers.fast.as_ref().map(of),
            bulk: of(&self.tiers.bulk),
        }
    }

    /// Returns the kind, which does not depend on network, memory and counts.
    pub(super) fn kind(&self) -> Kind {
        let fast = self.tiers.fast.map(|range| range.device);
        (self.server, fast, self.tiers.bulk.device)
    }

    /// Removes counts that do not fit; `None` if nothing is left.
    pub(super) fn fitted(mut self) -> Option<Self> {
        if let (Some(shared), Some(fast)) = (self.tiers.shared, &mut self.tiers.fast) {
            let bulk = &mut self.tiers.bulk;
            fast.counts.1 = fast.counts.1.min(shared.saturating_sub(bulk.counts.0));
            bulk.counts.1 = bulk.counts.1.min(shared.saturating_sub(fast.counts.0));
        }
        let is_there = |range: &Range| range.counts.0 <= range.counts.1;
        let all = is_there(&self.tiers.bulk) && self.tiers.fast.as_ref().is_none_or(is_there);
        all.then_some(self)
    }

    /// Returns both halves, divided by the tier with more counts; `None` if there is one mix.
    pub(super) fn halves(&self) -> Option<(Self, Self)> {
        let fast = self
            .tiers
            .fast
            .filter(|fast| fast.wide() > self.tiers.bulk.wide());
        let with = |tiers: Tiers| Self { tiers, ..*self };
        match fast {
            Some(fast) => fast.halves().map(|(low, high)| {
                let of = |fast| {
                    with(Tiers {
                        fast: Some(fast),
                        ..self.tiers
                    })
                };
                (of(low), of(high))
            }),
            None => self.tiers.bulk.halves().map(|(low, high)| {
                let of = |bulk| with(Tiers { bulk, ..self.tiers });
                (of(low), of(high))
            }),
        }
    }

    /// Returns the number of mixes.
    pub(super) fn count(&self) -> usize {
        let Some(fast) = self.tiers.fast else {
            return usize::from(self.tiers.bulk.wide()) + 1;
        };
        let (low, high) = self.tiers.bulk.counts;
        (fast.counts.0..=fast.counts.1)
            .map(|count| {
                let left = self
                    .tiers
                    .shared
                    .map_or(high, |shared| high.min(shared.saturating_sub(count)));
                (usize::from(left) + 1).saturating_sub(usize::from(low))
            })
            .sum()
    }

    /// Returns each mix, fewer devices first.
    fn mixes(self) -> impl Iterator<Item = Choice> {
        let fast = self.tiers.fast;
        let counts = fast.map_or((0, 0), |fast| fast.counts);
        let shared = self.tiers.shared.unwrap_or(u16::MAX);
        (counts.0..=counts.1).flat_map(move |first| {
            let (low, high) = self.tiers.bulk.counts;
            (low..=high.min(shared.saturating_sub(first))).map(move |count| Choice {
                fast: fast.map(|fast| (fast.device, first)),
                bulk: (self.tiers.bulk.device, count),
                ..self.least()
            })
        })
    }
}

/// Server, first tier's device, only or second tier's device.
pub(super) type Kind = (u16, Option<u16>, u16);

/// Returns all choices.
pub(super) fn choices<'p>(problem: &'p Problem<'_>) -> impl Iterator<Item = Choice> + use<'p> {
    groups(problem).flat_map(Group::mixes)
}

/// Returns all groups that are not empty.
pub(super) fn groups<'p>(problem: &'p Problem<'_>) -> impl Iterator<Item = Group> + use<'p> {
    indexed(&problem.catalogue.server)
        .filter(|(_, server)| is_wanted_server(problem, server))
        .flat_map(move |(at, server)| of_server(problem, at, server))
}

fn of_server<'p>(
    problem: &'p Problem<'_>,
    at: u16,
    server: &'p Server,
) -> impl Iterator<Item = Group> + use<'p> {
    let nics = nics(problem, server);
    let tiers = std::rc::Rc::new(tiers(problem, server));
    let given = problem.scenario.given.memory;
    let memory: Vec<u16> = indexed(&server.memory)
        .filter(|(_, bytes)| given.is_none_or(|given| given == **bytes))
        .map(|(at, _)| at)
        .collect();
    let parts: Vec<(Option<u16>, u16)> = nics
        .iter()
        .flat_map(|nic| memory.iter().map(|memory| (*nic, *memory)))
        .collect();
    parts.into_iter().flat_map(move |(nic, memory)| {
        let tiers = std::rc::Rc::clone(&tiers);
        (0..tiers.len()).filter_map(move |number| {
            Some(Group {
                server: at,
                nic,
                memory,
                tiers: *tiers.get(number)?,
            })
        })
    })
}

fn indexed<T>(entries: &[T]) -> impl Iterator<Item = (u16, &T)> {
    (0_u16..u16::MAX - 1).zip(entries)
}

fn is_named(names: &[String], given: Option<&String>, id: &str) -> bool {
    match given {
        Some(given) => given == id,
        None => names.iter().any(|name| name == id),
    }
}

fn is_wanted_server(problem: &Problem<'_>, server: &Server) -> bool {
    let scenario = problem.scenario;
    let (names, given) = (&scenario.hardware.servers, scenario.given.server.as_ref());
    let is_named = is_named(names, given, &server.id);
    let is_free = names.is_empty() && given.is_none() && !server.only_by_name;
    (is_named || is_free) && !is_too_old(problem, server.price.as_ref())
}

fn is_too_old(problem: &Problem<'_>, price: Option<&crate::catalogue::Price>) -> bool {
    !problem.scenario.cost.old_prices && is_stale(price, problem.today)
}

fn nics(problem: &Problem<'_>, server: &Server) -> Vec<Option<u16>> {
    if server.network.is_some() {
        return vec![None];
    }
    let scenario = problem.scenario;
    let (names, given) = (&scenario.hardware.nics, scenario.given.nic.as_ref());
    let is_free = names.is_empty() && given.is_none();
    indexed(&problem.catalogue.nic)
        .filter(|(_, nic)| is_free || is_named(names, given, &nic.id))
        .filter(|(_, nic)| !is_too_old(problem, nic.price.as_ref()))
        .map(|(at, _)| Some(at))
        .collect()
}

fn is_wanted_device(problem: &Problem<'_>, device: &Device, given: Option<&GivenTier>) -> bool {
    let names = &problem.scenario.hardware.devices;
    let is_wanted = match given {
        Some(given) => given.device == device.id,
        None => names.is_empty() || names.contains(&device.id),
    };
    is_wanted && !is_too_old(problem, device.price.as_ref())
}

/// Returns the devices that fit into a server, with the range of their number.
fn fitting(
    problem: &Problem<'_>,
    server: &Server,
    given: Option<&GivenTier>,
) -> Vec<(Class, Range)> {
    let most = problem.scenario.hardware.devices_max.unwrap_or(u32::MAX);
    indexed(&problem.catalogue.device)
        .filter(|(_, device)| is_wanted_device(problem, device, given))
        .filter_map(|(at, device)| {
            let counts = counts(&server.slots, &device.slot, most, given)?;
            let range = Range { device: at, counts };
            Some((device.class, range))
        })
        .collect()
}

/// Returns the tiers that fit into a server.
fn tiers(problem: &Problem<'_>, server: &Server) -> Vec<Tiers> {
    let given = &problem.scenario.given;
    let wanted = problem.scenario.hardware.tiers;
    let has_tiers = problem.software.tiers;
    let is_single = (wanted != Some(2) && given.fast.is_none()) || !has_tiers;
    let is_double = wanted != Some(1) && has_tiers;
    let mut fast: BTreeMap<Class, Vec<Range>> = BTreeMap::new();
    for (class, range) in fitting(problem, server, given.fast.as_ref()) {
        fast.entry(class).or_default().push(range);
    }
    let slot = |range: &Range| {
        let device = problem.catalogue.device.get(usize::from(range.device));
        device.map(|device| device.slot.as_str())
    };
    let mut all = Vec::new();
    for (class, bulk) in fitting(problem, server, given.bulk.as_ref()) {
        if is_single {
            all.push(Tiers {
                fast: None,
                bulk,
                shared: None,
            });
        }
        // The device of the first tier must be of a faster class.
        let before = fast.range(..class).filter(|_| is_double);
        for fast in before.flat_map(|(_, ranges)| ranges) {
            let shares = slot(fast) == slot(&bulk);
            let here = slot(&bulk).map_or(0, |slot| places(&server.slots, slot));
            let shared = shares.then(|| u16::try_from(here).unwrap_or(u16::MAX));
            let least = u32::from(fast.counts.0) + u32::from(bulk.counts.0);
            if shares && least > here {
                continue;
            }
            all.push(Tiers {
                fast: Some(*fast),
                bulk,
                shared,
            });
        }
    }
    all
}

fn places(slots: &BTreeMap<String, u32>, kind: &str) -> u32 {
    slots.get(kind).copied().unwrap_or(0)
}

/// Returns the range of the number of devices of a kind; `None` if none fits.
fn counts(
    slots: &BTreeMap<String, u32>,
    kind: &str,
    most: u32,
    given: Option<&GivenTier>,
) -> Option<Counts> {
    let places = places(slots, kind).min(most);
    // The largest value stands for no limit.
    let places = u16::try_from(places).unwrap_or(u16::MAX - 1);
    let counts = match given {
        Some(given) => {
            let count = u16::try_from(given.count).unwrap_or(u16::MAX);
            (count.max(1), if count <= places { count } else { 0 })
        }
        None => (1, places),
    };
    (counts.0 <= counts.1).then_some(counts)
}
