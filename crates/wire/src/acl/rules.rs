//! What the index keeps for one pattern: the ACLs of one principal, by the address of the clients
//! that they are for; and the number of ACLs of all principals.
//!
//! A client sees the ACLs for every address and those for its own, whatever other addresses have
//! ACLs. An ACL that decides nothing (for a host that is no address, or of an operation that is not
//! known) is kept, because it counts until it is removed, and is seen by no client.

use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use super::binding::AclBinding;
use super::host::Clients;
use super::patterns::{PatternContent, Recount};

/// The ACLs of one principal with one pattern.
#[derive(Clone, Default, Debug)]
pub(super) struct Rules(
    /// By clients, then in the order of the ACLs; each once.
    Vec<Rule>,
);

#[derive(Clone, Debug)]
struct Rule {
    /// The clients for which the ACL decides something.
    clients: Clients,
    acl: Arc<AclBinding>,
    /// How often it is there, which is at least once.
    times: usize,
}

impl Rules {
    /// Returns how often an ACL is there.
    pub(super) fn times(&self, acl: &AclBinding) -> usize {
        let sought = (clients_of(acl), acl);
        let found = self
            .0
            .binary_search_by(|rule| (rule.clients, &*rule.acl).cmp(&sought));
        let rule = found.ok().and_then(|at| self.0.get(at));
        rule.map_or(0, |rule| rule.times)
    }

    /// Returns the ACLs that decide something for a client at this address, which is no IPv4
    /// address in IPv6 form.
    pub(super) fn at(&self, address: IpAddr) -> impl Iterator<Item = &AclBinding> {
        let seen = [Clients::All, Clients::At(address)];
        let seen = seen.into_iter().flat_map(move |clients| self.of(clients));
        seen.map(|rule| &*rule.acl)
    }

    fn of(&self, clients: Clients) -> &[Rule] {
        let before = self.0.partition_point(|rule| rule.clients < clients);
        // Bounded: a partition point is at most the length.
        let (_, rest) = self.0.split_at(before);
        let count = rest.partition_point(|rule| rule.clients == clients);
        // Bounded: likewise.
        rest.split_at(count).0
    }
}

impl PatternContent for Rules {
    fn recount(&mut self, changes: &[Recount<'_>]) {
        let rules = mem::take(&mut self.0).into_iter();
        let mut rules: BTreeMap<(Clients, Arc<AclBinding>), usize> = rules
            .map(|rule| ((rule.clients, rule.acl), rule.times))
            .collect();
        for change in changes {
            let key = (clients_of(change.acl), Arc::clone(change.acl));
            let before = match change.after {
                0 => rules.remove(&key),
                after => rules.insert(key, after),
            };
            assert!(
                before.unwrap_or(0) == change.before, // Without a rule there is none.
                "an ACL is there as often as its change says"
            );
        }
        let rules = rules.into_iter();
        self.0 = rules
            .map(|((clients, acl), times)| Rule {
                clients,
                acl,
                times,
            })
            .collect();
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the clients for which an ACL decides something.
fn clients_of(acl: &AclBinding) -> Clients {
    match acl.operation.known() {
        Some(_) => acl.host.clients(acl.effect()),
        None => Clients::Nobody,
    }
}

/// The number of ACLs with one pattern, of all principals, whether or not they decide anything.
#[derive(Clone, Default, Debug)]
pub(super) struct Count(usize);

impl PatternContent for Count {
    fn recount(&mut self, changes: &[Recount<'_>]) {
        for Recount { before, after, .. } in changes {
            assert!(*before <= self.0, "every ACL of a pattern is counted");
            self.0 = self.0.saturating_sub(*before).saturating_add(*after);
        }
    }

    fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::given::acl;
    use super::*;

    #[test]
    fn a_client_sees_the_acls_of_its_address_and_not_those_of_others() {
        let mut acls: Vec<Arc<AclBinding>> = (0..5_000)
            .map(|number| {
                let (high, low) = (number / 250, number % 250);
                let host = format!("10.0.{high}.{low}");
                acl(&format!("ALLOW READ LITERAL TOPIC orders User:a {host}"))
            })
            .chain(
                [
                    "ALLOW WRITE LITERAL TOPIC orders User:a *",
                    "DENY ALTER LITERAL TOPIC orders User:a 10.0.7.7",
                    "DENY ALTER LITERAL TOPIC orders User:a fe80::1%eth0",
                    "ALLOW ALTER LITERAL TOPIC orders User:a fe80::1%eth0",
                    "ALLOW ALTER LITERAL TOPIC orders User:a somewhere",
                    "ALLOW 99 LITERAL TOPIC orders User:a *",
                ]
                .map(acl),
            )
            .map(Arc::new)
            .collect();
        acls.sort();
        let added = |acl| Recount {
            acl,
            before: 0,
            after: 1,
        };
        let mut rules = Rules::default();
        rules.recount(&acls.iter().map(added).collect::<Vec<_>>());
        for (address, operations) in [
            ("10.0.7.7", "WRITE READ ALTER"),
            ("10.0.7.8", "WRITE READ"),
            ("10.9.9.9", "WRITE"),
            ("fe80::1", "WRITE ALTER"),
        ] {
            let seen = rules.at(address.parse().unwrap());
            let seen: Vec<String> = seen.map(|acl| acl.operation.to_string()).collect();
            assert_eq!(seen.join(" "), operations, "{address}");
        }
        assert!(acls.iter().all(|acl| rules.times(acl) == 1));
        let removed = |acl| Recount {
            acl,
            before: 1,
            after: 0,
        };
        rules.recount(&acls.iter().map(removed).collect::<Vec<_>>());
        assert!(rules.is_empty());
    }
}
