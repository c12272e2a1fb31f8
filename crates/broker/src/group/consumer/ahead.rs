//! What takes long to find out, made ahead: a target assignment of many partitions, the topics that many expressions
//! match.
//!
//! A shard is one thread, and a decision is made in one piece. One that would take long leaves out what takes long and
//! says so by a [`Job`]; the group goes on with the target that it has, as it does within
//! `group.consumer.assignment.interval.ms`. The job is done elsewhere, and the next heartbeat of any member finds its
//! result. One job of a group is under way at a time.
//!
//! Invariant: an assignment is used only for the group's epoch that it was made for, whose members it names; what was made
//! of an epoch that was never written is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use wire::protocol::StrBytes;

use super::pattern::Pattern;
use crate::group::assignor::{Assignor, Partitions, Question};
use crate::group::cluster::Cluster;

/// What is answered at once: some milliseconds' worth, by [`Question::weight`].
pub(super) const LITTLE_WEIGHT: usize = 20_000;
/// Expressions that are looked up at once: bytes of their text, of what is compiled, and of that for each name it is
/// compared with, which takes a tenth of a second at worst.
const TEXT_BYTES: usize = 4 << 10;
const COMPILED_BYTES: usize = 256 << 10;
const COMPARED_BYTES: usize = 32 << 20;

/// What everybody in a group is to have.
type Assignment = BTreeMap<StrBytes, Partitions>;
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
    Match(Vec<StrBytes>, Box<dyn Cluster + Send>),
}

/// What was found out.
pub struct Done {
    ticket: u64,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions, or as [`Ahead::assigned`].
    found: Result<(i32, Assignment), BTreeMap<StrBytes, Found>>,
}

/// What a group has of it.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Jobs of before the last change of this number are forgotten.
    ticket: u64,
    is_busy: bool,
    // Bounded: as the targets that it is to become, of a group of at most `groups::weight::GROUP_BYTES_MAX`.
    assigned: Option<(i32, Assignment)>,
    // Bounded: `groups::consumers::PATTERNS_MAX` expressions.
    found: BTreeMap<StrBytes, Found>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

impl Job {
    /// Does it, however long that takes.
    pub fn run(self) -> Done {
        let found = match self.what {
            What::Assign(epoch, assignor, question) => Ok((epoch, assignor.assign(&question))),
            What::Match(patterns, cluster) => {
                let look = |regex: StrBytes| {
                    // One that does not compile here was written by another broker, and matches nothing.
                    let topics = Pattern::compile(&regex).map_or_else(
                        |_| BTreeSet::new(),
                        |pattern| cluster.topics_where(&|name| pattern.matches(name)),
                    );
                    (regex, (topics, cluster.version()))
                };
                Err(patterns.into_iter().map(look).collect())
            }
        };
        let ticket = self.ticket;
        Done { ticket, found }
    }
}

impl Ahead {
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub(super) fn job(&self, what: What) -> Job {
        let ticket = self.ticket;
        Job { ticket, what }
    }

    /// A job has begun.
    pub(super) fn begin(&mut self) {
        self.is_busy = true;
    }

    pub(super) fn take_in(&mut self, done: Done) {
        if done.ticket != self.ticket {
            return;
        }
        self.is_busy = false;
        match done.found {
            Ok(assigned) => self.assigned = Some(assigned),
            Err(found) => self.found = found,
        }
    }

    /// The assignment that was made for an epoch.
    pub(super) fn assigned(&self, epoch: i32) -> Option<&Assignment> {
        let made = self.assigned.as_ref();
        made.filter(|(of, _)| *of == epoch).map(|(_, made)| made)
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
        *self = Self {
            ticket: self.ticket.wrapping_add(1),
            ..Self::default()
        };
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
