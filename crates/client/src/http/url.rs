//! The address of what is asked by HTTP.
//!
//! Invariant: an address is of https, or of this machine; it holds no name and no password of a
//! user, which would be in logs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustls_pki_types::ServerName;

/// Longest address.
const BYTES_MAX: usize = 2048;

/// An address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpUrl {
    is_tls: bool,
    host: String,
    port: u16,
    /// As it was given: host and port.
    authority: String,
    /// The path, and the query if there is one.
    path: String,
}

/// Why a text is no such address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UrlProblem {
    /// It begins otherwise.
    #[error("must begin with https://")]
    Scheme,
    /// It is of another machine, and without TLS.
    #[error(
        "must begin with https:// (http:// is for this machine only: localhost, 127.0.0.1, [::1])"
    )]
    Unencrypted,
    /// It names a user.
    #[error("must not have a name or a password before the host")]
    User,
    /// It has no host, or a wrong port.
    #[error("must have a host, and a port from 1 to 65535 if it has one")]
    Host,
    /// It has letters that are not of an address.
    #[error(
        "must have neither spaces, a fragment (#), nor letters other than ASCII's, and at most {BYTES_MAX} bytes"
    )]
    Letters,
}

impl HttpUrl {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, UrlProblem> {
        let is_of_url = |byte: u8| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte);
        let (is_tls, rest) = match scheme(text) {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err(UrlProblem::Scheme),
        };
        if text.len() > BYTES_MAX || !text.bytes().all(is_of_url) {
            return Err(UrlProblem::Letters);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlProblem::User);
        }
        let (host, port) = host_and_port(authority).ok_or(UrlProblem::Host)?;
        let port = port.unwrap_or(if is_tls { 443 } else { 80 });
        // A name that no certificate can have is an error now and not at each question.
        if is_tls && ServerName::try_from(host).is_err() {
            return Err(UrlProblem::Host);
        }
        if !is_tls && !is_here(host) {
            return Err(UrlProblem::Unencrypted);
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            path: format!("{slash}{path}"),
        })
    }

    /// Returns true if it is of https.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns host and port as they were given.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the path with the query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

fn scheme(text: &str) -> Option<(&str, &str)> {
    let known = ["https", "http"].into_iter();
    let mut found = known.filter_map(|scheme| {
        let (begins, rest) = text.split_once("://")?;
        begins
            .eq_ignore_ascii_case(scheme)
            .then_some((scheme, rest))
    });
    found.next()
}

fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        (host, port)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        authority.split_at(end)
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        None => return None,
        Some(digits) => {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let port = digits.parse().ok().filter(|port| is_number && *port != 0);
            Some(port?)
        }
    };
    (!host.is_empty()).then_some((host, port))
}

fn is_here(host: &str) -> bool {
    let v4 = host.parse::<Ipv4Addr>().map(IpAddr::V4);
    let address = v4.or_else(|_| host.parse::<Ipv6Addr>().map(IpAddr::V6));
    address.map_or_else(
        |_| host.eq_ignore_ascii_case("localhost"),
        |address| address.is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        for (text, expected) in [
            (
                "https://a.b/keys?x=1",
                (true, "a.b", 443, "a.b", "/keys?x=1"),
            ),
            ("HTTPS://a:8443", (true, "a", 8443, "a:8443", "/")),
            ("https://a?x", (true, "a", 443, "a", "/?x")),
            (
                "https://[2001:db8::1]:1/k",
                (true, "2001:db8::1", 1, "[2001:db8::1]:1", "/k"),
            ),
            (
                "http://127.9.9.9/k",
                (false, "127.9.9.9", 80, "127.9.9.9", "/k"),
            ),
            ("http://[::1]:7/", (false, "::1", 7, "[::1]:7", "/")),
            (
                "http://LocalHost:7/",
                (false, "LocalHost", 7, "LocalHost:7", "/"),
            ),
        ] {
            let url = HttpUrl::parse(text).unwrap();
            let read = (
                url.is_tls(),
                url.host(),
                url.port(),
                url.authority(),
                url.path(),
            );
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn what_could_leak_or_lead_elsewhere_is_refused() {
        for (text, expected) in [
            ("", UrlProblem::Scheme),
            ("ftp://a/", UrlProblem::Scheme),
            ("https:/a", UrlProblem::Scheme),
            ("file:///etc/passwd", UrlProblem::Scheme),
            ("http://169.254.169.254/latest", UrlProblem::Unencrypted),
            ("http://localhost.example.org/", UrlProblem::Unencrypted),
            ("http://127.0.0.1.example.org/", UrlProblem::Unencrypted),
            ("http://2130706433/", UrlProblem::Unencrypted),
            ("https://user:word@a/", UrlProblem::User),
            ("http://localhost@a/", UrlProblem::User),
            ("https://", UrlProblem::Host),
            ("https:///keys", UrlProblem::Host),
            ("https://idp..example.org/", UrlProblem::Host),
            ("https://idp,example.org/", UrlProblem::Host),
            ("https://idp%2eexample.org/", UrlProblem::Host),
            ("https://a:0/", UrlProblem::Host),
            ("https://a:+7/", UrlProblem::Host),
            ("https://a:70000/", UrlProblem::Host),
            ("https://[a]/", UrlProblem::Host),
            ("https://a/b c", UrlProblem::Letters),
            ("https://a/\r\nX: y", UrlProblem::Letters),
            ("https://a/#keys", UrlProblem::Letters),
        ] {
            assert_eq!(HttpUrl::parse(text), Err(expected), "{text}");
        }
        let long = format!("https://a/{}", "b".repeat(BYTES_MAX));
        assert_eq!(HttpUrl::parse(&long), Err(UrlProblem::Letters));
    }

    proptest! {
        #[test]
        fn whatever_is_no_address_of_this_machine_is_encrypted(text in "(https?://)?[a-z0-9.:@\\[\\]/?-]{0,30}") {
            if let Ok(url) = HttpUrl::parse(&text) {
                prop_assert!(url.is_tls() || is_here(url.host()));
                prop_assert!(url.path().starts_with('/') && !url.host().is_empty());
            }
        }
    }
}
