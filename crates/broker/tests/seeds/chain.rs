//! A chain: it takes the numbers from the position of its group on, writes them to some partitions,
//! and moves the position, all in one transaction. Two instances of a chain share a transactional
//! id and get in each other's way.

use platform::sim::Rng;
use platform::task;
use std::time::Duration;
use wire::types::ErrorCode;

use crate::book::Life;
use crate::harness::Cluster;
use crate::harness::transactor::Transactor;

/// Partitions of the topic `t` that chains write to.
pub(crate) const PARTITIONS: i32 = 3;
/// How often a client asks again.
const ATTEMPTS: usize = 100;

fn id(chain: usize) -> String {
    format!("chain {chain}")
}

/// An instance of a chain, until its life ends.
pub(crate) async fn run(life: Life, chain: usize, mut rng: Rng) {
    loop {
        life.pause(&mut rng, 5_000).await;
        let newer = chain.is_multiple_of(2);
        let begun = Transactor::try_begin_patiently(&life.cluster, &id(chain), newer).await;
        if let Some(mut writer) = begun
            && let Err(code) = work(&life, chain, &mut writer, &mut rng).await
        {
            let fenced = matches!(
                code,
                ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch
            );
            life.count(|counts| counts.fenced += u64::from(fenced));
        }
    }
}

/// Transactions until one fails, or the instance has had enough and leaves one open.
async fn work(
    life: &Life,
    chain: usize,
    writer: &mut Transactor<'_>,
    rng: &mut Rng,
) -> Result<(), ErrorCode> {
    loop {
        let position = position(&life.cluster, chain).await?;
        let next = position + 1 + i64::try_from(rng.below(3)).unwrap();
        for number in position..next {
            let partition = i32::try_from(rng.below(3)).unwrap() % PARTITIONS;
            writer.add(partition).await?;
            let value = format!("{chain}:{number}");
            writer.send(partition, &[&value]).await?;
            if rng.chance(20) {
                life.pause(rng, 500).await;
            }
        }
        if let Some(code) = writer.send_offset(&id(chain), next).await {
            return Err(code);
        }
        if rng.chance(5) {
            return Ok(());
        }
        let commit = rng.chance(75);
        let ended = if rng.chance(10) {
            // The connection breaks before the answer is there.
            let patience = Duration::from_micros(rng.below(3_000));
            let ended = task::timeout(patience, writer.end(commit)).await;
            let Ok(ended) = ended else {
                life.count(|counts| counts.unsure += 1);
                return Ok(());
            };
            ended
        } else {
            writer.end(commit).await
        };
        ended?;
        was_told(life, chain, next, commit);
        life.pause(rng, 2_000).await;
    }
}

fn was_told(life: &Life, chain: usize, next: i64, commit: bool) {
    let mut book = life.book.borrow_mut();
    if commit {
        let told = book.committed.entry(chain).or_default();
        *told = next.max(*told);
        book.counts.committed += 1;
    } else {
        book.counts.aborted += 1;
    }
    book.note(&[1, i64::try_from(chain).unwrap(), next, i64::from(commit)]);
}

/// The number that is next, once nothing is open.
async fn position(cluster: &Cluster, chain: usize) -> Result<i64, ErrorCode> {
    let mut last = ErrorCode::UnknownServerError;
    for _ in 0..ATTEMPTS {
        match cluster.stable_position(&id(chain), "t").await {
            Ok(position) => return Ok(position.max(0)),
            Err(code) => last = code,
        }
        cluster.pass_ms(100).await;
    }
    Err(last)
}

/// On a healthy disk: what counts is what was committed, once and in order.
pub(crate) async fn inspect(life: &Life, chains: usize) {
    for chain in 0..chains {
        // Whatever is open is ended by the successor.
        Transactor::begin(&life.cluster, &id(chain), chain.is_multiple_of(2)).await;
    }
    let mut values = Vec::new();
    for partition in 0..PARTITIONS {
        let found = life.cluster.settled_values(partition).await;
        for value in found {
            let (chain, number) = value.split_once(':').unwrap();
            values.push((
                chain.parse::<usize>().unwrap(),
                number.parse::<i64>().unwrap(),
                partition,
            ));
        }
    }
    for chain in 0..chains {
        let position = position(&life.cluster, chain).await.unwrap();
        let told = life.book.borrow().committed.get(&chain).copied();
        let mut book = life.book.borrow_mut();
        book.check(position >= told.unwrap_or(0), || {
            format!("chain {chain} was told that {told:?} is committed, its position is {position}")
        });
        let of_chain = || values.iter().filter(|value| value.0 == chain);
        let mut numbers: Vec<_> = of_chain().map(|value| value.1).collect();
        numbers.sort_unstable();
        book.check(numbers.iter().copied().eq(0..position), || {
            format!("chain {chain} was told {told:?}, is at {position}, and has {numbers:?}")
        });
        for partition in 0..PARTITIONS {
            let here = of_chain().filter(|value| value.2 == partition);
            book.check(here.is_sorted_by_key(|value| value.1), || {
                format!("chain {chain} is out of order in partition {partition}")
            });
        }
        book.note(&[2, i64::try_from(chain).unwrap(), position]);
    }
}
