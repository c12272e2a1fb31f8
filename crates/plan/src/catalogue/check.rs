//! Checks of entries beyond the types of their values: bounds of figures, names, counts.
//!
//! Invariant: in a catalogue that was read, or that a plan contains, every figure is finite, no
//! divisor is zero, and everything that is enumerated is bounded.

use super::{Catalogue, Device, Module, Nic, ObjectStore, Price, Server};
use crate::load::check_name;
use crate::software::Software;

/// A key, and what is wrong with its value.
type WrongKey = (String, String);

/// Maximum number of entries of a kind.
const ENTRIES_MAX: usize = 1000;

/// Maximum number of slots of a kind in a server.
const PLACES_MAX: u32 = 1000;

/// Maximum number of amounts of memory of a server.
const AMOUNTS_MAX: usize = 100;

pub(super) fn check(all: &Catalogue) -> Result<(), WrongKey> {
    kind("device", &all.device, |entry| &entry.id, device)?;
    kind("server", &all.server, |entry| &entry.id, server)?;
    kind("nic", &all.nic, |entry| &entry.id, nic)?;
    kind("memory", &all.memory, |entry| &entry.id, module)?;
    kind("object", &all.object, |entry| &entry.id, object)?;
    kind(
        "software",
        &all.software,
        |entry| &entry.id,
        Software::check,
    )
}

/// Checks all entries of a kind, and that each id occurs once.
fn kind<T>(
    name: &str,
    entries: &[T],
    id: impl Fn(&T) -> &String,
    check: impl Fn(&T) -> Result<(), WrongKey>,
) -> Result<(), WrongKey> {
    if entries.len() > ENTRIES_MAX {
        return Err((name.to_owned(), format!("allowed: at most {ENTRIES_MAX}")));
    }
    for (at, entry) in entries.iter().enumerate() {
        let here = |(key, text): WrongKey| (format!("{name}[{at}].{key}"), text);
        check_name("id", id(entry)).map_err(here)?;
        if entries.iter().take(at).any(|other| id(other) == id(entry)) {
            return Err(here((
                "id".to_owned(),
                format!("{:?} is there twice", id(entry)),
            )));
        }
        check(entry).map_err(here)?;
    }
    Ok(())
}

fn device(device: &Device) -> Result<(), WrongKey> {
    within("capacity", device.capacity.0, 1.0, 1e18)?;
    within("read", device.read.0, 1.0, 1e15)?;
    within("write", device.write.0, 1.0, 1e15)?;
    within("amplification", device.amplification, 0.01, 1000.0)?;
    within("dwpd_years", device.dwpd_years, 0.01, 100.0)?;
    maybe("dwpd", device.dwpd, 1e-6, 1e6)?;
    maybe("iops", device.iops, 0.0, 1e12)?;
    maybe("watts", device.watts, 0.0, 1e6)?;
    price(device.price.as_ref())
}

fn server(server: &Server) -> Result<(), WrongKey> {
    within("cores", server.cores, 0.001, 1e6)?;
    within("speed", server.speed, 0.001, 1000.0)?;
    within("rack_units", server.rack_units, 0.0, 1000.0)?;
    maybe("watts", server.watts, 0.0, 1e6)?;
    maybe("network", server.network.map(|rate| rate.0), 1.0, 1e15)?;
    maybe("volumes", server.volumes.map(|rate| rate.0), 1.0, 1e15)?;
    if !(1..=AMOUNTS_MAX).contains(&server.memory.len()) {
        let text = format!("at least one amount is needed, and at most {AMOUNTS_MAX} are allowed");
        return Err(("memory".to_owned(), text));
    }
    for amount in &server.memory {
        within("memory", amount.0, 1.0, 1e18)?;
    }
    if server.slots.len() > AMOUNTS_MAX {
        let text = format!("allowed: at most {AMOUNTS_MAX} kinds");
        return Err(("slots".to_owned(), text));
    }
    for places in server.slots.values() {
        within("slots", f64::from(*places), 0.0, f64::from(PLACES_MAX))?;
    }
    price(server.price.as_ref())
}

fn nic(nic: &Nic) -> Result<(), WrongKey> {
    within("rate", nic.rate.0, 1.0, 1e15)?;
    maybe("watts", nic.watts, 0.0, 1e6)?;
    price(nic.price.as_ref())
}

fn module(module: &Module) -> Result<(), WrongKey> {
    within("capacity", module.capacity.0, 1.0, 1e18)?;
    maybe("watts", module.watts, 0.0, 1e6)?;
    price(module.price.as_ref())
}

fn object(object: &ObjectStore) -> Result<(), WrongKey> {
    within("object", object.object.0, 1.0, 1e15)?;
    maybe("put_thousand_usd", object.put_thousand_usd, 0.0, 1e6)?;
    maybe("get_thousand_usd", object.get_thousand_usd, 0.0, 1e6)?;
    price(object.price.as_ref())
}

fn price(price: Option<&Price>) -> Result<(), WrongKey> {
    let Some(price) = price else { return Ok(()) };
    let all = [price.usd]
        .into_iter()
        .chain(price.history.iter().map(|(_, usd)| *usd));
    for usd in all {
        if !(0.0..=1e9).contains(&usd) {
            let text = format!("{usd} is no price; allowed: 0 to 10^9");
            return Err(("price".to_owned(), text));
        }
    }
    Ok(())
}

fn maybe(key: &str, value: Option<f64>, low: f64, high: f64) -> Result<(), WrongKey> {
    value.map_or(Ok(()), |value| within(key, value, low, high))
}

fn within(key: &str, value: f64, low: f64, high: f64) -> Result<(), WrongKey> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let text = format!("{value} is not allowed; allowed: {low} to {high}");
    Err((key.to_owned(), text))
}
