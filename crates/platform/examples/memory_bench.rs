//! What memory costs an append: chunks touched for the first time, prepared ones, and used ones.
//!
//! `cargo run --release -p forebay-platform --example memory_bench -- [MIB]`
#![allow(clippy::print_stdout, reason = "a tool that prints a table")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::error::Error;
use std::time::Instant;

use platform::buf::{ChunkPool, PoolOptions};
use platform::process;

const CHUNK_BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mib: usize = std::env::args().nth(1).map_or(Ok(512), |mib| mib.parse())?;
    let pool = |reserve_chunks| {
        ChunkPool::new(PoolOptions {
            chunk_bytes: CHUNK_BYTES,
            bytes_max: mib * CHUNK_BYTES,
            reserve_chunks,
        })
    };
    let cold = pool(0);
    fill(&cold, mib, "first touch by the append")?;
    fill(&cold, mib, "used before")?;
    let started = Instant::now();
    let prepared = pool(mib);
    while prepared.resident_bytes() < mib * CHUNK_BYTES {
        std::thread::yield_now();
    }
    let gigabytes = (mib * CHUNK_BYTES) as f64 / 1e9;
    let rate = gigabytes / started.elapsed().as_secs_f64();
    println!("{:28} {rate:6.2} GB/s", "preparing, helper thread");
    fill(&prepared, mib, "prepared")?;
    println!("resident {} MiB", process::usage()?.resident_bytes >> 20);
    Ok(())
}

fn fill(pool: &ChunkPool, count: usize, case: &str) -> Result<(), Box<dyn Error>> {
    let batch = vec![7; 64 << 10];
    let mut chunks = Vec::new();
    let started = Instant::now();
    for _ in 0..count {
        let mut chunk = pool.take().ok_or("the pool is empty")?;
        while chunk.append(&batch) > 0 {}
        chunks.push(chunk);
    }
    let gigabytes = (count * CHUNK_BYTES) as f64 / 1e9;
    let rate = gigabytes / started.elapsed().as_secs_f64();
    println!("{case:28} {rate:6.2} GB/s");
    Ok(())
}
