//! What is wrong with a running broker: the reasons that `/readyz` lists, and their effect.
//!
//! A reason that only degrades (a failed disk, a latched log, a coordinator that is out of service)
//! leaves the broker ready: it still serves everything else, which no other broker would serve if
//! this one were taken out of rotation or restarted. A broker that does not answer is not ready.
//! Invariants: a name stands for one cause and is never reused; reasons are bounded in number (one
//! per name) and in length. [`crate::shards::Assembly::reasons`] collects them.

use serde::Serialize;

/// Longest example, in characters.
const EXAMPLE_CHARS_MAX: usize = 300;

/// What a reason means for a client that asks whether to send requests here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Something is out of service, everything else is served: 200.
    Degraded,
    /// Requests are not answered: 503.
    NotReady,
}

/// One cause, with an example.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reason {
    /// Its name, `snake_case`, for alerts.
    pub name: &'static str,
    /// Its effect.
    pub effect: Effect,
    /// Number of things concerned: logs, paths, slots.
    pub count: u64,
    /// One of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub example: String,
}

impl Reason {
    /// A cause that leaves the broker ready; `None` if `count` is 0.
    pub fn degraded(name: &'static str, count: usize, example: impl Into<String>) -> Option<Self> {
        Self::of(name, Effect::Degraded, count, example)
    }

    /// A cause for which the broker does not answer; `None` if `count` is 0.
    pub fn not_ready(name: &'static str, count: usize, example: impl Into<String>) -> Option<Self> {
        Self::of(name, Effect::NotReady, count, example)
    }

    fn of(
        name: &'static str,
        effect: Effect,
        count: usize,
        example: impl Into<String>,
    ) -> Option<Self> {
        let mut example: String = example.into();
        if let Some((at, _)) = example.char_indices().nth(EXAMPLE_CHARS_MAX) {
            example.truncate(at);
        }
        (count > 0).then_some(Self {
            name,
            effect,
            count: count as u64,
            example,
        })
    }
}

/// Merges the reasons of several shards: counts of the same name are added up.
pub(crate) fn merged(each: impl IntoIterator<Item = Reason>) -> Vec<Reason> {
    let mut all: Vec<Reason> = Vec::new();
    for reason in each {
        match all.iter_mut().find(|known| known.name == reason.name) {
            Some(known) => known.count = known.count.saturating_add(reason.count),
            None => all.push(reason),
        }
    }
    all.sort_by_key(|reason| (std::cmp::Reverse(reason.effect), reason.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shards_say_is_added_up_and_the_worst_comes_first() {
        let of = |name, count| Reason::degraded(name, count, "one").unwrap();
        let stuck = Reason::not_ready("stuck", 1, "").unwrap();
        let all = merged([of("b", 2), of("a", 1), of("b", 3), stuck]);
        let told: Vec<_> = all
            .iter()
            .map(|reason| (reason.name, reason.count))
            .collect();
        assert_eq!(told, [("stuck", 1), ("a", 1), ("b", 5)]);
        assert_eq!(Reason::degraded("a", 0, ""), None);
    }

    #[test]
    fn an_example_is_cut_between_characters() {
        let long = "\u{e9}".repeat(EXAMPLE_CHARS_MAX + 1);
        let reason = Reason::degraded("a", 1, long).unwrap();
        assert_eq!(reason.example.chars().count(), EXAMPLE_CHARS_MAX);
    }
}
