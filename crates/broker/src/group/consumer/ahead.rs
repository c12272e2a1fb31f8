//! What takes long to find out, made ahead: a target assignment of many partitions, the topics that many expressions
//! match.
//!
//! A shard is one thread, and a decision is made in one piece. One that would take long leaves out what takes long and
//! says so by a [`Job`]; the group goes on with the target that it has, as it does within
//! `group.consumer.assignment.interval.ms`. The job is done elsewhere, and the next heartbeat of any member finds its
//! result. One job of a group is under way at a time. Expressions are compared with names in pieces: a hundred of the
//! worst and ten thousand names take hours, in which others must have their turn and a broker must be able to stop.
//!
//! A group whose members come and go faster than that gets every assignment all the same, as the target of the epoch that it
//! was made for: who has left since is left out, who has come since waits for the next one, and a static member that has come
//! back under another id takes its own.
//!
//! Invariant: an assignment is used only as the target of the epoch that it was made for, once, and never after a later one;
//! what was made of an epoch that was never written is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::protocol::StrBytes;

use super::ConsumerGroup;
use super::member::Member;
use super::pattern::Pattern;
use crate::group::assignor::{Assignor, Partitions, Question, Subscriber};
use crate::group::cluster::Cluster;

/// Expressions that are looked up at once: bytes of their text, of what is compiled, and of that for each name it is
/// compared with, which takes a tenth of a second at worst.
const TEXT_BYTES: usize = 4 << 10;
const COMPILED_BYTES: usize = 256 << 10;
const COMPARED_BYTES: usize = 32 << 20;

const _: () = assert!(
    TEXT_BYTES < COMPILED_BYTES && COMPILED_BYTES < COMPARED_BYTES,
    "each step takes more"
);

/// What everybody who was in a group at an epoch is to have.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) epoch: i32,
    // Bounded: as the targets that it is to become, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    targets: BTreeMap<StrBytes, Partitions>,
    /// Member id by instance id, then.
    // Bounded: as the targets, `groups::weight::GROUP_BYTES_MAX`.
    statics: BTreeMap<StrBytes, StrBytes>,
    /// Those of them that had an instance id.
    // Bounded: as the targets, `groups::weight::GROUP_BYTES_MAX`.
    named: BTreeSet<StrBytes>,
}

/// The topics that an expression matches, and the version of the cluster whose topics these are.
pub(super) type Found = (BTreeSet<StrBytes>, i64);

/// What is to be found out elsewhere.
pub struct Job {
    ticket: u64,
    what: What,
}

pub(super) enum What {
    /// A target assignment for an epoch of the group.
    Assign(i32, Assignor, Question),
    /// What expressions match.
    Match(Box<Matching>),
}

/// Expressions that are being compared with the names of all topics.
pub(super) struct Matching {
    cluster: Box<dyn Cluster + Send>,
    /// Expressions that are left.
    patterns: Vec<StrBytes>,
    /// All names, once they are needed.
    names: Option<Vec<StrBytes>>,
    current: Option<Looking>,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions.
    found: BTreeMap<StrBytes, Found>,
}

/// An expression that is being compared.
struct Looking {
    regex: StrBytes,
    /// One that does not compile here was written by another broker, and matches nothing.
    pattern: Option<Pattern>,
    /// Names that it was compared with.
    compared: usize,
    // Bounded: lives with a job, of which a group has one: `groups::consumers::PATTERNS_MAX` of them at most, of all topics.
    topics: BTreeSet<StrBytes>,
}

/// What was found out.
pub struct Done {
    ticket: u64,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions, or as [`Ahead::assigned`].
    found: Result<Made, BTreeMap<StrBytes, Found>>,
}

/// What a group has of it.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Number of the job that was begun last: what comes of others is not used.
    ticket: Option<u64>,
    is_busy: bool,
    // Bounded: as the targets that it is to become, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    assigned: Option<Made>,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions.
    found: BTreeMap<StrBytes, Found>,
}

/// A number that no job of any group has had: a group that is gone may have had the name of another.
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
    /// Goes on with it until it is done or `is_over` says so; the rest is another job.
    pub fn go_on(self, is_over: &dyn Fn() -> bool) -> Result<Done, Self> {
        let ticket = self.ticket;
        let found = match self.what {
            What::Assign(epoch, assignor, question) => Ok(Made::of(epoch, assignor, &question)),
            What::Match(mut matching) => {
                if !matching.go_on(is_over) {
                    let what = What::Match(matching);
                    return Err(Self { ticket, what });
                }
                Err(matching.found)
            }
        };
        Ok(Done { ticket, found })
    }
}

