//! Rights on the topics of a request, which names them by name or by id and may name very many.
//!
//! ACLs are about names, so an id is looked up first; one that no topic has is not denied but
//! unknown, as in Kafka, where ids are no secret. Without limits nothing is looked up and nothing
//! allocated. Not here: which right a request needs, and the answer to its client.

use platform::Platform;
use wire::acl::{Operation, ResourceType};
use wire::types::ErrorCode;

use crate::Broker;
use crate::access::Access;
use crate::fetch_session::TopicKey;
use crate::rests::Rests;

/// One right on the topics of a request, asked for one topic after the other.
///
/// The last answer is remembered: the partitions of a topic come together.
pub(crate) struct TopicRight<'a> {
    access: &'a Access,
    operation: Operation,
    last: Option<(TopicKey, Result<(), ErrorCode>)>,
}

impl<'a> TopicRight<'a> {
    /// Prepares the question whether the client may do this.
    pub(crate) const fn new(access: &'a Access, operation: Operation) -> Self {
        Self {
            access,
            operation,
            last: None,
        }
    }

    /// Refuses a topic with which the client may not do it, and an id that no topic has.
    ///
    /// Without limits every topic passes.
    #[inline]
    pub(crate) fn check<P: Platform>(
        &mut self,
        broker: &Broker<P>,
        topic: &TopicKey,
    ) -> Result<(), ErrorCode> {
        if self.access.is_limited() {
            self.decide(broker, topic)
        } else {
            Ok(())
        }
    }

    // Apart from `check`, whose callers are on the path of every request.
    #[inline(never)]
    fn decide<P: Platform>(
        &mut self,
        broker: &Broker<P>,
        topic: &TopicKey,
    ) -> Result<(), ErrorCode> {
        assert!(self.access.is_limited(), "others have every right");
        if let Some((last, verdict)) = &self.last
            && last == topic
        {
            return *verdict;
        }
        let verdict = match topic {
            TopicKey::Name(name) => self.of(name),
            TopicKey::Id(id) => match broker.image().topic_by_id(*id) {
                Some(topic) => self.of(&topic.name),
                None => Err(ErrorCode::UnknownTopicId),
            },
        };
        self.last = Some((topic.clone(), verdict));
        verdict
    }

    fn of(&self, name: &str) -> Result<(), ErrorCode> {
        let may = self.access.may(self.operation, ResourceType::Topic, name);
        may.then_some(()).ok_or(ErrorCode::TopicAuthorizationFailed)
    }
}

/// Takes the topics with which the client may not do this out of a list.
pub(crate) async fn take_denied<T>(
    access: &Access,
    operation: Operation,
    topics: &mut Vec<T>,
    name: impl Fn(&T) -> &str,
) -> Vec<T> {
    let mut denied = Vec::new();
    if !access.is_limited() {
        return denied;
    }
    let named = topics.len();
    let mut rests = Rests::new();
    for topic in std::mem::take(topics) {
        if access.may(operation, ResourceType::Topic, name(&topic)) {
            topics.push(topic);
        } else {
            denied.push(topic);
        }
        rests.item().await;
    }
    let decided = topics.len().saturating_add(denied.len());
    assert_eq!(decided, named, "each topic is kept or denied");
    denied
}

#[cfg(test)]
mod tests;
