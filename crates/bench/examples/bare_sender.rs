//! The least that can send batches to a Kafka: one connection, one batch made once, blocking
//! writes, a bounded number unanswered. The yardstick for the generator: nothing is counted, paced,
//! patched or chosen here.
//!
//!     bare_sender HOST:PORT RECORD_BYTES BATCH_BYTES IN_FLIGHT SECONDS
//!
//! The topic is `bare`; a `forebay bench sink` takes it without its having been made.

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::time::{ClockId, clock_gettime};
use wire::batch::BatchBuilder;
use wire::types::{LeaderEpoch, Offset, TimestampMs};

const TOPIC: &[u8] = b"bare";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, record, batch, in_flight, seconds] = arguments.as_slice() else {
        anyhow::bail!("bare_sender HOST:PORT RECORD_BYTES BATCH_BYTES IN_FLIGHT SECONDS");
    };
    let (record, batch): (usize, usize) = (record.parse()?, batch.parse()?);
    let (in_flight, seconds): (usize, f64) = (in_flight.parse()?, seconds.parse()?);
    let value: Vec<u8> = (0..record)
        .map(|at| ((at * 157) >> 3).to_le_bytes()[0])
        .collect();
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE);
    builder.add(TimestampMs(0), None, Some(&value), &[]);
    while builder.size_bytes() + record + 16 <= batch {
        builder.add(TimestampMs(0), None, Some(&value), &[]);
    }
    let payload = f64::from(builder.record_count()) * record as f64;
    let frame = frame(&builder.finish()?)?;
    let mut socket = TcpStream::connect(address).context("connecting")?;
    socket.set_nodelay(true)?;
    // As the generator does on the loopback: BBR's pace would be measured otherwise.
    let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "cubic");
    let mut answer = Vec::new();
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let (mut sent, mut unanswered) = (0u64, 0);
    while start.elapsed() < Duration::from_secs_f64(seconds) || unanswered > 0 {
        while start.elapsed() < Duration::from_secs_f64(seconds) && unanswered < in_flight {
            socket.write_all(&frame)?;
            sent += 1;
            unanswered += 1;
        }
        if unanswered > 0 {
            let mut length = [0; 4];
            socket.read_exact(&mut length)?;
            answer.resize(u32::from_be_bytes(length) as usize, 0);
            socket.read_exact(&mut answer)?;
            unanswered -= 1;
        }
    }
    let bytes = sent as f64 * payload;
    let (took, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let line = format!(
        "{:.3} GB/s, {:.3} CPU-s/GB\n",
        bytes / took / 1e9,
        cpu / (bytes / 1e9)
    );
    Ok(std::io::stdout().write_all(line.as_bytes())?)
}

/// A Produce of version 7, the last one with plain lengths and what there is now otherwise.
fn frame(batch: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    frame.extend_from_slice(&[0, 0, 0, 7, 0, 0, 0, 1, 0, 0]);
    frame.extend_from_slice(&(-1i16).to_be_bytes());
    frame.extend_from_slice(&(-1i16).to_be_bytes());
    frame.extend_from_slice(&30_000i32.to_be_bytes());
    frame.extend_from_slice(&1i32.to_be_bytes());
    frame.extend_from_slice(&u16::try_from(TOPIC.len())?.to_be_bytes());
    frame.extend_from_slice(TOPIC);
    frame.extend_from_slice(&1i32.to_be_bytes());
    frame.extend_from_slice(&0i32.to_be_bytes());
    frame.extend_from_slice(&u32::try_from(batch.len())?.to_be_bytes());
    frame.extend_from_slice(batch);
    let length = u32::try_from(frame.len() - 4)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
