//! When to warn that a certificate expires. Pure.

/// How many days before it expires there is a warning; after that, once more when it has.
const WARNED_DAYS: [i64; 4] = [1, 7, 14, 30];
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The certificates of a set, and what has been said about them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expiry {
    /// When the first of them expires, as Unix time; `None` if it is not known.
    pub(super) at: Option<i64>,
    /// The days of the last warning.
    said: Option<i64>,
}

impl Expiry {
    /// Certificates of which nothing has been said.
    pub(super) fn at(at: Option<i64>) -> Self {
        Self { at, said: None }
    }

    /// Returns within how many days they expire, if that is to be said now; 0 if they have.
    pub(super) fn due(&mut self, now: i64) -> Option<i64> {
        let left = self.at?.saturating_sub(now);
        let within = |days: &i64| left <= days.saturating_mul(DAY_SECONDS);
        let days = if left <= 0 {
            0
        } else {
            WARNED_DAYS.into_iter().find(within)?
        };
        // A clock that is set back says nothing again.
        if self.said.is_some_and(|said| said <= days) {
            return None;
        }
        self.said = Some(days);
        Some(days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_warning_comes_once_and_a_start_says_only_the_last() {
        let at = 1_800_000_000;
        let mut expiry = Expiry::at(Some(at));
        let mut said = Vec::new();
        for hours in (-48..40 * 24).rev() {
            said.extend(expiry.due(at - hours * 3600));
        }
        assert_eq!(said, [30, 14, 7, 1, 0]);
        assert_eq!(
            expiry.due(at - 10 * DAY_SECONDS),
            None,
            "the clock was set back"
        );
        let mut late = Expiry::at(Some(at));
        assert_eq!(late.due(at - 3 * DAY_SECONDS), Some(7));
        assert_eq!(Expiry::at(Some(at)).due(at), Some(0));
        assert_eq!(Expiry::at(None).due(at), None);
        assert_eq!(Expiry::at(Some(i64::MIN)).due(i64::MAX), Some(0));
    }
}
