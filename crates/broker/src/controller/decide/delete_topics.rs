//! `DeleteTopics` (key 20), versions 1-6.
//!
//! Version 5 added messages, version 6 deletion by id. A request may name a topic only once, by
//! name or by id; a topic that is named twice is not deleted.
//!
//! A client needs the right to delete each topic, or any topic. If it may not describe a topic, it
//! learns neither whether the name exists nor which name the id has.

use std::collections::{BTreeMap, BTreeSet};

use wire::StrBytes;
use wire::acl::{Operation, ResourceType};
use wire::messages::delete_topics_response::DeletableTopicResult;
use wire::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use wire::types::{ErrorCode, TopicId, Uuid};

use crate::access::Access;
use crate::controller::mutations::Gate;
use crate::controller::{ControllerDecision, Refusal, Rules, check_count};
use crate::rests::{DECISION, Rests, each};

/// Decides on a request.
pub(crate) async fn handle(
    rules: Rules<'_>,
    access: &Access,
    request: &DeleteTopicsRequest,
    version: i16,
    gate: &Gate<'_>,
) -> ControllerDecision<DeleteTopicsResponse> {
    if !rules.options.delete_topics {
        let refusal = if version < 3 {
            invalid("This version does not support topic deletion.")
        } else {
            ErrorCode::TopicDeletionDisabled.into()
        };
        return refused(request, &refusal).await;
    }
    let named = request
        .topic_names
        .len()
        .saturating_add(request.topics.len());
    if let Err(refusal) = check_count(named) {
        return refused(request, &refusal).await;
    }
    let mut wanted = TopicsToDelete::default();
    for name in &request.topic_names {
        wanted.add_name(name.as_str());
    }
    for topic in &request.topics {
        let id = TopicId(topic.topic_id);
        match (&topic.name, id == TopicId::ZERO) {
            (Some(name), true) => wanted.add_name(name.as_str()),
            (Some(name), false) => wanted.refuse(
                Some(name.as_str()),
                id,
                invalid("You may not specify both topic name and topic id."),
            ),
            (None, true) => {
                wanted.refuse(
                    None,
                    id,
                    invalid("Neither topic name nor id were specified."),
                );
            }
            (None, false) => wanted.add_id(id),
        }
    }
    let mut topics = wanted.resolve(rules, &Rights::of(access)).await;
    topics.retain(|id, name| {
        let partitions = rules.image.topic_by_id(*id);
        match gate.pass(partitions.map_or(0, |topic| topic.partitions.len())) {
            Ok(()) => true,
            Err(refusal) => {
                wanted.refuse(Some(name), *id, refusal);
                false
            }
        }
    });
    let records = topics
        .keys()
        .map(|id| Rules::delete_topic(*id).into())
        .collect();
    let deleted = topics
        .iter()
        .map(|(id, name)| result(Some(name), *id, Ok(())));
    let responses = deleted.chain(wanted.results).collect();
    ControllerDecision {
        records,
        response: DeleteTopicsResponse::default().with_responses(responses),
    }
}

/// The rights of the client on topics.
struct Rights<'a> {
    access: &'a Access,
    /// True if it may delete every topic.
    all: bool,
}

impl<'a> Rights<'a> {
    fn of(access: &'a Access) -> Self {
        let all = access.has_cluster(Operation::Delete);
        Self { access, all }
    }

    fn describes(&self, name: &str) -> bool {
        self.may(Operation::Describe, name)
    }

    fn deletes(&self, name: &str) -> bool {
        self.may(Operation::Delete, name)
    }

    fn may(&self, operation: Operation, name: &str) -> bool {
        self.all || self.access.may(operation, ResourceType::Topic, name)
    }
}

/// The topics that the request names.
#[derive(Default)]
struct TopicsToDelete {
    /// Each name, and whether the request has it more than once.
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    names: BTreeMap<String, bool>,
    // Bounded: lives with one request, `wire::kafka::shape::DECODED_BYTES_MAX`.
    ids: BTreeMap<TopicId, bool>,
    results: Vec<DeletableTopicResult>,
}

