//! Limits of the machine, measured in the same run: what the disk and the sockets can do without a broker.
//!
//! The disk by `fio` (sequential, 1 MiB, past the page cache), when it is installed. The sockets in `socket`.

mod socket;

use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::device::{Device, installed};
use crate::experiment::DeviceKind;
use crate::experiment::need::LIMIT_BYTES;
use crate::outcome::Limit;
use crate::target::process::held;

pub use socket::sockets;

/// Whether fio is there, in words for the report when it is not.
pub fn fio_missing() -> Option<String> {
    (!installed("fio")).then(|| {
        "fio is not installed: what the disks can do by themselves was not measured".to_owned()
    })
}

/// Sequential write (synced at the end) and read on a device.
pub fn fio(device: &Device, kind: DeviceKind) -> anyhow::Result<Vec<Limit>> {
    let dir = device.dir.join("fio");
    std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let measured = ["write", "read"]
        .into_iter()
        .map(|way| fio_once(device, kind, &dir, way))
        .collect();
    std::fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
    measured
}

fn fio_once(device: &Device, kind: DeviceKind, dir: &Path, way: &str) -> anyhow::Result<Limit> {
    // Not every kernel opens a file in memory past the cache that it is.
    let direct = u8::from(kind != DeviceKind::Memory);
    let argv = [
        "fio".to_owned(),
        "--name=limit".to_owned(),
        format!("--directory={}", dir.display()),
        "--filename=file".to_owned(),
        format!("--rw={way}"),
        "--bs=1m".to_owned(),
        format!("--size={LIMIT_BYTES}"),
        format!("--direct={direct}"),
        "--ioengine=psync".to_owned(),
        format!("--end_fsync={}", u8::from(way == "write")),
        "--output-format=json".to_owned(),
    ];
    let done = held(&argv, device.join.as_deref())?
        .output()
        .context("running fio")?;
    if !done.status.success() {
        bail!(
            "fio: {}: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(Limit {
        name: format!("fio {way}"),
        device: device.name.clone(),
        bytes_per_second: rate(&done.stdout, way).context("fio answered in another form")?,
        command: argv.join(" "),
        ..Limit::default()
    })
}

/// Bytes a second of the first job.
fn rate(json: &[u8], way: &str) -> Option<f64> {
    let report: Value = serde_json::from_slice(json).ok()?;
    report
        .get("jobs")?
        .get(0)?
        .get(way)?
        .get("bw_bytes")?
        .as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_fios_report() {
        let json = br#"{"fio version":"fio-3.36","jobs":[{"jobname":"limit","read":{"bw_bytes":0},
            "write":{"io_bytes":1000000000,"bw_bytes":491992000}}]}"#;
        assert_eq!(rate(json, "write"), Some(491_992_000.0));
        assert_eq!(rate(b"{}", "write"), None);
    }
}
