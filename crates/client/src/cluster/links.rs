//! One connection to each broker: made when it is needed, kept until it is lost.
//!
//! Invariants: one connection to a broker is made at a time; after a failure the next one is made
//! only after a pause, which grows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use platform::clock::Instant;
use platform::task::timeout_at;
use tokio::time::sleep_until;

use crate::connection::{self, Connection, Peer};
use crate::error::ClientError;
use crate::retry::Backoff;
use crate::settings::ClientSettings;
use crate::transport::Dial;

/// Brokers whose connections are remembered at once; beyond that those that are lost are forgotten.
const LINKS_MAX: usize = 256;

/// The id of a broker, if it is known, and its address.
type LinkPlace = (Option<i32>, Rc<str>);

/// The connections of a cluster.
pub(super) struct Links {
    dial: Rc<dyn Dial>,
    random: Rc<dyn Fn() -> u64>,
    settings: ClientSettings,
    // Bounded: `LINKS_MAX` and those that are open
    by_place: RefCell<BTreeMap<LinkPlace, Rc<Link>>>,
}

/// The connection to one broker.
struct Link {
    connection: RefCell<Option<Connection>>,
    failed: RefCell<ConnectFailures>,
    /// Held by the caller that makes the connection.
    making: tokio::sync::Mutex<()>,
}

/// The tries to connect that failed since the last connection, and the pause after them.
struct ConnectFailures {
    backoff: Backoff,
    /// When the next try may begin.
    until: Option<Instant>,
}

impl Links {
    pub(super) fn new(
        dial: Rc<dyn Dial>,
        random: Rc<dyn Fn() -> u64>,
        settings: &ClientSettings,
    ) -> Self {
        Self {
            dial,
            random,
            settings: settings.clone(),
            by_place: RefCell::default(),
        }
    }

    /// Returns the connection to a broker if there is one.
    pub(super) fn open(&self, peer: &Peer) -> Option<Connection> {
        let links = self.by_place.borrow();
        links.get(&place(peer))?.usable()
    }

    /// Returns the connection to a broker, and makes it if there is none.
    pub(super) async fn reach(
        &self,
        peer: &Peer,
        deadline: Instant,
    ) -> Result<Connection, ClientError> {
        let link = self.link(peer);
        if let Some(connection) = link.usable() {
            return Ok(connection);
        }
        let late = || ClientError::timed_out(&peer.address, "connecting");
        let making = timeout_at(deadline, link.making.lock()).await;
        let _making = making.map_err(|_| late())?;
        // The caller that had the turn before may have made it.
        if let Some(connection) = link.usable() {
            return Ok(connection);
        }
        let until = link.failed.borrow().until;
        if let Some(until) = until {
            let paused = timeout_at(deadline, sleep_until(until)).await;
            paused.map_err(|_| late())?;
        }
        let settings = &self.settings;
        let own = Instant::now() + settings.connect_timeout;
        let opened = connection::open(
            &*self.dial,
            peer,
            settings,
            &*self.random,
            deadline.min(own),
        );
        let opened = opened.await;
        let mut failed = link.failed.borrow_mut();
        match &opened {
            Ok(connection) => {
                failed.backoff.reset();
                failed.until = None;
                *link.connection.borrow_mut() = Some(connection.clone());
            }
            Err(error) => {
                tracing::debug!(broker = &*peer.address, %error, "no connection");
                let pause = failed.backoff.next((self.random)());
                failed.until = Instant::now().checked_add(pause);
            }
        }
        opened
    }

    /// Returns how many tries in a row have failed.
    pub(super) fn failures(&self, peer: &Peer) -> u32 {
        let links = self.by_place.borrow();
        let link = links.get(&place(peer));
        link.map_or(0, |link| link.failed.borrow().backoff.tries())
    }

    fn link(&self, peer: &Peer) -> Rc<Link> {
        let mut links = self.by_place.borrow_mut();
        if links.len() >= LINKS_MAX {
            links.retain(|_, link| Rc::strong_count(link) > 1 || link.usable().is_some());
        }
        let place = place(peer);
        if peer.node.is_some() && !links.contains_key(&place) {
            // The broker has moved. A caller that waits at the old address holds that connection.
            links.retain(|(node, _), _| *node != peer.node);
        }
        let settings = &self.settings;
        let link = links.entry(place).or_insert_with(|| {
            Rc::new(Link {
                connection: RefCell::new(None),
                failed: RefCell::new(ConnectFailures {
                    backoff: Backoff::new(settings.retry_backoff, settings.retry_backoff_max),
                    until: None,
                }),
                making: tokio::sync::Mutex::new(()),
            })
        });
        Rc::clone(link)
    }
}

impl Link {
    /// Returns the connection if it can be used; one that cannot is let go.
    fn usable(&self) -> Option<Connection> {
        let mut connection = self.connection.borrow_mut();
        let now = Instant::now();
        if connection
            .as_ref()
            .is_some_and(|one| one.is_lost() || one.is_ageing(now))
        {
            *connection = None;
        }
        connection.clone()
    }
}

fn place(peer: &Peer) -> LinkPlace {
    (peer.node, Rc::clone(&peer.address))
}
