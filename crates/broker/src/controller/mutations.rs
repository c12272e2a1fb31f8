//! The controller mutation quota: how many partitions a client may create and delete per second
//! (KIP-599).
//!
//! It is strict for new versions of the requests: once the tokens are used up, the rest is refused,
//! and what is granted is not delayed. Old versions do not know that error: everything is granted,
//! and the client is throttled.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use platform::clock::Instant;
use wire::StrBytes;
use wire::acl::{Operation, Principal};
use wire::types::ErrorCode;

use super::{Refusal, Rules};
use crate::access::Access;
use crate::audit::AuditedRequest;
use crate::image::Image;
use crate::quota::{Bucket, Limits, QuotaKind, TokenBucket, Windows};

/// Clients whose tokens are remembered before the first sweep for clients with full buckets.
const CLIENTS_MIN: usize = 1024;

/// Maximum memory for the remembered clients.
///
/// Beyond it, the clients that owe the least are forgotten: a client can always drop its debt by
/// changing its client id.
const BYTES_MAX: usize = 4 << 20;

/// Memory that a client takes in addition to its name.
const CLIENT_BYTES: usize = 128;

/// The client that asks for a change.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who it is.
    pub principal: Principal,
    /// The client id.
    pub client_id: StrBytes,
    /// True if the client understands the error for a used-up quota.
    pub strict: bool,
    /// What it may do.
    pub(crate) access: Access,
    /// The request, for an auditor who wants to know of it.
    pub(crate) audited: Option<Box<AuditedRequest>>,
}

impl Caller {
    /// Returns a client that may do everything.
    pub fn unlimited(principal: Principal, client_id: StrBytes, strict: bool) -> Self {
        Self {
            principal,
            client_id,
            strict,
            access: Access::unlimited(),
            audited: None,
        }
    }

    /// Returns what the client may do by the ACLs of `image`: it may have waited for its turn.
    pub(crate) fn access(&self, image: &Image) -> Access {
        let renewed = self.access.renewed(image);
        renewed.unwrap_or_else(|| self.access.clone())
    }

    /// Returns true if the client had a right on the cluster when its request came, and lost it
    /// while it waited for its turn.
    pub(crate) fn has_lost(&self, operation: Operation, image: &Image) -> bool {
        let renewed = self.access.renewed(image);
        renewed.is_some_and(|access| !access.may_cluster(operation))
    }
}

/// The token buckets of all clients that are not full.
#[derive(Default, Debug)]
pub(crate) struct Mutations {
    buckets: RefCell<Buckets>,
}

#[derive(Default, Debug)]
struct Buckets {
    // Bounded: `BYTES_MAX`, by `make_room`.
    of: HashMap<Bucket, TokenBucket>,
    bytes: usize,
    /// Number of buckets at which the next sweep runs.
    sweep_at: usize,
}

impl Buckets {
    /// Forgets the full buckets whenever there are twice as many buckets as after the last sweep,
    /// and at the memory bound also the half that owes the least.
    fn make_room(&mut self, limit: f64, windows: Windows, now: Instant) {
        let is_over = self.bytes > BYTES_MAX;
        if self.of.len() < self.sweep_at.max(CLIENTS_MIN) && !is_over {
            return;
        }
        self.of
            .retain(|_, tokens| !tokens.is_full(limit, windows, now));
        self.weigh();
        if is_over && self.bytes > BYTES_MAX / 2 {
            let mut left: Vec<f64> = self.of.values().map(TokenBucket::left).collect();
            let middle = left.len() / 2;
            if middle < left.len() {
                let (_, median, _) = left.select_nth_unstable_by(middle, f64::total_cmp);
                let median = *median;
                self.of.retain(|_, tokens| tokens.left() < median);
                self.weigh();
            }
        }
        self.sweep_at = self.of.len().saturating_mul(2);
    }

    fn weigh(&mut self) {
        let bytes = self.of.keys().map(bytes_of);
        let bytes = bytes.fold(0, usize::saturating_add);
        assert!(bytes <= self.bytes, "who is forgotten takes nothing");
        self.bytes = bytes;
    }
}

fn bytes_of(bucket: &Bucket) -> usize {
    bucket.bytes().saturating_add(CLIENT_BYTES)
}

/// Checks the changes of one request against the quota.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    limited: Option<MutationQuota<'a>>,
    pause: Cell<Duration>,
}

#[derive(Debug)]
struct MutationQuota<'a> {
    mutations: &'a Mutations,
    bucket: Bucket,
    limit: f64,
    windows: Windows,
    strict: bool,
    now: Instant,
}

impl Mutations {
    /// Returns the gate for one request.
    pub(crate) fn gate(&self, rules: Rules<'_>, caller: &Caller, now: Instant) -> Gate<'_> {
        let limits = Limits::new(rules.image.quotas());
        let found = limits.find(
            QuotaKind::Mutation,
            caller.principal.name(),
            caller.client_id.as_str(),
        );
        let windows = rules.options.quota.mutations;
        let limited = found.map(|(bucket, limit)| {
            self.buckets.borrow_mut().make_room(limit, windows, now);
            MutationQuota {
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
    /// Returns a gate that lets everything pass.
    #[cfg(test)]
    pub(crate) fn open() -> Self {
        Self {
            limited: None,
            pause: Cell::default(),
        }
    }

    /// Takes one token for each of `partitions`.
    pub(crate) fn pass(&self, partitions: usize) -> Result<(), Refusal> {
        let Some(limited) = &self.limited else {
            return Ok(());
        };
        let MutationQuota {
            limit,
            windows,
            now,
            ..
        } = *limited;
        let mut buckets = limited.mutations.buckets.borrow_mut();
        let Buckets { of, bytes, .. } = &mut *buckets;
        let full = || {
            *bytes = bytes.saturating_add(bytes_of(&limited.bucket));
            TokenBucket::full(limit, windows, now)
        };
        let tokens = of.entry(limited.bucket.clone()).or_insert_with(full);
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

    /// Returns how long the client is throttled.
    pub(crate) fn pause(&self) -> Duration {
        self.pause.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::QuotaTable;

    #[test]
    fn a_client_with_many_names_that_all_owe_takes_no_more_than_the_bound() {
        let windows = Windows {
            samples: 11,
            window: Duration::from_secs(1),
        };
        let entity = [("client-id".to_owned(), None)].into();
        let quotas = [(QuotaKind::Mutation.key().to_owned(), 1.0)].into();
        let limits = Limits::new(&QuotaTable::from([(entity, quotas)]));
        let mutations = Mutations::default();
        let now = Instant::now();
        for number in 0..1000_u32 {
            let name = format!("{number:030000}");
            let (bucket, limit) = limits.find(QuotaKind::Mutation, "u", &name).unwrap();
            mutations
                .buckets
                .borrow_mut()
                .make_room(limit, windows, now);
            let gate = Gate {
                limited: Some(MutationQuota {
                    mutations: &mutations,
                    bucket,
                    limit,
                    windows,
                    strict: false,
                    now,
                }),
                pause: Cell::default(),
            };
            gate.pass(20 + usize::try_from(number).unwrap()).unwrap();
            assert!(gate.pause() > Duration::ZERO);
            let kept = mutations.buckets.borrow();
            assert!(kept.bytes <= BYTES_MAX + 40_000, "{}", kept.bytes);
            let bytes = kept.of.keys().map(bytes_of);
            assert_eq!(kept.bytes, bytes.fold(0, usize::saturating_add));
        }
        assert!(mutations.buckets.borrow().of.len() > 20);
    }
}
