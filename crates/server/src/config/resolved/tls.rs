//! Keys, certificates and rules of the listeners that speak TLS.
//!
//! Invariant: what can be said without looking at files is said here: a set is opened with these
//! settings, or refused for what is in its files. No message shows a value of a secret. Not here:
//! files, and handshakes (`tls`, `certificates`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use broker::session::SecurityProtocol;
use tls::reload::AllowedChanges;
use tls::{
    ClientAuth, Password, PrincipalRules, ServerTlsSettings, Setting, StoreSettings, TlsNames,
    TlsProblem, TlsWarning,
};

use super::super::address::Address;
use super::super::keys;
use super::super::problem::{Problem, Warning};
use super::super::values::{ListenerValues, Values};
use super::login::Protocols;

const CLIENT_AUTH: &str = "ssl.client.auth";
const RULES: &str = "ssl.principal.mapping.rules";
const PROTOCOL: &str = "ssl.protocol";

/// Settings of Java's classes: who has set one would not get what it says, and what to do.
const REFUSED: [(&str, &str); 2] = [
    (
        "ssl.engine.factory.class",
        "classes cannot be loaded: take it out, and name the key by ssl.keystore.location",
    ),
    (
        "ssl.provider",
        "providers of the Java virtual machine cannot be loaded: take it out; the cryptography here \
         is that of aws-lc",
    ),
];

/// What a listener speaks, and with which keys.
#[derive(Clone, Debug)]
pub struct ListenerSecurity {
    /// The protocol.
    pub protocol: SecurityProtocol,
    /// Keys, certificates and rules, if it is encrypted.
    pub tls: Option<Box<ServerTlsSettings>>,
}

impl ListenerSecurity {
    /// Puts together what is known of each listener.
    pub(super) fn of(
        protocols: &Protocols,
        mut encrypted: BTreeMap<String, ServerTlsSettings>,
    ) -> BTreeMap<String, Self> {
        let each = protocols.iter().map(|(listener, protocol)| {
            let security = Self {
                protocol: *protocol,
                tls: encrypted.remove(listener).map(Box::new),
            };
            (listener.clone(), security)
        });
        each.collect()
    }
}

