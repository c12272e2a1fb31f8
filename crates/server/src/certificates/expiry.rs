//! When to warn that a certificate expires. Pure.

/// How many days before it expires there is a warning; after that, once more when it has.
const WARNED_DAYS: [i64; 4] = [1, 7, 14, 30];
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What has been said about the certificates of a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct ExpiryWarnings {
    /// The days of the last warning.
    said: Option<i64>,
}

impl ExpiryWarnings {
    /// Returns within how many days what is valid until `not_after` expires, if that is to be said
    /// now; 0 if it has expired. Times are in seconds.
    pub(super) fn due(&mut self, not_after: i64, now: i64) -> Option<i64> {
        let left = not_after.saturating_sub(now);
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
        let mut warnings = ExpiryWarnings::default();
        let mut said = Vec::new();
        for hours in (-48..40 * 24).rev() {
            said.extend(warnings.due(at, at - hours * 3600));
        }
        assert_eq!(said, [30, 14, 7, 1, 0]);
        let back = warnings.due(at, at - 10 * DAY_SECONDS);
        assert_eq!(back, None, "the clock was set back");
        let mut late = ExpiryWarnings::default();
        assert_eq!(late.due(at, at - 3 * DAY_SECONDS), Some(7));
        assert_eq!(ExpiryWarnings::default().due(at, at), Some(0));
        assert_eq!(
            ExpiryWarnings::default().due(i64::MIN, i64::MAX),
            Some(0),
            "no time overflows"
        );
    }
}
