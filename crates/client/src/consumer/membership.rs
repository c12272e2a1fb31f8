//! What a consumer knows of its membership.

use std::collections::BTreeSet;
use std::sync::Arc;

use platform::clock::Instant;
use tokio::task::AbortHandle;
use wire::types::Uuid;

use crate::error::ClientError;
use crate::group::assign::Strategy;
use crate::group::classic_protocol::ClassicMember;
use crate::group::consumer_protocol::ConsumerMember;
use crate::group::{Identity, Member, MemberSettings, Places};
use crate::pauses::Pauses;
use crate::settings::ClientSettings;

/// Partitions that the application is letting go of.
pub(super) struct LettingGo {
    pub(super) number: u64,
    pub(super) places: Places,
}

/// Partitions whose positions are not found yet.
#[derive(Default)]
pub(super) struct Finding {
    pub(super) places: Places,
    pub(super) is_asked: bool,
    pub(super) not_before: Option<Instant>,
    pub(super) failures: u32,
}

/// The membership.
pub(super) struct Membership {
    pub(super) settings: MemberSettings,
    pub(super) member: Member,
    /// What the member has, as the application knows it.
    pub(super) owned: Places,
    pub(super) letting_go: Option<LettingGo>,
    pub(super) revocations: u64,
    pub(super) finding: Finding,
    /// Topics that the member wants to know of, until they are looked at.
    pub(super) look: Option<(BTreeSet<Arc<str>>, Option<Instant>)>,
    pub(super) exchange: Option<AbortHandle>,
    /// The farewell overtakes a join that waits.
    pub(super) is_hasty: bool,
}

impl Membership {
    pub(super) fn new(
        client: &ClientSettings,
        topics: BTreeSet<String>,
        pauses: Pauses,
        random: (u64, u64),
        now: Instant,
    ) -> Result<Self, ClientError> {
        let group = &client.group;
        let invalid = |what: &str, reason: &str| ClientError::invalid(what, reason);
        let missing = || invalid("group.id", "a member of a group needs it");
        let strategies = group.strategies.iter().map(|name| {
            let strategy = Strategy::from_name(name);
            let reason = format!("there is no {name:?}");
            strategy.ok_or_else(|| invalid("partition.assignment.strategy", &reason))
        });
        let settings = MemberSettings {
            group: group.id.clone().ok_or_else(missing)?,
            instance_id: group.instance_id.clone(),
            rack: group.rack.clone(),
            topics: topics.into_iter().map(Arc::from).collect(),
            assignor: group.remote_assignor.clone(),
            strategies: strategies.collect::<Result<_, _>>()?,
            session_timeout: group.session_timeout,
            heartbeat_interval: group.heartbeat_interval,
            rebalance_timeout: group.max_poll_interval,
            metadata_max_age: client.metadata_max_age,
            pauses,
        };
        let member = if group.consumer_protocol {
            let id = Uuid::from_u64_pair(random.0, random.1);
            Member::Consumer(ConsumerMember::new(settings.clone(), id, now))
        } else {
            Member::Classic(ClassicMember::new(settings.clone(), now))
        };
        Ok(Self {
            settings,
            member,
            owned: Places::new(),
            letting_go: None,
            revocations: 0,
            finding: Finding::default(),
            look: None,
            exchange: None,
            is_hasty: false,
        })
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.member.identity()
    }
}
