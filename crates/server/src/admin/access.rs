//! Who may do what at the admin endpoint.
//!
//! ```text
//! /livez                                    everyone
//! /readyz                                   everyone its status; the reasons who may DESCRIBE
//! GET, HEAD                                 who may DESCRIBE the cluster
//! any other                                 who may ALTER the cluster
//! ```
//!
//! With `admin.auth=none` everyone may see, and a connection over the loopback interface may do.
//! Otherwise the client shows who it is (`basic`, `bearer`, or by its certificate), and the
//! authorizer of Kafka's requests decides by the ACLs in the metadata; without an authorizer every
//! user may do everything. Decisions are made by the metadata of the moment. While those are not
//! loaded yet only super users are known, and for a minute after a shard has stopped to answer the
//! last ones count, so that an operator can look at what is wrong.
//!
//! Invariants: nothing is answered before a request has passed here; a login that fails takes as
//! long whatever it was, and an address has few of them at a time; no line of the log and no metric
//! has a text of a client that was not let in.

mod attempts;
mod audited;
mod basic;
mod lines;
mod tokens;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use broker::audit::Audit;
use broker::authorizer::{Authorizer, AuthorizerMode};
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::{Instant, sleep_until};
use wire::acl::{Action, CLUSTER_NAME, Client, Decision, Operation, Principal, ResourceType};
use wire::text::cut;

use super::page::{Body, TEXT, View, response};
use crate::config::{AdminAuth, AdminSettings};
use crate::handshake::Failure as NoHandshake;
use crate::metrics::AdminMetrics;
use crate::rights::RightsImage;
use crate::shards::ShardsView;
use attempts::Attempts;
use audited::AuditedAdmin;
use basic::BasicLogins;
pub(super) use basic::{credentials, credentials_of_text};
use lines::Lines;
pub(crate) use tokens::{TokenFile, Tokens};

/// How long users and rights count when they cannot be asked for.
const STALE_MAX: Duration = Duration::from_mins(1);

/// How much of a name or a path a line of the log repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

/// The client at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Its address.
    pub(super) address: IpAddr,
    /// True if the connection does not leave the machine.
    pub(super) is_local: bool,
    /// The principal of its certificate, if certificates say who clients are and it has one.
    pub(super) certificate: Option<Result<Principal, Failure>>,
}

/// Why a client is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// It has not shown who it is.
    Missing,
    /// It shows who it is in another way than it is asked to.
    Scheme,
    /// What it sent has not the right form.
    Malformed,
    /// The name, the password or the token is wrong.
    Credentials,
    /// No rule makes a principal of its certificate.
    Principal,
    /// Too many logins of its address are under way.
    Crowded,
    /// The users are not known at the moment.
    Unknown,
}

impl Failure {
    /// Returns a word for the metric.
    fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Scheme => "scheme",
            Self::Malformed => "malformed",
            Self::Credentials => "credentials",
            Self::Principal => "principal",
            Self::Crowded => "crowded",
            Self::Unknown => "unknown",
        }
    }

    /// Returns true for one whose answer waits: a client may be guessing.
    fn is_guess(self) -> bool {
        matches!(self, Self::Malformed | Self::Credentials)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Missing | Self::Scheme => "log in (admin.auth says how)\n",
            Self::Malformed | Self::Credentials => "wrong credentials\n",
            Self::Principal => "no rule of ssl.principal.mapping.rules fits the certificate\n",
            Self::Crowded => "too many logins of this address at a time\n",
            Self::Unknown => "the broker does not know its users yet, or does not answer\n",
        }
    }
}

/// How clients show who they are.
enum Logins {
    None,
    Basic(Box<BasicLogins>),
    Bearer(Tokens),
    Mtls,
}

/// Lets requests in, or not.
pub(super) struct Gate {
    logins: Logins,
    authorizer: Option<Arc<Authorizer>>,
    failure_delay: Duration,
    /// Users and rights when they were asked for last.
    last: Mutex<Option<(Instant, RightsImage)>>,
    attempts: Attempts,
    lines: Lines,
    metrics: AdminMetrics,
    audited: AuditedAdmin,
}

impl Gate {
    pub(super) fn new(
        settings: &AdminSettings,
        authorizer: Option<Arc<Authorizer>>,
        tokens: Option<Tokens>,
        (metrics, audit): (AdminMetrics, Audit),
    ) -> Self {
        let logins = match settings.auth {
            AdminAuth::None => Logins::None,
            AdminAuth::Basic => Logins::Basic(Box::new(BasicLogins::new(&settings.users))),
            // Without tokens no client has one.
            AdminAuth::Bearer => Logins::Bearer(tokens.unwrap_or_default()),
            AdminAuth::Mtls => Logins::Mtls,
        };
        Self {
            logins,
            authorizer,
            failure_delay: settings.failure_delay,
            last: Mutex::default(),
            attempts: Attempts::default(),
            lines: Lines::default(),
            metrics,
            audited: AuditedAdmin::new(audit, settings.auth),
        }
    }

