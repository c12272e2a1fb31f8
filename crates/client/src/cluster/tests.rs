//! Clusters of scripted brokers: leaders that move, brokers that die, coordinators.

use platform::runtime::run_simulated;
use platform::sim::SimNet;
use wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::*;
use crate::scripted::{AskedRequest, PORT, Reply, cluster, later, script, serve, settings};

const SECOND: Duration = Duration::from_secs(1);
const BROKERS: &[(i32, &str)] = &[(1, "a"), (2, "b")];

type Leaders = Rc<RefCell<BTreeMap<String, Vec<(i32, i32)>>>>;

/// Topics with leaders that a test may change.
fn leaders(topics: &[(&str, &[(i32, i32)])]) -> Leaders {
    let topics = topics.iter();
    let topics = topics.map(|(name, leaders)| ((*name).to_owned(), leaders.to_vec()));
    Rc::new(RefCell::new(topics.collect()))
}

/// Two brokers that tell these leaders; returns how often they were asked.
fn two(net: &SimNet, leaders: &Leaders) -> Rc<Cell<u32>> {
    let (leaders, asked_for) = (Rc::clone(leaders), Rc::new(Cell::new(0)));
    let count = Rc::clone(&asked_for);
    let brokers = script(move |_, asked| {
        let reply = asked.metadata(BROKERS, &leaders.borrow());
        count.set(count.get() + u32::from(reply.is_some()));
        reply
    });
    serve(net, "a", &brokers);
    serve(net, "b", &brokers);
    asked_for
}

#[test]
fn leaders_are_asked_for_once_and_again_when_they_are_stale() {
    let simulated = run_simulated(async {
        let (net, leaders) = (SimNet::default(), leaders(&[("t", &[(1, 0), (2, 0)])]));
        let asked = two(&net, &leaders);
        let cluster = cluster(&net, "a");
        let leader = async |partition| cluster.leader("t", partition, later()).await.unwrap();
        assert_eq!(leader(1).await, Leader { node: 2, epoch: 0 });
        assert_eq!(leader(0).await, Leader { node: 1, epoch: 0 });
        assert_eq!(asked.get(), 1);
        leaders
            .borrow_mut()
            .insert("t".to_owned(), vec![(2, 1), (2, 0)]);
        cluster.stale("t");
        assert_eq!(leader(0).await, Leader { node: 2, epoch: 1 });
        assert_eq!(asked.get(), 2);
        let node = cluster.node(2, later()).await.unwrap();
        assert_eq!((node.address(), node.node()), ("b:9092", Some(2)));
        // Old metadata are asked for again.
        tokio::time::sleep(cluster.settings().metadata_max_age).await;
        tokio::time::sleep(SECOND).await;
        leader(0).await;
        assert_eq!(asked.get(), 3);
    });
    simulated.unwrap();
}

#[test]
fn many_who_want_the_same_ask_once() {
    let simulated = run_simulated(async {
        let (net, leaders) = (SimNet::new(SECOND / 10), leaders(&[("t", &[(1, 0)])]));
        let asked = two(&net, &leaders);
        let cluster = cluster(&net, "a");
        let ask = || cluster.leader("t", 0, later());
        let found = tokio::join!(ask(), ask(), ask());
        assert!(found.0.is_ok() && found.1.is_ok() && found.2.is_ok());
        assert_eq!(asked.get(), 1);
        assert_eq!(net.open("a", PORT), 1);
    });
    simulated.unwrap();
}

#[test]
fn a_missing_topic_is_an_error_and_a_leader_is_waited_for() {
    let simulated = run_simulated(async {
        let (net, leaders) = (SimNet::default(), leaders(&[]));
        two(&net, &leaders);
        let cluster = cluster(&net, "a");
        let missing = cluster.topic("t", later()).await.unwrap_err();
        assert_eq!(missing.code(), Some(ErrorCode::UnknownTopicOrPartition));
        let began = Instant::now();
        let soon = began + 2 * SECOND;
        let late = cluster.leader("t", 0, soon).await.unwrap_err();
        assert_eq!(late.code(), Some(ErrorCode::UnknownTopicOrPartition));
        assert!(began.elapsed() <= 2 * SECOND);
        let made = async {
            tokio::time::sleep(SECOND).await;
            leaders.borrow_mut().insert("t".to_owned(), vec![(-1, 0)]);
            tokio::time::sleep(SECOND).await;
            leaders.borrow_mut().insert("t".to_owned(), vec![(2, 1)]);
        };
        let (found, ()) = tokio::join!(cluster.leader("t", 0, later()), made);
        assert_eq!(found, Ok(Leader { node: 2, epoch: 1 }));
    });
    simulated.unwrap();
}

#[test]
fn another_broker_is_asked_when_one_is_gone_or_silent() {
    let simulated = run_simulated(async {
        let (net, leaders) = (SimNet::default(), leaders(&[("t", &[(2, 0)])]));
        let mut both = settings("silent");
        both.bootstrap.push(("refuses".to_owned(), PORT));
        both.bootstrap.push(("b".to_owned(), PORT));
        two(&net, &leaders);
        net.silence("silent", PORT, true);
        let cluster = Cluster::with_random(net.clone(), both, || 20);
        let began = Instant::now();
        assert!(cluster.any(began + 30 * SECOND).await.is_ok());
        assert!(began.elapsed() <= 10 * SECOND);
    });
    simulated.unwrap();
}

