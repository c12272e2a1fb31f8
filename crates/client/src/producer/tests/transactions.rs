//! Transactions against a scripted coordinator that keeps account of its requests.

use wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use wire::messages::find_coordinator_response::Coordinator;
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    FindCoordinatorRequest, FindCoordinatorResponse,
};

use super::*;

/// Stands for an answer that is cut off after its header.
const CUT: i16 = i16::MAX;

/// What the coordinator was told, in order.
type Story = Rc<RefCell<Vec<String>>>;

/// Answers of a coordinator; `refuse` are the errors of the next requests.
fn coordinate(story: &Story, refuse: &RefCell<Vec<i16>>, asked: &AskedRequest) -> Option<Reply> {
    let next = || {
        let mut refuse = refuse.borrow_mut();
        if refuse.is_empty() {
            0
        } else {
            refuse.remove(0)
        }
    };
    let tell = |what: String| story.borrow_mut().push(what);
    asked
        .to(|request: FindCoordinatorRequest| {
            let found = request.coordinator_keys.into_iter().map(|key| {
                Coordinator::default()
                    .with_key(key)
                    .with_node_id(2.into())
                    .with_host(wire::StrBytes::from_static_str("b"))
                    .with_port(PORT.into())
            });
            FindCoordinatorResponse::default().with_coordinators(found.collect())
        })
        .or_else(|| {
            asked.to(|request: InitProducerIdRequest| {
                let epoch = request.producer_epoch + 1;
                tell(format!("init {epoch}"));
                InitProducerIdResponse::default()
                    .with_error_code(next())
                    .with_producer_id(7.into())
                    .with_producer_epoch(epoch)
            })
        })
        .or_else(|| {
            asked.to(|request: AddPartitionsToTxnRequest| {
                let code = next();
                let topics = request.v3_and_below_topics.iter().map(|topic| {
                    tell(format!("add {} {:?}", &*topic.name, topic.partitions));
                    let results = topic.partitions.iter().map(|partition| {
                        AddPartitionsToTxnPartitionResult::default()
                            .with_partition_index(*partition)
                            .with_partition_error_code(code)
                    });
                    AddPartitionsToTxnTopicResult::default()
                        .with_name(topic.name.clone())
                        .with_results_by_partition(results.collect())
                });
                AddPartitionsToTxnResponse::default()
                    .with_results_by_topic_v3_and_below(topics.collect())
            })
        })
        .or_else(|| {
            let request = asked.request::<EndTxnRequest>()?;
            tell(format!("end {}", request.committed));
            let code = next();
            let answer = EndTxnResponse::default().with_error_code(code);
            let frame = asked.answer::<EndTxnRequest>(&answer);
            let length = if code == CUT { 5 } else { frame.len() };
            Some(Reply::Answer(frame.slice(..length)))
        })
}

/// A transactional producer, what its coordinator was told, and the errors to come.
fn bench() -> (Bench, Story, Rc<RefCell<Vec<i16>>>) {
    let bench = Bench::new(&[(1, 0), (1, 0)], |settings| {
        settings.transactional_id = Some("id".to_owned());
        settings.delivery_timeout = 20 * SECOND;
    });
    let (story, refuse) = (Story::default(), Rc::<RefCell<Vec<i16>>>::default());
    let (told, errors) = (Rc::clone(&story), Rc::clone(&refuse));
    let world = Rc::clone(&bench.world);
    let brokers = script(move |host, asked| {
        coordinate(&told, &errors, asked).or_else(|| answer(&world, host, asked))
    });
    // Other brokers with the same names, and this script.
    serve(&bench.net, "c", &brokers);
    let net = SimNet::new(Duration::from_millis(1));
    serve(&net, "a", &brokers);
    serve(&net, "b", &brokers);
    let settings = bench.producer.shared().settings().clone();
    let producer = Producer::new(cluster(&net, "a"), settings);
    let bench = Bench {
        net,
        world: bench.world,
        producer,
        told: bench.told,
    };
    (bench, story, refuse)
}

