//! `CreateTopics` (key 19), versions 2-7.
//!
//! Version 5 added the settings, partition count and replication factor of the new topic to the
//! response, version 7 its id. Topics are judged one by one; those that pass are created together,
//! or, with `validate_only`, not created. Unlike Kafka, the response describes the settings of only
//! the first `DESCRIBED_MAX` topics; for the others it carries the error code that the protocol has
//! for settings that are not returned.
//!
//! A client needs the right to create each topic, or any topic. Without the right to describe its
//! settings it learns neither them nor how many partitions and replicas the topic has.

use std::collections::BTreeMap;

use wire::StrBytes;
use wire::acl::{Operation, ResourceType};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use wire::messages::{CreateTopicsRequest, CreateTopicsResponse};
use wire::types::ErrorCode;

use crate::access::Access;
use crate::controller::mutations::Gate;
use crate::controller::topic_name::MetricNames;
use crate::controller::topics::{CheckedTopic, NewTopic};
use crate::controller::{ControllerDecision, Refusal, Rules};
use crate::names::METADATA_TOPIC;
use crate::rests::{DECISION, Rests, each};
use crate::topic_config::{BrokerSettings, DEFINITIONS, Source};

const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;
/// Topics of a response whose settings are returned: a topic takes 30 bytes to name, and kilobytes
/// to describe.
const DESCRIBED_MAX: usize = 1_000;

/// Decides on a request. `random` provides the bits of topic ids.
pub(crate) async fn handle(
    rules: Rules<'_>,
    access: &Access,
    request: &CreateTopicsRequest,
    random: &mut dyn FnMut() -> u64,
    gate: &Gate<'_>,
) -> ControllerDecision<CreateTopicsResponse> {
    if partitions(rules, request) > PARTITIONS_PER_REQUEST_MAX {
        return refused(rules, request).await;
    }
    let mut named = BTreeMap::<&str, usize>::new();
    let mut rests = Rests::new();
    for topic in &request.topics {
        let times = named.entry(topic.name.as_str()).or_default();
        *times = times.saturating_add(1);
        rests.item().await;
    }
    let once = |topic: &&CreatableTopic| named.get(topic.name.as_str()) == Some(&1);
    let wanted = request.topics.iter().filter(once);
    let wanted = wanted.filter(|topic| topic.name.as_str() != METADATA_TOPIC);
    let (mut records, mut results) = (Vec::new(), Vec::new());
    let taken = MetricNames::of(rules.image);
    let creates_any = access.has_cluster(Operation::Create);
    for topic in wanted {
        let name = topic.name.as_str();
        let may_create = creates_any || access.may(Operation::Create, ResourceType::Topic, name);
        let created = may_create.then_some(()).ok_or_else(denied).and_then(|()| {
            let created = rules.create_topic(&new_topic(topic), &taken, random)?;
            // A negative count was refused before; if it were not, it would count as too many.
            gate.pass(usize::try_from(created.partitions).unwrap_or(usize::MAX))?;
            Ok(created)
        });
        let hidden = hidden(access, name, results.len());
        results.push(result(rules, name, &created, hidden));
        records.extend(created.into_iter().flat_map(|created| created.records));
        rests.items(DECISION).await;
    }
    for (name, count) in named {
        let message = match count {
            2.. => "Duplicate topic name.",
            _ if name == METADATA_TOPIC => {
                "Creation of internal topic __cluster_metadata is prohibited."
            }
            _ => continue,
        };
        let refused = Err(Refusal::new(ErrorCode::InvalidRequest, message));
        results.push(result(rules, name, &refused, None));
        rests.item().await;
    }
    if request.validate_only {
        records.clear();
    }
    ControllerDecision {
        records,
        response: CreateTopicsResponse::default().with_topics(results),
    }
}

/// Returns the same refusal for every topic; no topic is created.
async fn refused(
    rules: Rules<'_>,
    request: &CreateTopicsRequest,
) -> ControllerDecision<CreateTopicsResponse> {
    let message = "Excessively large number of partitions per request.";
    let refusal = Err(Refusal::new(ErrorCode::PolicyViolation, message));
    let told = |topic: &CreatableTopic| result(rules, topic.name.as_str(), &refusal, None);
    let results = each(&request.topics, told).await;
    ControllerDecision {
        records: Vec::new(),
        response: CreateTopicsResponse::default().with_topics(results),
    }
}

