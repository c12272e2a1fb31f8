//! Who may do what at the admin endpoint, and whether it speaks TLS.
//!
//! Its settings of TLS and logins are those of a listener `admin`, as Kafka names them. Where a
//! listener for Kafka's requests has that name already, they are that listener's alone, and the
//! endpoint is without. Invariant: an endpoint that is to know its clients can, or the start is
//! refused. Not here: the endpoint (`crate::admin`).

use std::path::PathBuf;
use std::time::Duration;

use tls::{ClientAuth, ServerTlsSettings};
use wire::sasl::Secret;

use super::super::address::{self, Address};
use super::super::keys;
use super::super::problem::{Problem, Warning};
use super::super::values::{ListenerValues, Values};
use super::{login, milliseconds, tls as of_tls};

const AUTH: &str = "admin.auth";
const TOKENS: &str = "admin.bearer.tokens.file";
const WHERE: &str = "admin.listener";
const FAILURE_DELAY: &str = "connection.failed.authentication.delay.ms";
const CLIENT_AUTH: &str = "ssl.client.auth";

/// The name under which settings of TLS and logins are those of the endpoint.
pub(super) const LISTENER: &str = "admin";

/// How clients of the endpoint show who they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdminAuth {
    /// Not at all.
    None,
    /// By a name and a password.
    Basic,
    /// By a token.
    Bearer,
    /// By a certificate.
    Mtls,
}

impl AdminAuth {
    /// Returns the value of the setting.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "basic",
            Self::Bearer => "bearer",
            Self::Mtls => "mtls",
        }
    }

    fn parse(text: &str) -> Self {
        let all = [Self::Basic, Self::Bearer, Self::Mtls];
        let found = all.into_iter().find(|it| it.name() == text);
        found.unwrap_or(Self::None)
    }
}

/// Who may do what at the admin endpoint.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// How clients show who they are.
    pub auth: AdminAuth,
    /// Keys, certificates and rules, if it speaks TLS.
    pub tls: Option<Box<ServerTlsSettings>>,
    /// The file of tokens.
    pub tokens: Option<PathBuf>,
    /// Names and passwords beside those of the metadata.
    // Bounded: `wire::sasl::jaas::TEXT_BYTES_MAX`.
    pub users: Vec<(String, Secret<String>)>,
    /// How long the answer to a login that fails waits.
    pub failure_delay: Duration,
    /// True if files of secrets that others may read are refused.
    pub is_strict: bool,
    /// True if settings of a listener `admin` are the endpoint's.
    pub(super) has_own_settings: bool,
}

impl AdminSettings {
    /// The name of the endpoint among those of listeners, in metrics and lines of the log.
    pub const LISTENER: &str = "ADMIN";
}

/// Reads the settings of the endpoint.
pub(super) fn resolve(
    values: &Values,
    listeners: &[Address],
    (warnings, problems): (&mut Vec<Warning>, &mut Vec<Problem>),
) -> AdminSettings {
    let auth = AdminAuth::parse(&values.string(AUTH));
    let of_kafka = |it: &Address| it.listener == AdminSettings::LISTENER;
    let is_there = !values.string(WHERE).is_empty();
    let has_own_settings = is_there && !listeners.iter().any(of_kafka);
    let own = || ListenerValues::of(values, LISTENER);
    let client_auth = match auth {
        // Probes of health come without a certificate.
        AdminAuth::Mtls => ClientAuth::Requested,
        AdminAuth::None | AdminAuth::Basic | AdminAuth::Bearer => ClientAuth::None,
    };
    let tls = if has_own_settings {
        of_tls::of_admin(values, own(), client_auth, (warnings, problems))
    } else {
        None
    };
    let users = if has_own_settings && auth == AdminAuth::Basic {
        login::plain_users(values, LISTENER, (warnings, problems))
    } else {
        Vec::new()
    };
    let tokens = Some(values.string(TOKENS)).filter(|text| !text.is_empty());
    let settings = AdminSettings {
        auth,
        tls: tls.map(Box::new),
        tokens: tokens.map(PathBuf::from),
        users,
        failure_delay: milliseconds(if has_own_settings {
            own().number(FAILURE_DELAY)
        } else {
            values.int(FAILURE_DELAY)
        }),
        is_strict: values.string(super::super::permissions::KEY) == "strict",
        has_own_settings,
    };
    if is_there {
        settings.check(values, problems);
        settings.warn(values, warnings);
    } else if let Some(entry) = values.entry(AUTH).filter(|_| auth != AdminAuth::None) {
        let why = format!("has no effect: {WHERE} is empty");
        warnings.push(Warning::of(entry, why));
    }
    settings
}

