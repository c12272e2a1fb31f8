//! How the clients of each listener log in.
//!
//! Invariant: a listener that asks for a login has at least one mechanism, and each of its
//! mechanisms can be served as the settings say; anything else refuses the start. No message shows
//! a value of JAAS or a part of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker::session::{LoginOptions, MechanismOptions, SecurityProtocol};
use wire::sasl::jaas::Entry as Jaas;
use wire::sasl::{Mechanism, Secret};

use super::super::address::Address;
use super::super::keys;
use super::super::problem::{Problem, Warning};
use super::super::values::{ListenerValues, Values};
use super::oauth;
use super::{milliseconds, size};
use crate::oauth::TokenKeys;

const MECHANISMS: &str = "sasl.enabled.mechanisms";
const JAAS: &str = "sasl.jaas.config";
const SERVED: &str = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER are";
const FAILURE_DELAY: &str = "connection.failed.authentication.delay.ms";
const IDLE: &str = "connections.max.idle.ms";

/// Ends of names of settings that make Kafka decide otherwise who a client is. Who has set one
/// would not get what it says.
const REFUSED: [&str; 3] = [
    "sasl.server.callback.handler.class",
    "principal.builder.class",
    "sasl.oauthbearer.jwt.validator.class",
];

/// How clients log in.
#[derive(Default)]
pub(super) struct Logins {
    /// For each listener that asks for a login.
    // Bounded: one for each of `listeners`.
    pub(super) listeners: BTreeMap<String, Arc<LoginOptions>>,
    /// The keys of tokens.
    pub(super) token_keys: TokenKeys,
}

/// What speaks which protocol, by the name of the listener.
pub(super) type Protocols = BTreeMap<String, SecurityProtocol>;

