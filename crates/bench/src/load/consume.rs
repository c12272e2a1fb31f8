//! The life of a consumer: connects to every leader of its partitions, fetches, and starts over
//! when leaders move or connections break.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::task::JoinSet;

use super::client::{Client, put_request};
use super::cluster::{Cluster, End};
use super::consumer::Readers;
use super::fetch_wire::{self, Want, read_answer};
use super::hook::{ConsumerCheck, PartitionPlace};
use super::stream::{SkipMode, Stream};
use super::worker::{Event, Worker};
use crate::spec::{Consume, ConsumeStart, Keys, Sizes};

/// Pause before starting over.
const BACKOFF: Duration = Duration::from_millis(100);

/// Creates the reading side of the check for a connection; a consumer may have several.
pub(super) type MakeChecking = Rc<dyn Fn() -> Option<Box<dyn ConsumerCheck>>>;

type Positions = Vec<(PartitionPlace, i64)>;

/// Runs a consumer of the places in `positions`, from these offsets.
pub(super) async fn run(worker: Rc<Worker>, checking: MakeChecking, positions: Positions) {
    let first = connect(&worker, &worker.cluster, &positions).await;
    let (ready, first) = match first {
        Ok(connected) => (Ok(()), Some(connected)),
        Err(error) => (Err(error), None),
    };
    if let (true, Some(first)) = (worker.begin(ready).await, first) {
        tokio::select! {
            () = go_on(&worker, checking, positions, first) => {}
            () = worker.over() => {}
        }
    }
    // Without a receiver the load has ended.
    let _ = worker.events.send(Event::ConsumerDone);
}

/// A connection to a leader, and the positions read over it.
struct Lane {
    stream: Stream,
    version: i16,
    positions: Positions,
}

async fn go_on(
    worker: &Rc<Worker>,
    checking: MakeChecking,
    mut positions: Positions,
    first: Vec<Lane>,
) {
    let mut lanes = Ok(first);
    loop {
        match lanes {
            Ok(lanes) => {
                let mut running = JoinSet::new();
                let siblings = Rc::new(Cell::new(false));
                for lane in lanes {
                    let (worker, checking) = (Rc::clone(worker), checking());
                    let siblings = Rc::clone(&siblings);
                    running
                        .spawn_local(async move { read(&worker, lane, checking, &siblings).await });
                }
                let mut done = true;
                while let Some(ended) = running.join_next().await {
                    if let Ok((left_off, lane_done)) = ended {
                        done &= lane_done;
                        keep(&mut positions, &left_off);
                    }
                }
                if done {
                    return;
                }
            }
            Err(error) => worker
                .tally
                .borrow_mut()
                .error(format!("consume: {error:#}")),
        }
        tokio::time::sleep(BACKOFF).await;
        lanes = begin_anew(worker, &mut positions).await;
    }
}

fn keep(positions: &mut Positions, left_off: &Positions) {
    let left_off: BTreeMap<_, _> = left_off.iter().copied().collect();
    for (place, position) in positions {
        *position = left_off.get(place).copied().unwrap_or(*position);
    }
}

/// Looks up the current leaders, and moves positions below the log start offset up to it.
async fn begin_anew(worker: &Worker, positions: &mut Positions) -> anyhow::Result<Vec<Lane>> {
    let cluster = worker.look_again().await?;
    let places: Vec<PartitionPlace> = positions.iter().map(|(place, _)| *place).collect();
    let starts = cluster.offsets(&places, End::Earliest).await?;
    for (place, position) in positions.iter_mut() {
        *position = starts
            .get(place)
            .map_or(*position, |start| (*start).max(*position));
    }
    connect(worker, &cluster, positions).await
}

