//! Both engines, the same behaviour.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use platform::buf::{AlignedBuf, ChunkPool, PoolOptions};
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, IoClass, Open, is_unreadable};
use platform::os::{EngineChoice, System, SystemFile};
use platform::runtime::run_shard;
use platform::{Platform, task};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Runs a test with each engine, in a directory of its own on a disk (not on a tmpfs `/tmp`).
fn with_engines<F: Future<Output = ()>>(test: impl Fn(System, PathBuf) -> F) {
    for choice in [EngineChoice::IoUring, EngineChoice::Threads] {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let ran = run_shard(None, async {
            match System::start(choice) {
                Ok(system) => test(system, dir.path().to_owned()).await,
                Err(error) => eprintln!("skipped: {error}"),
            }
        });
        ran.unwrap();
    }
}

fn blocks(count: usize, byte: u8) -> Bytes {
    let mut buf = AlignedBuf::zeroed(count * BLOCK_BYTES);
    buf.fill(byte);
    buf.freeze()
}

async fn new_file(system: &System, dir: &Path) -> SystemFile {
    let path = dir.join("00000000000000000000.log");
    system.disk().open(&path, Open::Create).await.unwrap()
}

#[test]
fn writes_are_read_back_at_any_alignment() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        file.write_at(0, vec![blocks(1, 1), blocks(2, 2)])
            .await
            .unwrap();
        file.write_at(3 * BLOCK, vec![blocks(1, 3)]).await.unwrap();
        file.sync().await.unwrap();
        for (position, len) in [
            (0, 1),
            (4095, 2),
            (1, 3 * BLOCK_BYTES),
            (5000, 9000),
            (8192, 8192),
        ] {
            let read = file.read_at(position, len).await.unwrap();
            assert_eq!(read.len(), len);
            for (index, byte) in read.iter().enumerate() {
                let block = (position + index as u64) / BLOCK;
                assert_eq!(*byte, [1, 2, 2, 3][usize::try_from(block).unwrap()]);
            }
        }
        assert_eq!(file.len().await.unwrap(), 4 * BLOCK);
    });
}

#[test]
fn durable_writes_are_writes_and_need_no_sync() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        file.write_durably_at(BLOCK, vec![blocks(1, 2), blocks(2, 3)])
            .await
            .unwrap();
        file.write_durably_at(0, vec![blocks(1, 1)]).await.unwrap();
        file.write_durably_at(2 * BLOCK, vec![blocks(1, 4)])
            .await
            .unwrap();
        let parts = (0..1200).map(|_| blocks(1, 5)).collect();
        file.write_durably_at(4 * BLOCK, parts).await.unwrap();
        file.write_durably_at(0, Vec::new()).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 1204 * BLOCK);
        let read = file.read_at(0, 2000 * BLOCK_BYTES).await.unwrap();
        for (index, block) in read.chunks(BLOCK_BYTES).enumerate() {
            let expected = [1, 2, 4, 3].get(index).copied().unwrap_or(5);
            assert!(block.iter().all(|byte| *byte == expected), "block {index}");
        }
    });
}

#[test]
fn a_class_changes_who_goes_first_and_nothing_else() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        let patient = file.of_class(IoClass::Background);
        file.write_at(0, vec![blocks(1, 1)]).await.unwrap();
        let parts = vec![blocks(1, 2), blocks(1, 3)];
        patient.write_at(BLOCK, parts).await.unwrap();
        patient.sync().await.unwrap();
        let all = 3 * BLOCK_BYTES;
        let read = patient.read_at(0, all).await.unwrap();
        assert_eq!(read, file.read_at(0, all).await.unwrap());
        assert_eq!((read[0], read[all - 1]), (1, 3));
    });
}