impl AdminSettings {
    fn check(&self, values: &Values, problems: &mut Vec<Problem>) {
        if self.auth == AdminAuth::Bearer && self.tokens.is_none() {
            let allowed = format!("needs the tokens: set {TOKENS}");
            problems.push(values.problem(AUTH, allowed));
        }
        if self.auth != AdminAuth::Mtls {
            return;
        }
        match &self.tls {
            None if !self.has_own_settings => {
                let allowed = "needs TLS, and the settings listener.name.admin.ssl.* are those of \
                               the listener ADMIN: call that otherwise";
                problems.push(values.problem(AUTH, allowed));
            }
            None => {
                let allowed = "needs TLS: set listener.name.admin.ssl.keystore.location and \
                               listener.name.admin.ssl.truststore.location";
                problems.push(values.problem(AUTH, allowed));
            }
            Some(tls) if tls.client_auth.value == ClientAuth::None => {
                let own = ListenerValues::of(values, LISTENER);
                let allowed = format!("must be requested or required with {AUTH}=mtls");
                problems.push(values.problem_of(&own.own_name(CLIENT_AUTH), allowed));
            }
            Some(_) => {}
        }
    }

    fn warn(&self, values: &Values, warnings: &mut Vec<Warning>) {
        let host = address::host_and_port(values.text(WHERE).unwrap_or_default());
        let is_local = host.is_none_or(|(host, _)| address::is_loopback(host));
        if let (AdminAuth::None, false, Some(entry)) = (self.auth, is_local, values.entry(WHERE)) {
            let why = "everyone who reaches the port sees metrics, which name topics, clients and \
                       directories: admin.auth is none";
            let advice = "set admin.auth (docs/security-now.md), or let nobody else reach the port; \
                          POST answers only connections over the loopback interface";
            warnings.push(Warning::of(entry, why.into()).seen_by_clients(advice));
        }
        let sends = matches!(self.auth, AdminAuth::Basic | AdminAuth::Bearer);
        if let (true, None, false, Some(entry)) = (sends, &self.tls, is_local, values.entry(AUTH)) {
            let why = "passwords and tokens cross the network in clear text: the admin endpoint \
                       does not speak TLS";
            let advice = "set listener.name.admin.ssl.keystore.location";
            warnings.push(Warning::of(entry, why.into()).seen_by_clients(advice));
        }
        if let (Some(_), Some(entry)) = (&self.tokens, values.entry(TOKENS))
            && self.auth != AdminAuth::Bearer
        {
            let why = format!("has no effect: {AUTH} is {}", self.auth.name());
            warnings.push(Warning::of(entry, why));
        }
        if self.has_own_settings {
            self.warn_of_others(values, warnings);
        }
    }

    /// Warns of settings of listeners that the endpoint does not have.
    fn warn_of_others(&self, values: &Values, warnings: &mut Vec<Warning>) {
        for entry in ListenerValues::of(values, LISTENER).own_entries() {
            let Some((_, key)) = keys::of_listener(&entry.key) else {
                continue;
            };
            let is_plain = entry.key == "listener.name.admin.plain.sasl.jaas.config";
            let has_it = key.name.starts_with("ssl.")
                || (key.name == FAILURE_DELAY && self.auth != AdminAuth::None)
                || (is_plain && self.auth == AdminAuth::Basic);
            if !has_it {
                let auth = self.auth.name();
                let why = format!("has no effect at the admin endpoint with {AUTH}={auth}");
                warnings.push(Warning::of_mistake(entry, &why));
            }
        }
    }
}
