//! One connection to one broker, which sends a request and waits for its answer.
//!
//! The connection is `client`'s; here each step blocks. Invariant: every error names the broker.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use client::blocking::Client;
use client::error::{TLS, login_by, name_of};
use client::{Ask as _, ClientError, ClientSettings};
use platform::clock::Instant;
use platform::net::TcpNet;
use wire::StrBytes;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use wire::protocol::Request;

use super::refusal::check;

/// The client id and software name that brokers see.
pub(crate) const CLIENT_ID: &str = "forebay";

/// What the connections of a command share.
#[derive(Clone, Debug)]
pub(super) struct Means {
    client: Rc<Client>,
    settings: ClientSettings,
    within: Duration,
}

impl Means {
    pub(super) fn new(settings: ClientSettings, within: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            client: Rc::new(Client::new()?),
            settings,
            within,
        })
    }

    /// Returns the brokers to begin with.
    pub(super) fn bootstrap(&self) -> &[(String, u16)] {
        &self.settings.bootstrap
    }

    /// Returns how long one step may take at the broker.
    pub(super) fn within(&self) -> Duration {
        self.within
    }
}

/// A connection to one broker, with one request under way at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    means: Means,
    open: client::Connection,
    place: (String, u16),
    /// Set by a failed exchange: another connection is needed.
    is_lost: bool,
}

impl Connection {
    /// Connects, logs in, and asks the broker for its API versions.
    pub(super) fn open(means: &Means, host: &str, port: u16) -> anyhow::Result<Self> {
        let deadline = Instant::now() + means.within;
        let opening = client::Connection::open(&TcpNet, host, port, &means.settings, deadline);
        let open = means.client.run(opening).map_err(|error| {
            let address = client::connection::address(host, port);
            let is_refused =
                matches!(&error, ClientError::Login { mechanism, .. } if mechanism != TLS);
            let what = if is_refused {
                ""
            } else {
                " could not be reached"
            };
            bare(error).context(format!("broker {address}{what}"))
        })?;
        Ok(Self {
            means: means.clone(),
            open,
            place: (host.to_owned(), port),
            is_lost: false,
        })
    }

    /// Connects to the same broker again.
    pub(super) fn again(&self) -> anyhow::Result<Self> {
        let (host, port) = &self.place;
        Self::open(&self.means, host, *port)
    }

    /// Returns the address of the broker.
    pub(crate) fn address(&self) -> &str {
        self.open.address()
    }

    /// Returns true if another connection is needed: an exchange failed, or the login ends soon.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost || self.open.is_lost() || self.open.is_ageing(Instant::now())
    }

    /// Asks the broker for its versions and features.
    pub(crate) fn features(&mut self) -> anyhow::Result<ApiVersionsResponse> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str(CLIENT_ID))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let answer = self.ask_newest(&request)?;
        check(answer.error_code, None)
            .with_context(|| format!("features of broker {}", self.address()))?;
        Ok(answer)
    }

    /// Returns true if the broker serves this request in a version that this client knows.
    pub(crate) fn serves<R: Request>(&self) -> bool {
        self.version::<R>().is_ok()
    }

    /// Returns the newest version of a request that both sides know.
    pub(crate) fn version<R: Request>(&self) -> anyhow::Result<i16> {
        Ok(self.open.version::<R>()?)
    }

    /// Sends a request in the newest version that both sides know, and returns the answer.
    pub(crate) fn ask_newest<R: Request>(&mut self, request: &R) -> anyhow::Result<R::Response> {
        let version = self.version::<R>()?;
        self.ask(version, request)
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask<R: Request>(
        &mut self,
        version: i16,
        request: &R,
    ) -> anyhow::Result<R::Response> {
        // A broker may wait for the timeout that a request names, but not for much longer.
        let deadline = Instant::now() + self.means.within * 2;
        let asking = self.open.ask_in(version, request, deadline);
        let answer = self.means.client.run(asking);
        self.is_lost |= answer.is_err();
        answer
            .map_err(bare)
            .with_context(|| format!("broker {}, {}", self.address(), name_of(R::API)))
    }
}

/// Returns an error without the broker, which the caller names.
fn bare(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Io { what, reason, .. } => anyhow::anyhow!("{what}: {reason}"),
        ClientError::TimedOut { .. } => anyhow::anyhow!("no answer in time"),
        ClientError::Malformed { reason, .. } => anyhow::anyhow!("{reason}"),
        ClientError::Login {
            mechanism, reason, ..
        } => anyhow::anyhow!("{}: {reason}", login_by(&mechanism)),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Peer;

    #[test]
    fn features_that_come_with_an_error_are_none() {
        let refused = ApiVersionsResponse::default().with_error_code(35);
        let peer = Peer::start(move |asked| asked.to(|_: ApiVersionsRequest| refused.clone()));
        let mut cluster = peer.cluster();
        let broker = cluster.entrance().unwrap();
        let reason = format!("{:#}", broker.features().unwrap_err());
        assert!(reason.ends_with("UNSUPPORTED_VERSION"), "{reason}");
    }
}
