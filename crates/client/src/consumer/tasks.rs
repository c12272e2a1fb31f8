//! What the driver of a consumer waits for: exchanges with brokers, each in a task of its own.
//!
//! A task has what it needs, and ends with a [`TaskOutcome`] for the driver; it decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use wire::kafka::fetch::FetchResponse;
use wire::types::TopicPartition;

use crate::cluster::{Cluster, CoordinatorKind, TopicMetadata};
use crate::connection::Connection;
use crate::error::{ClientError, Refusal};
use crate::fetch::Position;
use crate::fetch::fetcher::{FetchOrder, LookupOrder};
use crate::fetch::reading::Lookup;
use crate::fetch::request::FetchAsk;
use crate::fetch::room::Held;
use crate::group::exchange::{self, GroupAnswer, GroupRequest};
use crate::group::{Identity, MemberSettings, Places, TopicsSeen};
use crate::offsets::PartitionResults;
use crate::offsets::commit::{Committer, commit};
use crate::offsets::committed::committed;
use crate::offsets::list::{ListAsk, list};
use crate::pauses::later;

/// How long a task may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Patience {
    /// Until when it tries to reach a broker.
    pub(super) reach: Instant,
    /// How long the exchange may take then. Others use the connection too, and lose it when this is
    /// over.
    pub(super) exchange: Duration,
}

impl Patience {
    fn exchange_by(self) -> Instant {
        later(Instant::now(), self.exchange)
    }
}

/// How a task of the consumer has ended.
pub(super) enum TaskOutcome {
    /// A fetch, with the memory that was kept for its answer.
    Fetched {
        node: i32,
        held: Held,
        answer: Result<FetchResponse, ClientError>,
    },
    /// A look at a topic, for partitions without a leader.
    Led {
        orders: Vec<LookupOrder>,
        topic: Result<Rc<TopicMetadata>, ClientError>,
    },
    /// A lookup of offsets at one broker.
    Listed {
        orders: Vec<LookupOrder>,
        found: Result<PartitionResults<i64>, ClientError>,
    },
    /// An exchange of the member with its coordinator.
    Group(Result<GroupAnswer, ClientError>),
    /// A look at topics for the member.
    Seen {
        topics: BTreeSet<Arc<str>>,
        seen: Result<TopicsSeen, ClientError>,
    },
    /// The positions of the group.
    Positions {
        places: Places,
        found: Result<PartitionResults<Option<Position>>, ClientError>,
    },
    /// A commit.
    Committed(Result<PartitionResults<()>, ClientError>),
    /// The application has dropped the revocation with this number.
    LetGo(u64),
    /// The broker of this id has heard that a session ends, or has not.
    SessionEnded,
}

/// Fetches from a broker; `is_anew` asks for the brokers' addresses first.
pub(super) async fn fetch(
    cluster: Cluster,
    order: FetchOrder,
    is_anew: bool,
    held: Held,
    patience: Patience,
) -> TaskOutcome {
    let answer = async {
        if is_anew {
            cluster.brokers(patience.reach).await?;
        }
        let connection = cluster.node(order.node, patience.reach).await?;
        let version = connection.version_up_to::<FetchAsk>(order.request.newest())?;
        let deadline = later(patience.exchange_by(), order.request.max_wait());
        connection.ask_in(version, &order.request, deadline).await
    };
    let answer = answer.await;
    let node = order.node;
    TaskOutcome::Fetched { node, held, answer }
}

/// Tells a broker that a session ends, if there is still a connection to it.
pub(super) async fn end_session(
    cluster: Cluster,
    order: FetchOrder,
    patience: Patience,
) -> TaskOutcome {
    if let Some(connection) = cluster.open_node(order.node)
        && let Ok(version) = connection.version_up_to::<FetchAsk>(order.request.newest())
    {
        let deadline = patience.exchange_by();
        // It is forgotten after a while in any case.
        drop(connection.ask_in(version, &order.request, deadline).await);
    }
    TaskOutcome::SessionEnded
}

