//! Notifications to a service manager, in the protocol of systemd: one datagram with `NAME=value`
//! lines to the socket that `NOTIFY_SOCKET` names. Without that variable this module does nothing.
//!
//! It sends what takes so long when a start opens logs, `READY=1` once clients are let in,
//! `STOPPING=1` when a stop begins, and `WATCHDOG=1` in time for `WATCHDOG_USEC` as long as
//! [`crate::watchdog`] runs. Invariant: it never waits; notifications to a manager that does not
//! read its socket are lost.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Returns true if a service manager started this process and waits for notifications.
pub(crate) fn is_supervised() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// The service manager, if there is one.
#[derive(Default, Debug)]
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    feed_every: Option<Duration>,
}

impl Supervisor {
    /// Returns the one that started this process, from the environment.
    pub(crate) fn of_environment() -> Self {
        let Some(name) = env::var_os("NOTIFY_SOCKET") else {
            return Self::default();
        };
        let socket = match connect(name.as_encoded_bytes()) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(socket = ?name, %error, "the service manager cannot be told anything");
                return Self::default();
            }
        };
        let of = |name: &str| env::var(name).ok();
        Self {
            socket: Some(socket),
            feed_every: feed_every(of("WATCHDOG_USEC"), of("WATCHDOG_PID"), std::process::id()),
        }
    }

    /// Reports what takes so long before that.
    pub(crate) fn starting(&self) {
        self.tell("STATUS=opening logs: /readyz of the admin port says how many of all");
    }

    /// Reports that clients are served from now on.
    pub(crate) fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
    }

    /// Reports that a stop has begun.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=finishing requests and closing logs");
    }

    /// Reports that the process is alive.
    pub(crate) fn feed(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Returns the interval of [`Supervisor::feed`].
    pub(crate) fn feed_every(&self) -> Option<Duration> {
        self.feed_every
    }

    fn tell(&self, what: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(what.as_bytes())
        {
            tracing::debug!(%error, what, "the service manager was not told");
        }
    }
}

/// Returns a socket that sends to a path, or to an abstract name, written with `@` in front.
fn connect(name: &[u8]) -> io::Result<UnixDatagram> {
    use std::os::unix::ffi::OsStrExt as _;
    let address = match name.strip_prefix(b"@") {
        Some(rest) => SocketAddr::from_abstract_name(rest)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// Returns a third of the time after which the manager considers process `me` dead; `None` if it
/// does not watch it.
fn feed_every(usec: Option<String>, pid: Option<String>, me: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(me)) {
        return None;
    }
    let usec = usec?.parse().ok().filter(|usec| *usec > 0)?;
    Some((Duration::from_micros(usec) / 3).max(Duration::from_millis(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fed_in_a_third_of_the_time_and_only_by_the_process_that_is_looked_at() {
        let of = |usec: Option<&str>, pid: Option<&str>| {
            feed_every(usec.map(str::to_owned), pid.map(str::to_owned), 7)
        };
        assert_eq!(of(Some("3000000"), None), Some(Duration::from_secs(1)));
        assert_eq!(of(Some("3000000"), Some("7")), Some(Duration::from_secs(1)));
        assert_eq!(of(Some("3000000"), Some("8")), None);
        assert_eq!(of(Some("1"), None), Some(Duration::from_millis(1)));
        for nothing in [None, Some("0"), Some("-1"), Some("soon"), Some("")] {
            assert_eq!(of(nothing, None), None, "{nothing:?}");
        }
    }

    #[test]
    fn paths_and_abstract_names_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("forebay-test-{}", std::process::id());
        let of_name = SocketAddr::from_abstract_name(&name).unwrap();
        let abstract_name = format!("@{name}");
        let sockets = [
            (path.to_str().unwrap(), UnixDatagram::bind(&path).unwrap()),
            (&abstract_name, UnixDatagram::bind_addr(&of_name).unwrap()),
        ];
        for (name, manager) in sockets {
            let told = Supervisor {
                socket: Some(connect(name.as_bytes()).unwrap()),
                feed_every: None,
            };
            told.feed();
            let mut heard = [0; 64];
            let len = manager.recv(&mut heard).unwrap();
            assert_eq!(&heard[..len], b"WATCHDOG=1");
        }
    }

    #[test]
    fn a_manager_that_does_not_read_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let socket = connect(path.to_str().unwrap().as_bytes()).unwrap();
        let told = Supervisor {
            socket: Some(socket),
            feed_every: None,
        };
        for _ in 0..10_000 {
            told.feed();
        }
    }
}