/// Returns how many partitions the request asks for in total.
///
/// A topic that asks for none counts as one, because it is work too.
fn partitions(rules: Rules<'_>, request: &CreateTopicsRequest) -> i64 {
    let count = |topic: &CreatableTopic| match topic.num_partitions {
        _ if !topic.assignments.is_empty() => {
            i64::try_from(topic.assignments.len()).unwrap_or(i64::MAX)
        }
        -1 => i64::from(rules.options.num_partitions),
        count => i64::from(count.max(1)),
    };
    let counts = request.topics.iter().map(count);
    counts.fold(0, i64::saturating_add)
}

fn new_topic(topic: &CreatableTopic) -> NewTopic<'_> {
    let assignment = topic.assignments.iter().map(|assignment| {
        let brokers = assignment.broker_ids.iter().map(|id| id.0).collect();
        (assignment.partition_index, brokers)
    });
    NewTopic {
        name: topic.name.as_str(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignment: assignment.collect(),
        settings: topic
            .configs
            .iter()
            .map(|config| (config.name.as_str(), config.value.as_deref()))
            .collect(),
    }
}

fn denied() -> Refusal {
    let code = ErrorCode::TopicAuthorizationFailed;
    Refusal::new(code, "Authorization failed.")
}

/// Why the settings of a new topic are not returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HiddenSettings {
    /// The client may not describe them, nor learn how many partitions the topic has.
    Denied,
    /// Too many topics are before it in the request.
    Beyond,
}

/// Returns why the settings of a topic are not returned, if they are not; `before` is the number of
/// topics before it.
fn hidden(access: &Access, name: &str, before: usize) -> Option<HiddenSettings> {
    // The client asked for a topic and not for its settings, so this is no denial that counts.
    if !access.lets(Operation::DescribeConfigs, ResourceType::Topic, name) {
        assert!(access.is_limited(), "others have every right");
        return Some(HiddenSettings::Denied);
    }
    (before >= DESCRIBED_MAX).then_some(HiddenSettings::Beyond)
}

fn result(
    rules: Rules<'_>,
    name: &str,
    created: &Result<CheckedTopic, Refusal>,
    hidden: Option<HiddenSettings>,
) -> CreatableTopicResult {
    let named =
        CreatableTopicResult::default().with_name(StrBytes::from_string(name.to_owned()).into());
    match created {
        Ok(created) => {
            let made = named.with_topic_id(created.id).with_error_message(None);
            let counted = |made: CreatableTopicResult| {
                made.with_num_partitions(created.partitions)
                    .with_replication_factor(created.replication_factor)
            };
            match hidden {
                None => counted(made).with_configs(Some(settings(rules, &created.settings))),
                Some(HiddenSettings::Beyond) => {
                    let code = ErrorCode::PolicyViolation.code();
                    let made = counted(made).with_configs(None);
                    made.with_topic_config_error_code(code)
                }
                Some(HiddenSettings::Denied) => {
                    let code = ErrorCode::TopicAuthorizationFailed.code();
                    made.with_topic_config_error_code(code)
                }
            }
        }
        Err(refusal) => {
            let (code, message) = Refusal::parts(Err(refusal.clone()));
            named.with_error_code(code).with_error_message(message)
        }
    }
}

/// Returns every setting of the new topic with its source, by name.
fn settings(rules: Rules<'_>, own: &BTreeMap<String, String>) -> Vec<CreatableTopicConfigs> {
    let broker = BrokerSettings {
        image: rules.image,
        options: rules.options,
    };
    let mut configs: Vec<_> = DEFINITIONS
        .iter()
        .filter(|definition| !definition.is_internal() || own.contains_key(definition.name))
        .map(|definition| {
            let (value, source) = match own.get(definition.name) {
                Some(value) => (value.clone(), Source::Topic),
                None => (
                    definition.of_broker(&broker),
                    definition.source_of_broker(&broker),
                ),
            };
            CreatableTopicConfigs::default()
                .with_name(StrBytes::from_static_str(definition.name))
                .with_value(Some(StrBytes::from_string(value)))
                .with_config_source(source as i8)
        })
        .collect();
    configs.sort_by(|a, b| a.name.cmp(&b.name));
    configs
}

#[cfg(test)]
mod tests;
