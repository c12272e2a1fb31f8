//! Consumers of scripted brokers: what comes, what is committed, and when a member lets go.

mod brokers;

use std::rc::Rc;

use platform::runtime::run_simulated;
use platform::sim::SimNet;

use super::*;
use crate::fetch::samples::batch;
use crate::scripted::{PORT, serve, settings};
use crate::settings::OffsetReset;
use brokers::{Brokers, brokers};

const SECOND: Duration = Duration::from_secs(1);

fn place(partition: i32) -> TopicPartition {
    TopicPartition {
        topic: "t".into(),
        partition,
    }
}

fn options() -> ConsumerOptions {
    let mut client = settings("a");
    client.fetch.reset = OffsetReset::Earliest;
    client.group.id = Some("g".to_owned());
    ConsumerOptions {
        client,
        auto_commit: Some(5 * SECOND),
        buffer_bytes: 1 << 20,
    }
}

fn given(partitions: &[i32]) -> Assignment {
    let places = partitions.iter().map(|one| (place(*one), Whence::Start));
    Assignment::Given(places.collect())
}

fn subscribed() -> Assignment {
    Assignment::Subscribed(BTreeSet::from(["t".to_owned()]))
}

/// An application that counts what it gets.
struct Application {
    consumer: Consumer,
    net: SimNet,
    brokers: Brokers,
    got: BTreeMap<i32, Vec<i64>>,
    ended: BTreeMap<i32, i64>,
}