#[test]
fn memory_of_a_pool_is_read_into_and_comes_back_to_it() {
    with_engines(|system, dir| async move {
        let pool = ChunkPool::new(PoolOptions {
            chunk_bytes: 4 * BLOCK_BYTES,
            bytes_max: 4 * BLOCK_BYTES,
            reserve_chunks: 0,
        });
        let file = new_file(&system, &dir).await;
        file.write_at(0, vec![blocks(2, 1), blocks(1, 2)])
            .await
            .unwrap();
        file.set_len(2 * BLOCK + 100).await.unwrap();
        for (position, expected) in [(0, 2 * BLOCK + 100), (BLOCK, BLOCK + 100), (4 * BLOCK, 0)] {
            let buf = pool.take_buf().unwrap();
            assert!(pool.take_buf().is_none() && pool.take().is_none());
            let read = file.read_into(position, buf).await.unwrap();
            assert_eq!(read.len() as u64, expected);
            for (index, byte) in read.iter().enumerate() {
                let first = position + (index as u64) < 2 * BLOCK;
                assert_eq!(*byte, if first { 1 } else { 2 });
            }
        }
        let mut two_blocks = pool.take_buf().unwrap();
        two_blocks.truncate(BLOCK_BYTES);
        let read = file.read_into(0, two_blocks).await.unwrap();
        assert_eq!(read[..], [1; BLOCK_BYTES]);
        assert_eq!(pool.used_bytes(), 4 * BLOCK_BYTES);
        drop(read.freeze().slice(10..20));
        assert_eq!(pool.used_bytes(), 0);
    });
}

#[test]
fn reads_stop_at_the_end_wherever_it_is() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        file.write_at(0, vec![blocks(2, 7)]).await.unwrap();
        for len in [2 * BLOCK, BLOCK + 1, BLOCK, 4000, 513, 1] {
            file.set_len(len).await.unwrap();
            assert_eq!(file.len().await.unwrap(), len);
            for (position, wanted) in [(0, 100_000), (100, 8000), (len - 1, 5)] {
                let read = file.read_at(position, wanted).await.unwrap();
                let expected = len.saturating_sub(position).min(wanted as u64);
                assert_eq!(read.len() as u64, expected, "{position} of {len}");
                assert!(read.iter().all(|byte| *byte == 7));
            }
            assert!(file.read_at(len, 10).await.unwrap().is_empty());
            assert!(file.read_at(len + 9999, 10).await.unwrap().is_empty());
            assert!(file.read_at(0, 0).await.unwrap().is_empty());
        }
    });
}

#[test]
fn a_write_of_more_parts_than_the_kernel_takes_is_whole() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        let parts: Vec<_> = (0..2500)
            .map(|index| blocks(1, u8::try_from(index % 251).unwrap()))
            .collect();
        file.write_at(BLOCK, parts).await.unwrap();
        let read = file.read_at(BLOCK, 2500 * BLOCK_BYTES).await.unwrap();
        assert_eq!(read.len(), 2500 * BLOCK_BYTES);
        for (index, block) in read.chunks(BLOCK_BYTES).enumerate() {
            assert!(
                block.iter().all(|byte| usize::from(*byte) == index % 251),
                "block {index}"
            );
        }
        assert!(
            file.read_at(0, 10)
                .await
                .unwrap()
                .iter()
                .all(|byte| *byte == 0)
        );
    });
}

#[test]
fn many_files_are_written_and_read_at_once() {
    with_engines(|system, dir| async move {
        let pool = ChunkPool::new(PoolOptions {
            chunk_bytes: 16 * BLOCK_BYTES,
            bytes_max: 200 * 16 * BLOCK_BYTES,
            reserve_chunks: 0,
        });
        let tasks = (0..200_u8).map(|number| {
            let (system, path) = (system.clone(), dir.join(format!("{number}.log")));
            let mut chunk = pool.take().unwrap();
            task::spawn(async move {
                let file = system.disk().open(&path, Open::Create).await.unwrap();
                chunk.append(&[number; 3 * BLOCK_BYTES + 5]);
                let parts = vec![chunk.aligned_slice(0), chunk.tail_block()];
                file.write_at(0, parts).await.unwrap();
                file.sync().await.unwrap();
                let read = file.read_at(3, 3 * BLOCK_BYTES).await.unwrap();
                assert!(read.iter().all(|byte| *byte == number));
                let tail = file.read_at(3 * BLOCK + 4, 2).await.unwrap();
                assert_eq!(&tail[..], [number, 0]);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(pool.used_bytes(), 0);
        assert_eq!(system.disk().list(&dir).await.unwrap().len(), 200);
    });
}

#[test]
fn more_requests_than_the_queues_hold_are_all_answered() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        file.write_at(0, vec![blocks(4, 6)]).await.unwrap();
        let reads = (0..2000_u64).map(|index| {
            let file = file.clone();
            task::spawn(async move { file.read_at(index % 9000, 100).await })
        });
        for read in reads.collect::<Vec<_>>() {
            assert_eq!(&read.await.unwrap().unwrap()[..], [6; 100]);
        }
    });
}

#[test]
fn reserved_room_reads_as_zero_and_is_written_into() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        file.allocate(1 << 20).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 1 << 20);
        file.write_at(8 * BLOCK, vec![blocks(1, 5)]).await.unwrap();
        file.allocate(1 << 19).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 1 << 20);
        let read = file.read_at(8 * BLOCK - 1, 3).await.unwrap();
        assert_eq!(&read[..], [0, 5, 5]);
        file.set_len(8 * BLOCK + 7).await.unwrap();
        assert_eq!(file.read_at(8 * BLOCK, 100).await.unwrap().len(), 7);
    });
}

