//! Names of keys that tokens had and the set did not: whether one is worth asking the provider for.
//!
//! The names and the pause of each are Kafka's; that all of them together ask at most once in
//! [`ASK_PAUSE`] is ours: a stranger can make up any number of names.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Names that are remembered.
const NAMES_MAX: usize = 16;
/// How long one that was asked for is not asked for again.
const NAME_PAUSE: Duration = Duration::from_mins(1);
/// Least time between two questions because of a name.
const ASK_PAUSE: Duration = Duration::from_secs(10);

/// The names.
#[derive(Debug, Default)]
pub(super) struct MissingKeys {
    /// Names and when they were asked for, the oldest first.
    // Bounded: `NAMES_MAX`, of `keys::ID_BYTES_MAX` each.
    asked: VecDeque<(String, Instant)>,
}

impl MissingKeys {
    /// Returns true if the provider is to be asked for a set because of this name.
    pub(super) fn is_worth_asking(&mut self, id: &str, now: Instant) -> bool {
        let within = |asked: &Instant, pause| now.saturating_duration_since(*asked) < pause;
        let last = self.asked.back();
        if last.is_some_and(|(_, asked)| within(asked, ASK_PAUSE)) {
            return false;
        }
        self.asked.retain(|(_, asked)| within(asked, NAME_PAUSE));
        if self.asked.iter().any(|(known, _)| known == id) {
            return false;
        }
        if self.asked.len() >= NAMES_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((id.to_owned(), now));
        assert!(self.asked.len() <= NAMES_MAX, "an old name makes room");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_asked_for_once_a_minute_and_many_once_in_ten_seconds() {
        let mut missing = MissingKeys::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(missing.is_worth_asking("a", at(0)));
        assert!(!missing.is_worth_asking("a", at(1)));
        assert!(!missing.is_worth_asking("b", at(9)));
        assert!(missing.is_worth_asking("b", at(10)));
        assert!(!missing.is_worth_asking("a", at(30)));
        assert!(missing.is_worth_asking("a", at(60)));
    }

    #[test]
    fn made_up_names_are_no_load() {
        let mut missing = MissingKeys::default();
        let begin = Instant::now();
        let mut asked = 0;
        for tenth in 0..10_000 {
            let now = begin + Duration::from_millis(100 * tenth);
            asked += usize::from(missing.is_worth_asking(&tenth.to_string(), now));
            assert!(missing.asked.len() <= NAMES_MAX);
        }
        assert_eq!(asked, 100);
    }
}
