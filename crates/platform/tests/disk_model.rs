//! Disks against a model: random operations on a file, on the simulated and on the real disk; and
//! what a crash may leave of them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use bytes::Bytes;
use platform::buf::AlignedBuf;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, Open};
use platform::os::{EngineChoice, System};
use platform::sim::{SimDisk, is_power_off};
use platform::{Platform, runtime};
use proptest::prelude::*;

const FILE_BLOCKS: usize = 12;
const FILE_BYTES: usize = FILE_BLOCKS * BLOCK_BYTES;

#[derive(Clone, Debug)]
enum Op {
    Write {
        block: usize,
        counts: Vec<usize>,
        durably: bool,
    },
    Read {
        position: usize,
        len: usize,
    },
    SetLen(usize),
    Allocate(usize),
    Sync,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let counts = prop::collection::vec(0..4_usize, 1..4);
    prop_oneof![
        4 => (0..FILE_BLOCKS, counts, any::<bool>()).prop_map(|(block, counts, durably)| {
            Op::Write { block, counts, durably }
        }),
        4 => (0..FILE_BYTES, 0..FILE_BYTES).prop_map(|(position, len)| Op::Read { position, len }),
        1 => (0..FILE_BYTES).prop_map(Op::SetLen),
        1 => (1..FILE_BYTES).prop_map(Op::Allocate),
        2 => Just(Op::Sync),
        1 => Just(Op::Reopen),
    ]
}

fn blocks(count: usize, byte: u8) -> Bytes {
    let mut buf = AlignedBuf::zeroed(count * BLOCK_BYTES);
    buf.fill(byte);
    buf.freeze()
}

/// The byte that the `index`-th operation writes: never 0, so that what was not written
/// shows.
fn byte_of(index: usize) -> u8 {
    u8::try_from(index + 1).unwrap()
}

/// Applies operations to a file and to a vector, comparing as it goes.
async fn run<D: Disk>(disk: &D, path: &Path, ops: &[Op]) -> Vec<u8> {
    let mut file = disk.open(path, Open::Create).await.unwrap();
    let mut model: Vec<u8> = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        match op {
            Op::Write {
                block,
                counts,
                durably,
            } => {
                let byte = byte_of(index);
                let parts = counts.iter().map(|count| blocks(*count, byte)).collect();
                let position = block * BLOCK_BYTES;
                let written = if *durably {
                    file.write_durably_at(position as u64, parts).await
                } else {
                    file.write_at(position as u64, parts).await
                };
                written.unwrap();
                let end = position + counts.iter().sum::<usize>() * BLOCK_BYTES;
                if end > position {
                    model.resize(model.len().max(end), 0);
                    model[position..end].fill(byte);
                }
            }
            Op::Read { position, len } => {
                let read = file.read_at(*position as u64, *len).await.unwrap();
                let from = (*position).min(model.len());
                let to = (position + len).min(model.len());
                assert!(
                    read == model[from..to],
                    "read {position} {len} after {index}"
                );
            }
            Op::SetLen(len) => {
                file.set_len(*len as u64).await.unwrap();
                model.resize(*len, 0);
            }
            Op::Allocate(len) => {
                file.allocate(*len as u64).await.unwrap();
                model.resize(model.len().max(*len), 0);
            }
            Op::Sync => file.sync().await.unwrap(),
            Op::Reopen => file = disk.open(path, Open::Write).await.unwrap(),
        }
        assert_eq!(file.len().await.unwrap(), model.len() as u64);
    }
    model
}

/// What each byte of a file may be after a crash, and how long the file may be.
struct AllowedContent {
    /// A bit for each allowed value; there are few operations, hence few values.
    bytes: Vec<u32>,
    len: std::ops::RangeInclusive<usize>,
}

fn allowed(ops: &[Op]) -> AllowedContent {
    let mut bytes = vec![1_u32; 2 * FILE_BYTES];
    let mut live = vec![0_u8; 2 * FILE_BYTES];
    let (mut len, mut least, mut most) = (0, 0, 0);
    for (index, op) in ops.iter().enumerate() {
        match op {
            Op::Write {
                block,
                counts,
                durably,
            } => {
                let position = block * BLOCK_BYTES;
                let end = position + counts.iter().sum::<usize>() * BLOCK_BYTES;
                for at in position..end {
                    let before = if *durably { 0 } else { bytes[at] };
                    bytes[at] = before | 1 << byte_of(index);
                    live[at] = byte_of(index);
                }
                if end > position {
                    len = len.max(end);
                }
                if end > position && *durably {
                    least = least.max(end);
                }
            }
            Op::SetLen(to) => {
                for at in *to..live.len() {
                    bytes[at] |= 1;
                    live[at] = 0;
                }
                len = *to;
            }
            Op::Allocate(to) => len = len.max(*to),
            Op::Sync => {
                for (allowed, byte) in bytes.iter_mut().zip(&live) {
                    *allowed = 1 << byte;
                }
                (least, most) = (len, len);
            }
            Op::Read { .. } | Op::Reopen => {}
        }
        least = least.min(len);
        most = most.max(len);
    }
    AllowedContent {
        bytes,
        len: least..=most,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_simulated_disk_behaves_like_a_file(
        ops in prop::collection::vec(op(), 1..30),
        seed: u64,
    ) {
        runtime::run_simulated(async {
            let disk = SimDisk::new(seed);
            run(&disk, Path::new("/0.log"), &ops).await;
        }).unwrap();
    }

    #[test]
    fn a_killed_process_leaves_what_it_completed(
        ops in prop::collection::vec(op(), 1..20),
        seed: u64,
    ) {
        runtime::run_simulated(async {
            let disk = SimDisk::new(seed);
            let model = run(&disk, Path::new("/0.log"), &ops).await;
            assert!(disk.kill(seed).contents(Path::new("/0.log")).unwrap() == model);
        }).unwrap();
    }

    #[test]
    fn a_crash_leaves_only_bytes_that_were_written(
        ops in prop::collection::vec(op(), 1..20),
        seed: u64,
    ) {
        let allowed = allowed(&ops);
        runtime::run_simulated(async {
            let disk = SimDisk::new(seed);
            let path = Path::new("/0.log");
            let model = disk.clone();
            run(&model, path, &ops).await;
            disk.sync_dir(Path::new("/")).await.unwrap();
            for crash in 0..4 {
                let after = disk.crash(seed ^ crash);
                let found = after.contents(path).unwrap();
                assert!(allowed.len.contains(&found.len()), "{} bytes", found.len());
                for (at, byte) in found.iter().enumerate() {
                    assert!(allowed.bytes[at] & (1 << byte) != 0, "{byte} at {at}");
                }
                assert!(found == after.durable_contents(path).unwrap());
            }
            let error = disk.list(Path::new("/")).await.unwrap_err();
            assert!(is_power_off(&error));
        }).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_real_disk_behaves_like_a_file(ops in prop::collection::vec(op(), 1..30)) {
        for choice in [EngineChoice::Auto, EngineChoice::Threads] {
            let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            runtime::run_shard(None, async {
                let system = System::start(choice).unwrap();
                run(system.disk(), &dir.path().join("0.log"), &ops).await;
                system.disk().use_dax(dir.path(), true).await.unwrap();
                run(system.disk(), &dir.path().join("mapped.log"), &ops).await;
            }).unwrap();
        }
    }
}
