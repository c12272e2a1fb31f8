//! The series that are stored, by client: at most a number of series and bytes, for each client
//! and for all clients of a shard.
//!
//! Pure. At the bound of the shard, an address that holds more than others gives way to them,
//! client by client; a client at its own bound, or for which no richer address gives way, keeps
//! what it has and gets no more.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use wire::types::Uuid;

use super::ledger::{Holder, Ledger};

/// The bounds of what is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Maximum series of one client.
    pub(super) client_series: usize,
    /// Maximum bytes of one client.
    pub(super) client_bytes: usize,
    /// Maximum series of all clients.
    pub(super) series: usize,
    /// Maximum bytes of all clients.
    pub(super) bytes: usize,
}

/// The memory of a series.
pub(super) trait SeriesMemory {
    /// Returns its bytes, with those of its containers.
    fn bytes(&self) -> usize;
}

/// The stored series.
pub(super) struct RetainedSeries<S> {
    bounds: Bounds,
    // Bounded: `keep`, by `telemetry::received::SERIES_MAX` and `telemetry::received::BYTES_MAX`.
    of: HashMap<Uuid, HashSet<S>>,
    ledger: Ledger,
    series: usize,
}

/// The outcome for a series.
#[derive(Debug)]
pub(super) struct Verdict<S> {
    /// True if it is stored.
    pub(super) is_kept: bool,
    /// The series of other clients that gave way.
    pub(super) given_up: Vec<S>,
}

impl<S: SeriesMemory + Hash + Eq + Clone> RetainedSeries<S> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            of: HashMap::new(),
            ledger: Ledger::default(),
            series: 0,
        }
    }

    /// Stores a series of a client.
    pub(super) fn keep(&mut self, id: Uuid, holder: Holder, series: &S) -> Verdict<S> {
        let verdict = |is_kept, given_up| Verdict { is_kept, given_up };
        let known = self.of.get(&id);
        if known.is_some_and(|known| known.contains(series)) {
            return verdict(true, Vec::new());
        }
        let bytes = series.bytes();
        let of_client = self.ledger.held_by_client(id).saturating_add(bytes);
        let is_full = known.is_some_and(|known| known.len() >= self.bounds.client_series);
        if is_full || of_client > self.bounds.client_bytes {
            return verdict(false, Vec::new());
        }
        let mut given_up = Vec::new();
        while !self.has_room(bytes) {
            let Some(other) = self.ledger.gives_way_to(holder, bytes) else {
                return verdict(false, given_up);
            };
            given_up.extend(self.forget(other));
        }
        self.ledger.heard(id, holder, bytes);
        self.of.entry(id).or_default().insert(series.clone());
        self.series = self.series.saturating_add(1);
        assert!(
            self.series <= self.bounds.series,
            "no more series than may be"
        );
        assert!(
            self.bytes() <= self.bounds.bytes,
            "no more bytes than may be"
        );
        verdict(true, given_up)
    }

    /// Removes a client, and returns its series.
    pub(super) fn forget(&mut self, id: Uuid) -> Vec<S> {
        self.ledger.remove(id);
        let gone: Vec<_> = self.of.remove(&id).into_iter().flatten().collect();
        assert!(self.series >= gone.len(), "the sum of what clients have");
        self.series = self.series.saturating_sub(gone.len());
        gone
    }

    /// Returns the number of stored series.
    pub(super) fn series(&self) -> usize {
        self.series
    }

    /// Returns the bytes of the stored series.
    pub(super) fn bytes(&self) -> usize {
        self.ledger.total()
    }

    fn has_room(&self, more: usize) -> bool {
        let bytes = self.ledger.total().saturating_add(more);
        bytes <= self.bounds.bytes && self.series < self.bounds.series
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        client_series: 4,
        client_bytes: 100,
        series: 12,
        bytes: 250,
    };

    type Series = (u128, u8, usize);

    impl SeriesMemory for Series {
        fn bytes(&self) -> usize {
            self.2
        }
    }

    fn holder(number: u8) -> Holder {
        Holder::of(Ipv4Addr::new(10, 0, 0, number).into())
    }

    fn keep(
        retained: &mut RetainedSeries<Series>,
        of: u8,
        client: u128,
        number: u8,
        bytes: usize,
    ) -> bool {
        let id = Uuid::from_u128(client);
        retained
            .keep(id, holder(of), &(client, number, bytes))
            .is_kept
    }

    #[test]
    fn who_comes_late_gets_a_share_and_keeps_it() {
        let mut retained = RetainedSeries::new(BOUNDS);
        // One address takes all the space, with three clients.
        for (client, number) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)] {
            assert!(keep(&mut retained, 1, client, number, 50));
        }
        assert!(
            !keep(&mut retained, 1, 4, 1, 50),
            "nobody of its own gives way"
        );
        let mut is_kept = |of, client, number| keep(&mut retained, of, client, number, 50);
        assert!(is_kept(2, 5, 1), "another address is let in");
        assert!(is_kept(1, 1, 1), "what is left may be had");
        assert!(!is_kept(1, 4, 1) && is_kept(2, 5, 2));
        assert!(is_kept(1, 2, 1));
        assert!(
            !is_kept(2, 6, 1) && !is_kept(1, 6, 1),
            "nobody is much richer"
        );
        assert!(is_kept(2, 5, 1) && is_kept(2, 5, 2));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_within_the_bounds_whatever_is_pushed(
            pushes in proptest::collection::vec((0..4_u8, 0..9_u128, 0..6_u8, 1..130_usize), 0..300)
        ) {
            let mut retained = RetainedSeries::new(BOUNDS);
            let mut shown = HashSet::new();
            for (of, client, number, bytes) in pushes {
                let series = (client, number, bytes);
                let verdict = retained.keep(Uuid::from_u128(client), holder(of), &series);
                for gone in verdict.given_up {
                    prop_assert!(shown.remove(&gone));
                }
                if verdict.is_kept {
                    shown.insert(series);
                }
                let bytes = shown.iter().map(|series| series.2).fold(0, usize::saturating_add);
                prop_assert_eq!((retained.series(), retained.bytes()), (shown.len(), bytes));
                prop_assert!(bytes <= BOUNDS.bytes && shown.len() <= BOUNDS.series);
                let of_client = shown.iter().filter(|series| series.0 == client);
                prop_assert!(of_client.clone().count() <= BOUNDS.client_series);
                prop_assert!(of_client.map(|series| series.2).fold(0, usize::saturating_add) <= BOUNDS.client_bytes);
            }
        }
    }
}