/// Returns how clients log in.
pub(super) fn resolve(
    values: &Values,
    listeners: &[Address],
    protocols: &Protocols,
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> Logins {
    if let Some(entry) = values.entry(JAAS) {
        let why =
            "is ignored, as in Kafka: those of a listener and a mechanism stand before its name";
        warnings.push(Warning::of(entry, why.into()));
    }
    let mut all = Logins::default();
    for Address { listener, .. } in listeners {
        // One without protocol refuses the start already.
        let Some(&protocol) = protocols.get(listener) else {
            continue;
        };
        let of = OfListener {
            values,
            name: listener,
            own: ListenerValues::of(values, listener),
            protocol,
        };
        if protocol.asks_for_login() {
            let login = of.login(&mut all, warnings, problems);
            all.listeners.insert(listener.clone(), Arc::new(login));
        } else {
            of.warn_of_no_login(warnings);
        }
    }
    if !all.listeners.is_empty() {
        for (name, value) in values.given() {
            if oauth::is_served_class(name, value) {
                warnings.retain(|warning| warning.key != name);
            } else if REFUSED.iter().any(|end| name.ends_with(end)) {
                let why = "is not served: take it out, or a client may be taken for another";
                problems.push(values.problem_of(name, why));
            }
        }
    }
    all
}

/// Returns the users of PLAIN that are given for what has the name of a listener and is none.
pub(super) fn plain_users(
    values: &Values,
    listener: &str,
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> Vec<(String, Secret<String>)> {
    let of = OfListener {
        values,
        name: listener,
        own: ListenerValues::of(values, listener),
        protocol: SecurityProtocol::SaslSsl,
    };
    let lower = Mechanism::Plain.name().to_ascii_lowercase();
    if of.own.of_mechanism(&lower, JAAS).is_none() {
        return Vec::new();
    }
    of.users(Mechanism::Plain, warnings)
        .unwrap_or_else(|problem| {
            problems.push(problem);
            Vec::new()
        })
}

/// One listener.
struct OfListener<'a> {
    values: &'a Values,
    name: &'a str,
    own: ListenerValues<'a>,
    protocol: SecurityProtocol,
}

impl OfListener<'_> {
    fn login(
        &self,
        all: &mut Logins,
        warnings: &mut Vec<Warning>,
        problems: &mut Vec<Problem>,
    ) -> LoginOptions {
        let mut mechanisms: Vec<MechanismOptions> = Vec::new();
        for name in self.own.list(MECHANISMS) {
            let Some(mechanism) = Mechanism::from_name(name) else {
                let why = format!(
                    "{} is a login of {name}, which is not served ({SERVED})",
                    self.own.listener()
                );
                problems.push(self.own.problem(MECHANISMS, why));
                continue;
            };
            if mechanisms.iter().all(|it| it.mechanism != mechanism) {
                mechanisms.push(self.mechanism(mechanism, all, warnings, problems));
            }
        }
        if let Some(entry) = self.own.entry(MECHANISMS)
            && !self.protocol.is_encrypted()
        {
            for (bare, what) in [
                (Mechanism::Plain, "PLAIN passwords"),
                (Mechanism::Oauthbearer, "OAUTHBEARER tokens"),
            ] {
                if mechanisms.iter().any(|it| it.mechanism == bare) {
                    let why = format!(
                        "with {what} cross the network in clear text: the listener does not speak \
                         TLS (SASL_SSL)"
                    );
                    warnings.push(Warning::of(entry, why));
                }
            }
        }
        let (delay, idle) = (self.own.number(FAILURE_DELAY), self.values.int(IDLE));
        // Kafka's rule: a connection that waits for its end is held, whether its client is or not.
        if idle >= 0 && delay >= idle {
            let allowed = format!("must be less than {IDLE}={idle}");
            problems.push(self.own.problem(FAILURE_DELAY, allowed));
        }
        LoginOptions {
            mechanisms,
            failure_delay: milliseconds(delay),
            frame_bytes_max: size(self.own.number("sasl.server.max.receive.size")),
            time_max: milliseconds(self.values.int("authentication.timeout.ms")),
        }
    }

    fn mechanism(
        &self,
        mechanism: Mechanism,
        all: &mut Logins,
        warnings: &mut Vec<Warning>,
        problems: &mut Vec<Problem>,
    ) -> MechanismOptions {
        const REAUTH: &str = "connections.max.reauth.ms";
        let lower = mechanism.name().to_ascii_lowercase();
        let life = self.own.of_mechanism(&lower, REAUTH);
        let life = life.and_then(|text| text.parse().ok());
        let life = life.unwrap_or_else(|| self.own.number(REAUTH));
        let users = self.users(mechanism, warnings);
        let tokens = (mechanism == Mechanism::Oauthbearer).then(|| {
            // What is wrong with the line is among the problems already.
            let line = self.jaas(mechanism).ok().flatten();
            let of = (self.values, self.name, &self.own);
            oauth::resolve(of, line.as_ref(), &mut all.token_keys, (warnings, problems))
        });
        MechanismOptions {
            mechanism,
            session_max: Some(milliseconds(life)).filter(|life| *life > Duration::ZERO),
            users: users.unwrap_or_else(|problem| {
                problems.push(problem);
                Vec::new()
            }),
            tokens: tokens.flatten(),
        }
    }

    /// Returns the users that the settings name, or why a login would not be what they say.
    fn users(
        &self,
        mechanism: Mechanism,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<(String, Secret<String>)>, Problem> {
        let name = self.jaas_name(mechanism);
        let wrong = |why: String| self.values.problem_of(&name, why);
        let is_plain = mechanism == Mechanism::Plain;
        let Some(entry) = self.jaas(mechanism)? else {
            if is_plain {
                let why = "must name the users of PLAIN (user_<name>=\"<password>\")";
                return Err(wrong(why.into()));
            }
            return Ok(Vec::new());
        };
        if !is_plain {
            return Ok(Vec::new());
        }
        if entry.users().next().is_none() {
            return Err(wrong("names no users (user_<name>=\"<password>\")".into()));
        }
        if let (Some(out), Some(given)) = (entry.locked_out().first(), self.values.any_entry(&name))
        {
            let why = format!("names a user who can never log in: {out}");
            warnings.push(Warning::of(given, why));
        }
        let users = entry.users();
        Ok(users
            .map(|(name, password)| (name.to_owned(), password.clone()))
            .collect())
    }

    fn jaas_name(&self, mechanism: Mechanism) -> String {
        let lower = mechanism.name().to_ascii_lowercase();
        self.own.mechanism_name(&lower, JAAS)
    }

    /// Returns the line of JAAS of a mechanism, if there is one.
    fn jaas(&self, mechanism: Mechanism) -> Result<Option<Jaas>, Problem> {
        let name = self.jaas_name(mechanism);
        let wrong = |why: String| self.values.problem_of(&name, why);
        let Some(text) = self.values.of_listener(&name) else {
            return Ok(None);
        };
        let entry = Jaas::parse(text).map_err(|error| wrong(error.to_string()))?;
        let (package, short) = match mechanism {
            Mechanism::Plain => ("plain", "PlainLoginModule"),
            Mechanism::Scram(_) => ("scram", "ScramLoginModule"),
            Mechanism::Oauthbearer => ("oauthbearer", "OAuthBearerLoginModule"),
        };
        let expected = format!("org.apache.kafka.common.security.{package}.{short}");
        if entry.module() != expected {
            return Err(wrong(format!("must be an entry of {expected} ({short})")));
        }
        Ok(Some(entry))
    }

    /// Warns of settings of a login at a listener that asks for none.
    fn warn_of_no_login(&self, warnings: &mut Vec<Warning>) {
        let protocol = self.protocol.name();
        let with_login = if self.protocol.is_encrypted() {
            SecurityProtocol::SaslSsl
        } else {
            SecurityProtocol::SaslPlaintext
        };
        for entry in self.own.own_entries() {
            let is_of_login =
                keys::of_listener(&entry.key).is_some_and(|(_, key)| key.name.starts_with("sasl."));
            if is_of_login {
                let why = format!(
                    "has no effect: the listener maps to {protocol}, which asks for no login"
                );
                let advice = format!(
                    "map the listener to {} in listener.security.protocol.map, or take this out",
                    with_login.name()
                );
                warnings.push(Warning::of(entry, why).seen_by_clients(advice));
            }
        }
    }
}
