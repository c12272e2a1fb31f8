//! What clients have used, for those that this shard counts for.
//!
//! Bounded: who has used nothing for as long as usage is remembered is forgotten, whenever the
//! table has doubled since it was last looked through.

use std::collections::HashMap;
use std::time::Duration;

use platform::clock::Instant;

use super::limits::Bucket;
use super::rate::{Rate, Windows};

/// Entries below which nobody is looked for to be forgotten.
const SWEEP_MIN: usize = 1024;

/// What is done with an amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Charge {
    /// It was used, whatever the quota says.
    Used,
    /// It is used only if the quota allows it.
    IfAllowed,
    /// It is not going to be used: what would it have cost?
    Never,
}

/// The meters of one shard.
#[derive(Default, Debug)]
pub(crate) struct Meters {
    rates: HashMap<Bucket, Rate>,
    sweep_at: usize,
}

impl Meters {
    /// Charges an amount, and says how long to wait.
    pub(crate) fn charge(
        &mut self,
        bucket: Bucket,
        limit: f64,
        windows: Windows,
        amount: f64,
        charge: Charge,
        now: Instant,
    ) -> Duration {
        self.sweep(windows, now);
        let rate = self.rates.entry(bucket).or_default();
        rate.add(windows, amount, now);
        let pause = rate.pause(windows, limit, now);
        let used = match charge {
            Charge::Used => true,
            Charge::IfAllowed => pause.is_zero(),
            Charge::Never => false,
        };
        if !used {
            rate.add(windows, -amount, now);
        }
        pause
    }

    fn sweep(&mut self, windows: Windows, now: Instant) {
        if self.rates.len() < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        let span = windows.span();
        self.rates.retain(|_, rate| {
            rate.touched()
                .is_some_and(|touched| now.saturating_duration_since(touched) < span)
        });
        self.sweep_at = self.rates.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::QuotaTable;
    use crate::quota::{Kind, Limits};

    const WINDOWS: Windows = Windows {
        samples: 11,
        window: Duration::from_secs(1),
    };

    fn bucket(client: &str) -> Bucket {
        let entity = [("client-id".to_owned(), None)].into();
        let quotas = [(Kind::Produce.key().to_owned(), 1.0)].into();
        let limits = Limits::new(&QuotaTable::from([(entity, quotas)]));
        limits.find(Kind::Produce, "u", client).unwrap().0
    }

    #[test]
    fn what_is_refused_is_not_counted() {
        let now = Instant::now();
        let mut meters = Meters::default();
        let mut charge =
            |amount: f64, how| meters.charge(bucket("a"), 100.0, WINDOWS, amount, how, now);
        assert!(charge(2000.0, Charge::IfAllowed) > Duration::ZERO);
        assert!(charge(2000.0, Charge::Never) > Duration::ZERO);
        assert_eq!(charge(900.0, Charge::IfAllowed), Duration::ZERO);
        assert!(charge(200.0, Charge::Used) > Duration::ZERO);
        assert!(charge(1.0, Charge::Used) > Duration::ZERO);
    }

    #[test]
    fn clients_that_have_gone_are_forgotten() {
        let start = Instant::now();
        let mut meters = Meters::default();
        for number in 0..20_000_u32 {
            let now = start + Duration::from_millis(100) * number;
            let client = bucket(&number.to_string());
            meters.charge(client, 100.0, WINDOWS, 1.0, Charge::Used, now);
            assert!(meters.rates.len() <= SWEEP_MIN + 1);
        }
    }
}