/// Returns the settings of TLS of each listener that speaks it.
pub(super) fn resolve(
    values: &Values,
    listeners: &[Address],
    protocols: &Protocols,
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> BTreeMap<String, ServerTlsSettings> {
    let mut all = BTreeMap::new();
    for Address { listener, .. } in listeners {
        let own = ListenerValues::of(values, listener);
        // One without protocol refuses the start already.
        let Some(&protocol) = protocols.get(listener) else {
            continue;
        };
        if !protocol.is_encrypted() {
            warn_of_no_tls(&own, protocol, warnings);
            continue;
        }
        for (setting, why) in REFUSED {
            if own.text(setting).is_some_and(|text| !text.is_empty()) {
                problems.push(own.problem(setting, why));
            }
        }
        check_protocol(&own, problems);
        let of = OfListener {
            values,
            own,
            protocol,
        };
        let settings = of.settings(warnings, problems);
        let (found, said) = settings.check();
        problems.extend(found.into_iter().map(|it| problem_of(values, &it)));
        warnings.extend(said.into_iter().filter_map(|it| warning_of(values, &it)));
        all.insert(listener.clone(), settings);
    }
    all
}

/// Returns the settings of TLS of the admin endpoint; `None` if no setting of its own is given, for
/// keys of other listeners do not make an endpoint speak TLS that did not.
///
/// Clients are asked for certificates as `client_auth` says, unless a setting of its own says how.
pub(super) fn of_admin(
    values: &Values,
    own: ListenerValues<'_>,
    client_auth: ClientAuth,
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> Option<ServerTlsSettings> {
    if !own.own_entries().any(|entry| is_own_of_tls(&entry.key)) {
        return None;
    }
    let name = own.own_name(CLIENT_AUTH);
    let text = own.own(CLIENT_AUTH);
    let client_auth = text.and_then(ClientAuth::parse).unwrap_or(client_auth);
    for (setting, why) in REFUSED {
        if own.text(setting).is_some_and(|text| !text.is_empty()) {
            problems.push(own.problem(setting, why));
        }
    }
    check_protocol(&own, problems);
    let of = OfListener {
        values,
        own,
        protocol: SecurityProtocol::Ssl,
    };
    let settings = ServerTlsSettings {
        client_auth: Setting::new(name, client_auth),
        ..of.settings(warnings, problems)
    };
    let (found, said) = settings.check();
    problems.extend(found.into_iter().map(|it| problem_of(values, &it)));
    warnings.extend(said.into_iter().filter_map(|it| warning_of(values, &it)));
    Some(settings)
}

/// One listener that speaks TLS.
struct OfListener<'a> {
    values: &'a Values,
    own: ListenerValues<'a>,
    protocol: SecurityProtocol,
}

impl OfListener<'_> {
    fn settings(
        &self,
        warnings: &mut Vec<Warning>,
        problems: &mut Vec<Problem>,
    ) -> ServerTlsSettings {
        let own = &self.own;
        let list = |setting: &str| {
            let items = own.list(setting).into_iter().map(str::to_owned);
            let items: Vec<String> = items.collect();
            Some(Setting::new(own.full_name(setting), items))
        };
        let rules = own.text(RULES).unwrap_or_default();
        let rules = PrincipalRules::parse(rules).unwrap_or_else(|problem| {
            problems.push(own.problem(RULES, problem.to_string()));
            PrincipalRules::default()
        });
        ServerTlsSettings {
            stores: self.stores(),
            names: TlsNames {
                protocols: list("ssl.enabled.protocols"),
                cipher_suites: list("ssl.cipher.suites"),
            },
            client_auth: self.client_auth(warnings),
            principal_rules: rules,
            allowed_changes: AllowedChanges {
                subject: own.is("ssl.allow.dn.changes"),
                names: own.is("ssl.allow.san.changes"),
            },
        }
    }

    fn stores(&self) -> StoreSettings {
        let own = &self.own;
        let given = |setting: &str| {
            let text = own.text(setting)?;
            Some((own.full_name(setting), text))
        };
        let not_empty = |setting: &str| given(setting).filter(|(_, text)| !text.is_empty());
        let text = |setting: &str| {
            not_empty(setting).map(|(name, text)| Setting::new(name, text.to_owned()))
        };
        let path = |setting: &str| {
            not_empty(setting).map(|(name, text)| Setting::new(name, PathBuf::from(text)))
        };
        // A store may have an empty password.
        let password = |setting: &str| {
            given(setting).map(|(name, text)| Setting::new(name, Password::new(text)))
        };
        let secret = |setting: &str| {
            not_empty(setting).map(|(name, text)| Setting::new(name, Password::new(text)))
        };
        let has_own = own.own_entries().any(|entry| is_own_of_tls(&entry.key));
        StoreSettings {
            prefix: if has_own { own.prefix() } else { String::new() },
            keystore_type: text("ssl.keystore.type"),
            keystore_location: path("ssl.keystore.location"),
            keystore_password: password("ssl.keystore.password"),
            key_password: secret("ssl.key.password"),
            keystore_key: secret("ssl.keystore.key"),
            keystore_certificate_chain: secret("ssl.keystore.certificate.chain"),
            truststore_type: text("ssl.truststore.type"),
            truststore_location: path("ssl.truststore.location"),
            truststore_password: password("ssl.truststore.password"),
            truststore_certificates: secret("ssl.truststore.certificates"),
            crl_location: path("ssl.crl.location"),
            is_strict: self.values.string("secrets.permissions") == "strict",
        }
    }

    /// Returns whether clients are asked for certificates. Where they log in, only a setting of the
    /// listener alone asks them, as in Kafka.
    fn client_auth(&self, warnings: &mut Vec<Warning>) -> Setting<ClientAuth> {
        let parsed = |text: &str| ClientAuth::parse(text).unwrap_or_default();
        if !self.protocol.asks_for_login() {
            let text = self.own.text(CLIENT_AUTH).unwrap_or_default();
            return Setting::new(self.own.full_name(CLIENT_AUTH), parsed(text));
        }
        let name = self.own.own_name(CLIENT_AUTH);
        if let Some(text) = self.own.own(CLIENT_AUTH) {
            return Setting::new(name, parsed(text));
        }
        if let Some(entry) = self.values.entry(CLIENT_AUTH)
            && parsed(entry.text()) != ClientAuth::None
        {
            let why = format!(
                "does not hold for {}, which maps to SASL_SSL: its clients are not asked for \
                 certificates, as in Kafka",
                self.own.listener()
            );
            let advice = format!("set {name} if they are to be asked");
            warnings.push(Warning::of(entry, why).seen_by_clients(advice));
        }
        Setting::new(name, ClientAuth::None)
    }
}