#[test]
fn a_future_that_is_dropped_leaves_its_memory_to_the_kernel() {
    with_engines(|system, dir| async move {
        let pool = ChunkPool::new(PoolOptions {
            chunk_bytes: 1 << 20,
            bytes_max: 4 << 20,
            reserve_chunks: 0,
        });
        let file = new_file(&system, &dir).await;
        for round in 0..4_u64 {
            let mut chunk = pool.take().unwrap();
            chunk.append(&vec![9; 1 << 20]);
            let mut write = Box::pin(file.write_at(round << 20, vec![chunk.aligned_slice(0)]));
            let mut read = Box::pin(file.read_at(0, 1 << 20));
            drop(chunk);
            poll_once(write.as_mut()).await;
            poll_once(read.as_mut()).await;
            // One turn hands the requests to the kernel, then their futures are dropped.
            if round % 2 == 0 {
                task::yield_now().await;
            }
            drop((write, read));
        }
        while pool.used_bytes() > 0 {
            pool.freed().await;
        }
        // Their futures are gone, and the writes have happened all the same.
        let read = file.read_at(0, 4 << 20).await.unwrap();
        assert!(read.len() == 4 << 20 && read.iter().all(|byte| *byte == 9));
        file.sync().await.unwrap();
    });
}

async fn poll_once<F: Future + Unpin>(mut future: F) {
    std::future::poll_fn(|context| {
        let _ = std::pin::Pin::new(&mut future).poll(context);
        std::task::Poll::Ready(())
    })
    .await;
}

#[test]
fn the_runtime_may_end_with_requests_under_way() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        for round in 0..64 {
            let file = file.clone();
            task::spawn(async move { file.write_at(round << 20, vec![blocks(256, 1)]).await });
        }
        task::yield_now().await;
        task::yield_now().await;
    });
}

/// A file that every write to fails.
fn sealed_file() -> OwnedFd {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let file = memfd_create("sealed", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, BLOCK).unwrap();
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    file
}

