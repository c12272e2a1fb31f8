//! Limits of the machine, measured in the same run: what the disk and the sockets can do without a
//! broker.
//!
//! `fio`, if installed, measures the disk (sequential, bypassing the page cache): 1 MiB writes and
//! reads at full speed, and 256 KiB writes at a fixed rate, each synced, which is the least latency
//! of a response that waits for the disk. `socket` measures the sockets.

mod socket;

use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::device::{Device, installed};
use crate::experiment::DeviceKind;
use crate::experiment::need::LIMIT_BYTES;
use crate::outcome::{Limit, LimitLatency};
use crate::target::process::held;

pub use socket::sockets;

/// Rate of the writes that are each synced, the same as in the experiment `latency`.
const SYNCED_BYTES_PER_SECOND: u64 = 100_000_000;
/// Duration of these writes.
const SYNCED_SECONDS: u64 = 5;

/// Returns the text for the report if fio is missing.
pub fn fio_missing() -> Option<String> {
    (!installed("fio")).then(|| {
        "fio is not installed: what the disks can do by themselves was not measured".to_owned()
    })
}

/// Measures a sequential write (synced at the end), a sequential read, and writes that are each
/// synced.
pub fn fio(device: &Device, kind: DeviceKind) -> anyhow::Result<Vec<Limit>> {
    let dir = device.dir.join("fio");
    std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let measured = Job::of(kind)
        .iter()
        .map(|job| fio_once(device, kind, &dir, *job))
        .collect();
    std::fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
    measured
}

/// One run of fio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    Write,
    Read,
    /// Writes at a fixed rate, each on the disk before the next.
    Synced,
}

impl Job {
    fn of(kind: DeviceKind) -> &'static [Job] {
        match kind {
            // Memory has nothing to sync.
            DeviceKind::Memory => &[Job::Write, Job::Read],
            DeviceKind::Disk | DeviceKind::Limited => &[Job::Write, Job::Read, Job::Synced],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Job::Write => "fio write",
            Job::Read => "fio read",
            Job::Synced => "fio write, each synced",
        }
    }

    fn way(self) -> &'static str {
        match self {
            Job::Read => "read",
            Job::Write | Job::Synced => "write",
        }
    }

    fn arguments(self) -> Vec<String> {
        match self {
            Job::Write => vec!["--bs=1m".to_owned(), "--end_fsync=1".to_owned()],
            Job::Read => vec!["--bs=1m".to_owned()],
            Job::Synced => vec![
                "--bs=256k".to_owned(),
                "--sync=dsync".to_owned(),
                format!("--rate={SYNCED_BYTES_PER_SECOND}"),
                "--time_based".to_owned(),
                format!("--runtime={SYNCED_SECONDS}"),
            ],
        }
    }
}

fn fio_once(device: &Device, kind: DeviceKind, dir: &Path, job: Job) -> anyhow::Result<Limit> {
    // Not every kernel supports direct I/O on tmpfs, which itself is page cache.
    let direct = u8::from(kind != DeviceKind::Memory);
    let mut argv = vec![
        "fio".to_owned(),
        "--name=limit".to_owned(),
        format!("--directory={}", dir.display()),
        "--filename=file".to_owned(),
        format!("--rw={}", job.way()),
        format!("--size={LIMIT_BYTES}"),
        format!("--direct={direct}"),
        "--ioengine=psync".to_owned(),
        "--output-format=json".to_owned(),
    ];
    argv.extend(job.arguments());
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
    let answer = Answer::parse(&done.stdout, job.way()).context("fio answered in another form")?;
    Ok(Limit {
        name: job.name().to_owned(),
        device: device.name.clone(),
        bytes_per_second: answer.bytes_per_second,
        latency: (job == Job::Synced).then_some(answer.latency).flatten(),
        command: argv.join(" "),
        ..Limit::default()
    })
}

/// The result of fio's first job in one direction.
#[derive(PartialEq, Debug)]
struct Answer {
    bytes_per_second: f64,
    latency: Option<LimitLatency>,
}

impl Answer {
    fn parse(json: &[u8], way: &str) -> Option<Answer> {
        let report: Value = serde_json::from_slice(json).ok()?;
        let job = report.get("jobs")?.get(0)?.get(way)?;
        let percentiles = job.get("clat_ns").and_then(|times| times.get("percentile"));
        let us = |which: &str| Some(percentiles?.get(which)?.as_f64()? / 1e3);
        let latency = || {
            Some(LimitLatency {
                p50_us: us("50.000000")?,
                p99_us: us("99.000000")?,
                p999_us: us("99.900000")?,
            })
        };
        Some(Answer {
            bytes_per_second: job.get("bw_bytes")?.as_f64()?,
            latency: latency(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_latency_are_read_from_fios_report() {
        let json = br#"{"fio version":"fio-3.36","jobs":[{"jobname":"limit","read":{"bw_bytes":0},
            "write":{"io_bytes":1000000000,"bw_bytes":491992000,"clat_ns":{"percentile":
            {"50.000000":358400,"99.000000":6193152,"99.900000":15400960}}}}]}"#;
        let answer = Answer::parse(json, "write").unwrap();
        assert_eq!(answer.bytes_per_second, 491_992_000.0);
        let latency = LimitLatency {
            p50_us: 358.4,
            p99_us: 6193.152,
            p999_us: 15_400.96,
        };
        assert_eq!(answer.latency, Some(latency));
        assert_eq!(Answer::parse(json, "read").unwrap().latency, None);
        assert_eq!(Answer::parse(b"{}", "write"), None);
    }
}
