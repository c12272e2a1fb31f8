//! What is wrong with a broker that runs: the reasons that `/readyz` names, and what each means for it.
//!
//! A reason that only degrades (a failed disk, a latched log, a coordinator that is out of service) leaves the broker ready:
//! everything else on it is served, and nobody else would serve it if this one were taken out of rotation or restarted. Not
//! ready is a broker that does not answer. Invariants: a name stands for one cause and is never reused; reasons are bounded in
//! number (one per name) and in length. Whoever knows of trouble says so in [`crate::shards::Assembly::reasons`].

use serde::Serialize;

/// Longest example, in characters.
const EXAMPLE_CHARS_MAX: usize = 300;

/// What a reason means for who asks whether to send requests here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Something is out of service; all else is served: 200.
    Degraded,
    /// Requests are not answered: 503.
    NotReady,
}

/// One cause of trouble.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reason {
    /// Its name, `snake_case`, for alerts.
    pub name: &'static str,
    /// What it means.
    pub effect: Effect,
    /// How many things it has met: logs, paths, slots.
    pub count: u64,
    /// One of them, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub example: String,
}

impl Reason {
    /// A cause that leaves the broker ready; `None` when there is nothing of it.
    pub fn degraded(name: &'static str, count: usize, example: impl Into<String>) -> Option<Self> {
        Self::of(name, Effect::Degraded, count, example)
    }

    /// A cause for which the broker does not answer; `None` when there is nothing of it.
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

/// What several shards say, as one: reasons of the same name are added up.
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