    /// Returns what a request may see, or the answer with which it is refused.
    pub(super) async fn admit<B>(
        &self,
        request: &Request<B>,
        peer: &Peer,
        shards: &ShardsView,
    ) -> Result<View, Box<Response<Body>>> {
        let is_get = [Method::GET, Method::HEAD].contains(request.method());
        let path = request.uri().path();
        if is_get && path == "/livez" {
            return Ok(View::Full);
        }
        if let Logins::None = self.logins {
            return self.admit_anyone(request, is_get, peer);
        }
        let is_probe = is_get && path == "/readyz";
        if !self.is_shown(request, peer) {
            if is_probe {
                return Ok(View::Bare);
            }
            return Err(self.refused(Failure::Missing, peer));
        }
        let rights = self.rights(shards).await;
        let principal = match self.login(request, peer, rights.as_ref()).await {
            Ok(principal) => principal,
            // The answer tells as much as there is to know.
            Err(Failure::Unknown) if is_probe => return Ok(View::Bare),
            Err(failure) => return Err(self.refused(failure, peer)),
        };
        let operation = if is_get {
            Operation::Describe
        } else {
            Operation::Alter
        };
        self.audited.logged_in(&principal, peer);
        match self.may(&principal, peer, operation, rights.as_ref(), is_probe) {
            Some(true) => {}
            _ if is_probe => return Ok(View::Bare),
            Some(false) => {
                let text = format!("the user lacks {operation} on the cluster\n");
                return Err(Box::new(response(StatusCode::FORBIDDEN, TEXT, text)));
            }
            None => return Err(self.refused(Failure::Unknown, peer)),
        }
        if !is_get {
            self.say_order(principal.as_str(), request, peer);
        }
        Ok(View::Full)
    }

    fn admit_anyone<B>(
        &self,
        request: &Request<B>,
        is_get: bool,
        peer: &Peer,
    ) -> Result<View, Box<Response<Body>>> {
        if is_get {
            return Ok(View::Full);
        }
        if peer.is_local {
            self.say_order(Principal::anonymous().as_str(), request, peer);
            return Ok(View::Full);
        }
        self.metrics.denied(Operation::Alter.name(), true);
        if let Some(left_out) = self.lines.turn("order_refused", Instant::now()) {
            let address = peer.address;
            tracing::warn!(%address, left_out, "an order to the admin endpoint is refused: \
                admin.auth is none, and it comes from another machine");
        }
        let text = "with admin.auth=none orders are taken over the loopback interface only\n";
        Err(Box::new(response(StatusCode::FORBIDDEN, TEXT, text.into())))
    }