impl Application {
    /// Starts two brokers and a consumer; each partition has its leader and epoch.
    fn start(leaders: &[(i32, i32)], options: ConsumerOptions, assignment: Assignment) -> Self {
        let net = SimNet::default();
        let (brokers, script) = brokers(leaders);
        serve(&net, "a", &script);
        serve(&net, "b", &script);
        Self {
            consumer: Consumer::start(net.clone(), options, assignment).unwrap(),
            net,
            brokers,
            got: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    fn append(&self, partition: i32, base: i64, count: i64) {
        let batch = batch(base, count, 0);
        self.brokers.borrow_mut().append(partition, batch, count);
    }

    async fn next(&mut self, within: Duration) -> Event {
        self.consumer.next(Instant::now() + within).await
    }

    /// Takes events for a time, and returns those that are no records and no ends.
    async fn take(&mut self, time: Duration) -> Vec<Event> {
        let until = Instant::now() + time;
        let mut others = Vec::new();
        loop {
            match self.consumer.next(until).await {
                Event::Records(records) => self.read(&records),
                Event::End { place, offset } => {
                    self.ended.insert(place.partition, offset);
                }
                Event::Nothing => return others,
                other => others.push(other),
            }
        }
    }

    fn read(&mut self, records: &FetchedRecords) {
        let got = self.got.entry(records.place.partition).or_default();
        for batch in &records.batches {
            let open = batch.open(1 << 20).unwrap();
            got.extend(open.records().map(|record| record.unwrap().offset));
        }
        self.consumer.store(&records.place, records.position);
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.brokers.borrow_mut().told)
    }
}

fn simulated(test: impl AsyncFnOnce()) {
    run_simulated(test()).unwrap();
}

#[test]
fn partitions_of_several_brokers_are_read_to_their_ends_and_on() {
    simulated(async || {
        let leaders = [(1, 0), (2, 0)];
        let mut app = Application::start(&leaders, options(), given(&[0, 1]));
        app.append(0, 0, 3);
        app.append(0, 3, 2);
        app.append(1, 0, 4);
        assert!(app.take(3 * SECOND).await.is_empty());
        let all = |count| (0..count).collect::<Vec<i64>>();
        assert_eq!(app.got, BTreeMap::from([(0, all(5)), (1, all(4))]));
        assert_eq!(app.ended, BTreeMap::from([(0, 5), (1, 4)]));
        app.append(1, 4, 1);
        app.take(3 * SECOND).await;
        assert_eq!(app.got[&1], all(5));
        assert_eq!(app.ended[&1], 5);
        let deadline = Instant::now() + SECOND;
        assert_eq!(app.consumer.close(deadline).await, Ok(()));
    });
}

#[test]
fn a_leader_that_moves_is_followed() {
    simulated(async || {
        let mut app = Application::start(&[(1, 0)], options(), given(&[0]));
        app.append(0, 0, 3);
        app.take(3 * SECOND).await;
        app.brokers.borrow_mut().leaders.insert(0, (2, 1));
        app.append(0, 3, 3);
        assert!(app.take(5 * SECOND).await.is_empty());
        assert_eq!(app.got[&0], (0..6).collect::<Vec<_>>());
    });
}

#[test]
fn a_connection_that_breaks_is_told_once_and_made_again() {
    simulated(async || {
        let mut app = Application::start(&[(1, 0)], options(), given(&[0]));
        app.append(0, 0, 3);
        app.take(3 * SECOND).await;
        app.net.reset("a", PORT);
        app.append(0, 3, 3);
        let others = app.take(8 * SECOND).await;
        assert!(matches!(&others[..], [Event::Trouble(_)]), "{others:?}");
        assert_eq!(app.got[&0], (0..6).collect::<Vec<_>>());
    });
}

#[test]
fn a_refusal_can_be_seen_until_it_has_passed() {
    simulated(async || {
        let mut app = Application::start(&[(1, 0)], options(), given(&[0]));
        app.brokers.borrow_mut().fetch_codes.insert(0, 56);
        app.append(0, 0, 3);
        assert!(app.take(3 * SECOND).await.is_empty());
        let refusals = app.consumer.refusals();
        assert_eq!(refusals[&place(0)].to_string(), "KAFKA_STORAGE_ERROR");
        app.brokers.borrow_mut().fetch_codes.clear();
        app.take(3 * SECOND).await;
        assert_eq!(app.got[&0], [0, 1, 2]);
        assert!(app.consumer.refusals().is_empty());
        // The consumer reports at once an error that will not pass.
        app.brokers.borrow_mut().fetch_codes.insert(0, 29);
        let place = Some(place(0));
        let others = app.take(SECOND).await;
        let Some(Event::Failed { place: told, .. }) = others.first() else {
            panic!("{others:?}");
        };
        assert_eq!(*told, place);
    });
}

#[test]
fn what_is_not_taken_bounds_what_is_fetched() {
    simulated(async || {
        let mut options = options();
        // A dozen of the batches below, with what an event costs.
        options.buffer_bytes = 20 << 10;
        options.client.fetch.partition_bytes = 2 << 10;
        let mut app = Application::start(&[(1, 0)], options, given(&[0]));
        for base in 0..100 {
            app.append(0, base * 10, 10);
        }
        tokio::time::sleep(10 * SECOND).await;
        let ahead = app.brokers.borrow().fetches;
        assert!((5..25).contains(&ahead), "{ahead} fetches");
        app.take(10 * SECOND).await;
        assert_eq!(app.got[&0], (0..1000).collect::<Vec<_>>());
    });
}

#[test]
fn a_member_reads_from_the_groups_positions_and_stores_them_when_it_leaves() {
    simulated(async || {
        let leaders = [(1, 0), (2, 0)];
        let mut app = Application::start(&leaders, options(), subscribed());
        app.append(0, 0, 5);
        app.append(1, 0, 5);
        app.brokers.borrow_mut().positions.insert(0, 3);
        let others = app.take(3 * SECOND).await;
        let [Event::Assigned(places)] = &others[..] else {
            panic!("{others:?}");
        };
        assert_eq!(*places, BTreeSet::from([place(0), place(1)]));
        assert_eq!(
            app.got,
            BTreeMap::from([(0, vec![3, 4]), (1, vec![0, 1, 2, 3, 4])])
        );
        // By itself, after a time.
        app.take(4 * SECOND).await;
        assert_eq!(app.told(), ["join", "commit 0: 5", "commit 1: 5"]);
        app.append(1, 5, 1);
        app.take(SECOND).await;
        let (brokers, deadline) = (Rc::clone(&app.brokers), Instant::now() + 9 * SECOND);
        assert_eq!(app.consumer.close(deadline).await, Ok(()));
        assert_eq!(brokers.borrow().told, ["commit 1: 6", "leave"]);
    });
}

#[test]
fn a_member_stores_where_it_began_in_partitions_without_records() {
    simulated(async || {
        for reset in [OffsetReset::Earliest, OffsetReset::Latest] {
            let mut options = options();
            options.client.fetch.reset = reset;
            let leaders = [(1, 0), (2, 0), (1, 0)];
            let mut app = Application::start(&leaders, options, subscribed());
            app.append(0, 0, 5);
            app.brokers.borrow_mut().positions.insert(2, 0);
            app.take(3 * SECOND).await;
            app.told();
            let (brokers, deadline) = (Rc::clone(&app.brokers), Instant::now() + 9 * SECOND);
            assert_eq!(app.consumer.close(deadline).await, Ok(()));
            // The group had a position in the third one.
            let told = brokers.borrow().told.clone();
            assert_eq!(told, ["commit 0: 5", "commit 1: 0", "leave"]);
        }
    });
}

#[test]
fn partitions_are_given_back_after_the_application_has_let_go_and_its_positions_are_stored() {
    simulated(async || {
        let mut app = Application::start(&[(1, 0)], options(), subscribed());
        app.append(0, 0, 5);
        app.take(2 * SECOND).await;
        app.told();
        app.brokers.borrow_mut().heartbeat_code = 27;
        let Event::Revoking(revocation) = app.next(5 * SECOND).await else {
            panic!("nothing is to be given back");
        };
        assert_eq!(revocation.places, BTreeSet::from([place(0)]));
        // It takes its time: nothing happens meanwhile, however long the records wait.
        app.append(0, 5, 5);
        assert!(app.take(8 * SECOND).await.is_empty());
        assert_eq!(app.got[&0].len(), 5);
        let before = app.told();
        assert!(!before.contains(&"join".to_owned()), "{before:?}");
        app.consumer.store(
            &place(0),
            Position {
                offset: 4,
                epoch: None,
            },
        );
        app.brokers.borrow_mut().heartbeat_code = 0;
        drop(revocation);
        let others = app.take(2 * SECOND).await;
        assert!(matches!(&others[..], [Event::Assigned(_)]), "{others:?}");
        assert_eq!(app.told(), ["commit 0: 4", "join"]);
        assert_eq!(app.got[&0], [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]);
    });
}

#[test]
fn records_of_partitions_that_are_given_back_are_not_delivered_any_more() {
    simulated(async || {
        let mut app = Application::start(&[(1, 0)], options(), subscribed());
        app.append(0, 0, 5);
        // The records wait to be taken.
        tokio::time::sleep(2 * SECOND).await;
        app.brokers.borrow_mut().heartbeat_code = 27;
        tokio::time::sleep(5 * SECOND).await;
        let others = app.take(SECOND).await;
        assert!(matches!(&others[0], Event::Revoking(_)), "{others:?}");
        assert!(app.got.is_empty());
    });
}

#[test]
fn an_application_that_stays_away_loses_its_partitions_and_gets_them_back() {
    simulated(async || {
        let mut options = options();
        options.client.group.max_poll_interval = 60 * SECOND;
        let mut app = Application::start(&[(1, 0)], options, subscribed());
        app.append(0, 0, 5);
        app.take(2 * SECOND).await;
        app.told();
        tokio::time::sleep(61 * SECOND).await;
        let told = app.told();
        assert!(told.contains(&"leave".to_owned()), "{told:?}");
        let others = app.take(3 * SECOND).await;
        let kinds = &others[..];
        assert!(
            matches!(kinds, [Event::Lost(_), Event::Assigned(_)]),
            "{others:?}"
        );
        assert_eq!(app.told(), ["join"]);
    });
}

#[test]
fn what_was_stored_before_a_partition_comes_back_is_not_committed() {
    simulated(async || {
        let mut options = options();
        options.client.group.max_poll_interval = 60 * SECOND;
        let mut app = Application::start(&[(1, 0)], options, subscribed());
        app.append(0, 0, 5);
        app.take(10 * SECOND).await;
        assert_eq!(app.brokers.borrow().positions[&0], 5);
        tokio::time::sleep(61 * SECOND).await;
        let lost = app.next(SECOND).await;
        assert!(matches!(lost, Event::Lost(_)), "{lost:?}");
        // The output of what it read long ago has come through.
        let (offset, epoch) = (2, None);
        app.consumer.store(&place(0), Position { offset, epoch });
        let others = app.take(10 * SECOND).await;
        assert!(matches!(&others[..], [Event::Assigned(_)]), "{others:?}");
        let (brokers, deadline) = (Rc::clone(&app.brokers), Instant::now() + 9 * SECOND);
        assert_eq!(app.consumer.close(deadline).await, Ok(()));
        assert_eq!(brokers.borrow().positions[&0], 5);
    });
}

#[test]
fn a_member_without_the_consumer_protocol_joins_by_the_classic_one() {
    simulated(async || {
        let mut options = options();
        options.client.group.consumer_protocol = true;
        let mut app = Application::start(&[(1, 0)], options, subscribed());
        app.append(0, 0, 2);
        app.take(3 * SECOND).await;
        assert_eq!(app.told(), ["beat", "join"]);
        assert_eq!(app.got[&0], [0, 1]);
    });
}

#[test]
fn a_commit_is_waited_for() {
    simulated(async || {
        let mut options = options();
        options.auto_commit = None;
        let mut app = Application::start(&[(1, 0)], options, subscribed());
        app.append(0, 0, 2);
        app.take(10 * SECOND).await;
        assert_eq!(app.told(), ["join"]);
        let deadline = Instant::now() + SECOND;
        assert_eq!(app.consumer.commit(deadline).await, Ok(()));
        assert_eq!(app.told(), ["commit 0: 2"]);
        // The second time there is nothing to store.
        assert_eq!(app.consumer.commit(deadline).await, Ok(()));
        assert_eq!(app.told(), Vec::<String>::new());
    });
}

#[test]
fn who_seeks_goes_on_there() {
    simulated(async || {
        let mut app = Application::start(&[(1, 0)], options(), given(&[0]));
        app.append(0, 0, 5);
        app.take(2 * SECOND).await;
        app.consumer.seek(&place(0), Whence::At(3, None));
        app.take(2 * SECOND).await;
        assert_eq!(app.got[&0], [0, 1, 2, 3, 4, 3, 4]);
        app.consumer.pause(&place(0), true);
        app.take(2 * SECOND).await;
        app.append(0, 5, 2);
        app.take(2 * SECOND).await;
        assert_eq!(app.got[&0].len(), 7);
        app.consumer.pause(&place(0), false);
        app.take(2 * SECOND).await;
        assert_eq!(app.got[&0].len(), 9);
    });
}
