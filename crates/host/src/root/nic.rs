//! The settings of a network card that need an `ioctl`, under names like files: `DEVICE/rings`,
//! `DEVICE/channels`, `DEVICE/coalescing` (readable and writable) and `DEVICE/statistics`.
//!
//! Texts are `rx=256 tx=256 rx_max=4096`; fields that a write does not name stay unchanged.
//! Invariant: an operation that a driver does not support is the kernel's own error, never an
//! invented value.

use std::io;

use platform::os::ethtool::{self, Field, Table};

use crate::form::fields;

/// Prefix of these names.
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
