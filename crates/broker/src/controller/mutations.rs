//! The quota of changes: how many partitions a client may create and delete, a second (KIP-599).
//!
//! New versions of the requests are held to it strictly: what comes after the tokens are used up is
//! refused, and what is granted is not held back. Old versions do not know the refusal: they are
//! granted everything, and wait.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use platform::clock::Instant;
use wire::StrBytes;
use wire::types::ErrorCode;

use super::{Refusal, Rules};
use crate::quota::{ANONYMOUS, Bucket, Kind, Limits, TokenBucket, Windows};

/// Clients whose tokens are remembered before those that have all of theirs are forgotten.
const CLIENTS_MAX: usize = 1024;

/// Who asks for a change.
#[derive(Clone, Debug)]
pub struct Caller {
    /// What the client calls itself.
    pub client_id: StrBytes,
    /// It understands that its quota is used up.
    pub strict: bool,
}

/// The tokens of every client, as far as they are not all there.
#[derive(Default, Debug)]
pub(crate) struct Mutations {
    buckets: RefCell<HashMap<Bucket, TokenBucket>>,
}

/// What one request may change.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    limited: Option<Limited<'a>>,
    pause: Cell<Duration>,
}

#[derive(Debug)]
struct Limited<'a> {
    mutations: &'a Mutations,
    bucket: Bucket,
    limit: f64,
    windows: Windows,
    strict: bool,
    now: Instant,
}

impl Mutations {
    /// The gate for one request.
    pub(crate) fn gate(&self, rules: Rules<'_>, caller: &Caller, now: Instant) -> Gate<'_> {
        let limits = Limits::new(rules.image.quotas());
        let found = limits.find(Kind::Mutation, ANONYMOUS, caller.client_id.as_str());
        let windows = rules.options.quota.mutations;
        let limited = found.map(|(bucket, limit)| {
            let mut buckets = self.buckets.borrow_mut();
            if buckets.len() >= CLIENTS_MAX {
                buckets.retain(|_, tokens| !tokens.is_full(limit, windows, now));
            }
            Limited {
                mutations: self,
                bucket,
                limit,
                windows,
                strict: caller.strict,
                now,
            }
        });
        Gate {
            limited,
            pause: Cell::default(),
        }
    }
}

impl Gate<'_> {
    /// Lets everything pass.
    #[cfg(test)]
    pub(crate) fn open() -> Self {
        Self {
            limited: None,
            pause: Cell::default(),
        }
    }

    /// Takes tokens for so many partitions.
    pub(crate) fn pass(&self, partitions: usize) -> Result<(), Refusal> {
        let Some(limited) = &self.limited else {
            return Ok(());
        };
        let Limited {
            limit,
            windows,
            now,
            ..
        } = *limited;
        let mut buckets = limited.mutations.buckets.borrow_mut();
        let full = || TokenBucket::full(limit, windows, now);
        let tokens = buckets.entry(limited.bucket.clone()).or_insert_with(full);
        let before = tokens.pause(limit, windows, now);
        if limited.strict && !before.is_zero() {
            self.pause.set(before);
            let message = "The throttling quota has been exceeded.";
            return Err(Refusal::new(ErrorCode::ThrottlingQuotaExceeded, message));
        }
        let partitions = u32::try_from(partitions).unwrap_or(u32::MAX);
        tokens.take(f64::from(partitions), limit, windows, now);
        if !limited.strict {
            self.pause.set(tokens.pause(limit, windows, now));
        }
        Ok(())
    }

    /// How long the client has to wait.
    pub(crate) fn pause(&self) -> Duration {
        self.pause.get()
    }
}
