//! Who decides what clients may do.
//!
//! Invariant: no setting about ACLs is passed over in silence. One that has no effect, or that
//! cannot mean what it says, is warned of; one that cannot be read refuses the start. Not here:
//! what the ACLs in the metadata say, and who may change them (`broker::authorizer`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker::authorizer::{Authorizer, AuthorizerMode};
use broker::session::LoginOptions;
use tls::{ClientAuth, ServerTlsSettings};
use wire::acl::{Policy, Principal, super_users};
use wire::sasl::Mechanism;
use wire::text::cut;

use super::super::address::{self, Address};
use super::super::problem::{Problem, Warning};
use super::super::values::Values;
use super::login::Protocols;

const CLASS: &str = "authorizer.class.name";
const SUPER_USERS: &str = "super.users";
const OPEN: &str = "allow.everyone.if.no.acl.found";
const MODE: &str = "authorizer.mode";

/// How much of a principal a warning repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 100;

/// Returns true for a setting that has an effect only with an authorizer.
pub(in crate::config) fn needs_authorizer(key: &str) -> bool {
    [SUPER_USERS, OPEN, MODE].contains(&key)
}

/// Returns the authorizer; `None` if no authorizer decides.
pub(super) fn resolve(
    values: &Values,
    clients: &Clients,
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> Option<Arc<Authorizer>> {
    if values.string(CLASS).is_empty() {
        // If the class is refused, a problem says so.
        if !problems.iter().any(|problem| problem.key == CLASS) {
            warn_of_no_authorizer(values, warnings);
        }
        return None;
    }
    let super_users = super_users(&values.string(SUPER_USERS)).unwrap_or_else(|error| {
        let allowed = format!("must be principals such as User:ada, with ; between them: {error}");
        problems.push(values.problem(SUPER_USERS, allowed));
        BTreeSet::new()
    });
    let authorizer = Authorizer {
        policy: Policy {
            super_users,
            is_open_without_acl: values.is(OPEN),
        },
        mode: match values.string(MODE).as_str() {
            "log" => AuthorizerMode::Log,
            _ => AuthorizerMode::Enforce,
        },
    };
    warn(values, clients, &authorizer, warnings);
    Some(Arc::new(authorizer))
}

/// Where the clients of a listener can be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reach {
    ThisMachine,
    Elsewhere,
}

/// Who the clients of all listeners can be.
pub(super) struct Clients {
    /// Who reaches a listener that asks neither for a login nor for a certificate; `None` if there
    /// is no such listener.
    anonymous: Option<Reach>,
    /// Whether a mechanism takes its users from the metadata, where there can be any, or a listener
    /// from certificates.
    has_any_user: bool,
    /// Users that the settings name.
    // Bounded: `raw::FILE_BYTES_MAX`.
    users: BTreeSet<String>,
    /// Whether clients of the admin endpoint show who they are: there are more users than these.
    has_admin_users: bool,
}

impl Clients {
    pub(super) fn of(
        protocols: &Protocols,
        logins: &BTreeMap<String, Arc<LoginOptions>>,
        encrypted: &BTreeMap<String, ServerTlsSettings>,
        (listeners, has_admin_users): (&[Address], bool),
    ) -> Self {
        // Whether clients of a listener without login show who they are.
        let auth = |listener: &str| {
            let tls = encrypted.get(listener);
            tls.map_or(ClientAuth::None, |tls| tls.client_auth.value)
        };
        let without_login = || protocols.iter().filter(|(_, it)| !it.asks_for_login());
        let has = |wanted: fn(ClientAuth) -> bool| {
            without_login().any(|(listener, _)| wanted(auth(listener)))
        };
        let reach = |name: &str| {
            let mut named = listeners.iter().filter(|it| it.listener == name);
            if named.all(|it| address::is_loopback(&it.host)) {
                Reach::ThisMachine
            } else {
                Reach::Elsewhere
            }
        };
        let anonymous = without_login().filter(|(name, _)| auth(name) != ClientAuth::Required);
        let anonymous = anonymous.map(|(name, _)| reach(name)).max();
        let mechanisms = || logins.values().flat_map(|login| &login.mechanisms);
        // The metadata or an identity provider may have any user.
        let has_any = |mechanism| matches!(mechanism, Mechanism::Scram(_) | Mechanism::Oauthbearer);
        let users = mechanisms().flat_map(|mechanism| &mechanism.users);
        Self {
            anonymous,
            // A rule can make any name of a certificate.
            has_any_user: mechanisms().any(|mechanism| has_any(mechanism.mechanism))
                || has(|auth| auth != ClientAuth::None),
            users: users.map(|(name, _)| name.clone()).collect(),
            has_admin_users,
        }
    }

