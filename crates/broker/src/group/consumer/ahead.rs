//! Long computations, done ahead of the decision that needs them: the target assignment of many
//! partitions, and the topics that many expressions match.
//!
//! A shard is one thread, and a decision is not interrupted. A decision that would take too long
//! leaves the long part out and returns it as a [`Job`]; the group keeps its current target
//! meanwhile, as it does within `group.consumer.assignment.interval.ms`. The job runs on another
//! thread, and the next heartbeat of any member finds its result. A group has one job at a time.
//! Expressions are compared with names in pieces: a hundred of the worst expressions and ten
//! thousand names take hours, in which other jobs must have their turn and the broker must be able
//! to stop.
//!
//! A group whose members change faster than a job ends still gets every assignment, as the target
//! of the epoch that it was computed for: members that have left since are skipped, members that
//! have joined since wait for the next assignment, and a static member that rejoined under another
//! id gets its own target.
//!
//! Invariant: an assignment is used once, only as the target of the epoch that it was computed for,
//! and never after a later one; an assignment for an epoch that was never written is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::protocol::StrBytes;

use super::ConsumerGroup;
use super::member::Member;
use super::pattern::Pattern;
use crate::group::assignor::{Assignor, Partitions, Question, Subscriber};
use crate::group::cluster::Cluster;

/// Limits for expressions that the shard itself looks up: bytes of their text, bytes when compiled,
/// and compiled bytes times compared names, which take a tenth of a second at worst.
const TEXT_BYTES: usize = 4 << 10;
const COMPILED_BYTES: usize = 256 << 10;
const COMPARED_BYTES: usize = 32 << 20;

const _: () = assert!(
    TEXT_BYTES < COMPILED_BYTES && COMPILED_BYTES < COMPARED_BYTES,
    "each step takes more"
);

/// The target assignment of every member that was in a group at an epoch.
#[derive(Clone, Debug)]
pub(super) struct TargetAssignments {
    pub(super) epoch: i32,
    // Bounded: as the targets that it becomes, of a group of at most
    // `groups::weight::GROUP_BYTES_MAX`.
    targets: BTreeMap<StrBytes, Partitions>,
    /// Member id by instance id, at that epoch.
    // Bounded: as the targets, `groups::weight::GROUP_BYTES_MAX`.
    statics: BTreeMap<StrBytes, StrBytes>,
    /// The members that had an instance id.
    // Bounded: as the targets, `groups::weight::GROUP_BYTES_MAX`.
    named: BTreeSet<StrBytes>,
}

/// The topics that an expression matches, and the cluster version in which they were looked up.
pub(super) type RegexMatch = (BTreeSet<StrBytes>, i64);

/// A computation for another thread.
pub struct Job {
    ticket: u64,
    what: AheadTask,
}

pub(super) enum AheadTask {
    /// Compute a target assignment for a group epoch.
    Assign(i32, Assignor, Question),
    /// Find the topics that expressions match.
    Match(Box<RegexResolution>),
}

/// Expressions that are being compared with the names of all topics.
pub(super) struct RegexResolution {
    cluster: Box<dyn Cluster + Send>,
    /// Expressions that are not begun.
    patterns: Vec<StrBytes>,
    /// All topic names, once they are needed.
    names: Option<Vec<StrBytes>>,
    current: Option<RegexLookup>,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions.
    found: BTreeMap<StrBytes, RegexMatch>,
}

/// The expression that is being compared.
struct RegexLookup {
    regex: StrBytes,
    /// `None` if the expression does not compile here: another broker wrote it, and it matches
    /// nothing.
    pattern: Option<Pattern>,
    /// Number of names that it was compared with.
    compared: usize,
    // Bounded: the cluster's topics, once per expression; a group has one job, of at most
    // `groups::consumers::PATTERNS_MAX` expressions.
    topics: BTreeSet<StrBytes>,
}

/// The result of a job.
pub struct JobResult {
    ticket: u64,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions, or as [`AheadState::assigned`].
    found: Result<TargetAssignments, BTreeMap<StrBytes, RegexMatch>>,
}

/// The state of a group's job, and its results.
#[derive(Debug, Default)]
pub(super) struct AheadState {
    /// Ticket of the job that was begun last: results of other jobs are dropped.
    ticket: Option<u64>,
    is_busy: bool,
    // Bounded: as the targets that it becomes, of a group of at most
    // `groups::weight::GROUP_BYTES_MAX`.
    assigned: Option<TargetAssignments>,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions.
    found: BTreeMap<StrBytes, RegexMatch>,
}

