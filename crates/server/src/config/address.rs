//! `NAME://host:port`, the form in which Kafka writes listeners.

use std::fmt;

/// A listener's name, host and port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Name of the listener, in upper case.
    pub listener: String,
    /// Host; empty for all addresses. An IPv6 address has no brackets.
    pub host: String,
    /// Port; 0 for any free port.
    pub port: u16,
}

impl Address {
    /// Parses one listener.
    pub fn parse(text: &str) -> Option<Self> {
        let (listener, rest) = text.trim().split_once("://")?;
        let named = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
        if listener.is_empty() || !listener.chars().all(named) {
            return None;
        }
        let (host, port) = host_and_port(rest)?;
        Some(Self {
            listener: listener.to_ascii_uppercase(),
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            listener,
            host,
            port,
        } = self;
        if host.contains(':') {
            return write!(f, "{listener}://[{host}]:{port}");
        }
        write!(f, "{listener}://{host}:{port}")
    }
}

/// Splits `host:port`; the host may be empty or an IPv6 address in brackets.
pub(super) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.trim().rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let sound = host
        .chars()
        .all(|c| c.is_ascii_graphic() && !"/[]".contains(c));
    sound.then_some((host, port))
}

/// Returns true for an address, or a name, of this machine alone.
pub(super) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    address.map_or(host.eq_ignore_ascii_case("localhost"), |it| {
        it.to_canonical().is_loopback()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<(&str, &str, u16)>) {
        let parsed = Address::parse(text);
        let got = parsed
            .as_ref()
            .map(|a| (a.listener.as_str(), a.host.as_str(), a.port));
        assert_eq!(got, expect, "{text}");
        if let Some(address) = parsed {
            assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
    }

    #[test]
    fn listeners_are_name_host_port() {
        check("PLAINTEXT://:9092", Some(("PLAINTEXT", "", 9092)));
        check(" inside://0.0.0.0:0 ", Some(("INSIDE", "0.0.0.0", 0)));
        check("A_B-1://[::1]:9092", Some(("A_B-1", "::1", 9092)));
        for wrong in [
            "",
            "host:1",
            "A://host",
            "A://host:",
            "A://host:70000",
            "A://::1:9092",
            "://h:1",
        ] {
            check(wrong, None);
        }
        check("A://ho st:1", None);
        check("A://h/x:1", None);
    }
}