    /// Returns true if a client can have this principal.
    fn can_be(&self, principal: &Principal) -> bool {
        let is_named = || {
            let of_settings = self.users.contains(principal.name());
            self.has_any_user || self.has_admin_users || of_settings
        };
        let is_anonymous = self.anonymous.is_some() && *principal == Principal::anonymous();
        is_anonymous || (principal.kind() == "User" && is_named())
    }
}

fn warn_of_no_authorizer(values: &Values, warnings: &mut Vec<Warning>) {
    for key in [SUPER_USERS, OPEN, MODE] {
        if let Some(entry) = values.entry(key)
            && !entry.text().is_empty()
        {
            let why = "there is no authorizer: every client may do everything, whatever ACLs there \
                       are";
            let advice = "set authorizer.class.name (docs/security-now.md), or let nobody else \
                          reach the port and take it out";
            warnings.push(Warning::of(entry, why.into()).seen_by_clients(advice));
        }
    }
}

fn warn(values: &Values, clients: &Clients, authorizer: &Authorizer, warnings: &mut Vec<Warning>) {
    let Policy {
        super_users,
        is_open_without_acl,
    } = &authorizer.policy;
    let (real, unreal): (Vec<_>, Vec<_>) =
        super_users.iter().partition(|user| clients.can_be(user));
    if let (Some(first), Some(entry)) = (unreal.first(), values.entry(SUPER_USERS)) {
        let first = cut(first.as_str(), SHOWN_BYTES_MAX);
        let others = unreal.len().saturating_sub(1);
        let more = if others == 0 {
            String::new()
        } else {
            format!(" and {others} more")
        };
        let why = format!("names who no client can be: {first}{more}");
        let advice = "clients are User:<name of a login>, or what the rules for certificates make of \
                      theirs, or User:ANONYMOUS where a listener asks for neither";
        warnings.push(Warning::of(entry, why).seen_by_clients(advice));
    }
    let anonymous = clients.anonymous;
    let anonymous = anonymous.filter(|_| super_users.contains(&Principal::anonymous()));
    if let (Some(reach), Some(entry)) = (anonymous, values.entry(SUPER_USERS)) {
        let why = "with User:ANONYMOUS whoever reaches a listener without login may do everything";
        let advice = "bind that listener to 127.0.0.1, or name users who log in";
        let warning = Warning::of(entry, why.into());
        // On 127.0.0.1 it is what Kafka's users set up on purpose: worth knowing, and no fault.
        warnings.push(if reach == Reach::Elsewhere {
            warning.seen_by_clients(advice)
        } else {
            warning
        });
    }
    let asks_nobody = !clients.has_any_user && clients.users.is_empty();
    let is_shut = real.is_empty() && asks_nobody && !is_open_without_acl;
    if let (true, Some(entry)) = (is_shut, values.entry(CLASS)) {
        let why = "no listener asks for a login, and no client can be a super user: nobody may do \
                   anything but what ACLs permit to User:ANONYMOUS";
        let advice = "let a listener ask for a login, and name a super user (docs/security-now.md)";
        warnings.push(Warning::of(entry, why.into()).seen_by_clients(advice));
    }
    if let (AuthorizerMode::Log, Some(entry)) = (authorizer.mode, values.entry(MODE)) {
        let why = "what ACLs forbid is done, and only counted and logged: every client may do \
                   everything";
        let advice = "set it to enforce when nothing is logged that ought to be done";
        warnings.push(Warning::of(entry, why.into()).seen_by_clients(advice));
    }
}