/// Returns a ticket that no job of any group has had.
///
/// It is unique across groups because a new group may have the name of a deleted one.
fn new_ticket() -> u64 {
    static TICKETS: AtomicU64 = AtomicU64::new(0);
    TICKETS.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

impl Job {
    /// Continues the job until it is done or `is_over` returns true; then the rest is returned as a
    /// job.
    pub fn go_on(self, is_over: &dyn Fn() -> bool) -> Result<JobResult, Self> {
        let ticket = self.ticket;
        let found = match self.what {
            AheadTask::Assign(epoch, assignor, question) => {
                Ok(TargetAssignments::of(epoch, assignor, &question))
            }
            AheadTask::Match(mut matching) => {
                if !matching.go_on(is_over) {
                    let what = AheadTask::Match(matching);
                    return Err(Self { ticket, what });
                }
                Err(matching.found)
            }
        };
        Ok(JobResult { ticket, found })
    }
}

impl TargetAssignments {
    pub(super) fn of(epoch: i32, assignor: Assignor, question: &Question) -> Self {
        Self::from(epoch, assignor.assign(question), question)
    }

    /// Computes the same assignment, or returns `None` if that takes long.
    pub(super) fn at_once(epoch: i32, assignor: Assignor, question: &Question) -> Option<Self> {
        let targets = assignor.assign_at_once(question)?;
        Some(Self::from(epoch, targets, question))
    }

    fn from(epoch: i32, targets: BTreeMap<StrBytes, Partitions>, question: &Question) -> Self {
        let named =
            |(id, one): (&StrBytes, &Subscriber)| Some((one.instance_id.clone()?, id.clone()));
        let statics: BTreeMap<_, _> = question.members.iter().filter_map(named).collect();
        Self {
            epoch,
            targets,
            named: statics.values().cloned().collect(),
            statics,
        }
    }

    /// Returns the target of a member that was in the group at that epoch, under the same instance
    /// id or without one.
    ///
    /// An instance id has one member at a time, so no two members get the same target.
    pub(super) fn target(&self, id: &StrBytes, member: &Member) -> Option<&Partitions> {
        let then = match &member.instance_id {
            Some(instance) => self.statics.get(instance),
            None => Some(id).filter(|id| !self.named.contains(*id)),
        };
        // A new instance id may be that of a member that had none before: such a member gets no
        // target.
        self.targets.get(then?)
    }
}

impl RegexResolution {
    pub(super) fn of(patterns: Vec<StrBytes>, cluster: Box<dyn Cluster + Send>) -> Box<Self> {
        Box::new(Self {
            cluster,
            patterns,
            names: None,
            current: None,
            found: BTreeMap::new(),
        })
    }

    /// Continues the comparison; returns true when all expressions are done.
    fn go_on(&mut self, is_over: &dyn Fn() -> bool) -> bool {
        let all = || self.cluster.topics_where(&|_| true).into_iter().collect();
        let names = self.names.get_or_insert_with(all);
        let version = self.cluster.version();
        loop {
            let mut looking = match self.current.take() {
                Some(looking) => looking,
                None => match self.patterns.pop() {
                    Some(regex) => RegexLookup::by(regex),
                    None => return true,
                },
            };
            if looking.go_on(names, is_over) {
                let found = (looking.topics, version);
                self.found.insert(looking.regex, found);
            } else {
                self.current = Some(looking);
                return false;
            }
        }
    }
}

impl RegexLookup {
    fn by(regex: StrBytes) -> Self {
        Self {
            pattern: Pattern::compile(&regex).ok(),
            regex,
            compared: 0,
            topics: BTreeSet::new(),
        }
    }

    /// Continues the comparison; returns true when all names are done.
    fn go_on(&mut self, names: &[StrBytes], is_over: &dyn Fn() -> bool) -> bool {
        let Some(pattern) = &self.pattern else {
            return true;
        };
        for name in names.iter().skip(self.compared) {
            if pattern.matches(name) {
                self.topics.insert(name.clone());
            }
            self.compared = self.compared.saturating_add(1);
            if is_over() {
                return self.compared >= names.len();
            }
        }
        true
    }
}

impl ConsumerGroup {
    /// Takes in the result of a job.
    pub fn take_in(&mut self, done: JobResult) {
        self.ahead.take_in(done);
        // Members may subscribe by other expressions by now.
        let patterns = &self.index.patterns;
        let found = &mut self.ahead.found;
        found.retain(|regex, _| patterns.contains_key(regex));
    }

    /// Returns true while the group waits for the result of this job.
    pub fn awaits(&self, job: &Job) -> bool {
        self.ahead.is_busy && self.ahead.ticket == Some(job.ticket)
    }
}

impl AheadState {
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub(super) fn job(what: AheadTask) -> Job {
        let ticket = new_ticket();
        Job { ticket, what }
    }

    /// Notes that a job has begun.
    pub(super) fn begin(&mut self, job: &Job) {
        self.ticket = Some(job.ticket);
        self.is_busy = true;
    }

    pub(super) fn take_in(&mut self, done: JobResult) {
        if Some(done.ticket) != self.ticket {
            return;
        }
        self.is_busy = false;
        match done.found {
            Ok(assigned) => self.assigned = Some(assigned),
            // Results of earlier jobs stay: if two jobs find half of the expressions each, no job
            // alone would find all of them.
            Err(found) => self.found.extend(found),
        }
    }

    /// Returns the assignment for an epoch above `target` and not above `epoch`.
    pub(super) fn assigned(&self, target: i32, epoch: i32) -> Option<&TargetAssignments> {
        let made = self.assigned.as_ref();
        made.filter(|made| target < made.epoch && made.epoch <= epoch)
    }

    pub(super) fn found(&self, regex: &StrBytes) -> Option<&RegexMatch> {
        self.found.get(regex)
    }

    /// Drops the assignment, which has become the target or is not needed.
    pub(super) fn drop_assigned(&mut self) {
        self.assigned = None;
    }

    /// Drops the matches, after all expressions were looked up.
    pub(super) fn drop_found(&mut self) {
        self.found.clear();
    }

    /// Drops all results and abandons the current job.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Returns true when the shard itself can compile these expressions and compare them with this many
/// topic names.
pub(super) fn are_little(patterns: &BTreeSet<StrBytes>, topics: usize) -> bool {
    let texts = patterns.iter().map(|regex| regex.len());
    let names = patterns.len().saturating_mul(topics);
    let each = COMPARED_BYTES / names.max(1);
    // Repetitions make a short text large when compiled, so the size is known only by compiling it,
    // up to a limit.
    let compiled = each.min(COMPILED_BYTES / patterns.len().max(1));
    texts.fold(0, usize::saturating_add) <= TEXT_BYTES
        && patterns
            .iter()
            .all(|regex| Pattern::is_within(regex, compiled))
}
