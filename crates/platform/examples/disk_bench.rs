//! What a disk does with segment writes: direct, 1 MiB each, 16 under way, then one sync; and the
//! latency of a small write with its sync.
//!
//! The cases differ in what the file was before: growing, reserved by `fallocate` (unwritten
//! extents are converted by the first write), filled with zeroes, or written over. `dsync` asks for
//! durability with each write (`RWF_DSYNC`) instead of a sync after 16.
//!
//! `cargo run --release -p forebay-platform --example disk_bench -- DIR [MIB]
//! [auto|io_uring|threads]`
#![allow(clippy::print_stdout, reason = "a tool that prints a table")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::error::Error;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use platform::buf::AlignedBuf;
use platform::disk::{Disk, DiskFile, Open};
use platform::os::{EngineChoice, System};
use platform::{Platform, process, runtime, task};
use rustix::fs::{Mode, OFlags};
use rustix::io::ReadWriteFlags;

const WRITE_BYTES: usize = 1 << 20;
const DEPTH: usize = 16;
const SMALL_WRITES: usize = 200;

type BenchResult<T> = Result<T, Box<dyn Error>>;

fn main() -> BenchResult<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("which directory?")?);
    let mib: usize = args.next().map_or(Ok(1024), |mib| mib.parse())?;
    let engine = args.next().unwrap_or("auto".to_owned());
    let choice = EngineChoice::from_name(&engine).ok_or("which engine?")?;
    runtime::run_shard(None, async {
        let system = System::start(choice)?;
        println!(
            "engine {}, direct {}, {mib} MiB per case",
            system.engine_name(),
            system.disk().direct(&dir).await?
        );
        println!(
            "{:28} {:>8} {:>9}   64 KiB + sync, p50 / p99",
            "case", "GB/s", "CPU s/GB"
        );
        for before in ["growing", "fallocated", "zero-written", "written over"] {
            case(&system, &dir, before, mib).await?;
        }
        for before in ["fallocated", "zero-written"] {
            dsync(&system, &dir, before, mib).await?;
        }
        Ok(())
    })?
}

/// A file of the wanted past, with room for the large writes and, behind them, the small ones.
async fn prepare(system: &System, path: &Path, before: &str, mib: usize) -> BenchResult<()> {
    let _ = system.disk().remove_file(path).await;
    let file = system.disk().open(path, Open::Create).await?;
    let mib = (mib + SMALL_WRITES.div_ceil(16)) as u64;
    match before {
        "fallocated" => file.allocate(mib << 20).await?,
        "zero-written" | "written over" => {
            let fill = u8::from(before == "written over");
            for at in 0..mib {
                file.write_at(at << 20, vec![block(WRITE_BYTES, fill)])
                    .await?;
            }
        }
        _ => {}
    }
    file.sync().await?;
    Ok(())
}

async fn case(system: &System, dir: &Path, before: &str, mib: usize) -> BenchResult<()> {
    let path = dir.join("disk_bench.tmp");
    prepare(system, &path, before, mib).await?;
    let file = system.disk().open(&path, Open::Write).await?;
    let bytes = block(WRITE_BYTES, 7);
    let (started, cpu) = (Instant::now(), process::usage()?.cpu);
    for group in 0..mib / DEPTH {
        let writes: Vec<_> = (0..DEPTH)
            .map(|index| {
                let position = ((group * DEPTH + index) * WRITE_BYTES) as u64;
                let (file, bytes) = (file.clone(), bytes.clone());
                task::spawn(async move { file.write_at(position, vec![bytes]).await })
            })
            .collect();
        for write in writes {
            write.await??;
        }
        file.sync().await?;
    }
    let (elapsed, cpu) = (started.elapsed(), process::usage()?.cpu.saturating_sub(cpu));
    let gigabytes = (mib * WRITE_BYTES) as f64 / 1e9;
    let small = bytes.slice(..65536);
    let mut latencies = Vec::new();
    for index in 0..SMALL_WRITES {
        let position = (mib * WRITE_BYTES + index * small.len()) as u64;
        let started = Instant::now();
        file.write_at(position, vec![small.clone()]).await?;
        file.sync().await?;
        latencies.push(started.elapsed());
    }
    latencies.sort();
    println!(
        "{:28} {:8.2} {:9.3}   {:?} / {:?}",
        format!("{before}, fdatasync"),
        gigabytes / elapsed.as_secs_f64(),
        cpu.as_secs_f64() / gigabytes,
        latencies[SMALL_WRITES / 2],
        latencies[SMALL_WRITES * 99 / 100],
    );
    system.disk().remove_file(&path).await?;
    Ok(())
}

/// The same volume from 16 threads, each write durable by itself.
async fn dsync(system: &System, dir: &Path, before: &str, mib: usize) -> BenchResult<()> {
    let path = dir.join("disk_bench.tmp");
    prepare(system, &path, before, mib).await?;
    let flags = OFlags::RDWR | OFlags::DIRECT;
    let file = rustix::fs::open(&path, flags, Mode::empty())?;
    let bytes = block(WRITE_BYTES, 7);
    let (started, cpu) = (Instant::now(), process::usage()?.cpu);
    let write = |position: usize, bytes: &[u8]| {
        let parts = [IoSlice::new(bytes)];
        rustix::io::pwritev2(&file, &parts, position as u64, ReadWriteFlags::DSYNC)
    };
    std::thread::scope(|scope| {
        for first in 0..DEPTH {
            let (write, bytes) = (&write, &bytes);
            scope.spawn(move || {
                for index in (first..mib).step_by(DEPTH) {
                    write(index * WRITE_BYTES, bytes).expect("a write that works");
                }
            });
        }
    });
    let (elapsed, cpu) = (started.elapsed(), process::usage()?.cpu.saturating_sub(cpu));
    let gigabytes = (mib * WRITE_BYTES) as f64 / 1e9;
    let mut latencies = Vec::new();
    for index in 0..SMALL_WRITES {
        let started = Instant::now();
        write(mib * WRITE_BYTES + index * 65536, &bytes[..65536])?;
        latencies.push(started.elapsed());
    }
    latencies.sort();
    println!(
        "{:28} {:8.2} {:9.3}   {:?} / {:?}",
        format!("{before}, dsync"),
        gigabytes / elapsed.as_secs_f64(),
        cpu.as_secs_f64() / gigabytes,
        latencies[SMALL_WRITES / 2],
        latencies[SMALL_WRITES * 99 / 100],
    );
    system.disk().remove_file(&path).await?;
    Ok(())
}

fn block(len: usize, byte: u8) -> Bytes {
    let mut buf = AlignedBuf::zeroed(len);
    buf.fill(byte);
    buf.freeze()
}
