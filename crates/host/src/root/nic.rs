//! What of a network card is asked for by `ioctl`, under names as if it were files: `DEVICE/rings`, `DEVICE/channels`,
//! `DEVICE/coalescing` (to be read and written) and `DEVICE/statistics`.
//!
//! Texts are `rx=256 tx=256 rx_max=4096`; of what is written, fields that are not named stay as they are. Invariant: what a
//! driver cannot do is an error of the kernel's own, never a made-up value.

use std::io;

use platform::os::ethtool::{self, Field, Table};

use crate::form::fields;

/// Where these names are.
pub(super) const PREFIX: &str = "ethtool/";

fn table(name: &str) -> io::Result<(&str, Option<Table>)> {
    let (device, what) = name.rsplit_once('/').ok_or(io::ErrorKind::NotFound)?;
    let table = match what {
        "rings" => Some(Table::Rings),
        "channels" => Some(Table::Channels),
        "coalescing" => Some(Table::Coalescing),
        "statistics" => None,
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    Ok((device, table))
}

pub(super) fn read(name: &str) -> io::Result<String> {
    let (device, table) = table(name)?;
    let Some(table) = table else {
        let statistics = ethtool::statistics(device)?;
        let line = |(name, value): &(String, u64)| format!("{name}: {value}\n");
        return Ok(statistics.iter().map(line).collect());
    };
    let fields = ethtool::read(device, table)?;
    let text = |field: &Field| format!("{}={}", field.name, field.value);
    let texts: Vec<String> = fields.iter().map(text).collect();
    Ok(texts.join(" ") + "\n")
}

pub(super) fn write(name: &str, text: &str) -> io::Result<()> {
    let (device, table) = table(name)?;
    let table = table.ok_or(io::ErrorKind::PermissionDenied)?;
    let fields = fields(text).ok_or(io::ErrorKind::InvalidInput)?;
    let mut wanted = Vec::new();
    for (name, value) in &fields {
        let value = u32::try_from(*value).map_err(|_| io::ErrorKind::InvalidInput)?;
        wanted.push((name.as_str(), value));
    }
    ethtool::write(device, table, &wanted)
}
