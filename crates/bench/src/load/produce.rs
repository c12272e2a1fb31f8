//! The life of a producer: connects, sends, and starts over when leaders move or connections break.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::ensure;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::messages::InitProducerIdRequest;
use wire::types::ErrorCode;

use super::batch::Identity;
use super::client::{Client, said};
use super::cluster::Cluster;
use super::hook::PartitionPlace;
use super::lane::Lane;
use super::producer::Producer;
use super::worker::{Event, Worker};

/// Pause before starting over.
const BACKOFF: Duration = Duration::from_millis(100);
/// Longest wait for a broker that cannot assign producer ids yet.
const IDENTITY_WITHIN: Duration = Duration::from_secs(30);
/// How long after its end a producer still sends the batches in progress.
const GIVE_UP_SECONDS: f64 = 30.0;

/// Runs a producer that writes to `places`.
pub(super) async fn run(worker: Rc<Worker>, producer: Producer, places: Vec<PartitionPlace>) {
    let needs = producer.needs_identity();
    let first = connect(&worker, &worker.cluster, needs, &places).await;
    let (ready, first) = match first {
        Ok(connected) => (Ok(()), Some(connected)),
        Err(error) => (Err(error), None),
    };
    if let (true, Some(first)) = (worker.begin(ready).await, first) {
        let producer = Rc::new(RefCell::new(producer));
        go_on(&worker, &producer, &places, first).await;
        let given_up = producer.borrow_mut().give_up_all();
        say_given_up(&worker, given_up);
    }
    // Without a receiver the load has ended.
    let _ = worker.events.send(Event::ProducerDone);
}

/// Lanes to every leader, and an identity if one was needed.
struct ConnectedLanes {
    lanes: Vec<Lane>,
    identity: Option<Identity>,
}

async fn go_on(
    worker: &Rc<Worker>,
    producer: &Rc<RefCell<Producer>>,
    places: &[PartitionPlace],
    first: ConnectedLanes,
) {
    let mut connected = Ok(first);
    let mut deadline = None;
    loop {
        match connected {
            Ok(connected) => {
                if let Some(identity) = connected.identity {
                    let given_up = producer.borrow_mut().identify(identity);
                    say_given_up(worker, given_up);
                }
                run_lanes(connected.lanes, worker, producer).await;
            }
            Err(error) => worker
                .tally
                .borrow_mut()
                .error(format!("produce: {error:#}")),
        }
        let now = worker.now();
        if producer.borrow_mut().ends_by(now, worker) {
            deadline.get_or_insert(now + GIVE_UP_SECONDS);
        }
        let late = deadline.is_some_and(|deadline| now >= deadline);
        if producer.borrow().is_done() || late || worker.is_over() {
            return;
        }
        tokio::time::sleep(BACKOFF).await;
        let needs = producer.borrow().needs_identity();
        connected = match worker.look_again().await {
            Ok(cluster) => connect(worker, &cluster, needs, places).await,
            Err(error) => Err(error),
        };
    }
}

async fn run_lanes(lanes: Vec<Lane>, worker: &Rc<Worker>, producer: &Rc<RefCell<Producer>>) {
    let siblings = Rc::new(Cell::new(false));
    let mut running = JoinSet::new();
    for lane in lanes {
        let (worker, producer) = (Rc::clone(worker), Rc::clone(producer));
        let siblings = Rc::clone(&siblings);
        running.spawn_local(async move { lane.run(&producer, &worker, &siblings).await });
    }
    while running.join_next().await.is_some() {}
}

async fn connect(
    worker: &Worker,
    cluster: &Cluster,
    needs_identity: bool,
    places: &[PartitionPlace],
) -> anyhow::Result<ConnectedLanes> {
    let mut by_leader: BTreeMap<&str, Vec<PartitionPlace>> = BTreeMap::new();
    for place in places {
        by_leader
            .entry(cluster.address_of(*place)?)
            .or_default()
            .push(*place);
    }
    let mut connected = ConnectedLanes {
        lanes: Vec::with_capacity(by_leader.len()),
        identity: None,
    };
    for (address, places) in by_leader {
        let mut client = Client::connect(address, &cluster.security).await?;
        if needs_identity && connected.identity.is_none() {
            connected.identity = Some(identity(&mut client).await?);
        }
        connected.lanes.push(Lane::new(client, places, worker)?);
    }
    Ok(connected)
}

async fn identity(client: &mut Client) -> anyhow::Result<Identity> {
    let version = client.version::<InitProducerIdRequest>(4)?;
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(60_000)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1);
    let deadline = Instant::now() + IDENTITY_WITHIN;
    let answer = loop {
        let answer = client.ask(version, &request).await?;
        let error = ErrorCode::try_from_code(answer.error_code);
        // A broker that has just started returns a retriable error.
        if !error.is_some_and(|error| error.is_retriable()) || Instant::now() >= deadline {
            break answer;
        }
        tokio::time::sleep(BACKOFF).await;
    };
    ensure!(
        answer.error_code == 0,
        "InitProducerId: {}",
        said(answer.error_code)
    );
    Ok(Identity {
        producer_id: answer.producer_id.0,
        epoch: answer.producer_epoch,
    })
}

fn say_given_up(worker: &Worker, records: u64) {
    if records > 0 {
        let mut tally = worker.tally.borrow_mut();
        tally.errors("produce: records given up", records);
    }
}