fn is_of_tls(setting: &str) -> bool {
    setting.starts_with("ssl.")
}

/// Returns true for the name of a setting of TLS of a single listener.
fn is_own_of_tls(name: &str) -> bool {
    keys::of_listener(name).is_some_and(|(_, key)| is_of_tls(key.name))
}

/// Refuses what asks for a version of TLS that is not served.
fn check_protocol(own: &ListenerValues<'_>, problems: &mut Vec<Problem>) {
    const SERVED: [&str; 3] = ["TLS", "TLSv1.2", "TLSv1.3"];
    let text = own.text(PROTOCOL).unwrap_or_default();
    if !text.is_empty() && !SERVED.contains(&text) {
        let why = "asks for a version that is not served: take it out, and name TLSv1.2, TLSv1.3 or \
                   both in ssl.enabled.protocols";
        problems.push(own.problem(PROTOCOL, why));
    }
}

/// Warns of settings of TLS at a listener that does not speak it.
fn warn_of_no_tls(
    own: &ListenerValues<'_>,
    protocol: SecurityProtocol,
    warnings: &mut Vec<Warning>,
) {
    let encrypted = if protocol.asks_for_login() {
        SecurityProtocol::SaslSsl
    } else {
        SecurityProtocol::Ssl
    };
    for entry in own.own_entries() {
        if is_own_of_tls(&entry.key) {
            let why = format!(
                "has no effect: the listener maps to {}, which is not encrypted",
                protocol.name()
            );
            let advice = format!(
                "map the listener to {} in listener.security.protocol.map, or take this out",
                encrypted.name()
            );
            warnings.push(Warning::of(entry, why).seen_by_clients(advice));
        }
    }
}

/// Warns of settings of TLS where nothing speaks it.
pub(super) fn warn_of_no_listener(values: &Values, warnings: &mut Vec<Warning>) {
    let of_tls = keys::all().filter(|key| is_of_tls(key.name) && key.without_effect.is_none());
    for entry in of_tls.filter_map(|key| values.entry(key.name)) {
        let why = "has no effect: no listener maps to SSL or SASL_SSL";
        warnings.push(Warning::of(entry, why.into()));
    }
}

fn problem_of(values: &Values, problem: &TlsProblem) -> Problem {
    let allowed = format!("{}: {}", problem.why, problem.advice);
    values.problem_of(&problem.setting, allowed)
}

/// Returns a warning as one about a setting; `None` if that setting is not given: there is nothing
/// in the file that the warning could point to.
fn warning_of(values: &Values, TlsWarning(problem): &TlsWarning) -> Option<Warning> {
    let entry = values.any_entry(&problem.setting)?;
    let warning = Warning::of(entry, problem.why.clone());
    Some(warning.seen_by_clients(problem.advice.clone()))
}