impl Made {
    pub(super) fn of(epoch: i32, assignor: Assignor, question: &Question) -> Self {
        Self::from(epoch, assignor.assign(question), question)
    }

    /// The same, if it does not take long.
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

    /// What a member is to have, if it was in the group then: as the same instance, or as none. Of an instance there is one member
    /// at a time, so no two have the target of one.
    pub(super) fn target(&self, id: &StrBytes, member: &Member) -> Option<&Partitions> {
        let then = match &member.instance_id {
            Some(instance) => self.statics.get(instance),
            None => Some(id).filter(|id| !self.named.contains(*id)),
        };
        // An instance that is new may be of a member that was there without one, which keeps nothing of it.
        self.targets.get(then?)
    }
}

impl Matching {
    pub(super) fn of(patterns: Vec<StrBytes>, cluster: Box<dyn Cluster + Send>) -> Box<Self> {
        Box::new(Self {
            cluster,
            patterns,
            names: None,
            current: None,
            found: BTreeMap::new(),
        })
    }

    /// True when nothing is left.
    fn go_on(&mut self, is_over: &dyn Fn() -> bool) -> bool {
        let all = || self.cluster.topics_where(&|_| true).into_iter().collect();
        let names = self.names.get_or_insert_with(all);
        let version = self.cluster.version();
        loop {
            let mut looking = match self.current.take() {
                Some(looking) => looking,
                None => match self.patterns.pop() {
                    Some(regex) => Looking::by(regex),
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

impl Looking {
    fn by(regex: StrBytes) -> Self {
        Self {
            pattern: Pattern::compile(&regex).ok(),
            regex,
            compared: 0,
            topics: BTreeSet::new(),
        }
    }

    /// True when it was compared with all names.
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
    /// Takes in what was found out elsewhere.
    pub fn take_in(&mut self, done: Done) {
        self.ahead.take_in(done);
        // Members may have gone on to others meanwhile.
        let patterns = &self.index.patterns;
        let found = &mut self.ahead.found;
        found.retain(|regex, _| patterns.contains_key(regex));
    }

    /// True while it waits for what the job finds out.
    pub fn awaits(&self, job: &Job) -> bool {
        self.ahead.is_busy && self.ahead.ticket == Some(job.ticket)
    }
}

impl Ahead {
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub(super) fn job(what: What) -> Job {
        let ticket = new_ticket();
        Job { ticket, what }
    }

    /// A job has begun.
    pub(super) fn begin(&mut self, job: &Job) {
        self.ticket = Some(job.ticket);
        self.is_busy = true;
    }

    pub(super) fn take_in(&mut self, done: Done) {
        if Some(done.ticket) != self.ticket {
            return;
        }
        self.is_busy = false;
        match done.found {
            Ok(assigned) => self.assigned = Some(assigned),
            // Beside what was found before: where two jobs find half of it each, nothing would ever be found whole.
            Err(found) => self.found.extend(found),
        }
    }

    /// The assignment that was made for an epoch behind `target`, and not behind `epoch`.
    pub(super) fn assigned(&self, target: i32, epoch: i32) -> Option<&Made> {
        let made = self.assigned.as_ref();
        made.filter(|made| target < made.epoch && made.epoch <= epoch)
    }

    pub(super) fn found(&self, regex: &StrBytes) -> Option<&Found> {
        self.found.get(regex)
    }

    /// A target has been decided on, or is not needed any more.
    pub(super) fn drop_assigned(&mut self) {
        self.assigned = None;
    }

    /// All expressions have been looked up.
    pub(super) fn drop_found(&mut self) {
        self.found.clear();
    }

    /// Nothing that was or is being found out is of use.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// True when expressions can be compiled, and compared with the names of so many topics, at once.
pub(super) fn are_little(patterns: &BTreeSet<StrBytes>, topics: usize) -> bool {
    let texts = patterns.iter().map(|regex| regex.len());
    let names = patterns.len().saturating_mul(topics);
    let each = COMPARED_BYTES / names.max(1);
    // Repetitions make much of little text: how large they are is known by compiling them, up to a size.
    let compiled = each.min(COMPILED_BYTES / patterns.len().max(1));
    texts.fold(0, usize::saturating_add) <= TEXT_BYTES
        && patterns
            .iter()
            .all(|regex| Pattern::is_within(regex, compiled))
}
