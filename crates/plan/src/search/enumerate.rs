//! The mixes of a catalogue, one after the other, in its order.

use std::collections::BTreeMap;

use super::Problem;
use crate::catalogue::{Device, Server};
use crate::cost::is_stale;
use crate::load::GivenTier;

/// A mix by its places in the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Choice {
    /// Server.
    pub server: u16,
    /// Interface.
    pub nic: Option<u16>,
    /// Which of the server's amounts of memory.
    pub memory: u16,
    /// Device and count of the first of two tiers.
    pub fast: Option<(u16, u16)>,
    /// Device and count of the only or second tier.
    pub bulk: (u16, u16),
}

/// Tiers: device and count, of the first and the second.
type Tiers = (Option<(u16, u16)>, (u16, u16));

/// All choices. Those of equal cost are decided by their order, which is that of the catalogue, smaller counts first.
pub(super) fn choices(problem: &Problem<'_>) -> impl Iterator<Item = Choice> {
    let servers = indexed(&problem.catalogue.server)
        .filter(|(_, server)| is_wanted_server(problem, server))
        .collect::<Vec<_>>();
    let mut parts = Vec::new();
    for (at, server) in servers {
        let nics = nics(problem, server);
        let tiers = std::rc::Rc::new(tiers(problem, server));
        let memory: Vec<u16> = indexed(&server.memory)
            .filter(|(_, bytes)| {
                problem
                    .scenario
                    .given
                    .memory
                    .is_none_or(|given| given == **bytes)
            })
            .map(|(at, _)| at)
            .collect();
        for nic in nics {
            for memory in &memory {
                parts.push((at, nic, *memory, std::rc::Rc::clone(&tiers)));
            }
        }
    }
    parts.into_iter().flat_map(|(server, nic, memory, tiers)| {
        (0..tiers.len()).filter_map(move |at| {
            let (fast, bulk) = *tiers.get(at)?;
            Some(Choice {
                server,
                nic,
                memory,
                fast,
                bulk,
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

/// The tiers that fit into a server, fewer devices first.
fn tiers(problem: &Problem<'_>, server: &Server) -> Vec<Tiers> {
    let given = &problem.scenario.given;
    let most = problem.scenario.hardware.devices_max.unwrap_or(u32::MAX);
    let wanted_tiers = problem.scenario.hardware.tiers;
    let slots = &server.slots;
    let mut all = Vec::new();
    for (bulk_at, bulk) in indexed(&problem.catalogue.device) {
        if !is_wanted_device(problem, bulk, given.bulk.as_ref()) {
            continue;
        }
        let single = wanted_tiers != Some(2) && given.fast.is_none();
        for count in counts(slots, &bulk.slot, most, given.bulk.as_ref()) {
            if single || !problem.software.tiers {
                all.push((None, (bulk_at, count)));
            }
        }
        if wanted_tiers == Some(1) || !problem.software.tiers {
            continue;
        }
        for (fast_at, fast) in indexed(&problem.catalogue.device) {
            let is_faster = fast.class < bulk.class;
            if !is_faster || !is_wanted_device(problem, fast, given.fast.as_ref()) {
                continue;
            }
            for fast_count in counts(slots, &fast.slot, most, given.fast.as_ref()) {
                for count in counts(slots, &bulk.slot, most, given.bulk.as_ref()) {
                    let both = u32::from(fast_count) + u32::from(count);
                    if fast.slot == bulk.slot && both > places(slots, &bulk.slot) {
                        break;
                    }
                    all.push((Some((fast_at, fast_count)), (bulk_at, count)));
                }
            }
        }
    }
    all
}

fn places(slots: &BTreeMap<String, u32>, kind: &str) -> u32 {
    slots.get(kind).copied().unwrap_or(0)
}

/// How many devices of a kind may be there.
fn counts(
    slots: &BTreeMap<String, u32>,
    kind: &str,
    most: u32,
    given: Option<&GivenTier>,
) -> std::ops::RangeInclusive<u16> {
    let places = places(slots, kind).min(most);
    let places = u16::try_from(places).unwrap_or(u16::MAX);
    match given {
        Some(given) => match u16::try_from(given.count) {
            Ok(count) if (1..=places).contains(&count) => count..=count,
            _ => 1..=0,
        },
        None => 1..=places,
    }
}
