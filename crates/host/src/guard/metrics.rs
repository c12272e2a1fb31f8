//! The times of requests, from the metrics page of a broker on this machine.
//!
//! Invariant: only this machine is asked, within two seconds in all, so that who has the broker's
//! port in its place cannot keep the watchdog from its deadline; what is no page gives nothing.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use platform::bounded;

use crate::boot;

/// Longest wait for a connection, and for each part of the page.
const TIME: Duration = Duration::from_secs(1);
/// Longest time for the page.
const ALL_MS: u64 = 2_000;
/// Limit on the size of the page.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// Kafka's name for the time from a request's arrival to its answer.
const NAME: &str = "kafka_network_requestmetrics_totaltimems_bucket{";
const PRODUCE: &str = "request=\"Produce\"";

/// A histogram: (upper bound in milliseconds, requests up to it), by rising bounds.
#[derive(Clone, PartialEq, Debug)]
pub struct Buckets(pub Vec<(f64, u64)>);

impl Buckets {
    /// Parses the page; none without produce requests on it.
    fn parse(page: &str) -> Option<Buckets> {
        let bucket = |line: &str| {
            let (labels, count) = line.strip_prefix(NAME)?.split_once("} ")?;
            if !labels.contains(PRODUCE) {
                return None;
            }
            let (_, bound) = labels.split_once("le=\"")?;
            let bound = bound.split('"').next()?.replace("+Inf", "inf");
            Some((bound.parse().ok()?, count.split(' ').next()?.parse().ok()?))
        };
        let mut buckets: Vec<(f64, u64)> = page.lines().filter_map(bucket).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        (!buckets.is_empty()).then_some(Buckets(buckets))
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.0.last().map_or(0, |(_, count)| *count)
    }

    /// Returns what was added since; none after a restart of the broker.
    pub fn since(&self, earlier: &Buckets) -> Option<Buckets> {
        let pairs = self.0.iter().zip(&earlier.0);
        let added = pairs.map(|(now, then)| Some((now.0, now.1.checked_sub(then.1)?)));
        let added: Vec<(f64, u64)> = added.collect::<Option<_>>()?;
        (added.len() == self.0.len()).then_some(Buckets(added))
    }

    /// Returns a quantile in milliseconds, between the bounds of its bucket by proportion.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = self.count() as f64 * share;
        let (mut below, mut bound_below) = (0_u64, 0.0);
        for (bound, count) in &self.0 {
            if *count as f64 >= rank && *count > below {
                // Beyond the last bound it is at least that.
                if bound.is_infinite() {
                    return Some(bound_below);
                }
                let part = (rank - below as f64) / (*count - below) as f64;
                return Some(bound_below + (bound - bound_below) * part);
            }
            (below, bound_below) = (*count, *bound);
        }
        None
    }
}

/// Returns the address and the path of a page on this machine.
pub(super) fn place(url: &str) -> Result<(SocketAddr, String), String> {
    let rest = url
        .strip_prefix("http://")
        .ok_or("it is not like http://127.0.0.1:9644/metrics")?;
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = address.replace("localhost", "127.0.0.1");
    let address: SocketAddr = address
        .parse()
        .map_err(|_| format!("{address:?} is no ADDRESS:PORT"))?;
    if !address.ip().is_loopback() {
        return Err(format!("{address} is not on this machine"));
    }
    Ok((address, format!("/{path}")))
}

/// Reads the page; none if there is none.
pub(super) fn read(url: &str) -> Option<Buckets> {
    let (address, path) = place(url).ok()?;
    let mut stream = TcpStream::connect_timeout(&address, TIME).ok()?;
    stream.set_read_timeout(Some(TIME)).ok()?;
    stream.set_write_timeout(Some(TIME)).ok()?;
    // The older protocol ends its answer by closing.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let until_ms = boot::now_ms().saturating_add(ALL_MS);
    let answer = bounded::stream(Timed { stream, until_ms }, PAGE_BYTES_MAX).ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, page) = answer.split_once("\r\n\r\n")?;
    let is_ok = head.split(' ').nth(1) == Some("200");
    is_ok.then(|| Buckets::parse(page))?
}

/// A stream that ends with an error at a time, however slowly its bytes come.
struct Timed {
    stream: TcpStream,
    until_ms: u64,
}

impl Read for Timed {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if boot::now_ms() >= self.until_ms {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.read(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "kafka_network_requestmetrics_totaltimems_bucket{request=\"Produce\",le=\"1.0\"} 90\n\
                        kafka_network_requestmetrics_totaltimems_bucket{request=\"Produce\",le=\"2.0\"} 100\n\
                        kafka_network_requestmetrics_totaltimems_bucket{request=\"Produce\",le=\"+Inf\"} 100\n\
                        kafka_network_requestmetrics_totaltimems_bucket{request=\"Fetch\",le=\"1.0\"} 7\n";

    #[test]
    fn a_page_gives_the_times_of_produce_requests() {
        let buckets = Buckets::parse(PAGE).unwrap();
        assert_eq!(buckets.count(), 100);
        let p99 = buckets.quantile(0.99).unwrap();
        assert!((p99 - 1.9).abs() < 1e-9, "{p99}");
        assert_eq!(Buckets::parse("other 1\n"), None);
        assert_eq!(buckets.since(&buckets).unwrap().count(), 0);
        let fewer = Buckets(vec![(1.0, 1), (2.0, 1), (f64::INFINITY, 1)]);
        assert_eq!(fewer.since(&buckets), None, "the broker was started anew");
    }

    #[test]
    fn a_page_is_read_from_this_machine() {
        use std::io::Read as _;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 512];
            let read = stream.read(&mut asked).unwrap();
            assert!(asked[..read].starts_with(b"GET /metrics HTTP/1.0\r\n"));
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{PAGE}").unwrap();
        });
        assert_eq!(
            read(&format!("http://{address}/metrics")),
            Buckets::parse(PAGE)
        );
        serving.join().unwrap();
        assert_eq!(read("http://127.0.0.1:1/metrics"), None);
    }

    /// Another program has the port, and gives a byte at a time.
    #[test]
    fn a_page_that_does_not_end_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let begin = "HTTP/1.0 200 OK\r\n\r\n".bytes();
            for byte in begin.chain(std::iter::repeat(b'x')) {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                boot::wait_ms(20);
            }
        });
        let begun = boot::now_ms();
        assert_eq!(read(&format!("http://{address}/metrics")), None);
        assert!(boot::now_ms() - begun < 2 * ALL_MS);
        serving.join().unwrap();
    }
}