    /// Returns users and rights of this moment, or the last ones.
    async fn rights(&self, shards: &ShardsView) -> Option<RightsImage> {
        let now = shards.rights().await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rights) = now {
            *last = Some((Instant::now(), rights));
        }
        let (since, rights) = last.as_ref()?;
        (since.elapsed() <= STALE_MAX).then(|| rights.clone())
    }

    /// Returns true if the client shows who it is, in whatever way.
    fn is_shown<B>(&self, request: &Request<B>, peer: &Peer) -> bool {
        match self.logins {
            Logins::Mtls => peer.certificate.is_some(),
            _ => request.headers().contains_key(AUTHORIZATION),
        }
    }

    /// Returns who the client is.
    async fn login<B>(
        &self,
        request: &Request<B>,
        peer: &Peer,
        rights: Option<&RightsImage>,
    ) -> Result<Principal, Failure> {
        if let Logins::Mtls = self.logins {
            return peer.certificate.clone().unwrap_or(Err(Failure::Missing));
        }
        let header = request.headers().get(AUTHORIZATION);
        let header = header.ok_or(Failure::Missing)?;
        let begin = Instant::now();
        // An address that guesses waits for its guesses.
        let attempt = self.attempts.begin(peer.address);
        let until = begin + self.failure_delay;
        if attempt.is_none() && !self.attempts.looks_beyond(peer.address, begin, until) {
            return Err(Failure::Crowded);
        }
        let verified = self.verify(header, rights, attempt.is_some()).await;
        if verified.as_ref().is_err_and(|failure| failure.is_guess()) {
            if attempt.is_none() {
                return Err(Failure::Crowded);
            }
            sleep_until(until).await;
        }
        drop(attempt);
        verified
    }

    async fn verify(
        &self,
        header: &HeaderValue,
        rights: Option<&RightsImage>,
        may_try: bool,
    ) -> Result<Principal, Failure> {
        let (scheme, given) = scheme_of(header)?;
        let (asked, verified) = match &self.logins {
            Logins::None | Logins::Mtls => return Err(Failure::Scheme),
            Logins::Basic(_) if !scheme.eq_ignore_ascii_case("basic") => {
                return Err(Failure::Scheme);
            }
            Logins::Bearer(_) if !scheme.eq_ignore_ascii_case("bearer") => {
                return Err(Failure::Scheme);
            }
            Logins::Basic(basic) => ("basic", basic.verify(given, rights, may_try).await?),
            Logins::Bearer(tokens) => {
                let principal = tokens.find(given).ok_or(Failure::Credentials)?;
                ("bearer", principal)
            }
        };
        self.metrics.logged_in(asked);
        Ok(verified)
    }

    /// Returns whether a user may do this with the cluster; `None` if that is not known. A question
    /// is not counted when `is_asked_aside`: the client does not depend on the answer.
    fn may(
        &self,
        principal: &Principal,
        peer: &Peer,
        operation: Operation,
        rights: Option<&RightsImage>,
        is_asked_aside: bool,
    ) -> Option<bool> {
        let Some(authorizer) = &self.authorizer else {
            return Some(true);
        };
        let policy = &authorizer.policy;
        if policy.super_users.contains(principal) {
            return Some(true);
        }
        let client = Client::new(principal, peer.address);
        let action = Action {
            operation,
            resource_type: ResourceType::Cluster,
            name: CLUSTER_NAME,
        };
        let decision = rights?.acls.index().decide(policy, &client, &action);
        if decision.is_allowed() {
            return Some(true);
        }
        let is_enforced = authorizer.mode == AuthorizerMode::Enforce;
        if !is_asked_aside {
            self.note_denial(principal, peer, operation, decision, is_enforced);
        }
        Some(!is_enforced)
    }

    fn note_denial(
        &self,
        principal: &Principal,
        peer: &Peer,
        operation: Operation,
        rule: Decision<'_>,
        is_enforced: bool,
    ) {
        self.metrics.denied(operation.name(), is_enforced);
        self.audited
            .denied(principal, peer, operation, (&rule, is_enforced));
        let Some(left_out) = self.lines.turn("denied", Instant::now()) else {
            return;
        };
        let principal = cut(principal.as_str(), SHOWN_BYTES_MAX);
        let address = peer.address;
        if is_enforced {
            tracing::info!(principal, %address, %operation, %rule, left_out,
                "a client of the admin endpoint was denied what it asked for");
        } else {
            tracing::info!(principal, %address, %operation, %rule, left_out,
                "would_deny: a client of the admin endpoint does what ACLs deny, because \
                 authorizer.mode is log");
        }
    }

    fn say_order<B>(&self, principal: &str, request: &Request<B>, peer: &Peer) {
        self.audited.ordered(principal, request, peer);
        if let Some(left_out) = self.lines.turn("order", Instant::now()) {
            let principal = cut(principal, SHOWN_BYTES_MAX);
            let (method, address) = (
                cut(request.method().as_str(), SHOWN_BYTES_MAX),
                peer.address,
            );
            let path = cut(request.uri().path(), SHOWN_BYTES_MAX);
            tracing::info!(principal, %address, method, path, left_out,
                "an order to the admin endpoint");
        }
    }

    /// Logs a connection without TLS, unless there were many just now.
    pub(super) fn say_no_handshake(&self, address: IpAddr, failure: &NoHandshake) {
        if failure.is_told()
            && let Some(left_out) = self.lines.turn(failure.label(), Instant::now())
        {
            tracing::warn!(%address, reason = %failure, left_out,
                "TLS handshake failed at the admin endpoint");
        }
    }

    /// Returns the answer to a client that is not known, and counts it.
    fn refused(&self, failure: Failure, peer: &Peer) -> Box<Response<Body>> {
        let cause = failure.label();
        self.metrics.failed(cause);
        // Browsers and curl ask once without.
        if failure != Failure::Missing {
            self.audited.failed(cause, peer);
        }
        if failure != Failure::Missing
            && let Some(left_out) = self.lines.turn(cause, Instant::now())
        {
            let address = peer.address;
            tracing::warn!(%address, cause, left_out, "a login at the admin endpoint failed");
        }
        let (code, challenge) = match (&self.logins, failure) {
            (_, Failure::Crowded) => (StatusCode::TOO_MANY_REQUESTS, None),
            (_, Failure::Unknown) => (StatusCode::SERVICE_UNAVAILABLE, None),
            (Logins::Basic(_), _) => {
                let challenge = "Basic realm=\"forebay\", charset=\"UTF-8\"";
                (StatusCode::UNAUTHORIZED, Some(challenge))
            }
            (Logins::Bearer(_), _) => (StatusCode::UNAUTHORIZED, Some("Bearer realm=\"forebay\"")),
            (Logins::None | Logins::Mtls, _) => (StatusCode::FORBIDDEN, None),
        };
        let text = match (&self.logins, failure) {
            (Logins::Mtls, Failure::Missing) => {
                "a client certificate is needed (admin.auth=mtls)\n"
            }
            _ => failure.text(),
        };
        let mut refused = response(code, TEXT, text.into());
        if let Some(challenge) = challenge {
            let challenge = HeaderValue::from_static(challenge);
            refused.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        Box::new(refused)
    }
}

/// Reads in which way a client shows who it is, and by what.
pub(super) fn scheme_of(header: &HeaderValue) -> Result<(&str, &str), Failure> {
    let text = header.to_str().map_err(|_| Failure::Malformed)?;
    let (scheme, given) = text.split_once(' ').ok_or(Failure::Malformed)?;
    Ok((scheme, given.trim()))
}

#[cfg(test)]
mod tests;
