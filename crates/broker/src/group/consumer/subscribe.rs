//! The first step of a decision: takes in the member's data, looks up expressions and raises the
//! group epoch if needed.
//!
//! The epoch grows when a member subscribes by other names or another expression, when an
//! expression matches other topics than before, and when the topics change (their hash).
//! Expressions are looked up with the heartbeat after the one that brings them, and again when the
//! cluster has changed, but at most every ten seconds. Long lookups run ahead ([`super::ahead`]).

use std::collections::BTreeSet;

use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::ahead::{AheadState, AheadTask, RegexResolution, are_little};
use super::draft::Draft;
use super::pattern::Pattern;
use super::record::{ConsumerRecord, Epoch, ResolvedRegex};
use super::{GroupRefusal, Member};
use crate::group::metadata_hash;

/// Least time between two lookups of the same expressions.
const LOOK_INTERVAL_MS: i64 = 10_000;

impl Draft<'_> {
    /// Takes in the data that the member sends about itself.
    pub(super) fn subscribe(&mut self, member: Member) -> Result<(), GroupRefusal> {
        let resubscribed = member.topics != self.before.topics || member.regex != self.before.regex;
        let is_new = self.group.member(&self.id).is_none() && self.replaced.is_none();
        if member != self.before || is_new {
            let record = ConsumerRecord::Member(self.id.clone(), Some(member.clone()));
            self.decision.records.push(record);
        }
        self.member = member;
        self.resubscribed = resubscribed;
        let is_unknown = self.names_unknown_expression()?;
        let matches_differ = self.look_up(is_unknown)?;
        let renamed = self.member.topics != self.before.topics;
        self.raise_epoch(renamed || (resubscribed && !is_unknown) || matches_differ);
        Ok(())
    }

    /// Returns true when the member brings an expression that no member has subscribed by so far.
    ///
    /// It is only compiled now, and looked up with the next heartbeat, as in Kafka: until then the
    /// member is in the group and reads nothing by the expression.
    fn names_unknown_expression(&self) -> Result<bool, GroupRefusal> {
        let regex = &self.member.regex;
        let is_new = !regex.is_empty() && *regex != self.before.regex;
        if !is_new || self.group.matched(regex).is_some() {
            return Ok(false);
        }
        Pattern::compile(regex).map_err(|reason| {
            let message = format!("{regex:?} is not a regular expression: {reason}.");
            GroupRefusal::new(ErrorCode::InvalidRegularExpression, message)
        })?;
        Ok(true)
    }

    /// Drops an expression without subscribers and looks up new ones.
    ///
    /// Returns true when any expression matches other topics than before.
    fn look_up(&mut self, later: bool) -> Result<bool, GroupRefusal> {
        let patterns: BTreeSet<StrBytes> = self.patterns().into_iter().cloned().collect();
        let old = &self.before.regex;
        if !old.is_empty() && !patterns.contains(old) && self.group.matched(old).is_some() {
            let record = ConsumerRecord::Regex(old.clone(), None);
            self.decision.records.push(record);
        }
        let unknown = |regex: &&StrBytes| self.group.matched(regex).is_none();
        let mut asked: BTreeSet<StrBytes> = if self.looks_are_stale() {
            patterns
        } else {
            patterns.iter().filter(unknown).cloned().collect()
        };
        if later {
            asked.remove(&self.member.regex);
        }
        if asked.is_empty() {
            return Ok(false);
        }
        let now_ms = self.ask.now.wall_ms;
        let at_once = self.are_looked_up_at_once(&asked);
        let mut oldest = self.ask.cluster.version();
        let mut differ = false;
        for regex in asked {
            let found = self.group.ahead.found(&regex).cloned();
            let (topics, version) = match found {
                Some(found) => found,
                None if at_once => (self.topics_matching(&regex)?, oldest),
                None => continue,
            };
            oldest = oldest.min(version);
            let known = self.group.matched(&regex).map(|matched| &matched.topics);
            if known == Some(&topics) {
                continue;
            }
            differ |= known.is_some() || !topics.is_empty();
            let matched = ResolvedRegex {
                topics,
                version,
                looked_ms: now_ms,
            };
            let record = ConsumerRecord::Regex(regex.clone(), Some(matched.clone()));
            self.decision.records.push(record);
            self.fresh.insert(regex, matched);
        }
        if at_once {
            self.decision.looked = Some((oldest, now_ms));
        }
        Ok(differ)
    }

    /// Returns true when all unknown expressions can be looked up now; otherwise begins a job for
    /// them.
    fn are_looked_up_at_once(&mut self, asked: &BTreeSet<StrBytes>) -> bool {
        let ahead = &self.group.ahead;
        let unknown = asked.iter().filter(|regex| ahead.found(regex).is_none());
        let unknown: BTreeSet<StrBytes> = unknown.cloned().collect();
        if are_little(&unknown, self.ask.cluster.topic_count()) {
            return true;
        }
        if !ahead.is_busy() && self.decision.job.is_none() {
            let patterns = unknown.into_iter().collect();
            let what = AheadTask::Match(RegexResolution::of(patterns, self.ask.cluster.snapshot()));
            self.decision.job = Some(AheadState::job(what));
        }
        false
    }

    fn looks_are_stale(&self) -> bool {
        let now_ms = self.ask.now.wall_ms;
        match self.group.looked {
            None => true,
            // A wall clock that was set back also makes them stale.
            Some((version, at)) => {
                version != self.ask.cluster.version()
                    && !(at..=at.saturating_add(LOOK_INTERVAL_MS)).contains(&now_ms)
            }
        }
    }

    /// Returns the topics that an expression matches.
    ///
    /// An expression of another member that does not compile here was written by another broker,
    /// and matches nothing.
    fn topics_matching(&self, regex: &StrBytes) -> Result<BTreeSet<StrBytes>, GroupRefusal> {
        match Pattern::compile(regex) {
            Ok(pattern) => {
                let test = |name: &str| pattern.matches(name);
                Ok(self.ask.cluster.topics_where(&test))
            }
            Err(reason) if *regex == self.member.regex => Err(GroupRefusal::new(
                ErrorCode::InvalidRegularExpression,
                format!("{regex:?} is not a regular expression: {reason}."),
            )),
            Err(_) => Ok(BTreeSet::new()),
        }
    }

    fn raise_epoch(&mut self, needed: bool) {
        let version = self.ask.cluster.version();
        let compared = self
            .group
            .compared
            .is_some_and(|(at, epoch)| at == version && epoch <= self.group.epoch());
        if !needed && compared {
            return;
        }
        let hash = metadata_hash::of(&self.topics(), self.ask.cluster);
        if needed || hash != self.group.metadata_hash() {
            self.epoch = self.group.epoch().saturating_add(1);
            let epoch = Epoch {
                epoch: self.epoch,
                metadata_hash: hash,
            };
            let record = ConsumerRecord::Epoch(Some(epoch));
            self.decision.records.push(record);
        }
        if self.group.old_topics.latest().is_some() {
            self.decision.records.push(ConsumerRecord::OldTopics(None));
        }
        self.decision.compared = Some((version, self.epoch));
    }
}
