//! The simulated disk behaves like a disk, and loses exactly what a disk may lose.

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::*;
use crate::buf::AlignedBuf;
use crate::disk::{BLOCK_BYTES, Disk, DiskFile, Medium, Open};
use crate::runtime::run_simulated;

mod durable;

const BLOCK: u64 = BLOCK_BYTES as u64;

fn block(byte: u8) -> Bytes {
    let mut buf = AlignedBuf::zeroed(BLOCK_BYTES);
    buf.fill(byte);
    buf.freeze()
}

fn simulate<F: Future>(future: F) -> F::Output {
    run_simulated(future).unwrap()
}

async fn dir_with_file(disk: &SimDisk) -> SimFile {
    disk.create_dir(Path::new("/log/t-0")).await.unwrap();
    let file = disk
        .open(Path::new("/log/t-0/0.log"), Open::Create)
        .await
        .unwrap();
    disk.sync_dir(Path::new("/log/t-0")).await.unwrap();
    file
}

#[test]
fn synced_bytes_survive_every_crash_and_others_only_some() {
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..40 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            file.write_at(0, vec![block(1), block(2)]).await.unwrap();
            file.sync().await.unwrap();
            file.write_at(2 * BLOCK, vec![block(3)]).await.unwrap();
            let after = disk.crash(seed);
            assert!(is_power_off(&file.len().await.unwrap_err()));
            let bytes = after.contents(Path::new("/log/t-0/0.log")).unwrap();
            assert!(bytes[..BLOCK_BYTES].iter().all(|byte| *byte == 1));
            assert!(
                bytes[BLOCK_BYTES..2 * BLOCK_BYTES]
                    .iter()
                    .all(|byte| *byte == 2)
            );
            match bytes.len() {
                len if len == 2 * BLOCK_BYTES => lost += 1,
                _ => kept += 1,
            }
        });
    }
    assert!(kept > 5 && lost > 5, "kept {kept}, lost {lost}");
}

#[test]
fn a_name_is_durable_only_after_its_directory_is_synced() {
    let mut lost = 0;
    for seed in 0..20 {
        simulate(async {
            let disk = SimDisk::new(seed);
            disk.create_dir(Path::new("/log")).await.unwrap();
            let file = disk.open(Path::new("/log/a"), Open::Create).await.unwrap();
            file.sync().await.unwrap();
            lost += u32::from(disk.crash(seed).contents(Path::new("/log/a")).is_err());
        });
    }
    assert!((1..20).contains(&lost), "lost {lost}");
}

#[test]
fn a_replaced_file_is_old_or_new_whenever_the_power_goes() {
    for k in 0..6 {
        for seed in 0..20 {
            simulate(async {
                let disk = SimDisk::new(seed);
                let path = Path::new("/log/checkpoint");
                disk.create_dir(Path::new("/log")).await.unwrap();
                disk.replace_file(path, b"old").await.unwrap();
                disk.inject(Fault::at(k, Effect::PowerOff));
                let done = disk.replace_file(path, b"newer").await.is_ok();
                let found = disk.crash(seed).contents(path).unwrap();
                assert!(found == b"newer" || (!done && found == b"old"), "{found:?}");
            });
        }
    }
}

#[test]
fn a_killed_process_loses_no_completed_write() {
    for seed in 0..10 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            file.write_at(0, vec![block(1)]).await.unwrap();
            let after = disk.kill(seed);
            let bytes = after.contents(Path::new("/log/t-0/0.log")).unwrap();
            assert_eq!(bytes, vec![1; BLOCK_BYTES]);
            assert!(
                after
                    .durable_contents(Path::new("/log/t-0/0.log"))
                    .unwrap()
                    .is_empty()
            );
        });
    }
}

#[test]
fn a_process_that_is_killed_at_a_sync_leaves_the_next_one_what_was_to_be_synced() {
    for (kind, seed) in [OpKind::Sync, OpKind::WriteDurably]
        .into_iter()
        .flat_map(|kind| (0..20).map(move |seed| (kind, seed)))
    {
        simulate(async {
            let (disk, path) = (SimDisk::new(seed), Path::new("/log/t-0/0.log"));
            let file = dir_with_file(&disk).await;
            file.write_at(0, vec![block(1)]).await.unwrap();
            disk.inject(Fault::at_kind(0, kind, Effect::PowerOff));
            let ended = match kind {
                OpKind::Sync => file.sync().await,
                _ => file.write_durably_at(0, vec![block(2)]).await,
            };
            ended.unwrap_err();
            let next = disk.kill(seed);
            let seen = next.contents(path).unwrap();
            assert!(kind != OpKind::Sync || seen == [1; BLOCK_BYTES]);
            let again = next.open(path, Open::Write).await.unwrap();
            again.sync().await.unwrap();
            assert_eq!(next.crash(seed).contents(path).unwrap(), seen);
        });
    }
}

