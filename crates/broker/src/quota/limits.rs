//! Which quota is whose: the most specific one, in Kafka's order.
//!
//! User and client id, user and all client ids, user; the same for all users; client id; all
//! client ids. Who shares a quota shares a [`Bucket`]: a quota of a user is one for all its client
//! ids, a quota of "all client ids" is one for each of them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::image::QuotaTable;

const KINDS: usize = 4;

/// What is limited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// Bytes produced, a second.
    Produce,
    /// Bytes fetched, a second.
    Fetch,
    /// Time spent on requests, in hundredths of one thread.
    Request,
    /// Partitions created and deleted, a second.
    Mutation,
}

impl Kind {
    const ALL: [Self; KINDS] = [Self::Produce, Self::Fetch, Self::Request, Self::Mutation];

    /// Name of the quota.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Produce => "producer_byte_rate",
            Self::Fetch => "consumer_byte_rate",
            Self::Request => "request_percentage",
            Self::Mutation => "controller_mutation_rate",
        }
    }
}

/// Those who use up one quota together.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Bucket {
    kind: Kind,
    /// Empty when the quota does not ask for it.
    user: String,
    /// Empty when the quota does not ask for it.
    client_id: String,
}

impl Bucket {
    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            .saturating_add(self.user.len())
            .saturating_add(self.client_id.len())
    }

    /// The shard that counts for it.
    pub(crate) fn owner(&self, shards: usize) -> usize {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        assert!(shards > 0, "somebody counts");
        usize::try_from(hasher.finish() % shards as u64).unwrap_or(0)
    }
}

type Values = [Option<f64>; KINDS];

/// Quotas of one user, of all users, or of nobody in particular.
#[derive(Default, Debug)]
struct ByClient {
    // Bounded: the quotas in the metadata, `controller::bounds::ENTITIES_MAX`.
    clients: HashMap<String, Values>,
    any_client: Values,
    whole: Values,
}

/// Every quota, to be looked up by who asks.
#[derive(Default, Debug)]
pub(crate) struct Limits {
    // Bounded: the quotas in the metadata, `controller::bounds::ENTITIES_MAX`.
    users: HashMap<String, ByClient>,
    any_user: ByClient,
    no_user: ByClient,
    present: [bool; KINDS],
}

impl Limits {
    /// Arranges what the metadata says. Quotas of addresses are not for here.
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
            for kind in Kind::ALL {
                // What was written before it was refused: nobody can keep to it.
                let sensible = |limit: &&f64| **limit > 0.0;
                if let Some(limit) = quotas.get(kind.key()).filter(sensible) {
                    values[kind as usize] = Some(*limit);
                    limits.present[kind as usize] = true;
                }
            }
        }
        limits
    }

    /// True when anybody is limited in this.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.present[kind as usize]
    }

    /// The quota of this client, and with whom it shares it.
    pub(crate) fn find(&self, kind: Kind, user: &str, client_id: &str) -> Option<(Bucket, f64)> {
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

    /// Entity as `user/client-id`: `-` is absent, `*` is everybody.
    fn limits(rows: &[(&str, f64)]) -> Limits {
        let mut table = QuotaTable::new();
        for (entity, value) in rows {
            let (user, client) = entity.split_once('/').unwrap();
            let names = [("user", user), ("client-id", client)];
            let names = names.into_iter().filter(|(_, name)| *name != "-");
            let names =
                names.map(|(kind, name)| (kind.to_owned(), (name != "*").then(|| name.to_owned())));
            let quotas = [(Kind::Produce.key().to_owned(), *value)];
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
        // Kafka's order: take the strongest away, and the next one holds.
        for from in 0..rows.len() {
            let found = limits(&rows[from..]).find(Kind::Produce, "u", "c");
            assert_eq!(found.map(|(_, limit)| limit), Some(rows[from].1), "{from}");
        }
        assert!(limits(&[]).find(Kind::Produce, "u", "c").is_none());
        assert!(limits(&rows).find(Kind::Fetch, "u", "c").is_none());
    }

    #[test]
    fn a_user_shares_its_quota_and_client_ids_do_not() {
        let bucket = |rows: &[(&str, f64)], client: &str| {
            limits(rows)
                .find(Kind::Produce, "u", client)
                .map(|(bucket, _)| bucket)
        };
        let shared = [("u/-", 1.0)];
        assert_eq!(bucket(&shared, "a"), bucket(&shared, "b"));
        let each = [("-/*", 1.0)];
        assert_ne!(bucket(&each, "a"), bucket(&each, "b"));
    }
}
