//! `Metadata` (key 3), versions 0-13: topics, their partitions, and the addresses of the brokers.
//!
//! No topics means all topics: an empty list in version 0, null from version 1 on, where an empty
//! list means none. Version 4 added the client's permission to create missing topics, 8 authorized
//! operations, 10 topic ids in the response, 12 topics requested by id, 13 an error for the whole
//! request. Addresses are those of the listener that the client connected to.
//!
//! A client sees the topics that it may describe. For another topic it learns neither that the name
//! exists nor which name the id has; the list of all topics leaves it out. A missing topic is
//! created for clients that may create it, or any topic.

use std::collections::BTreeSet;

use wire::StrBytes;
use wire::acl::{CLUSTER_NAME, NOT_ASKED, Operation, ResourceType};
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::{BrokerId, MetadataRequest, MetadataResponse};
use wire::types::{ErrorCode, NodeId, TopicId};

use crate::access::Access;
use crate::controller::topics::partitions_of_each;
use crate::controller::{Rules, check_count, topic_name};
use crate::image::{Image, PartitionImage, TopicImage};
use crate::names::is_internal;
use crate::rests::{Rests, each};

/// The parameters of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetadataQuery<'a> {
    /// Name of the listener that the client connected to.
    pub(crate) listener: &'a str,
    /// Id of the cluster.
    pub(crate) cluster_id: &'a str,
    /// This node, which is the controller.
    pub(crate) node: NodeId,
    /// Version of the request.
    pub(crate) version: i16,
    /// What the client may do.
    pub(crate) access: &'a Access,
    /// True if missing topics are created.
    pub(crate) creates: bool,
}

/// Too many missing topics to create for one request; the field is their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooMany(pub(crate) usize);