#[test]
fn another_broker_tells_what_one_that_hangs_does_not() {
    let simulated = run_simulated(async {
        let (net, leaders) = (SimNet::default(), leaders(&[("t", &[(2, 0)])]));
        two(&net, &leaders);
        let cluster = cluster(&net, "a");
        assert!(cluster.leader("t", 0, later()).await.is_ok());
        net.stall("a", PORT, platform::sim::Towards::Client, true);
        cluster.stale("t");
        let began = Instant::now();
        assert!(cluster.leader("t", 0, later()).await.is_ok());
        assert!(began.elapsed() < 5 * SECOND, "{:?}", began.elapsed());
    });
    simulated.unwrap();
}

#[test]
fn a_slow_broker_is_waited_for_when_no_other_one_can_be_reached() {
    let simulated = run_simulated(async {
        let (net, leaders) = (SimNet::default(), leaders(&[("t", &[(2, 0)])]));
        let slow = script(
            move |_, asked| match asked.metadata(BROKERS, &leaders.borrow())? {
                Reply::Answer(answer) => Some(Reply::Later(8 * SECOND, answer)),
                other => Some(other),
            },
        );
        serve(&net, "a", &slow);
        let mut both = settings("a");
        both.bootstrap.push(("refuses".to_owned(), PORT));
        let cluster = Cluster::with_random(net.clone(), both, || 20);
        let found = cluster.topic("t", later()).await;
        assert!(found.is_ok(), "{found:?}");
    });
    simulated.unwrap();
}

#[test]
fn nobody_reachable_is_an_error_by_the_deadline() {
    let simulated = run_simulated(async {
        let net = SimNet::default();
        let cluster = cluster(&net, "a");
        let refused = cluster.any(later()).await.unwrap_err();
        assert!(refused.to_string().starts_with("broker a:9092: connecting"));
        let began = Instant::now();
        let late = cluster.leader("t", 0, began + 3 * SECOND).await;
        assert!(late.is_err() && began.elapsed() <= 3 * SECOND);
        assert!(began.elapsed() >= 2 * SECOND, "it was tried again");
    });
    simulated.unwrap();
}

#[test]
fn a_connection_that_is_lost_is_made_again() {
    let simulated = run_simulated(async {
        let (net, leaders) = (SimNet::default(), leaders(&[("t", &[(2, 0)])]));
        two(&net, &leaders);
        let cluster = cluster(&net, "a");
        let node = cluster.node(2, later()).await.unwrap();
        assert!(cluster.open_node(2).is_some());
        net.reset("b", PORT);
        tokio::time::sleep(SECOND).await;
        assert!(node.is_lost() && cluster.open_node(2).is_none());
        assert!(!cluster.node(2, later()).await.unwrap().is_lost());
        let nobody = cluster.node(9, later()).await.unwrap_err();
        assert!(nobody.is_retriable(), "{nobody}");
    });
    simulated.unwrap();
}

#[test]
fn a_broker_that_moves_is_left_where_it_was() {
    let host = Rc::new(Cell::new("b"));
    let told = Rc::clone(&host);
    let brokers =
        script(move |_, asked| asked.metadata(&[(1, "a"), (2, told.get())], &BTreeMap::new()));
    let simulated = run_simulated(async {
        let net = SimNet::default();
        for name in ["a", "b", "c"] {
            serve(&net, name, &brokers);
        }
        let cluster = cluster(&net, "a");
        assert!(cluster.node(2, later()).await.is_ok());
        host.set("c");
        cluster.brokers(later()).await.unwrap();
        let node = cluster.node(2, later()).await.unwrap();
        assert_eq!(node.address(), "c:9092");
        tokio::time::sleep(SECOND).await;
        assert_eq!((net.open("b", PORT), net.open("c", PORT)), (0, 1));
    });
    simulated.unwrap();
}

#[test]
fn a_coordinator_is_waited_for_and_found_again() {
    let coordinator = Rc::new(Cell::new(-1));
    let told = Rc::clone(&coordinator);
    let answer = move |asked: &AskedRequest| {
        asked.to(|request: FindCoordinatorRequest| {
            let node: i32 = told.get();
            let host = if node == 1 { "a" } else { "b" };
            let found = request.coordinator_keys.into_iter().map(|key| {
                Coordinator::default()
                    .with_key(key)
                    .with_node_id(node.into())
                    .with_host(StrBytes::from_static_str(host))
                    .with_port(PORT.into())
                    .with_error_code(if node < 0 { 15 } else { 0 })
            });
            FindCoordinatorResponse::default().with_coordinators(found.collect())
        })
    };
    let brokers = script(move |_, asked| -> Option<Reply> {
        answer(asked).or_else(|| asked.metadata(BROKERS, &BTreeMap::new()))
    });
    let simulated = run_simulated(async {
        let net = SimNet::default();
        serve(&net, "a", &brokers);
        serve(&net, "b", &brokers);
        let cluster = cluster(&net, "a");
        let find = async |deadline| {
            let found = cluster.coordinator(CoordinatorKind::Group, "g", deadline);
            Ok::<_, ClientError>(found.await?.node())
        };
        let late = find(Instant::now() + SECOND).await.unwrap_err();
        assert_eq!(late.code(), Some(ErrorCode::CoordinatorNotAvailable));
        coordinator.set(2);
        assert_eq!(find(later()).await, Ok(Some(2)));
        coordinator.set(1);
        assert_eq!(find(later()).await, Ok(Some(2)), "nobody said it had moved");
        cluster.coordinator_lost(CoordinatorKind::Group, "g");
        assert_eq!(find(later()).await, Ok(Some(1)));
    });
    simulated.unwrap();
}