async fn connect(
    worker: &Worker,
    cluster: &Cluster,
    positions: &Positions,
) -> anyhow::Result<Vec<Lane>> {
    let consume = worker.load.consume.as_ref();
    let skipping = if consume.is_some_and(|consume| consume.discard) {
        SkipMode::Discard
    } else {
        SkipMode::Copy
    };
    let mut by_leader: BTreeMap<&str, Positions> = BTreeMap::new();
    for (place, position) in positions {
        let address = cluster.address_of(*place)?;
        by_leader
            .entry(address)
            .or_default()
            .push((*place, *position));
    }
    let mut lanes = Vec::with_capacity(by_leader.len());
    for (address, positions) in by_leader {
        let client = Client::connect(address, &cluster.security).await?;
        let (oldest, newest) = fetch_wire::VERSIONS;
        lanes.push(Lane {
            version: client.version_of(fetch_wire::KEY, oldest, newest)?,
            stream: Stream::new(client.into_transport(), skipping),
            positions,
        });
    }
    Ok(lanes)
}

/// Reads over one connection; returns the positions reached and whether that was everything.
///
/// A lane of the same consumer that must start over sets `siblings`.
async fn read(
    worker: &Worker,
    mut lane: Lane,
    checking: Option<Box<dyn ConsumerCheck>>,
    siblings: &Cell<bool>,
) -> (Positions, bool) {
    let want = want(worker, checking.is_some());
    let mut readers = Readers::new(worker, &lane.positions, checking);
    let ended = ask_on(worker, &mut lane, &mut readers, want, siblings).await;
    if !matches!(ended, Ok(true)) {
        siblings.set(true);
    }
    if let Err(error) = &ended {
        let error = format!("consume: {error:#}");
        worker.tally.borrow_mut().error(error);
    }
    (readers.positions(), ended.unwrap_or(false))
}

/// Fetches until everything is read (true) or the consumer must start over (false).
async fn ask_on(
    worker: &Worker,
    lane: &mut Lane,
    readers: &mut Readers<'_>,
    want: Want,
    siblings: &Cell<bool>,
) -> anyhow::Result<bool> {
    let Some(consume) = &worker.load.consume else {
        return Ok(true);
    };
    let mut frame = BytesMut::new();
    let mut correlation_id = 0i32;
    let mut phase = worker.phase.clone();
    loop {
        let enough = phase
            .borrow_and_update()
            .read_to
            .as_ref()
            .is_some_and(|to| readers.have_read(to));
        if enough || worker.shared.read_enough() {
            return Ok(true);
        }
        if readers.lost || siblings.get() {
            return Ok(false);
        }
        correlation_id = correlation_id.wrapping_add(1);
        let request = readers.request(consume, lane.version);
        frame.clear();
        put_request(&mut frame, lane.version, correlation_id, &request)?;
        lane.stream.socket().write_all(&frame).await?;
        let mut enough = async |readers: &Readers<'_>| {
            let enough = phase.wait_for(|phase| {
                phase
                    .read_to
                    .as_ref()
                    .is_some_and(|to| readers.have_read(to))
            });
            // Fails only if the sender is gone, which also ends the load.
            let _ = enough.await;
        };
        // No response has begun, so leaving here tears none.
        tokio::select! {
            biased;
            next = lane.stream.has_next() => anyhow::ensure!(next?, "the broker closed the connection"),
            () = enough(readers) => return Ok(true),
        }
        let answered = read_answer(&mut lane.stream, lane.version, want, readers).await?;
        anyhow::ensure!(answered == correlation_id, "an answer to another request");
        worker.tally.borrow_mut().fetched(worker.now());
    }
}

/// Returns the least that must be found out about records.
fn want(worker: &Worker, checked: bool) -> Want {
    if checked {
        return Want::Records;
    }
    match &worker.load.produce {
        // The contents of topics created for this load are known.
        Some(produce) if !worker.load.topics.existing && produce.keys == Keys::None => {
            match produce.record {
                Sizes::Fixed(size) => Want::Sized(u64::from(size)),
                _ => Want::Bytes,
            }
        }
        _ => Want::Bytes,
    }
}

/// Returns the start offsets of these places.
pub(super) async fn start(
    cluster: &Cluster,
    consume: &Consume,
    places: &[PartitionPlace],
) -> anyhow::Result<BTreeMap<PartitionPlace, i64>> {
    let end = match consume.from {
        ConsumeStart::Earliest => End::Earliest,
        ConsumeStart::Latest => End::Latest,
    };
    cluster.offsets(places, end).await
}