#[test]
fn a_failed_write_latches_the_file_and_only_it() {
    with_engines(|system, dir| async move {
        let sealed = sealed_file();
        let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
        let file = system.disk().open(Path::new(&path), Open::Write);
        let file = file.await.unwrap();
        let error = file.write_at(0, vec![blocks(1, 1)]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let error = file.clone().sync().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Other);
        let message = error.to_string();
        assert!(
            message.starts_with("file latched by earlier failure: write: "),
            "{message}"
        );
        let error = file.write_at(0, vec![blocks(1, 1)]).await.unwrap_err();
        assert!(error.to_string().contains("latched"), "{error}");
        let other = new_file(&system, &dir).await;
        other.write_at(0, vec![blocks(1, 1)]).await.unwrap();
        let again = system.disk().open(Path::new(&path), Open::Write);
        let again = again.await.unwrap();
        let written = again.write_durably_at(0, vec![blocks(1, 1)]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(again.sync().await.is_err(), "it is latched");
    });
}

#[test]
fn a_file_opened_for_reading_refuses_writes() {
    with_engines(|system, dir| async move {
        let file = new_file(&system, &dir).await;
        file.write_at(0, vec![blocks(1, 1)]).await.unwrap();
        let path = dir.join("00000000000000000000.log");
        let disk = system.disk();
        let reader = disk.open(&path, Open::Read).await.unwrap();
        assert_eq!(reader.read_at(1, 1).await.unwrap(), &[1][..]);
        reader.write_at(0, vec![blocks(1, 2)]).await.unwrap_err();
        let twice = disk.open(&path, Open::Create).await.err().unwrap();
        assert_eq!(twice.kind(), io::ErrorKind::AlreadyExists);
        let missing = disk.open(&dir.join("x"), Open::Write).await.err().unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn names_and_small_files() {
    with_engines(|system, dir| async move {
        let disk = system.disk();
        let log = dir.join("a/b/t-0");
        disk.create_dir(&log).await.unwrap();
        disk.create_dir(&log).await.unwrap();
        disk.replace_file(&log.join("meta"), b"one").await.unwrap();
        disk.replace_file(&log.join("meta"), b"two!").await.unwrap();
        disk.create_dir(&log.join("sub")).await.unwrap();
        assert_eq!(disk.read_file(&log.join("meta")).await.unwrap(), b"two!");
        let listed = disk.list(&log).await.unwrap();
        let found: Vec<_> = listed
            .iter()
            .map(|e| (e.name.as_str(), e.is_dir, e.len))
            .collect();
        assert_eq!(found, [("meta", false, 4), ("sub", true, 0)]);
        let gone = dir.join("a/b/t-0.gone");
        disk.rename(&log, &gone).await.unwrap();
        disk.sync_dir(&dir.join("a/b")).await.unwrap();
        disk.remove_file(&gone.join("meta")).await.unwrap();
        let missing = disk.remove_file(&gone.join("meta")).await.unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        disk.remove_dir(&dir.join("a")).await.unwrap();
        assert!(disk.list(&dir).await.unwrap().is_empty());
        let space = disk.space(&dir).await.unwrap();
        assert!(space.free > 0 && space.free <= space.total);
    });
}

#[test]
fn one_look_sees_what_a_listing_and_reads_see() {
    with_engines(|system, dir| async move {
        let disk = system.disk();
        for name in ["a", "b", "c"] {
            let bytes = name.repeat(7).into_bytes();
            disk.replace_file(&dir.join(name), &bytes).await.unwrap();
        }
        disk.create_dir(&dir.join("d")).await.unwrap();
        let look = disk.look(&dir, |entries| {
            let names = entries.iter().map(|entry| entry.name.clone());
            names
                .filter(|name| name != "b")
                .chain(["e".into()])
                .collect()
        });
        let look = look.await.unwrap();
        assert_eq!(look.entries, disk.list(&dir).await.unwrap());
        assert_eq!(look.files.len(), 4);
        let names = ["a", "c", "d", "e"].map(|name| dir.join(name));
        let read = disk.read_files(&dir, names.to_vec(), 100).await;
        for ((path, read), looked) in names.iter().zip(read).zip(look.files.values()) {
            let by_itself = disk.read_file(path).await.map_err(|error| error.kind());
            assert_eq!(read.map_err(|error| error.kind()), by_itself);
            let looked = looked.as_ref().map_err(io::Error::kind);
            assert_eq!(looked, by_itself.as_ref().map_err(|kind| *kind));
        }
        // A longer file is refused alone.
        let bounded = disk.read_files(&dir, names.to_vec(), 6).await;
        assert!(
            bounded.iter().all(Result::is_err),
            "the files have seven bytes"
        );
        let missing = disk.look(&dir.join("e"), |_| Vec::new()).await;
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn files_are_opened_alike_before_and_after_their_device_is_known() {
    with_engines(|system, dir| async move {
        let disk = system.disk();
        for name in ["first", "second"] {
            let path = dir.join(name);
            let missing = disk.open(&path, Open::Write).await.map(drop);
            assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
            let file = disk.open(&path, Open::Create).await.unwrap();
            file.write_at(0, vec![blocks(1, 7)]).await.unwrap();
            let again = disk.open(&path, Open::Create).await.map(drop);
            assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            let file = disk.open(&path, Open::Read).await.unwrap();
            assert_eq!(file.read_at(1, 3).await.unwrap(), [7, 7, 7][..]);
        }
    });
}

#[test]
fn a_file_system_without_direct_io_is_used_through_the_page_cache() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no /dev/shm");
        return;
    };
    for choice in [EngineChoice::Auto, EngineChoice::Threads] {
        let path = dir.path().join(format!("{choice:?}"));
        let ran = run_shard(None, async {
            let system = System::start(choice).unwrap();
            let direct = system.disk().direct(dir.path()).await.unwrap();
            let file = system.disk().open(&path, Open::Create).await.unwrap();
            assert_eq!(file.is_direct(), direct);
            file.write_at(0, vec![blocks(3, 4)]).await.unwrap();
            file.sync().await.unwrap();
            file.set_len(5000).await.unwrap();
            assert_eq!(file.read_at(4999, 100).await.unwrap(), &[4][..]);
        });
        ran.unwrap();
    }
}

#[test]
fn the_engine_is_chosen_by_name() {
    for name in EngineChoice::NAMES {
        let choice = EngineChoice::from_name(name).unwrap();
        let ran = run_shard(None, async move {
            let Ok(system) = System::start(choice) else {
                assert_eq!(choice, EngineChoice::IoUring);
                return;
            };
            if choice != EngineChoice::Auto {
                assert_eq!(system.engine_name(), name);
                assert!(system.engine_fallback_reason().is_none());
            }
        });
        ran.unwrap();
    }
    assert!(EngineChoice::from_name("aio").is_none());
}

fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_pipe_under_the_name_of_a_file_is_refused_and_never_waited_for() {
    with_engines(|system, dir| async move {
        let path = dir.join("leader-epoch-checkpoint");
        make_pipe(&path);
        let refused = system.disk().read_file(&path).await.unwrap_err();
        assert!(is_unreadable(&refused), "{refused}");
        for how in [Open::Read, Open::Write] {
            let refused = system.disk().open(&path, how).await.err().unwrap();
            assert!(is_unreadable(&refused), "{refused}");
        }
        make_pipe(&dir.join("notes.tmp"));
        let refused = system.disk().replace_file(&dir.join("notes"), b"x").await;
        assert!(refused.is_err());
        // A file is replaced by name, also if a pipe has the name.
        system.disk().replace_file(&path, b"0\n0\n").await.unwrap();
        assert_eq!(system.disk().read_file(&path).await.unwrap(), b"0\n0\n");
    });
}

#[test]
fn a_small_file_is_read_up_to_its_bound_and_a_longer_one_is_refused() {
    with_engines(|system, dir| async move {
        let path = dir.join("0.index");
        let file = new_file(&system, &dir).await;
        file.set_len(1 << 40).await.unwrap();
        let sparse = dir.join("00000000000000000000.log");
        let refused = system.disk().read_file(&sparse).await.unwrap_err();
        assert!(is_unreadable(&refused), "{refused}");
        std::fs::write(&path, [7; 100]).unwrap();
        let read = system.disk().read_file_within(&path, 100).await.unwrap();
        assert_eq!(read, [7; 100]);
        let refused = system.disk().read_file_within(&path, 99).await;
        assert!(is_unreadable(&refused.unwrap_err()));
        let refused = system.disk().read_file(&dir).await.unwrap_err();
        assert!(is_unreadable(&refused), "{refused}");
    });
}

#[test]
fn a_file_system_that_is_memory_is_known() {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let kind_of = |dir: &str| {
        let mut mounts = mounts.lines().rev().map(|line| line.split(' '));
        mounts.find_map(|mut fields| (fields.nth(1)? == dir).then(|| fields.next())?)
    };
    with_engines(async |system, _| {
        for dir in ["/dev/shm", "/"] {
            let Some(kind) = kind_of(dir) else { continue };
            let space = system.disk().space(Path::new(dir)).await.unwrap();
            assert_eq!(space.in_memory, ["tmpfs", "ramfs"].contains(&kind), "{dir}");
        }
    });
}

#[test]
fn large_files_are_removed_in_pieces_one_directory_beside_another() {
    with_engines(|system, dir| async move {
        let disk = system.disk();
        let large = |path: PathBuf| {
            let file = std::fs::File::create(path).unwrap();
            file.set_len(40 << 20).unwrap();
        };
        for name in ["one", "other"] {
            std::fs::create_dir(dir.join(name)).unwrap();
            (0..3).for_each(|n| large(dir.join(name).join(n.to_string())));
            std::fs::write(dir.join(name).join("small"), b"s").unwrap();
        }
        large(dir.join("alone"));
        let (one, other, alone) = (dir.join("one"), dir.join("other"), dir.join("alone"));
        let (first, second, third) = tokio::join!(
            disk.remove_dir_in_pieces(&one),
            disk.remove_dir_in_pieces(&other),
            disk.remove_file_in_pieces(&alone),
        );
        first.unwrap();
        second.unwrap();
        third.unwrap();
        assert!(disk.list(&dir).await.unwrap().is_empty());
        let missing = disk.remove_file_in_pieces(&alone).await.unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let missing = disk.remove_dir_in_pieces(&one).await.unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    });
}
