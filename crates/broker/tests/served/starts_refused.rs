//! A process under which one disk operation fails, from its start over checkpoints and deletions to
//! its stop: the start succeeds or says on what it failed, what passes is tried again and done, and
//! the next start finds what was promised.

use std::io::ErrorKind;

use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::types::ErrorCode;

use crate::harness::batches::batch;
use crate::harness::{Cluster, Setup, life, try_life};
use crate::moving::two_directories;
use crate::offsets::delete_before;

const TOO_MANY_OPEN_FILES: i32 = 24;
/// What becomes of an operation, and whether it passes by itself.
pub(crate) const EFFECTS: [(Effect, bool); 4] = [
    (Effect::Fail(ErrorKind::StorageFull), true),
    (Effect::Errno(TOO_MANY_OPEN_FILES), true),
    (Effect::Fail(ErrorKind::Other), false),
    (Effect::Fail(ErrorKind::ReadOnlyFilesystem), false),
];

fn setup() -> Setup {
    let mut setup = two_directories();
    setup.shards = 1;
    setup
}

/// A stop that left two partitions of three records; the first begins at 1.
fn left() -> SimDisk {
    let disk = SimDisk::new(1);
    life(&disk, &setup(), async |cluster| {
        cluster.create("t", 2).await;
        for partition in 0..2 {
            for value in ["a", "b", "c"] {
                cluster.produce("t", partition, &[value]).await;
            }
        }
        assert_eq!(delete_before(cluster, "t", 1).await, Ok(1));
        cluster.stop().await;
    });
    disk.kill(1)
}

/// What was promised of the first partition: its start, and whether a fourth record was taken, or
/// may have been.
#[derive(Clone, Copy, Debug)]
struct PromisedOffsets {
    start: i64,
    asked_start: i64,
    taken: bool,
}

async fn passed(cluster: &Cluster, promised: &mut PromisedOffsets) -> Result<(), ErrorCode> {
    let mut last = Ok(());
    for at in 0..8 {
        cluster.pass_ms(1000 * at).await;
        if !promised.taken {
            let produced = cluster.try_produce("t", 0, batch(&["d"])).await;
            promised.taken = produced.is_ok();
            last = produced.map(drop);
        }
        if promised.taken {
            promised.asked_start = 2;
            let deleted = delete_before(cluster, "t", 2).await;
            if deleted.is_ok() {
                promised.start = 2;
                return Ok(());
            }
            last = deleted.map(drop);
        }
    }
    last
}

async fn use_it(cluster: &Cluster, promised: &mut PromisedOffsets) -> Result<(), ErrorCode> {
    cluster.brokers[0].checkpoint().await;
    passed(cluster, promised).await?;
    cluster.brokers[0].checkpoint().await;
    Ok(())
}

/// A sync that fails is never tried again, unless it has not begun for want of a descriptor.
pub(crate) fn is_final(disk: &SimDisk, effect: Effect) -> bool {
    let mut struck = disk.struck().into_iter();
    struck.any(|(of, _)| match of {
        OpKind::Sync => true,
        OpKind::SyncDir => !matches!(effect, Effect::Errno(_)),
        _ => false,
    })
}

#[test]
fn whatever_a_disk_refuses_between_start_and_stop_the_next_start_finds_what_was_promised() {
    let template = left();
    let first = PromisedOffsets {
        start: 1,
        asked_start: 1,
        taken: false,
    };
    let operations = {
        let disk = template.kill(2);
        life(&disk, &setup().next(), async |cluster| {
            use_it(cluster, &mut first.clone()).await.unwrap();
            cluster.stop().await;
            disk.operations()
        })
    };
    assert!(operations > 100, "{operations}");
    for at in 0..operations {
        let (effect, passes) = EFFECTS[usize::try_from(at).unwrap() % EFFECTS.len()];
        let (disk, mut promised) = (template.kill(2), first);
        disk.inject(Fault::at(at, effect));
        let started = try_life(&disk, &setup().next(), async |cluster| {
            let used = use_it(cluster, &mut promised).await;
            if passes && !is_final(&disk, effect) {
                let struck = disk.struck();
                assert_eq!(used, Ok(()), "{effect:?} at {at}: {struck:?}");
            }
            let _ = cluster.brokers[0].stop().await;
        });
        let what = format!("{effect:?} at {at}: {:?}", disk.struck());
        if let Err(said) = started {
            assert!(said.contains('/'), "{what}: no file is named in: {said}");
        }
        disk.clear_faults();
        let next = try_life(&disk.kill(3), &setup().next().next(), async |cluster| {
            let start = cluster.offset("t", 0, -2).await;
            assert!(
                (promised.start..=promised.asked_start).contains(&start),
                "{what}: begins at {start}, {promised:?}"
            );
            let all = ["a", "b", "c", "d"];
            let values = cluster.values("t", 0).await;
            let expected = &all[usize::try_from(start).unwrap()..];
            let known = if promised.taken {
                expected
            } else {
                &expected[..expected.len() - 1]
            };
            assert!(
                values.starts_with(&known.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>()),
                "{what}: {values:?}"
            );
            assert_eq!(cluster.values("t", 1).await, ["a", "b", "c"], "{what}");
            for partition in 0..2 {
                cluster.produce("t", partition, &["after"]).await;
            }
        });
        next.unwrap_or_else(|error| panic!("{what}: no start: {error}"));
    }
}