impl TopicsToDelete {
    fn add_name(&mut self, name: &str) {
        let twice = self.names.contains_key(name);
        self.names.insert(name.to_owned(), twice);
    }

    fn add_id(&mut self, id: TopicId) {
        let twice = self.ids.contains_key(&id);
        self.ids.insert(id, twice);
    }

    fn refuse(&mut self, name: Option<&str>, id: TopicId, refusal: Refusal) {
        self.results.push(result(name, id, Err(refusal)));
    }

    /// Returns the topics to delete, and adds the results of the others.
    async fn resolve(
        &mut self,
        rules: Rules<'_>,
        rights: &Rights<'_>,
    ) -> BTreeMap<TopicId, String> {
        let denied = || Refusal::denied(ResourceType::Topic);
        let mut topics = BTreeMap::new();
        let mut spoiled = BTreeSet::new();
        let mut rests = Rests::new();
        for (id, twice) in std::mem::take(&mut self.ids) {
            rests.items(DECISION).await;
            match rules.image.topic_by_id(id) {
                _ if twice => {
                    spoiled.insert(id);
                    self.refuse(None, id, invalid("Duplicate topic id."));
                }
                Some(topic) if !rights.deletes(&topic.name) => {
                    let name = Some(&*topic.name).filter(|name| rights.describes(name));
                    self.refuse(name, id, denied());
                }
                Some(topic) => {
                    topics.insert(id, topic.name.to_string());
                }
                None => {
                    let message = "This server does not host this topic ID.";
                    self.refuse(None, id, Refusal::new(ErrorCode::UnknownTopicId, message));
                }
            }
        }
        for (name, twice) in std::mem::take(&mut self.names) {
            rests.items(DECISION).await;
            let name = name.as_str();
            match rules.image.topic_by_name(name) {
                _ if twice => {
                    self.refuse(Some(name), TopicId::ZERO, invalid("Duplicate topic name."));
                }
                _ if !rights.describes(name) => {
                    self.refuse(Some(name), TopicId::ZERO, denied());
                }
                None => {
                    let message = "This server does not host this topic-partition.";
                    let refusal = Refusal::new(ErrorCode::UnknownTopicOrPartition, message);
                    self.refuse(Some(name), TopicId::ZERO, refusal);
                }
                Some(_) if !rights.deletes(name) => {
                    self.refuse(Some(name), TopicId::ZERO, denied());
                }
                Some(topic) if topics.contains_key(&topic.id) || spoiled.contains(&topic.id) => {
                    topics.remove(&topic.id);
                    let message =
                        "The provided topic name maps to an ID that was already supplied.";
                    self.refuse(Some(name), topic.id, invalid(message));
                }
                Some(topic) => {
                    topics.insert(topic.id, name.to_owned());
                }
            }
        }
        topics
    }
}

/// Returns the same refusal for every topic; no topic is deleted.
async fn refused(
    request: &DeleteTopicsRequest,
    refusal: &Refusal,
) -> ControllerDecision<DeleteTopicsResponse> {
    let by_name = request
        .topic_names
        .iter()
        .map(|name| (Some(name), Uuid::nil()));
    let by_state = request
        .topics
        .iter()
        .map(|topic| (topic.name.as_ref(), topic.topic_id));
    let results = each(by_name.chain(by_state), |(name, id)| {
        result(
            name.map(|name| name.as_str()),
            TopicId(id),
            Err(refusal.clone()),
        )
    });
    let response = DeleteTopicsResponse::default().with_responses(results.await);
    ControllerDecision {
        records: Vec::new(),
        response,
    }
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, message)
}

fn result(name: Option<&str>, id: TopicId, outcome: Result<(), Refusal>) -> DeletableTopicResult {
    let (code, message) = Refusal::parts(outcome);
    DeletableTopicResult::default()
        .with_name(name.map(|name| StrBytes::from_string(name.to_owned()).into()))
        .with_topic_id(id.0)
        .with_error_code(code)
        .with_error_message(message)
}

#[cfg(test)]
mod tests;