#[test]
fn after_an_end_that_nobody_can_read_only_the_same_end_is_tried() {
    run(async || {
        let (bench, story, refuse) = bench();
        let producer = &bench.producer;
        producer.init_transactions(later()).await.unwrap();
        producer.begin_transaction().unwrap();
        bench.send(0..5, Some(0)).await;
        producer.flush(later()).await.unwrap();
        refuse.borrow_mut().push(CUT);
        let unknown = producer.commit_transaction(later()).await.unwrap_err();
        assert!(unknown.is_unknown_outcome(), "{unknown}");
        assert!(producer.abort_transaction(later()).await.is_err());
        producer.commit_transaction(later()).await.unwrap();
        let wanted = ["init 0", "add t [0]", "end true", "end true"];
        assert_eq!(*story.borrow(), wanted);
    });
}

#[test]
fn partitions_are_added_before_they_are_written_to_and_the_end_is_told() {
    run(async || {
        let (bench, story, _) = bench();
        let producer = &bench.producer;
        let early = producer.send(Bench::record("x", Some(0)), |_| {}).await;
        assert!(early.is_err());
        producer.init_transactions(later()).await.unwrap();
        for _ in 0..2 {
            producer.begin_transaction().unwrap();
            bench.send(0..5, Some(0)).await;
            producer.commit_transaction(later()).await.unwrap();
        }
        producer.begin_transaction().unwrap();
        producer.commit_transaction(later()).await.unwrap();
        let wanted = ["init 0", "add t [0]", "end true", "add t [0]", "end true"];
        assert_eq!(*story.borrow(), wanted, "an empty transaction tells nobody");
        assert_eq!(bench.log(0).len(), 10);
    });
}

#[test]
fn an_aborted_transaction_sends_no_more() {
    run(async || {
        let (bench, story, _) = bench();
        let producer = &bench.producer;
        producer.init_transactions(later()).await.unwrap();
        producer.begin_transaction().unwrap();
        bench.send(0..5, Some(0)).await;
        producer.flush(later()).await.unwrap();
        bench.send(5..8, Some(1)).await;
        producer.abort_transaction(later()).await.unwrap();
        assert_eq!(bench.log(0).len(), 5);
        assert_eq!(bench.told.borrow().len(), 8, "each has a report");
        assert_eq!(story.borrow().last().unwrap(), "end false");
        producer.begin_transaction().unwrap();
    });
}

#[test]
fn a_transaction_of_which_a_record_failed_is_aborted_and_the_next_has_another_epoch() {
    run(async || {
        let (bench, story, _) = bench();
        let producer = &bench.producer;
        producer.init_transactions(later()).await.unwrap();
        producer.begin_transaction().unwrap();
        bench.world.borrow_mut().next = vec![87];
        bench.send(0..5, Some(0)).await;
        let refused = producer.commit_transaction(later()).await.unwrap_err();
        assert_eq!(refused.to_string(), "INVALID_RECORD");
        assert!(
            producer
                .send(Bench::record("x", Some(0)), |_| {})
                .await
                .is_err()
        );
        producer.abort_transaction(later()).await.unwrap();
        producer.begin_transaction().unwrap();
        bench.send(5..7, Some(0)).await;
        producer.commit_transaction(later()).await.unwrap();
        let wanted = [
            "init 0",
            "add t [0]",
            "end false",
            "init 1",
            "add t [0]",
            "end true",
        ];
        assert_eq!(*story.borrow(), wanted);
        assert_eq!(bench.log(0), ["0005", "0006"]);
    });
}

#[test]
fn what_passes_is_tried_again_and_a_fence_is_final() {
    run(async || {
        let (bench, story, refuse) = bench();
        let producer = &bench.producer;
        // An earlier transaction is still ending; the coordinator loads.
        *refuse.borrow_mut() = vec![51, 14];
        producer.init_transactions(later()).await.unwrap();
        producer.begin_transaction().unwrap();
        bench.send(0..1, Some(0)).await;
        producer.flush(later()).await.unwrap();
        *refuse.borrow_mut() = vec![51, 90];
        let fenced = producer.commit_transaction(later()).await.unwrap_err();
        assert_eq!(fenced.to_string(), "PRODUCER_FENCED");
        assert_eq!(producer.begin_transaction(), Err(fenced));
        assert_eq!(
            story
                .borrow()
                .iter()
                .filter(|one| *one == "end true")
                .count(),
            2
        );
    });
}
