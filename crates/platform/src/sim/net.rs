//! A simulated network: streams in memory between hosts that have names, with the faults of real
//! networks.
//!
//! Hosts listen and are connected to by name and port. A connection to a host without listener is
//! refused; one to a silent host never comes about. Open streams can stall, drip, break, or lose
//! one direction. Everything follows from the order of the calls and the (paused) clock; nothing is
//! random. Not here: loss or reordering of single packets, which TCP hides.

mod pipe;
mod stream;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout_at;

use crate::clock::Instant;
use crate::net::Net;
pub use pipe::Pace;
use pipe::Pipe;
pub use stream::SimStream;

/// Connections that wait to be accepted; a further one waits, as with a full backlog.
const BACKLOG_MAX: usize = 64;

/// A simulated network; clones share it.
#[derive(Clone, Default)]
pub struct SimNet(Rc<RefCell<Hosts>>);

#[derive(Default)]
struct Hosts {
    ports: BTreeMap<(String, u16), Rc<Port>>,
    delay: Duration,
}

/// One port of a host.
#[derive(Default)]
struct Port {
    state: RefCell<PortState>,
    /// Told when a connection waits, is taken, or what connections meet changes.
    changed: Notify,
}

#[derive(Default)]
struct PortState {
    is_listening: bool,
    is_silent: bool,
    waiting: VecDeque<SimStream>,
    /// The streams that were made, both directions of each.
    links: Vec<(Weak<Pipe>, Weak<Pipe>)>,
}

/// Where connections to a port arrive; dropped, the port refuses.
pub struct SimListener {
    port: Rc<Port>,
}

/// A direction of the streams of a port, as seen from the side that connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Towards {
    /// What clients send.
    Host,
    /// What the host answers.
    Client,
}

impl SimNet {
    /// Makes a network where bytes take `delay` from one end to the other.
    pub fn new(delay: Duration) -> Self {
        let net = Self::default();
        net.0.borrow_mut().delay = delay;
        net
    }

    fn port(&self, host: &str, port: u16) -> Rc<Port> {
        let mut hosts = self.0.borrow_mut();
        let place = (host.to_owned(), port);
        Rc::clone(hosts.ports.entry(place).or_default())
    }

    /// Begins to accept connections.
    pub fn listen(&self, host: &str, port: u16) -> SimListener {
        let port = self.port(host, port);
        port.state.borrow_mut().is_listening = true;
        port.changed.notify_waiters();
        SimListener { port }
    }

    /// Lets connections to a port hang (or come about again): packets are swallowed.
    pub fn silence(&self, host: &str, port: u16, is_silent: bool) {
        let port = self.port(host, port);
        port.state.borrow_mut().is_silent = is_silent;
        port.changed.notify_waiters();
    }

    /// Stops one direction of the open streams of a port (or lets it go on): nothing arrives.
    pub fn stall(&self, host: &str, port: u16, towards: Towards, is_stalled: bool) {
        self.each_pipe(host, port, towards, |pipe| pipe.stall(is_stalled));
    }

    /// Lets one direction of the open streams of a port deliver no faster than this.
    pub fn pace(&self, host: &str, port: u16, towards: Towards, pace: Option<Pace>) {
        self.each_pipe(host, port, towards, |pipe| pipe.pace(pace));
    }

    /// Breaks the open streams of a port: both ends get a reset, what is on its way is lost.
    pub fn reset(&self, host: &str, port: u16) {
        for towards in [Towards::Host, Towards::Client] {
            self.each_pipe(host, port, towards, Pipe::reset);
        }
    }

    /// Returns how many streams of a port are open.
    pub fn open(&self, host: &str, port: u16) -> usize {
        let port = self.port(host, port);
        let state = port.state.borrow();
        let alive = state.links.iter().filter(|(there, back)| {
            let is_open = |pipe: &Weak<Pipe>| pipe.upgrade().is_some_and(|pipe| pipe.is_open());
            is_open(there) && is_open(back)
        });
        alive.count()
    }

    fn each_pipe(&self, host: &str, port: u16, towards: Towards, each: impl Fn(&Pipe)) {
        let port = self.port(host, port);
        let mut state = port.state.borrow_mut();
        state.links.retain(|(there, _)| there.strong_count() > 0);
        for (there, back) in &state.links {
            let pipe = match towards {
                Towards::Host => there,
                Towards::Client => back,
            };
            if let Some(pipe) = pipe.upgrade() {
                each(&pipe);
            }
        }
    }

    async fn reach(&self, port: &Port) -> io::Result<SimStream> {
        loop {
            // Made before the look, so no change between the two is missed.
            let changed = port.changed.notified();
            {
                let mut state = port.state.borrow_mut();
                let has_room = state.waiting.len() < BACKLOG_MAX;
                if !state.is_silent && !state.is_listening {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                if !state.is_silent && has_room {
                    let delay = self.0.borrow().delay;
                    let (there, back) = (Rc::new(Pipe::new(delay)), Rc::new(Pipe::new(delay)));
                    state
                        .links
                        .push((Rc::downgrade(&there), Rc::downgrade(&back)));
                    let client = SimStream::new(Rc::clone(&back), Rc::clone(&there));
                    state.waiting.push_back(SimStream::new(there, back));
                    port.changed.notify_waiters();
                    return Ok(client);
                }
            }
            changed.await;
        }
    }
}

impl Net for SimNet {
    type Stream = SimStream;

    async fn connect(&self, host: &str, port: u16, deadline: Instant) -> io::Result<SimStream> {
        let port = self.port(host, port);
        let delay = self.0.borrow().delay;
        let connected = timeout_at(deadline, async {
            tokio::time::sleep(delay * 2).await;
            self.reach(&port).await
        });
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        connected.await.map_err(late)?
    }
}

impl SimListener {
    /// Waits for a connection.
    pub async fn accept(&self) -> SimStream {
        loop {
            let changed = self.port.changed.notified();
            let next = self.port.state.borrow_mut().waiting.pop_front();
            if let Some(stream) = next {
                self.port.changed.notify_waiters();
                return stream;
            }
            changed.await;
        }
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.port.state.borrow_mut();
        state.is_listening = false;
        let unaccepted = std::mem::take(&mut state.waiting);
        drop(state);
        self.port.changed.notify_waiters();
        drop(unaccepted);
    }
}

#[cfg(test)]
mod tests;
