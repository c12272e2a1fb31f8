//! A durable write is there after every crash, and makes nothing else durable.

use super::*;

const PATH: &str = "/log/t-0/0.log";

/// Returns the first byte of each block; every block holds one byte only.
fn bytes_of_blocks(disk: &SimDisk) -> Vec<u8> {
    let found = disk.contents(Path::new(PATH)).unwrap();
    let (blocks, _) = found.as_chunks::<BLOCK_BYTES>();
    blocks.iter().map(|block| block[0]).collect()
}

#[test]
fn it_survives_every_crash_and_others_before_and_after_it_only_some() {
    let mut lost = [0, 0];
    for seed in 0..60 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            file.write_at(0, vec![block(1), block(1), block(1)])
                .await
                .unwrap();
            file.sync().await.unwrap();
            file.write_at(0, vec![block(2)]).await.unwrap();
            file.write_durably_at(BLOCK, vec![block(3)]).await.unwrap();
            file.write_at(2 * BLOCK, vec![block(4)]).await.unwrap();
            let durable = disk.durable_contents(Path::new(PATH)).unwrap();
            assert_eq!(durable[BLOCK_BYTES..2 * BLOCK_BYTES], [3; BLOCK_BYTES]);
            assert!(durable[..BLOCK_BYTES].iter().all(|byte| *byte == 1));
            let found = disk.crash(seed).contents(Path::new(PATH)).unwrap();
            assert_eq!(found[BLOCK_BYTES..2 * BLOCK_BYTES], [3; BLOCK_BYTES]);
            lost[0] += u32::from(found[0] == 1);
            lost[1] += u32::from(found[2 * BLOCK_BYTES] == 1);
        });
    }
    assert!(
        lost.iter().all(|lost| (10..50).contains(lost)),
        "lost {lost:?}"
    );
}

#[test]
fn an_earlier_write_to_the_same_place_does_not_come_back_over_it() {
    for seed in 0..40 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            file.write_at(0, vec![block(1), block(1)]).await.unwrap();
            file.set_len(BLOCK).await.unwrap();
            file.write_durably_at(BLOCK, vec![block(2)]).await.unwrap();
            file.write_durably_at(0, vec![block(3)]).await.unwrap();
            assert_eq!(bytes_of_blocks(&disk.crash(seed)), [3, 2]);
        });
    }
}

#[test]
fn a_sync_covers_it_like_any_write_and_later_ones_still_count() {
    for seed in 0..20 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            file.write_at(0, vec![block(1)]).await.unwrap();
            file.write_durably_at(BLOCK, vec![block(2)]).await.unwrap();
            file.sync().await.unwrap();
            file.write_durably_at(0, vec![block(3)]).await.unwrap();
            let fault = Effect::Fail(io::ErrorKind::Other);
            disk.inject(Fault::at_kind(0, OpKind::Sync, fault));
            file.sync().await.unwrap_err();
            assert_eq!(bytes_of_blocks(&disk.crash(seed)), [3, 2]);
        });
    }
}

#[test]
fn one_that_fails_latches_the_file_and_is_in_doubt() {
    let (mut there, mut absent, mut seen_only) = (0, 0, 0);
    for seed in 0..80 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            file.write_durably_at(0, vec![block(1)]).await.unwrap();
            let fault = Effect::Fail(io::ErrorKind::Other);
            disk.inject(Fault::at_kind(0, OpKind::WriteDurably, fault));
            file.write_durably_at(0, vec![block(2)]).await.unwrap_err();
            for after in [
                file.write_durably_at(0, vec![block(3)]).await,
                file.sync().await,
            ] {
                let error = after.unwrap_err();
                assert!(error.to_string().contains("latched"), "{error}");
            }
            let read = file.read_at(0, BLOCK_BYTES).await.unwrap();
            let found = disk.crash(seed).contents(Path::new(PATH)).unwrap();
            assert!(found.iter().all(|byte| [1, 2].contains(byte)));
            let is_read = read.iter().all(|byte| *byte == 2);
            let written = found.iter().filter(|byte| **byte == 2);
            match written.count() {
                0 if is_read => seen_only += 1,
                0 => absent += 1,
                BLOCK_BYTES => there += 1,
                torn => assert!(torn.is_multiple_of(512), "{torn}"),
            }
        });
    }
    let all = [there, absent, seen_only];
    assert!(all.iter().all(|count| *count > 3), "{all:?}");
}

#[test]
fn the_power_fails_during_it_and_only_it_is_in_doubt() {
    for seed in 0..40 {
        simulate(async {
            let disk = SimDisk::new(seed);
            let file = dir_with_file(&disk).await;
            file.write_durably_at(0, vec![block(1), block(1)])
                .await
                .unwrap();
            disk.inject(Fault::at(0, Effect::PowerOff));
            let error = file.write_durably_at(0, vec![block(2)]).await.unwrap_err();
            assert!(is_power_off(&error));
            let found = disk.crash(seed).contents(Path::new(PATH)).unwrap();
            assert!(found[..BLOCK_BYTES].iter().all(|b| [1, 2].contains(b)));
            assert_eq!(found[BLOCK_BYTES..], [1; BLOCK_BYTES]);
        });
    }
}

#[test]
fn a_full_disk_refuses_it_and_takes_overwrites() {
    simulate(async {
        let disk = SimDisk::new(1);
        let file = dir_with_file(&disk).await;
        disk.set_capacity_bytes(Some(BLOCK));
        file.write_durably_at(0, vec![block(1)]).await.unwrap();
        file.write_durably_at(0, vec![block(2)]).await.unwrap();
        let refused = file.write_durably_at(BLOCK, vec![block(3)]).await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(bytes_of_blocks(&disk.crash(1)), [2]);
    });
}

#[test]
fn nobody_waits_for_it_and_it_is_durable_all_the_same() {
    simulate(async {
        let disk = SimDisk::new(1);
        let file = dir_with_file(&disk).await;
        let second = std::time::Duration::from_secs(1);
        disk.set_latency(second, second);
        let write = file.write_durably_at(0, vec![block(7)]);
        assert!(crate::task::timeout(second / 2, write).await.is_err());
        assert_eq!(bytes_of_blocks(&disk.crash(1)), [7]);
    });
}

#[test]
fn on_mapped_files_it_is_durable_with_the_length() {
    for seed in 0..10 {
        simulate(async {
            let disk = SimDisk::new(seed);
            disk.use_dax(Path::new("/log"));
            let file = dir_with_file(&disk).await;
            file.write_durably_at(BLOCK, vec![block(1)]).await.unwrap();
            assert_eq!(bytes_of_blocks(&disk.crash(seed)), [0, 1]);
        });
    }
}
