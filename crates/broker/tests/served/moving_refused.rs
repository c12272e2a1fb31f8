//! Moves between log directories under which one disk operation, or some in a row, find no room, no
//! descriptor, a failing or a read-only disk. Nothing acknowledged is missing, then or after a
//! restart; what passes is tried again and succeeds; the log is in one place, and served, without
//! anybody's help.

use std::io::ErrorKind;

use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::types::ErrorCode;

use crate::harness::batches::batch;
use crate::harness::{Cluster, Setup, life, try_life};
use crate::moving::{alter, home, listed, names, other, two_directories, until_in};
use crate::offsets::delete_before;

const PARTITION: i32 = 0;
const TOO_MANY_OPEN_FILES: i32 = 24;

/// What becomes of operations, and whether it passes by itself.
const TROUBLES: [(Effect, bool); 4] = [
    (Effect::Fail(ErrorKind::StorageFull), true),
    (Effect::Errno(TOO_MANY_OPEN_FILES), true),
    (Effect::Fail(ErrorKind::Other), false),
    (Effect::Fail(ErrorKind::ReadOnlyFilesystem), false),
];

/// So that two of them fill a segment.
fn value(number: usize) -> String {
    format!("{number}{}", "x".repeat(9000))
}

/// What a producer knows of its records.
#[derive(Default, Clone, Debug)]
struct SentValues {
    acknowledged: Vec<String>,
    /// Those that were refused, too: they may be there.
    all: Vec<String>,
}

impl SentValues {
    async fn produce(&mut self, cluster: &Cluster, text: &str) -> Result<(), ErrorCode> {
        self.all.push(text.to_owned());
        cluster.try_produce("t", PARTITION, batch(&[text])).await?;
        self.acknowledged.push(text.to_owned());
        Ok(())
    }

    /// What is acknowledged is there, in its order, and nothing that was not sent.
    async fn check(&self, cluster: &Cluster, what: &str) {
        let values = cluster.values("t", PARTITION).await;
        let short = |values: &[String]| -> Vec<String> {
            values
                .iter()
                .map(|value| value.chars().take(9).collect())
                .collect()
        };
        let mut there = values.iter();
        for expected in &self.acknowledged {
            assert!(
                there.any(|value| value == expected),
                "{what}: {} of {:?} in {:?}",
                &expected[..expected.len().min(9)],
                short(&self.acknowledged),
                short(&values)
            );
        }
        let known = |value: &String| self.all.contains(value);
        assert!(values.iter().all(known), "{what}: {:?}", short(&values));
    }
}

/// Three records in two segments; the first is deleted.
async fn begin(cluster: &Cluster) -> SentValues {
    let small = [("internal.segment.bytes", "20000")];
    cluster.create_with("t", 1, &small).await;
    let mut sent = SentValues::default();
    for number in 0..3 {
        sent.produce(cluster, &value(number)).await.unwrap();
    }
    assert_eq!(delete_before(cluster, "t", 1).await, Ok(1));
    sent.acknowledged.remove(0);
    sent
}

/// Records that are sent while it moves and after that, until one is taken; false when none is.
async fn go_on(cluster: &Cluster, sent: &mut SentValues) -> bool {
    for at in 0..12 {
        cluster.pass_ms(500 * at).await;
        if sent.produce(cluster, &format!("then {at}")).await.is_ok() {
            return true;
        }
    }
    false
}

/// A sync that fails is never tried again, unless it has not begun for want of a descriptor.
fn is_final(disk: &SimDisk, effect: Effect) -> bool {
    let mut struck = disk.struck().into_iter();
    struck.any(|(of, _)| match of {
        OpKind::Sync => true,
        OpKind::SyncDir => !matches!(effect, Effect::Errno(_)),
        _ => false,
    })
}

fn small() -> Setup {
    let mut setup = two_directories().with("log.segment.delete.delay.ms", "100");
    setup.shards = 1;
    setup
}

/// The operations of a move that nothing disturbs.
fn operations_of_a_move() -> u64 {
    let disk = SimDisk::new(1);
    life(&disk, &small(), async |cluster| {
        begin(cluster).await;
        let from = home(&disk, "t");
        let before = disk.operations();
        assert_eq!(alter(cluster, "t", other(from)).await, None);
        until_in(cluster, "t", other(from)).await;
        cluster.pass_ms(2000).await;
        disk.operations() - before
    })
}

/// One life in which the operations `at..at + count` of a move meet `effect`, and the next one.
fn disturbed(at: u64, count: u64, (effect, passes): (Effect, bool), again: bool) {
    let what = format!("{effect:?} at {at} x {count}");
    let (disk, setup) = (SimDisk::new(1), small());
    let (sent, left) = life(&disk, &setup, async |cluster| {
        let mut sent = begin(cluster).await;
        let to = other(home(&disk, "t"));
        for nth in 0..count {
            disk.inject(Fault::at(at + nth, effect));
        }
        let answer = alter(cluster, "t", to).await;
        let known = [None, Some(ErrorCode::KafkaStorageError)];
        assert!(known.contains(&answer), "{what}: {answer:?}");
        cluster.pass_ms(1000).await;
        let served = go_on(cluster, &mut sent).await;
        disk.clear_faults();
        let passes = passes && !is_final(&disk, effect);
        if passes {
            assert!(served, "{what}: not served by itself");
            sent.check(cluster, &what).await;
        }
        if passes && again {
            // Asked for again it gets there.
            assert_eq!(alter(cluster, "t", to).await, None, "{what}: again");
            until_in(cluster, "t", to).await;
            sent.produce(cluster, "moved").await.unwrap();
            sent.check(cluster, &what).await;
        }
        (sent, disk.kill(at))
    });
    let next = try_life(&left, &setup.next(), async |cluster| {
        let mut sent = sent;
        sent.check(cluster, &format!("{what}, after a start")).await;
        assert_eq!(cluster.offset("t", PARTITION, -2).await, 1, "{what}");
        for _ in 0..10_000 {
            if listed(cluster, "t").await.len() == 1 {
                break;
            }
            cluster.pass_ms(10).await;
        }
        cluster.pass_ms(1000).await;
        let mut folders = names(cluster, "/a").await;
        folders.extend(names(cluster, "/b").await);
        let ours = folders.iter().filter(|name| name.starts_with("t-0"));
        assert_eq!(ours.collect::<Vec<_>>(), ["t-0"], "{what}");
        sent.produce(cluster, "after").await.unwrap();
        sent.check(cluster, &what).await;
    });
    next.unwrap_or_else(|error| panic!("{what}: no start: {error}"));
}

#[test]
fn whatever_a_disk_refuses_while_a_log_moves_nothing_acknowledged_is_missing() {
    let operations = operations_of_a_move();
    assert!(operations > 60, "{operations}");
    for at in 0..operations {
        // Neighbours are much alike: each meets one that passes and one that does not.
        for trouble in TROUBLES
            .into_iter()
            .skip(usize::from(at % 2 == 1))
            .step_by(2)
        {
            disturbed(at, 1 + at % 3, trouble, at % 4 < 2);
        }
    }
}
