//! Members of a consumer group: they come, hold partitions, fall silent, leave. No two hold the
//! same one.
//!
//! A member holds a partition from the answer that gives it to the answer that takes it away, but
//! no longer than a session after its last heartbeat that was answered.

use platform::sim::Rng;
use wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, FindCoordinatorRequest, GroupId,
};
use wire::types::ErrorCode;

use crate::book::Life;
use crate::harness::asks::{error, text, topic_name};

const GROUP: &str = "consumers";
/// As Kafka's default.
const SESSION_MS: u64 = 45_000;

/// A member over all its lives.
pub(crate) struct Member {
    number: usize,
    name: String,
    epoch: i32,
    owned: Vec<i32>,
    /// The broker does not know yet what it holds.
    unreported: bool,
    /// Simulated time of the last heartbeat that was answered, when it was sent.
    heard_ms: u64,
}

impl Member {
    pub(crate) fn fresh(number: usize) -> Self {
        Self {
            number,
            name: format!("member-{number}"),
            epoch: 0,
            owned: Vec::new(),
            unreported: true,
            heard_ms: 0,
        }
    }

    fn request(&self, life: &Life) -> ConsumerGroupHeartbeatRequest {
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text(GROUP)))
            .with_member_id(text(&self.name))
            .with_member_epoch(self.epoch);
        if self.epoch == 0 {
            return request
                .with_rebalance_timeout_ms(300_000)
                .with_subscribed_topic_names(Some(vec![topic_name("t")]))
                .with_topic_partitions(Some(Vec::new()));
        }
        if !self.unreported {
            return request;
        }
        let owned = TopicPartitions::default()
            .with_topic_id(life.cluster.topic_id("t").0)
            .with_partitions(self.owned.clone());
        request.with_topic_partitions(Some(vec![owned]))
    }

    fn let_go(&mut self, life: &Life) {
        let mut book = life.book.borrow_mut();
        book.held.retain(|_, holder| holder.0 != self.number);
        self.owned.clear();
        self.epoch = 0;
        self.unreported = true;
    }

    fn hear(&mut self, life: &Life, answer: &ConsumerGroupHeartbeatResponse, sent_ms: u64) {
        let now_ms = life.now_ms();
        let mut book = life.book.borrow_mut();
        let newer = answer.member_epoch >= self.epoch;
        book.check(newer, || format!("{} goes back in epochs", self.name));
        self.epoch = answer.member_epoch;
        self.heard_ms = sent_ms;
        self.unreported = false;
        if let Some(assignment) = &answer.assignment {
            let topics = assignment.topic_partitions.iter();
            self.owned = topics.flat_map(|topic| topic.partitions.clone()).collect();
            self.unreported = true;
        }
        let until_ms = sent_ms + SESSION_MS;
        book.held
            .retain(|partition, holder| holder.0 != self.number || self.owned.contains(partition));
        for partition in &self.owned {
            let before = book.held.insert(*partition, (self.number, until_ms));
            if let Some((other, until)) = before.filter(|(other, _)| *other != self.number) {
                book.check(until <= now_ms, || {
                    format!(
                        "{} was told to have partition {partition} at {now_ms} ms, member {other} \
                         has it until {until}",
                        self.name
                    )
                });
                book.counts.taken_over += 1;
            }
        }
        let number = i64::try_from(self.number).unwrap();
        book.note(&[
            3,
            number,
            self.epoch.into(),
            i64::from(answer.assignment.is_some()),
        ]);
    }
}

/// A member's part of a life.
pub(crate) async fn run(life: Life, member: std::rc::Rc<std::cell::RefCell<Member>>, mut rng: Rng) {
    loop {
        let request = member.borrow().request(&life);
        let sent_ms = life.now_ms();
        let answer = life.cluster.ask(1, &request).await;
        match error(answer.error_code) {
            None => member.borrow_mut().hear(&life, &answer, sent_ms),
            Some(ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch) => {
                life.count(|counts| counts.expired += 1);
                member.borrow_mut().let_go(&life);
            }
            Some(_) => {
                let find =
                    FindCoordinatorRequest::default().with_coordinator_keys(vec![text(GROUP)]);
                life.cluster.ask(4, &find).await;
            }
        }
        match rng.below(100) {
            0..4 => leave(&life, &member).await,
            // It falls silent, perhaps for longer than a session.
            4..12 => life.pause(&mut rng, 2 * SESSION_MS).await,
            _ => {}
        }
        life.pause(&mut rng, 5_000).await;
    }
}

async fn leave(life: &Life, member: &std::cell::RefCell<Member>) {
    let (epoch, name) = {
        let member = member.borrow();
        (member.epoch, member.name.clone())
    };
    if epoch == 0 {
        return;
    }
    // What it holds is free from now on, whatever becomes of the request.
    member.borrow_mut().let_go(life);
    let request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text(GROUP)))
        .with_member_id(text(&name))
        .with_member_epoch(-1);
    life.cluster.ask(1, &request).await;
}