/// Looks up the leaders of partitions of one topic.
pub(super) async fn lead(
    cluster: Cluster,
    topic: Arc<str>,
    orders: Vec<LookupOrder>,
    patience: Patience,
) -> TaskOutcome {
    let topic = cluster.topic(&topic, patience.reach).await;
    TaskOutcome::Led { orders, topic }
}

/// Looks up offsets of partitions that one broker leads.
pub(super) async fn list_at(
    cluster: Cluster,
    node: i32,
    orders: Vec<LookupOrder>,
    committed: bool,
    patience: Patience,
) -> TaskOutcome {
    let wanted = orders.iter().filter_map(|order| match order.lookup {
        Lookup::Leader => None,
        Lookup::Offset(whence, leader) => {
            let leader_epoch = leader.epoch;
            let ask = ListAsk {
                whence,
                leader_epoch,
            };
            Some((order.place.clone(), ask))
        }
    });
    let wanted: BTreeMap<TopicPartition, ListAsk> = wanted.collect();
    let found = async {
        let connection = cluster.node(node, patience.reach).await?;
        list(&connection, &wanted, committed, patience.exchange_by()).await
    };
    let found = found.await;
    TaskOutcome::Listed { orders, found }
}

/// Asks the coordinator for the member. Over `aside` a farewell overtakes a join that waits.
pub(super) async fn ask_group(
    cluster: Cluster,
    aside: Option<Cluster>,
    settings: MemberSettings,
    request: GroupRequest,
    patience: Patience,
) -> TaskOutcome {
    let answer = async {
        let mut connection = coordinator(&cluster, &settings.group, patience).await?;
        if let (Some(aside), Some(node)) = (aside, connection.node()) {
            connection = aside.node(node, patience.reach).await?;
        }
        exchange::ask(&connection, &settings, request, patience.exchange_by()).await
    };
    TaskOutcome::Group(answer.await)
}

async fn coordinator(
    cluster: &Cluster,
    group: &str,
    patience: Patience,
) -> Result<Connection, ClientError> {
    let kind = CoordinatorKind::Group;
    cluster.coordinator(kind, group, patience.reach).await
}

/// Looks at topics; those that do not exist are left out.
pub(super) async fn see(
    cluster: Cluster,
    topics: BTreeSet<Arc<str>>,
    patience: Patience,
) -> TaskOutcome {
    // What is known may be what was not enough.
    for topic in &topics {
        cluster.stale(topic);
    }
    let mut seen = TopicsSeen::default();
    for name in &topics {
        match cluster.topic(name, patience.reach).await {
            Ok(topic) => {
                let size = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
                seen.names.insert(topic.id, Arc::clone(name));
                seen.sizes.insert(Arc::clone(name), size);
            }
            Err(ClientError::Refused(_)) => {}
            Err(error) => {
                let seen = Err(error);
                return TaskOutcome::Seen { topics, seen };
            }
        }
    }
    let seen = Ok(seen);
    TaskOutcome::Seen { topics, seen }
}

/// Asks where the group stands.
pub(super) async fn find_positions(
    cluster: Cluster,
    (group, identity): (String, Option<Identity>),
    places: Places,
    patience: Patience,
) -> TaskOutcome {
    let found = async {
        let connection = coordinator(&cluster, &group, patience).await?;
        let who = (group.as_str(), identity.as_ref());
        committed(&connection, who, &places, patience.exchange_by()).await
    };
    let found = found.await;
    TaskOutcome::Positions { places, found }
}

/// Commits.
pub(super) async fn commit_all(
    cluster: Cluster,
    committer: Committer,
    positions: BTreeMap<TopicPartition, Position>,
    patience: Patience,
) -> TaskOutcome {
    let stored = async {
        let connection = coordinator(&cluster, &committer.group, patience).await?;
        commit(&connection, &committer, &positions, patience.exchange_by()).await
    };
    TaskOutcome::Committed(stored.await)
}

/// Returns a refusal, if that is why there is no answer.
pub(super) fn refusal_of(error: &ClientError) -> Option<&Refusal> {
    match error {
        ClientError::Refused(refusal) => Some(refusal),
        _ => None,
    }
}
