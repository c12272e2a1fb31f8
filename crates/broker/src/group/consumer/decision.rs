//! The input and the output of a decision on a consumer group.

use std::time::Duration;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::ahead::Job;
use super::record::ConsumerRecord;
use super::timer_change::TimerChange;
use crate::group::ClockReading;
use crate::group::assignor::Assignor;
use crate::group::cluster::Cluster;

/// Limits and behaviour of consumer groups, from the broker's settings.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerOptions {
    /// Session timeout, and the bounds of a group's own value.
    pub session_timeout_ms: BoundedValue,
    /// Heartbeat interval, and the bounds of a group's own value.
    pub heartbeat_interval_ms: BoundedValue,
    /// Least time between two target assignments, and the bounds of a group's own value.
    pub assignment_interval_ms: BoundedValue,
    /// Most members of a group (`group.consumer.max.size`).
    pub members_max: usize,
    /// The assignors that members may ask for; the first is the default.
    pub assignors: [Option<Assignor>; 2],
    /// Which groups may change their protocol while they have members.
    pub migration: MigrationPolicy,
}

/// A value with the bounds of a group's own value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundedValue {
    /// The broker's value.
    pub value: i32,
    /// Least value that a group may set.
    pub min: i32,
    /// Greatest value that a group may set.
    pub max: i32,
}

/// Which groups may change their protocol while they have members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MigrationPolicy {
    /// Both ways.
    Bidirectional,
    /// From classic to consumer.
    Upgrade,
    /// From consumer to classic.
    Downgrade,
    /// No group.
    Disabled,
}

impl MigrationPolicy {
    /// Returns the policy with this name, in any case.
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

    /// Returns true when classic groups may become consumer groups.
    pub const fn upgrades(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Upgrade)
    }

    /// Returns true when consumer groups may become classic groups.
    pub const fn downgrades(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Downgrade)
    }
}

impl ConsumerOptions {
    /// Returns Kafka's defaults.
    pub const fn kafka() -> Self {
        Self {
            session_timeout_ms: BoundedValue {
                value: 45_000,
                min: 45_000,
                max: 60_000,
            },
            heartbeat_interval_ms: BoundedValue {
                value: 5_000,
                min: 5_000,
                max: 15_000,
            },
            assignment_interval_ms: BoundedValue {
                value: 1_000,
                min: 0,
                max: 15_000,
            },
            members_max: usize::MAX,
            assignors: [Some(Assignor::Uniform), Some(Assignor::Range)],
            migration: MigrationPolicy::Bidirectional,
        }
    }

    /// Returns the assignor of members that ask for none.
    pub fn default_assignor(&self) -> Assignor {
        let first = self.assignors.iter().flatten().next();
        first.copied().unwrap_or(Assignor::Uniform)
    }

    /// Returns the settings that apply to one group.
    pub fn for_group(&self, group: &str, cluster: &dyn Cluster) -> Settings {
        let within = |bounds: BoundedValue, value: i32| value.min(bounds.max).max(bounds.min);
        let own = |name: &str, bounds: BoundedValue, value: i32| {
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

/// The settings that apply to one group.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Session timeout.
    pub session_timeout: Duration,
    /// Heartbeat interval in milliseconds.
    pub heartbeat_interval_ms: i32,
    /// Least time between two target assignments, in milliseconds.
    pub assignment_interval_ms: i64,
}

/// The input of a decision beside its request.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The cluster: topics and dynamic settings.
    pub cluster: &'a dyn Cluster,
    /// The broker's settings at start.
    pub options: ConsumerOptions,
    /// The settings that apply to the group.
    pub settings: Settings,
    /// The current time.
    pub now: ClockReading,
}

/// The output of a decision.
#[derive(Debug)]
pub struct Decision<A> {
    /// Records to append, in one batch.
    pub records: Vec<ConsumerRecord>,
    /// The answer to send when the records are in the log.
    pub answer: A,
    /// Changes of timers, which apply whether or not the records are written.
    pub timers: Vec<(StrBytes, TimerChange)>,
    /// The cluster version that the group's topics were compared with, and the group epoch then.
    pub(super) compared: Option<(i64, i32)>,
    /// The cluster version in which expressions were looked up, and the wall time then.
    pub(super) looked: Option<(i64, i64)>,
    /// True when there is a new target assignment.
    pub(super) retargeted: bool,
    /// A long computation, whose result a later decision uses.
    pub job: Option<Job>,
}

impl<A> Decision<A> {
    /// Creates a decision that changes nothing.
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

    /// Returns the same decision with another answer.
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

/// A refusal of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupRefusal {
    /// The error.
    pub code: ErrorCode,
    /// The message for a person.
    pub message: String,
}

impl GroupRefusal {
    /// Creates a refusal.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    pub(super) fn unknown_member(id: &str) -> Self {
        let message = format!("There is no member {id} in the group.");
        Self::new(ErrorCode::UnknownMemberId, message)
    }
}

/// Converts milliseconds to a duration; a negative number becomes zero.
pub(super) fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
