//! The host names under which the admin endpoint answers.
//!
//! A web page can make a browser on this machine send requests here under the page's own host name,
//! once that name resolves to this address (DNS rebinding). So the endpoint answers a request only
//! if its `Host` is an address, `localhost`, or a name that the operator gave this broker. A
//! request with an `Origin` is answered only if the origin is this endpoint. Requests of HTTP/1.1
//! have one `Host`, or they are malformed (RFC 9112, 3.2): of two, a proxy in front may have judged
//! the other one. Requests of HTTP/1.0 without it pass, since no browser sends them.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{Request, StatusCode, Version};

/// The names, lower-cased.
#[derive(Clone, Default, Debug)]
pub struct Names(Vec<String>);

impl Names {
    /// Allows `names`, besides `localhost` and all addresses.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let lower = |name: &str| name.to_ascii_lowercase();
        Self(names.into_iter().map(lower).collect())
    }

    /// Returns why the names in a request are refused, with the code of the answer; `None` if they
    /// are allowed.
    pub(crate) fn refuse<B>(&self, request: &Request<B>) -> Option<(StatusCode, &'static str)> {
        if request.headers().get_all(HOST).iter().nth(1).is_some() {
            let why = "a request has one header Host (RFC 9112, 3.2)\n";
            return Some((StatusCode::BAD_REQUEST, why));
        }
        let text = |name: HeaderName| {
            let header = request.headers().get(name)?;
            Some(header.to_str().unwrap_or_default())
        };
        let host = text(HOST);
        if host.is_none() && request.version() == Version::HTTP_11 {
            let why = "a request of HTTP/1.1 has a header Host (RFC 9112, 3.2)\n";
            return Some((StatusCode::BAD_REQUEST, why));
        }
        let named = host.or_else(|| {
            request
                .uri()
                .authority()
                .map(hyper::http::uri::Authority::as_str)
        });
        if !named.is_none_or(|named| self.knows(named)) {
            return Some((
                StatusCode::FORBIDDEN,
                "Host must be an address, localhost, or the host of admin.listener or of advertised.listeners\n",
            ));
        }
        match text(ORIGIN).map(|origin| origin.split_once("://")) {
            None => None,
            Some(Some((_, from))) if named == Some(from) => None,
            Some(_) => Some((
                StatusCode::FORBIDDEN,
                "requests of other origins are not answered\n",
            )),
        }
    }

    /// Returns true for an authority (`host` or `host:port`) under which this endpoint answers.
    fn knows(&self, authority: &str) -> bool {
        if let Some(rest) = authority.strip_prefix('[') {
            let inside = rest.split_once(']').map(|(inside, _)| inside);
            return inside.is_some_and(|inside| inside.parse::<Ipv6Addr>().is_ok());
        }
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        host == "localhost" || host.parse::<IpAddr>().is_ok() || self.0.contains(&host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: Option<&str>, origin: Option<&str>, answered: bool) {
        let names = Names::new(["Broker-1.example"]);
        let mut request = Request::builder().uri("/livez");
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let request = request.body(()).unwrap();
        let refused = names.refuse(&request);
        assert_eq!(
            refused.is_none(),
            answered,
            "{host:?} {origin:?} {refused:?}"
        );
    }

    #[test]
    fn addresses_localhost_and_the_brokers_own_names_are_answered() {
        for host in [
            "127.0.0.1",
            "10.0.0.7:9644",
            "[::1]:9644",
            "[fe80::1]",
            "localhost",
            "LOCALHOST:1",
            "broker-1.example:9644",
            "broker-1.example.",
        ] {
            check(Some(host), None, true);
        }
        check_old(None, true);
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "localhost.evil:9644",
            "x@y",
        ] {
            check(Some(host), None, false);
        }
    }

    /// Checks a request of HTTP/1.0.
    fn check_old(host: Option<&str>, answered: bool) {
        let mut request = Request::builder().version(Version::HTTP_10).uri("/livez");
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let refused = Names::default().refuse(&request.body(()).unwrap());
        assert_eq!(refused.is_none(), answered, "{host:?}");
    }

    #[test]
    fn a_request_without_host_is_malformed_unless_it_is_of_http_1_0() {
        for uri in ["/livez", "http://127.0.0.1/livez"] {
            let request = Request::builder().uri(uri).body(()).unwrap();
            let refused = Names::default().refuse(&request);
            assert_eq!(refused.unwrap().0, StatusCode::BAD_REQUEST, "{uri}");
        }
        check_old(Some("evil.example"), false);
    }

    #[test]
    fn a_second_host_is_malformed_whatever_the_two_say() {
        for second in ["127.0.0.1", "evil.example"] {
            let request = Request::builder().uri("/livez");
            let request = request.header(HOST, "127.0.0.1").header(HOST, second);
            let refused = Names::default().refuse(&request.body(()).unwrap());
            assert_eq!(refused.unwrap().0, StatusCode::BAD_REQUEST, "{second}");
        }
    }

    #[test]
    fn a_page_of_somebody_else_is_not_answered() {
        let host = Some("127.0.0.1:9644");
        check(host, Some("http://127.0.0.1:9644"), true);
        for origin in ["http://evil.example", "null", "http://127.0.0.1", ""] {
            check(host, Some(origin), false);
        }
    }
}