#[test]
fn after_a_failed_sync_the_file_is_latched_and_its_bytes_are_in_doubt() {
    let mut lost = 0;
    for seed in 0..20 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            file.write_at(0, vec![block(1)]).await.unwrap();
            let fault = Effect::Fail(io::ErrorKind::Other);
            disk.inject(Fault::at_kind(0, OpKind::Sync, fault));
            file.sync().await.unwrap_err();
            let error = file.clone().sync().await.unwrap_err();
            assert!(error.to_string().contains("latched"), "{error}");
            let error = file.write_at(0, vec![block(2)]).await.unwrap_err();
            assert!(error.to_string().contains("latched"), "{error}");
            assert_eq!(file.read_at(5, 2).await.unwrap(), &[1, 1][..]);
            // After a new open, a sync reports success but restores nothing.
            let path = Path::new("/log/t-0/0.log");
            let again = disk.open(path, Open::Write).await.unwrap();
            again.sync().await.unwrap();
            let found = disk.crash(seed).contents(path).unwrap();
            lost += u32::from(found != vec![1; BLOCK_BYTES]);
        });
    }
    assert!(lost > 5, "lost {lost}");
}

#[test]
fn a_full_disk_refuses_and_takes_again_after_a_removal() {
    simulate(async {
        let disk = SimDisk::new(1);
        let file = dir_with_file(&disk).await;
        disk.set_capacity_bytes(Some(2 * BLOCK));
        file.write_at(0, vec![block(1), block(1)]).await.unwrap();
        file.write_at(0, vec![block(2)]).await.unwrap();
        let error = file.write_at(2 * BLOCK, vec![block(3)]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.space(Path::new("/")).await.unwrap().free, 0);
        disk.remove_file(Path::new("/log/t-0/0.log")).await.unwrap();
        let file = disk.open(Path::new("/log/b"), Open::Create).await.unwrap();
        file.allocate(2 * BLOCK).await.unwrap();
        assert_eq!(file.len().await.unwrap(), 2 * BLOCK);
        let error = file.allocate(3 * BLOCK).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.write_at(0, vec![block(1), block(1)]).await.unwrap();
    });
}

#[test]
fn a_read_only_disk_still_reads() {
    simulate(async {
        let disk = SimDisk::new(1);
        disk.put(Path::new("/log/a"), b"here").unwrap();
        disk.set_read_only(true);
        assert_eq!(disk.read_file(Path::new("/log/a")).await.unwrap(), b"here");
        let error = disk
            .replace_file(Path::new("/log/a"), b"x")
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        disk.flip(Path::new("/log/a"), 0, 1).unwrap();
        assert_eq!(disk.read_file(Path::new("/log/a")).await.unwrap(), b"jere");
    });
}