/// Returns the missing topics that the client requested by name, with permission to create them.
///
/// The caller creates them if `auto.create.topics.enable` is set, and then answers from the newest
/// image.
pub(crate) async fn missing(
    rules: Rules<'_>,
    access: &Access,
    request: &MetadataRequest,
    version: i16,
) -> Result<Vec<String>, TooMany> {
    let by_id =
        |topic: &wire::messages::metadata_request::MetadataRequestTopic| !topic.topic_id.is_nil();
    if !wants_creation(request, version) || request.topics.iter().flatten().any(by_id) {
        return Ok(Vec::new());
    }
    let creates_any = access.has_cluster(Operation::Create);
    // What is denied is counted when it is answered.
    let may_create = |name: &str| {
        let creates = || access.lets(Operation::Create, ResourceType::Topic, name);
        access.sees(ResourceType::Topic, name) && (creates_any || creates())
    };
    let mut names = BTreeSet::new();
    let mut rests = Rests::new();
    for name in request
        .topics
        .iter()
        .flatten()
        .filter_map(|topic| topic.name.as_ref())
    {
        let name = name.as_str();
        if rules.image.topic_by_name(name).is_none()
            && topic_name::invalid(name).is_none()
            && may_create(name)
        {
            names.insert(name);
        }
        rests.item().await;
    }
    // At most as many partitions as a creation request may ask for; if there are more, none are
    // created.
    let partitions = names.len().saturating_mul(partitions_of_each(rules));
    check_count(partitions).map_err(|_| TooMany(names.len()))?;
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Returns true if the client wants missing topics to be created: before version 4 a client could
/// not say no.
fn wants_creation(request: &MetadataRequest, version: i16) -> bool {
    version < 4 || request.allow_auto_topic_creation
}

/// Answers from `image`.
pub(crate) async fn handle(
    image: &Image,
    asked: MetadataQuery<'_>,
    request: &MetadataRequest,
) -> MetadataResponse {
    let wanted = match wanted(image, request, asked.version).await {
        Ok(wanted) => wanted,
        Err(code) => return refuse(request, code),
    };
    let mut topics = Vec::with_capacity(wanted.len());
    let mut rests = Rests::new();
    for topic in wanted {
        let mut weight = 1;
        if topic.is_shown(asked.access) {
            let topic = topic.answer(image, asked, request);
            weight = topic.partitions.len().max(1);
            topics.push(topic);
        }
        rests.items(weight).await;
    }
    let brokers = image
        .alive_brokers(asked.listener)
        .map(|(broker, endpoint)| {
            MetadataResponseBroker::default()
                .with_node_id(broker.id.into())
                .with_host(StrBytes::from_string(endpoint.host.clone()))
                .with_port(i32::from(endpoint.port))
                .with_rack(broker.rack.clone().map(StrBytes::from_string))
        });
    let controller = if image.is_alive(asked.node.0, asked.listener) {
        asked.node.0
    } else {
        -1
    };
    let tell = (8..=10).contains(&asked.version) && request.include_cluster_authorized_operations;
    let operations = if tell {
        let access = asked.access;
        access.operations(ResourceType::Cluster, CLUSTER_NAME)
    } else {
        NOT_ASKED
    };
    MetadataResponse::default()
        .with_brokers(brokers.collect())
        .with_cluster_id(Some(StrBytes::from_string(asked.cluster_id.to_owned())))
        .with_controller_id(controller.into())
        .with_topics(topics)
        .with_cluster_authorized_operations(operations)
}

/// One entry of the response.
enum TopicEntry<'a> {
    /// One of all topics.
    Listed(&'a TopicImage),
    /// A topic that the request names.
    Name(&'a str),
    /// A topic that the request has the id of.
    Id(TopicId),
}

async fn wanted<'a>(
    image: &'a Image,
    request: &'a MetadataRequest,
    version: i16,
) -> Result<Vec<TopicEntry<'a>>, ErrorCode> {
    let topics = match &request.topics {
        None => {
            return Ok(image
                .topics()
                .map(|topic| TopicEntry::Listed(topic))
                .collect());
        }
        Some(topics) if topics.is_empty() && version == 0 => {
            return Ok(image
                .topics()
                .map(|topic| TopicEntry::Listed(topic))
                .collect());
        }
        Some(topics) => topics,
    };
    if version < 12
        && topics
            .iter()
            .any(|t| t.name.is_none() || !t.topic_id.is_nil())
    {
        return Err(ErrorCode::InvalidRequest);
    }
    let mut rests = Rests::new();
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    for topic in topics {
        let id = TopicId(topic.topic_id);
        if id != TopicId::ZERO {
            ids.insert(id);
        }
        names.extend(topic.name.as_ref().map(|name| name.as_str()));
        rests.item().await;
    }
    if !ids.is_empty() {
        return Ok(each(ids, TopicEntry::Id).await);
    }
    Ok(each(names, TopicEntry::Name).await)
}

impl TopicEntry<'_> {
    /// Returns false for a topic that the list of all topics leaves out for this client.
    fn is_shown(&self, access: &Access) -> bool {
        match self {
            Self::Listed(topic) => access.sees(ResourceType::Topic, &topic.name),
            Self::Name(_) | Self::Id(_) => true,
        }
    }

    /// Returns what the client learns of the topic.
    fn answer(
        self,
        image: &Image,
        asked: MetadataQuery<'_>,
        request: &MetadataRequest,
    ) -> MetadataResponseTopic {
        let may_describe = |name: &str| {
            let access = asked.access;
            access.may(Operation::Describe, ResourceType::Topic, name)
        };
        let denied = ErrorCode::TopicAuthorizationFailed;
        match self {
            Self::Listed(topic) => topic_of(image, asked, request, topic),
            Self::Id(id) => match image.topic_by_id(id) {
                None => refused(None, id, ErrorCode::UnknownTopicId),
                Some(topic) if !may_describe(&topic.name) => refused(None, id, denied),
                Some(topic) => topic_of(image, asked, request, topic),
            },
            Self::Name(name) if !may_describe(name) => refused(Some(name), TopicId::ZERO, denied),
            Self::Name(name) => match image.topic_by_name(name) {
                None => missing_topic(name, asked, request),
                Some(topic) => topic_of(image, asked, request, topic),
            },
        }
    }
}

