//! Which quota applies to a client: the most specific one, in Kafka's order.
//!
//! User and client id; user and default client id; user; the same three for the default user;
//! client id; default client id. Clients that share a quota share a [`Bucket`]: a quota of a user
//! is shared by all its client ids; a quota of the default client id applies to each of them
//! separately.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::rate::Windows;
use crate::image::QuotaTable;

const KINDS: usize = 4;

/// The resource that a quota limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum QuotaKind {
    /// Bytes produced per second.
    Produce,
    /// Bytes fetched per second.
    Fetch,
    /// Time of requests, in hundredths of one thread.
    Request,
    /// Partitions created and deleted per second.
    Mutation,
}

impl QuotaKind {
    const ALL: [Self; KINDS] = [Self::Produce, Self::Fetch, Self::Request, Self::Mutation];

    /// Returns the name of the quota.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Produce => "producer_byte_rate",
            Self::Fetch => "consumer_byte_rate",
            Self::Request => "request_percentage",
            Self::Mutation => "controller_mutation_rate",
        }
    }
}

/// The clients that share one quota.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Bucket {
    kind: QuotaKind,
    /// The user; empty when the quota applies to all users together.
    user: String,
    /// The client id; empty when the quota applies to all client ids together.
    client_id: String,
}

impl Bucket {
    /// Returns the bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            .saturating_add(self.user.len())
            .saturating_add(self.client_id.len())
    }

    /// Returns the resource, the user and the client id; an empty name stands for all of them.
    pub(super) fn parts(&self) -> (QuotaKind, &str, &str) {
        (self.kind, &self.user, &self.client_id)
    }

    /// Returns the longest pause that it causes: for their time, clients wait one window at most.
    pub(super) fn pause_max(&self, windows: Windows) -> Duration {
        match self.kind {
            QuotaKind::Request => windows.window,
            QuotaKind::Produce | QuotaKind::Fetch | QuotaKind::Mutation => Duration::MAX,
        }
    }

    /// Returns the shard that counts it.
    pub(crate) fn owner(&self, shards: usize) -> usize {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        assert!(shards > 0, "somebody counts");
        usize::try_from(hasher.finish() % shards as u64).unwrap_or(0)
    }
}

type Values = [Option<f64>; KINDS];

/// The quotas of one user, of the default user, or without a user.
#[derive(Default, Debug)]
struct ByClient {
    // Bounded: the quotas in the metadata, `controller::bounds::ENTITIES_MAX`.
    clients: HashMap<String, Values>,
    any_client: Values,
    whole: Values,
}

/// All quotas, indexed for the lookup by client.
#[derive(Default, Debug)]
pub(crate) struct Limits {
    // Bounded: the quotas in the metadata, `controller::bounds::ENTITIES_MAX`.
    users: HashMap<String, ByClient>,
    any_user: ByClient,
    no_user: ByClient,
    present: [bool; KINDS],
}

impl Limits {
    /// Indexes the quotas of the metadata, without those of addresses.
    pub(crate) fn new(table: &QuotaTable) -> Self {
        let mut limits = Self::default();
        for (entity, quotas) in table {
            if entity.contains_key("ip") {
                continue;
            }
            let by_client = match entity.get("user") {
                None => &mut limits.no_user,
                Some(None) => &mut limits.any_user,
                Some(Some(user)) => limits.users.entry(user.clone()).or_default(),
            };
            let values = match entity.get("client-id") {
                None => &mut by_client.whole,
                Some(None) => &mut by_client.any_client,
                Some(Some(id)) => by_client.clients.entry(id.clone()).or_default(),
            };
            for kind in QuotaKind::ALL {
                // A quota that was written before such values were refused: no client can keep it.
                let sensible = |limit: &&f64| **limit > 0.0;
                if let Some(limit) = quotas.get(kind.key()).filter(sensible) {
                    values[kind as usize] = Some(*limit);
                    limits.present[kind as usize] = true;
                }
            }
        }
        limits
    }

    /// Returns true when any client has a quota of this kind.
    pub(crate) fn has(&self, kind: QuotaKind) -> bool {
        self.present[kind as usize]
    }

    /// Returns the quota of a client and the bucket that it shares.
    pub(crate) fn find(
        &self,
        kind: QuotaKind,
        user: &str,
        client_id: &str,
    ) -> Option<(Bucket, f64)> {
        if !self.has(kind) {
            return None;
        }
        let of_user = self.users.get(user);
        let levels = [
            (of_user, user),
            (Some(&self.any_user), user),
            (Some(&self.no_user), ""),
        ];
        for (by_client, user) in levels {
            let Some(by_client) = by_client else {
                continue;
            };
            let own = by_client
                .clients
                .get(client_id)
                .and_then(|own| own[kind as usize]);
            let any = own.or(by_client.any_client[kind as usize]);
            let (limit, client_id) = match any {
                Some(limit) => (limit, client_id),
                None => match by_client.whole[kind as usize] {
                    Some(limit) => (limit, ""),
                    None => continue,
                },
            };
            let bucket = Bucket {
                kind,
                user: user.to_owned(),
                client_id: client_id.to_owned(),
            };
            return Some((bucket, limit));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entities are `user/client-id`: `-` is absent, `*` is the default.
    fn limits(rows: &[(&str, f64)]) -> Limits {
        let mut table = QuotaTable::new();
        for (entity, value) in rows {
            let (user, client) = entity.split_once('/').unwrap();
            let names = [("user", user), ("client-id", client)];
            let names = names.into_iter().filter(|(_, name)| *name != "-");
            let names =
                names.map(|(kind, name)| (kind.to_owned(), (name != "*").then(|| name.to_owned())));
            let quotas = [(QuotaKind::Produce.key().to_owned(), *value)];
            table.insert(names.collect(), quotas.into());
        }
        Limits::new(&table)
    }

    #[test]
    fn the_most_specific_quota_holds() {
        let rows = [
            ("u/c", 1.0),
            ("u/*", 2.0),
            ("u/-", 3.0),
            ("*/c", 4.0),
            ("*/*", 5.0),
            ("*/-", 6.0),
            ("-/c", 7.0),
            ("-/*", 8.0),
        ];
        // Kafka's order: without the strongest quota, the next one applies.
        for from in 0..rows.len() {
            let found = limits(&rows[from..]).find(QuotaKind::Produce, "u", "c");
            assert_eq!(found.map(|(_, limit)| limit), Some(rows[from].1), "{from}");
        }
        assert!(limits(&[]).find(QuotaKind::Produce, "u", "c").is_none());
        assert!(limits(&rows).find(QuotaKind::Fetch, "u", "c").is_none());
    }

    #[test]
    fn a_user_shares_its_quota_and_client_ids_do_not() {
        let bucket = |rows: &[(&str, f64)], client: &str| {
            limits(rows)
                .find(QuotaKind::Produce, "u", client)
                .map(|(bucket, _)| bucket)
        };
        let shared = [("u/-", 1.0)];
        assert_eq!(bucket(&shared, "a"), bucket(&shared, "b"));
        let each = [("-/*", 1.0)];
        assert_ne!(bucket(&each, "a"), bucket(&each, "b"));
    }
}