#[test]
fn a_read_only_path_opens_for_reading_only() {
    simulate(async {
        let disk = SimDisk::new(1);
        let path = Path::new("/log/a");
        disk.put(path, b"here").unwrap();
        disk.set_read_only_below(Path::new("/log"), true);
        let error = disk.open(path, Open::Write).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        let file = disk.open(path, Open::Read).await.unwrap();
        assert_eq!(file.read_at(0, 4).await.unwrap(), &b"here"[..]);
        let missing = disk.open(Path::new("/log/b"), Open::Write).await;
        let missing = missing.map(|_| ()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn after_the_rename_of_a_replacement_no_room_does_not_say_that_nothing_has_happened() {
    // ENOSPC, EDQUOT.
    for number in [28, 122] {
        simulate(async {
            let disk = SimDisk::new(1);
            let path = Path::new("/log/a");
            disk.put(path, b"old").unwrap();
            disk.inject(Fault::at_kind(0, OpKind::SyncDir, Effect::Errno(number)));
            let error = disk.replace_file(path, b"new").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Other, "{error}");
            assert_eq!(disk.contents(path).unwrap(), b"new");
        });
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    let run = |seed| {
        simulate(async {
            let platform = SimPlatform::new(seed);
            let disk = platform.disk();
            disk.set_latency(
                std::time::Duration::ZERO,
                std::time::Duration::from_millis(20),
            );
            let file = dir_with_file(disk).await;
            let writes = (0..10).map(|_| {
                let (file, position) = (file.clone(), platform.random_u64() % 9 * BLOCK);
                crate::task::spawn(async move { file.write_at(position, vec![block(1)]).await })
            });
            for write in writes.collect::<Vec<_>>() {
                write.await.unwrap().unwrap();
            }
            (disk.trace_hash(), platform.clock().wall_ms())
        })
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn renames_and_removals_follow_the_names() {
    simulate(async {
        let disk = SimDisk::new(1);
        drop(dir_with_file(&disk).await);
        disk.rename(Path::new("/log/t-0"), Path::new("/log/t-0.gone-delete"))
            .await
            .unwrap();
        let listed = disk.list(Path::new("/log/t-0.gone-delete")).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].name, "0.log");
        disk.remove_dir(Path::new("/log/t-0.gone-delete"))
            .await
            .unwrap();
        assert!(disk.list(Path::new("/log")).await.unwrap().is_empty());
        let missing = disk.remove_file(Path::new("/log/x")).await.unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_write_under_way_is_torn_when_the_process_ends_and_whole_when_nobody_waits() {
    let (mut whole, mut absent) = (0, 0);
    for seed in 0..40 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            let path = Path::new("/log/t-0/0.log");
            let second = std::time::Duration::from_secs(1);
            disk.set_latency(second, second);
            let write = file.write_at(0, vec![block(1), block(1)]);
            let hurried = crate::task::timeout(second / 2, write).await;
            assert!(hurried.is_err());
            assert_eq!(disk.contents(path).unwrap(), [1; 2 * BLOCK_BYTES]);
            let write = crate::task::spawn(async move { file.write_at(0, vec![block(2)]).await });
            crate::task::yield_now().await;
            let found = disk.kill(seed).contents(path).unwrap();
            assert!(is_power_off(&write.await.unwrap().unwrap_err()));
            assert!(found[BLOCK_BYTES..].iter().all(|byte| *byte == 1));
            let written = found[..BLOCK_BYTES].iter().filter(|byte| **byte == 2);
            match written.count() {
                0 => absent += 1,
                BLOCK_BYTES => whole += 1,
                torn => assert!(torn.is_multiple_of(512), "{torn}"),
            }
        });
    }
    assert!(whole > 0 && absent > 0, "whole {whole}, absent {absent}");
}

#[test]
fn mapped_files_are_durable_with_each_write_and_what_is_under_way_tears_by_cache_lines() {
    const LINE: usize = 64;
    let mut torn = 0;
    for seed in 0..40 {
        simulate(async {
            let disk = SimDisk::new(seed);
            disk.use_dax(Path::new("/log"));
            let file = dir_with_file(&disk).await;
            assert_eq!(
                disk.medium(Path::new("/log/t-0")),
                Medium::Dax { emulated: false }
            );
            file.allocate(3 * BLOCK).await.unwrap();
            file.write_at(0, vec![block(1)]).await.unwrap();
            disk.inject(Fault::at(0, Effect::PowerOff));
            assert!(file.write_at(BLOCK, vec![block(2)]).await.is_err());
            let after = disk.crash(seed);
            let bytes = after.contents(Path::new("/log/t-0/0.log")).unwrap();
            assert_eq!(bytes.len(), 3 * BLOCK_BYTES);
            assert!(bytes[..BLOCK_BYTES].iter().all(|byte| *byte == 1));
            let (lines, _) = bytes[BLOCK_BYTES..2 * BLOCK_BYTES].as_chunks::<LINE>();
            assert!(lines.iter().all(|line| line.iter().all(|b| *b == line[0])));
            let there = lines.iter().filter(|line| line[0] == 2).count();
            torn += usize::from(there % 8 != 0);
        });
    }
    assert!(torn > 5, "{torn}");
}

#[test]
fn what_is_not_mounted_is_not_there_and_comes_back_as_it_was() {
    simulate(async {
        let disk = SimDisk::new(1);
        let (dir, file) = (Path::new("/a/b"), Path::new("/a/b/file"));
        disk.put(file, b"old").unwrap();
        disk.unmount(dir).unwrap();
        assert!(disk.list(dir).await.unwrap().is_empty());
        disk.put(Path::new("/a/b/beneath"), b"new").unwrap();
        let disk = disk.crash(2);
        assert!(disk.contents(file).is_err());
        disk.mount(dir).unwrap();
        assert_eq!(disk.list(dir).await.unwrap().len(), 1);
        assert_eq!(disk.kill(3).contents(file).unwrap(), b"old");
    });
}
