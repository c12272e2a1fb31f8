//! A classic and a consumer group with one name: the log never has both.

use std::rc::Rc;

use platform::task;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, LeaveGroupRequest, TopicName,
};
use wire::types::ErrorCode;

use super::{
    Coordinator, FREE, GroupAppendError, TestLog, code, coordinator, delete, group, join, settle,
    simulate, sync, text,
};
use crate::group::Client;
use crate::group::groups::GroupRef;
use crate::handler;

const REFUSED: GroupAppendError = GroupAppendError::Refused(ErrorCode::NotEnoughReplicas);

async fn beat(coordinator: &Coordinator, epoch: i32) -> ConsumerGroupHeartbeatResponse {
    let client = Client {
        id: text("client"),
        host: text("/127.0.0.1"),
    };
    let request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group("g"))
        .with_member_id(text("a"))
        .with_member_epoch(epoch)
        .with_rebalance_timeout_ms(10_000)
        .with_subscribed_topic_names(Some(vec![TopicName(text("t"))]))
        .with_topic_partitions((epoch == 0).then(Vec::new));
    handler::consumer_group_heartbeat::handle(coordinator, &request, 1, &client, true, &FREE).await
}

fn is_consumer(coordinator: &Coordinator) -> bool {
    let found = coordinator.read("g", |groups| match groups.get(&text("g")) {
        Some(GroupRef::Consumer(_)) => Some(true),
        Some(GroupRef::Classic(_)) => Some(false),
        None => None,
    });
    found.unwrap().expect("the group exists")
}

#[test]
fn a_consumer_group_does_not_begin_if_the_deletion_of_the_classic_one_failed() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        let joined = join(&coordinator, "g", "", 3).await;
        assert_eq!(sync(&coordinator, "g", &joined).await.error_code, 0);
        let leaver = MemberIdentity::default().with_member_id(joined.member_id);
        let leave = LeaveGroupRequest::default()
            .with_group_id(group("g"))
            .with_members(vec![leaver]);
        let left = handler::leave_group::handle(&coordinator, &leave, 5).await;
        assert_eq!(left.error_code, 0);
        log.0.held.set(true);
        let deleted = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { delete(&coordinator, "g").await })
        };
        settle().await;
        let begun = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { beat(&coordinator, 0).await.error_code })
        };
        settle().await;
        log.end(Err(REFUSED)).await;
        let refused = code(ErrorCode::CoordinatorNotAvailable);
        assert_eq!(deleted.await.unwrap(), refused);
        assert!(
            log.0.pending.borrow().is_empty(),
            "nothing of it is written"
        );
        assert_eq!(begun.await.unwrap(), refused);
        assert!(!is_consumer(&coordinator));
    });
}

#[test]
fn a_classic_group_does_not_begin_if_the_deletion_of_the_consumer_one_failed() {
    simulate(async {
        let log = TestLog::default();
        let coordinator = coordinator(&log);
        assert_eq!(beat(&coordinator, 0).await.error_code, 0);
        assert_eq!(beat(&coordinator, -1).await.error_code, 0);
        log.0.held.set(true);
        let deleted = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { delete(&coordinator, "g").await })
        };
        settle().await;
        let begun = {
            let coordinator = Rc::clone(&coordinator);
            task::spawn(async move { join(&coordinator, "g", "", 3).await.error_code })
        };
        settle().await;
        log.end(Err(REFUSED)).await;
        let refused = code(ErrorCode::CoordinatorNotAvailable);
        assert_eq!(deleted.await.unwrap(), refused);
        assert!(
            log.0.pending.borrow().is_empty(),
            "nothing of it is written"
        );
        assert_eq!(begun.await.unwrap(), refused);
        assert!(is_consumer(&coordinator));
    });
}
