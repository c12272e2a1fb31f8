//! The broker's hot paths, one at a time, for counting instructions: `paths NAME COUNT [planted]`.
//!
//! Requests go as bytes through decoding, dispatch, handler, log and flush, and their answers come
//! back as bytes: one thread, a simulated disk, no sockets, no clock that runs. A run does a path
//! COUNT times after the same preparations, so the difference between two counts is the path and
//! nothing else. `cargo xtask guard` runs it under callgrind; what it counts is kept in
//! `docs/benchmarks/instructions.csv`. With `planted` each answer costs something that it should
//! not, to show that the guard notices. The simulated disk is part of what is counted; its record
//! of what happened is switched off.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement ends where it goes wrong"
)]

#[path = "../tests/harness/cluster.rs"]
mod harness;

/// The server's allocator: the C library's takes a different number of instructions wherever the
/// blocks happen to lie.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use bytes::Bytes;
use platform::sim::SimDisk;
use storage::StoreOptions;
use storage::journal::RingSize;
use wire::messages::{FetchRequest, MetadataRequest};

use harness::{Cluster, Setup, asks, batches, client, life};

const TOPIC: &str = "paths";
const MIB: usize = 1 << 20;
/// Batches that are there to be fetched; fetches begin again when they are through.
const STORED_BATCHES: i64 = 24;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, count, planted) = match arguments.as_slice() {
        [name, count] => (name.as_str(), count.parse().unwrap(), false),
        [name, count, planted] if planted == "planted" => {
            (name.as_str(), count.parse().unwrap(), true)
        }
        _ => panic!("usage: paths NAME COUNT [planted]"),
    };
    let moved = match name {
        "produce-240kb" => produce(count, planted, &batches::large(240_000)),
        "produce-1kb" => produce(count, planted, &thousand_records()),
        "produce-small" => produce(count, planted, &batches::large(100)),
        "journal-50" => produce_journaled(count, planted),
        "fetch-tail" => fetch(count, planted, true),
        "fetch-cold" => fetch(count, planted, false),
        "metadata" => metadata(count, planted),
        other => panic!("no path is called {other}"),
    };
    println!("{moved}");
}

fn setup() -> Setup {
    let mut setup = Setup::shards(1);
    setup.options.fetch_bytes_max = 64 * MIB;
    setup.store = StoreOptions {
        cache_bytes_max: 64 * MIB,
        cache_bytes_start: 64 * MIB,
        unwritten_bytes_max: 64 * MIB,
        chunk_bytes: MIB,
        reserve_chunks: 0,
        allocate_step_bytes: 64 << 20,
        save_interval_bytes: 64 << 20,
        read_ahead_bytes_max: 8 * MIB,
        open_segments_max: 64,
    };
    setup
}

fn disk() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.set_traced(false);
    disk
}

/// A batch of a thousand records of a thousand bytes.
fn thousand_records() -> Bytes {
    let value = "x".repeat(1000);
    batches::batch(&vec![value.as_str(); 1000])
}

/// Bytes of a frame's answer.
async fn answered(cluster: &Cluster, frame: &Bytes, planted: bool) -> usize {
    let broker::dispatch::Reply::Send(response) = cluster.reply(0, frame).await else {
        panic!("not answered");
    };
    let parts = response.into_segments();
    if planted {
        let bytes = parts.iter().chain([frame]).flat_map(|part| part.iter());
        let sum = bytes.fold(0_u32, |sum, byte| sum.rotate_left(1) ^ u32::from(*byte));
        std::hint::black_box(sum);
    }
    parts.iter().map(Bytes::len).sum()
}

fn produce(count: usize, planted: bool, batch: &Bytes) -> usize {
    life(&disk(), &setup(), async |cluster: &Cluster| {
        cluster.create(TOPIC, 1).await;
        let request = asks::produce(TOPIC, -1, &[(0, batch.clone())]);
        let frame = client::frame(9, &request);
        for _ in 0..count {
            answered(cluster, &frame, planted).await;
        }
        let stored = cluster.offset(TOPIC, 0, -1).await;
        assert!(stored >= i64::try_from(count).unwrap(), "all were accepted");
        count * batch.len()
    })
}

/// Requests with a small batch for each of fifty partitions, whose logs use a journal; nothing
/// lands meanwhile.
fn produce_journaled(count: usize, planted: bool) -> usize {
    const PARTITIONS: i32 = 50;
    let mut setup = setup().with_journal(None);
    if let Some(journal) = &mut setup.options.journal {
        journal.size = RingSize::new(64 << 20).unwrap();
        journal.options.unlanded_bytes_max = 32 << 20;
        journal.options.land_bytes = 1 << 20;
    }
    life(&disk(), &setup, async |cluster: &Cluster| {
        cluster.create(TOPIC, PARTITIONS).await;
        let batch = batches::large(100);
        let each: Vec<_> = (0..PARTITIONS).map(|to| (to, batch.clone())).collect();
        let frame = client::frame(9, &asks::produce(TOPIC, -1, &each));
        for _ in 0..count {
            answered(cluster, &frame, planted).await;
        }
        cluster.brokers[0].store.show_journals();
        let journal = &cluster.storage_metrics(0).journal;
        let parts = journal.parts.get();
        assert!(parts >= 50 * count as u64, "they went through the journal");
        assert!(journal.commits.get() < parts / 10, "many go together");
        count * each.len() * batch.len()
    })
}

/// Fetches a megabyte at a time, from the memory that was appended to, or from the disk after a
/// restart.
fn fetch(count: usize, planted: bool, tail: bool) -> usize {
    let disk = disk();
    let batch = thousand_records();
    let story = async |cluster: &Cluster| {
        cluster.create(TOPIC, 1).await;
        for _ in 0..STORED_BATCHES {
            cluster.try_produce(TOPIC, 0, batch.clone()).await.unwrap();
        }
        if tail {
            return fetch_on(cluster, count, planted).await;
        }
        cluster.stop().await;
        0
    };
    let setup = setup();
    let moved = life(&disk, &setup, story);
    if tail {
        return moved;
    }
    let disk = disk.kill(1);
    disk.set_traced(false);
    life(&disk, &setup.next(), async |cluster: &Cluster| {
        fetch_on(cluster, count, planted).await
    })
}

async fn fetch_on(cluster: &Cluster, count: usize, planted: bool) -> usize {
    let request = |offset: i64| -> FetchRequest {
        let mut request = asks::fetch(TOPIC, &[(0, offset)]);
        request.max_bytes = i32::try_from(MIB).unwrap();
        request
    };
    let frames: Vec<Bytes> = (0..STORED_BATCHES)
        .map(|batch| client::frame(12, &request(1000 * batch)))
        .collect();
    let mut moved = 0;
    for frame in frames.iter().cycle().take(count) {
        moved += answered(cluster, frame, planted).await;
    }
    assert!(moved > count * 1_000_000, "each fetch finds a batch");
    moved
}

fn metadata(count: usize, planted: bool) -> usize {
    life(&disk(), &setup(), async |cluster: &Cluster| {
        cluster.create(TOPIC, 1).await;
        let frame = client::frame(12, &MetadataRequest::default().with_topics(None));
        let mut moved = 0;
        for _ in 0..count {
            moved += answered(cluster, &frame, planted).await;
        }
        moved
    })
}
