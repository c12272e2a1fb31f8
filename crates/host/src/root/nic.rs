//! The settings of a network card that need an `ioctl`, under names like files: `DEVICE/rings`,
//! `DEVICE/channels`, `DEVICE/coalescing`, `DEVICE/pause`, `DEVICE/features`, `DEVICE/rss`,
//! `DEVICE/rss_key`, `DEVICE/rss_fields` (readable and writable) and `DEVICE/statistics`; what
//! polls its queues, as `netdev/DEVICE`; and what the queues of all cards dropped, as `qdisc/all`.
//!
//! Texts are `rx=256 tx=256 rx_max=4096`; fields that a write does not name stay unchanged. `rss`
//! is the queue of each entry of the table, or `equal=4` in a write; `rss_key` is hexadecimal.
//! Invariant: an operation that a driver does not support is the kernel's own error, never an
//! invented value.

use std::fmt::Write as _;
use std::io;

use platform::bounded;
use platform::os::ethtool::{self, Field, Table, features, hash, rss};
use platform::os::{netdev, qdisc};

use crate::form::{Spread, fields, spread};

/// Prefix of these names.
pub(super) const PREFIX: &str = "ethtool/";
/// Prefix of the names of what polls queues.
pub(super) const QUEUES: &str = "netdev/";
/// The name of what the queues dropped.
pub(super) const QDISC: &str = "qdisc/all";

/// What a name denotes.
enum CardSetting {
    Of(Table),
    Features,
    Spread,
    Key,
    HashFields,
    Statistics,
}

fn setting(name: &str) -> io::Result<(&str, CardSetting)> {
    let (device, what) = name.rsplit_once('/').ok_or(io::ErrorKind::NotFound)?;
    let setting = match what {
        "rings" => CardSetting::Of(Table::Rings),
        "channels" => CardSetting::Of(Table::Channels),
        "coalescing" => CardSetting::Of(Table::Coalescing),
        "pause" => CardSetting::Of(Table::Pause),
        "features" => CardSetting::Features,
        "rss" => CardSetting::Spread,
        "rss_key" => CardSetting::Key,
        "rss_fields" => CardSetting::HashFields,
        "statistics" => CardSetting::Statistics,
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    Ok((device, setting))
}

pub(super) fn read(name: &str) -> io::Result<String> {
    let (device, setting) = setting(name)?;
    let texts: Vec<String> = match setting {
        CardSetting::Of(table) => {
            let text = |field: &Field| format!("{}={}", field.name, field.value);
            ethtool::read(device, table)?.iter().map(text).collect()
        }
        CardSetting::Features => features::read(device)?.iter().map(switch).collect(),
        CardSetting::HashFields => hash::fields(device)?.iter().map(switch).collect(),
        CardSetting::Key => vec![hex(&hash::key(device)?)],
        CardSetting::Spread => rss::read(device)?.iter().map(u32::to_string).collect(),
        CardSetting::Statistics => {
            let statistics = ethtool::statistics(device)?;
            let line = |(name, value): &(String, u64)| format!("{name}: {value}\n");
            return Ok(statistics.iter().map(line).collect());
        }
    };
    Ok(texts.join(" ") + "\n")
}

fn switch((name, on): &(&str, bool)) -> String {
    format!("{name}={}", u8::from(*on))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Parses hexadecimal digits, two for each byte.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .map(|digit| digit.to_digit(16))
        .collect::<Option<_>>()?;
    let byte = |two: &[u32]| match two {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

pub(super) fn write(name: &str, text: &str) -> io::Result<()> {
    let (device, setting) = setting(name)?;
    let wanted = || fields(text).ok_or(io::Error::from(io::ErrorKind::InvalidInput));
    match setting {
        CardSetting::Of(table) => {
            let fields = wanted()?;
            let mut wanted = Vec::new();
            for (name, value) in &fields {
                let value = u32::try_from(*value).map_err(|_| io::ErrorKind::InvalidInput)?;
                wanted.push((name.as_str(), value));
            }
            ethtool::write(device, table, &wanted)
        }
        CardSetting::Features | CardSetting::HashFields => {
            let fields = wanted()?;
            let on = |(name, value): &(String, i64)| (name.clone(), *value != 0);
            let wanted: Vec<(String, bool)> = fields.iter().map(on).collect();
            let wanted: Vec<(&str, bool)> =
                wanted.iter().map(|(name, on)| (&**name, *on)).collect();
            if matches!(setting, CardSetting::Features) {
                features::write(device, &wanted)
            } else {
                hash::write_fields(device, &wanted)
            }
        }
        CardSetting::Key => {
            let key = bytes_of(text).ok_or(io::ErrorKind::InvalidInput)?;
            hash::write_key(device, &key)
        }
        CardSetting::Spread => {
            let spread = spread(text).ok_or(io::ErrorKind::InvalidInput)?;
            rss::write(
                device,
                &match spread {
                    Spread::Equal(queues) => rss::Spread::Equal(queues),
                    Spread::Table(table) => rss::Spread::Table(table),
                },
            )
        }
        CardSetting::Statistics => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Returns what polls each queue of a device, a line per queue.
pub(super) fn queues(device: &str) -> io::Result<String> {
    // A name with a way in it could lead to another file.
    if device.is_empty() || device.contains('/') {
        return Err(io::ErrorKind::NotFound.into());
    }
    let index = bounded::kernel_text(format!("/sys/class/net/{device}/ifindex"))?;
    let index = index.trim().parse();
    let found = netdev::queues(index.map_err(|_| io::ErrorKind::InvalidData)?)?;
    let mut text = String::new();
    for one in found {
        let direction = if one.sends { "tx" } else { "rx" };
        let _ = write!(text, "{direction}-{}", one.number);
        let fields = [("napi", one.napi), ("irq", one.irq), ("thread", one.thread)];
        for (name, value) in fields {
            if let Some(value) = value {
                let _ = write!(text, " {name}={value}");
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// Returns what the queue at the root of each device has dropped, a line per device.
pub(super) fn qdiscs() -> io::Result<String> {
    let found = qdisc::all()?;
    let mut text = String::new();
    for entry in std::fs::read_dir("/sys/class/net")? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let index = bounded::kernel_text(format!("/sys/class/net/{name}/ifindex"));
        let index = index.ok().and_then(|index| index.trim().parse().ok());
        for one in found.iter().filter(|one| Some(one.device) == index) {
            let (kind, drops, overlimits) = (&one.kind, one.drops, one.overlimits);
            let _ = writeln!(text, "{name} {kind} drops={drops} overlimits={overlimits}");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_digits() {
        assert_eq!(bytes_of("6d5a").unwrap(), [0x6d, 0x5a]);
        assert_eq!(hex(&[0x6d, 0x05]), "6d05");
        for wrong in ["6d5", "6g", "6:d5"] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_name_with_a_way_in_it_is_no_device() {
        for name in ["", "../eth0", "a/b", "no-such-card"] {
            assert!(queues(name).is_err(), "{name}");
        }
    }
}
