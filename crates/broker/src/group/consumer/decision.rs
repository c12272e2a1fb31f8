//! What a decision is given, and what it gives.

use std::time::Duration;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::ahead::Job;
use super::record::ConsumerRecord;
use super::timer_change::TimerChange;
use crate::group::Now;
use crate::group::assignor::Assignor;
use crate::group::cluster::Cluster;

/// Limits and behaviour of consumer groups, as set for the broker.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerOptions {
    /// How long a member may be silent, and between what a group may set it.
    pub session_timeout_ms: Bounded,
    /// How often members are to be heard of.
    pub heartbeat_interval_ms: Bounded,
    /// Least time between two target assignments.
    pub assignment_interval_ms: Bounded,
    /// Members of a group.
    pub members_max: usize,
    /// The assignors that members may ask for, the first by default.
    pub assignors: [Option<Assignor>; 2],
    /// Which groups may change their protocol while members are in them.
    pub migration: MigrationPolicy,
}

/// A value with the bounds that a group's own value must keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounded {
    /// The broker's value.
    pub value: i32,
    /// Least that a group may set.
    pub min: i32,
    /// Most that a group may set.
    pub max: i32,
}

/// Which groups may change their protocol while members are in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MigrationPolicy {
    /// Both ways.
    Bidirectional,
    /// From classic to consumer.
    Upgrade,
    /// From consumer to classic.
    Downgrade,
    /// None.
    Disabled,
}

impl MigrationPolicy {
    /// The policy of that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        let all = [
            ("bidirectional", Self::Bidirectional),
            ("upgrade", Self::Upgrade),
            ("downgrade", Self::Downgrade),
            ("disabled", Self::Disabled),
        ];
        let mut all = all.into_iter();
        Some(all.find(|(word, _)| name.eq_ignore_ascii_case(word))?.1)
    }

    /// True when classic groups may become consumer groups.
    pub const fn upgrades(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Upgrade)
    }

    /// True when consumer groups may become classic groups.
    pub const fn downgrades(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Downgrade)
    }
}

impl ConsumerOptions {
    /// Kafka's defaults.
    pub const fn kafka() -> Self {
        Self {
            session_timeout_ms: Bounded {
                value: 45_000,
                min: 45_000,
                max: 60_000,
            },
            heartbeat_interval_ms: Bounded {
                value: 5_000,
                min: 5_000,
                max: 15_000,
            },
            assignment_interval_ms: Bounded {
                value: 1_000,
                min: 0,
                max: 15_000,
            },
            members_max: usize::MAX,
            assignors: [Some(Assignor::Uniform), Some(Assignor::Range)],
            migration: MigrationPolicy::Bidirectional,
        }
    }

    /// The assignor of members that ask for none.
    pub fn default_assignor(&self) -> Assignor {
        let first = self.assignors.iter().flatten().next();
        first.copied().unwrap_or(Assignor::Uniform)
    }

    /// What holds for one group.
    pub fn for_group(&self, group: &str, cluster: &dyn Cluster) -> Settings {
        let within = |bounds: Bounded, value: i32| value.min(bounds.max).max(bounds.min);
        let own = |name: &str, bounds: Bounded, value: i32| {
            let set = cluster.group_setting(group, name);
            let set = set.and_then(|set| i32::try_from(set).ok());
            set.map_or(value, |set| within(bounds, set))
        };
        let session = self.session_timeout_ms;
        let heartbeat = self.heartbeat_interval_ms;
        let interval = self.assignment_interval_ms;
        let changed = cluster.changed_setting("group.consumer.assignment.interval.ms");
        let changed = changed.and_then(|value| i32::try_from(value).ok());
        let changed = changed.map(|value| within(interval, value));
        let session = own("consumer.session.timeout.ms", session, session.value);
        let interval_ms = own(
            "consumer.assignment.interval.ms",
            interval,
            changed.unwrap_or(interval.value),
        );
        Settings {
            session_timeout: millis(session),
            heartbeat_interval_ms: own(
                "consumer.heartbeat.interval.ms",
                heartbeat,
                heartbeat.value,
            ),
            assignment_interval_ms: i64::from(interval_ms),
        }
    }
}

/// What holds for one group.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a member may be silent.
    pub session_timeout: Duration,
    /// How often members are to be heard of.
    pub heartbeat_interval_ms: i32,
    /// Least time between two target assignments.
    pub assignment_interval_ms: i64,
}

/// What a decision is given beside its request.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The topics, and what may be set at any time.
    pub cluster: &'a dyn Cluster,
    /// What the broker was told.
    pub options: ConsumerOptions,
    /// What holds for the group.
    pub settings: Settings,
    /// The time.
    pub now: Now,
}

/// What a decision gives.
#[derive(Debug)]
pub struct Decision<A> {
    /// What to append, at once.
    pub records: Vec<ConsumerRecord>,
    /// The answer, for when that is in the log.
    pub answer: A,
    /// What to do with timers, whatever becomes of the records.
    pub timers: Vec<(StrBytes, TimerChange)>,
    /// The version of the cluster that the group's topics were compared with, and its epoch then.
    pub(super) compared: Option<(i64, i32)>,
    /// The version that regular expressions were looked up in, and when.
    pub(super) looked: Option<(i64, i64)>,
    /// There is a new target.
    pub(super) retargeted: bool,
    /// What takes long to find out, for a later decision.
    pub job: Option<Job>,
}

impl<A> Decision<A> {
    /// A decision that changes nothing.
    pub fn of(answer: A) -> Self {
        Self {
            records: Vec::new(),
            answer,
            timers: Vec::new(),
            compared: None,
            looked: None,
            retargeted: false,
            job: None,
        }
    }

    /// The same with another answer.
    pub(super) fn with<B>(self, answer: B) -> Decision<B> {
        Decision {
            records: self.records,
            answer,
            timers: self.timers,
            compared: self.compared,
            looked: self.looked,
            retargeted: self.retargeted,
            job: self.job,
        }
    }
}

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The error.
    pub code: ErrorCode,
    /// What a person is told.
    pub message: String,
}

impl Refused {
    /// An error with words.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    pub(super) fn unknown_member(id: &str) -> Self {
        let message = format!("There is no member {id} in the group.");
        Self::new(ErrorCode::UnknownMemberId, message)
    }
}

/// Milliseconds as a duration; a negative time is none.
pub(super) fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