/// Returns the entry of a topic that the client may describe, and that does not exist.
fn missing_topic(
    name: &str,
    asked: MetadataQuery<'_>,
    request: &MetadataRequest,
) -> MetadataResponseTopic {
    let access = asked.access;
    let may_create = || {
        access.has_cluster(Operation::Create)
            || access.may(Operation::Create, ResourceType::Topic, name)
    };
    let told = |code| refused(Some(name), TopicId::ZERO, code).with_is_internal(is_internal(name));
    if asked.creates && wants_creation(request, asked.version) && !may_create() {
        return told(ErrorCode::TopicAuthorizationFailed);
    }
    let code = if topic_name::invalid(name).is_some() {
        ErrorCode::InvalidTopicException
    } else {
        ErrorCode::UnknownTopicOrPartition
    };
    told(code).with_topic_authorized_operations(operations(asked, request, name))
}

/// Returns the entry of a topic for which the client gets this error only.
fn refused(name: Option<&str>, id: TopicId, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_error_code(code.code())
        .with_name(name.map(|name| StrBytes::from_string(name.to_owned()).into()))
        .with_topic_id(id.0)
}

fn topic_of(
    image: &Image,
    asked: MetadataQuery<'_>,
    request: &MetadataRequest,
    topic: &TopicImage,
) -> MetadataResponseTopic {
    let partitions = topic.partitions.iter();
    let partitions = partitions.map(|(index, state)| partition_of(image, asked, *index, state));
    MetadataResponseTopic::default()
        .with_name(Some(StrBytes::from_string(topic.name.to_string()).into()))
        .with_topic_id(topic.id.0)
        .with_is_internal(is_internal(&topic.name))
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(operations(asked, request, &topic.name))
}

fn partition_of(
    image: &Image,
    asked: MetadataQuery<'_>,
    index: i32,
    state: &PartitionImage,
) -> MetadataResponsePartition {
    let reachable = |id: i32| image.is_alive(id, asked.listener);
    // Version 0 leaves out unavailable brokers and returns an error for the partition.
    let shown = |ids: &[i32]| -> Vec<i32> {
        ids.iter()
            .copied()
            .filter(|id| asked.version > 0 || reachable(*id))
            .collect()
    };
    let (replicas, isr) = (shown(&state.replicas), shown(&state.isr));
    let code = if !reachable(state.leader) {
        let registered = image
            .broker(NodeId(state.leader))
            .is_some_and(|broker| !broker.fenced);
        if registered && asked.version >= 6 {
            ErrorCode::ListenerNotFound.code()
        } else {
            ErrorCode::LeaderNotAvailable.code()
        }
    } else if replicas.len() < state.replicas.len() || isr.len() < state.isr.len() {
        ErrorCode::ReplicaNotAvailable.code()
    } else {
        0
    };
    let leader = if reachable(state.leader) {
        state.leader
    } else {
        -1
    };
    MetadataResponsePartition::default()
        .with_error_code(code)
        .with_partition_index(index)
        .with_leader_id(leader.into())
        .with_leader_epoch(state.leader_epoch)
        .with_replica_nodes(replicas.into_iter().map(BrokerId).collect())
        .with_isr_nodes(isr.into_iter().map(BrokerId).collect())
        .with_offline_replicas(
            state
                .offline_replicas(image, asked.listener)
                .into_iter()
                .map(BrokerId)
                .collect(),
        )
}

fn operations(asked: MetadataQuery<'_>, request: &MetadataRequest, name: &str) -> i32 {
    if asked.version >= 8 && request.include_topic_authorized_operations {
        asked.access.operations(ResourceType::Topic, name)
    } else {
        NOT_ASKED
    }
}

/// Returns the same error for every topic of the request.
fn refuse(request: &MetadataRequest, code: ErrorCode) -> MetadataResponse {
    let topics = request.topics.iter().flatten().map(|topic| {
        // A topic without a name cannot be encoded in versions without ids.
        let name = topic.name.clone().unwrap_or_default();
        MetadataResponseTopic::default()
            .with_error_code(code.code())
            .with_name(Some(name))
            .with_topic_id(topic.topic_id)
    });
    MetadataResponse::default()
        .with_topics(topics.collect())
        .with_controller_id((-1).into())
}

#[cfg(test)]
mod tests;
