//! The logs that a start finds in the directories, identified by their name and the id of their
//! topic.
//!
//! A folder may belong to a deleted topic whose name another topic has taken since: its deletion
//! failed, or was interrupted. Invariant: such a folder neither replaces the other topic's log, nor
//! affects it. A folder without a topic id may belong to any topic, unless another folder has that
//! topic's id.

use std::collections::BTreeMap;

use wire::types::{TopicId, TopicPartition};

/// Where a log was found, and its topic, if that could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Log {
    /// Index of the directory.
    pub(super) index: usize,
    pub(super) id: Option<TopicId>,
}

/// All logs, by name, in the order of the directories.
#[derive(Default, Debug)]
// Unbounded: the folders of the log directories, found once at the start.
pub(super) struct FoundLogs(BTreeMap<TopicPartition, Vec<Log>>);

impl FoundLogs {
    pub(super) fn note(&mut self, name: TopicPartition, log: Log) {
        self.0.entry(name).or_default().push(log);
    }

    pub(super) fn forget(&mut self, name: &TopicPartition, log: Log) {
        if let Some(logs) = self.0.get_mut(name) {
            logs.retain(|other| *other != log);
        }
    }

    /// Returns true if the log is still listed.
    pub(super) fn has(&self, name: &TopicPartition, log: Log) -> bool {
        let logs = self.0.get(name);
        logs.is_some_and(|logs| logs.contains(&log))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&TopicPartition, Log)> + Clone {
        let all = self.0.iter();
        all.flat_map(|(name, logs)| logs.iter().map(move |log| (name, *log)))
    }

    /// Returns the log of a topic.
    pub(super) fn of(&self, topic_id: TopicId, name: &TopicPartition) -> Option<Log> {
        let logs = || self.0.get(name).into_iter().flatten();
        let its = logs().find(|log| log.id == Some(topic_id));
        its.or_else(|| logs().find(|log| log.id.is_none())).copied()
    }

    pub(super) fn any_of(&self, name: &TopicPartition) -> Option<Log> {
        self.0.get(name)?.first().copied()
    }

    /// Returns each pair in different directories that may be the same log: of one topic, or with
    /// one or both of unknown topic.
    pub(super) fn twins(&self) -> Vec<(TopicPartition, Log, Log)> {
        let mut twins = Vec::new();
        for (name, logs) in &self.0 {
            for (at, one) in logs.iter().enumerate() {
                let others = logs.iter().skip(at.saturating_add(1));
                let same =
                    |other: &&Log| one.id == other.id || one.id.is_none() || other.id.is_none();
                twins.extend(
                    others
                        .filter(same)
                        .map(|other| (name.clone(), *one, *other)),
                );
            }
        }
        twins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_its_topics_and_one_that_says_nothing_is_anybodys_who_has_no_other() {
        let name = TopicPartition {
            topic: "t".into(),
            partition: 0,
        };
        let id = |id| TopicId(wire::types::Uuid::from_u128(id));
        let log = |index, id| Log { index, id };
        let mut found = FoundLogs::default();
        found.note(name.clone(), log(0, Some(id(1))));
        assert_eq!(found.of(id(2), &name), None);
        found.note(name.clone(), log(1, Some(id(2))));
        assert_eq!(found.of(id(1), &name), Some(log(0, Some(id(1)))));
        assert_eq!(found.of(id(2), &name), Some(log(1, Some(id(2)))));
        assert!(found.twins().is_empty());
        found.note(name.clone(), log(2, None));
        assert_eq!(found.of(id(2), &name), Some(log(1, Some(id(2)))));
        assert_eq!(found.of(id(3), &name), Some(log(2, None)));
        assert_eq!(found.twins().len(), 2);
        found.forget(&name, log(2, None));
        assert_eq!(found.of(id(3), &name), None);
    }
}
