//! Whether a new set may take the place of an old one.
//!
//! Kafka's rule: each key is for whom it was for, and for all the hosts that it was for, unless the
//! settings allow otherwise. Pure: to open the new set, and to put it in its place, is the owner's.

use crate::certificate::CertificateFacts;
use crate::server::ServerTls;
pub use crate::settings::AllowedChanges;

/// What becomes of a new set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReloadVerdict {
    /// It is the old one: keep that, and with it its ticket keys.
    Same,
    /// It takes the place of the old one.
    Take,
    /// The old one stays, for this reason.
    Keep(String),
}

/// Decides about a new set.
pub fn decide(old: &ServerTls, new: &ServerTls, allowed: AllowedChanges) -> ReloadVerdict {
    if old.is_same(new) {
        return ReloadVerdict::Same;
    }
    let before: Vec<_> = old.certificates().collect();
    let after: Vec<_> = new.certificates().collect();
    match misfit(&before, &after, allowed) {
        Some(why) => ReloadVerdict::Keep(why),
        None => ReloadVerdict::Take,
    }
}

/// Returns why certificates may not take the place of others; `None` if they may.
fn misfit(
    old: &[&CertificateFacts],
    new: &[&CertificateFacts],
    allowed: AllowedChanges,
) -> Option<String> {
    if allowed.subject && allowed.names {
        return None;
    }
    if old.len() != new.len() {
        return Some(format!(
            "it has {} keys in the place of {}: restart to change that, or set \
             ssl.allow.dn.changes and ssl.allow.san.changes",
            new.len(),
            old.len()
        ));
    }
    old.iter().zip(new).find_map(|(old, new)| {
        if !allowed.subject && old.canonical != new.canonical {
            return Some(format!(
                "it is for {:?} and no longer for {:?}: set ssl.allow.dn.changes=true if that is \
                 meant",
                new.subject, old.subject
            ));
        }
        if !allowed.names && !new.alternative_names.is_superset(&old.alternative_names) {
            return Some(format!(
                "it is for the hosts {} and no longer for all of {}: set \
                 ssl.allow.san.changes=true if that is meant",
                new.names_text(),
                old.names_text()
            ));
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::certificate::Purposes;

    fn facts(subject: &str, names: &[&str]) -> CertificateFacts {
        let name = |name: &&str| {
            let mut der = vec![0x82, u8::try_from(name.len()).unwrap()];
            der.extend_from_slice(name.as_bytes());
            der
        };
        CertificateFacts {
            subject: subject.to_owned(),
            canonical: subject.to_lowercase(),
            alternative_names: names.iter().map(name).collect::<BTreeSet<_>>(),
            not_before: 0,
            not_after: 0,
            fingerprint: String::new(),
            issuer_der: Vec::new(),
            subject_der: Vec::new(),
            public_key: Vec::new(),
            purposes: Purposes {
                is_for_servers: true,
                is_for_clients: true,
            },
        }
    }

    #[track_caller]
    fn check(
        old: &[CertificateFacts],
        new: &[CertificateFacts],
        (subject, names): (bool, bool),
        expect: Option<&str>,
    ) {
        let (old, new): (Vec<_>, Vec<_>) = (old.iter().collect(), new.iter().collect());
        let why = misfit(&old, &new, AllowedChanges { subject, names });
        match expect {
            None => assert_eq!(why, None),
            Some(part) => assert!(why.as_ref().is_some_and(|it| it.contains(part)), "{why:?}"),
        }
    }

    #[test]
    fn a_key_stays_for_whom_and_for_which_hosts_it_was() {
        let old = [facts("CN=a", &["a", "b"])];
        check(
            &old,
            &[facts("CN=A", &["c", "b", "a"])],
            (false, false),
            None,
        );
        let other = [facts("CN=z", &["a", "b"])];
        check(&old, &other, (false, true), Some("no longer for \"CN=a\""));
        check(&old, &other, (true, false), None);
        let fewer = [facts("CN=a", &["b"])];
        check(
            &old,
            &fewer,
            (true, false),
            Some("hosts DNS:b and no longer for all of DNS:a, DNS:b"),
        );
        check(&old, &fewer, (false, true), None);
        let two = [facts("CN=a", &[]), facts("CN=b", &[])];
        check(&old, &two, (false, true), Some("2 keys in the place of 1"));
        check(&old, &two, (true, true), None);
    }
}
