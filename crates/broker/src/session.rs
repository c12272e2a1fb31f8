//! What a connection has shown about its client: who it is, and for how long that holds.
//!
//! ```text
//! open                                     a listener without login
//! greeting -> handshake -> tokens -> done  any other; ApiVersions may come first
//!                 ^                  |
//!                 +- a later SaslHandshake: the same mechanism and the same principal
//! failed                               the connection ends
//! ```
//!
//! Invariants: before a login is complete the connection has no other requests than those of it. A
//! stage is taken out while it is worked on and `failed` stands in its place, so nothing that ends
//! early lets a client in. The principal is asked for in the first poll of a request and not when
//! the request is read, because the request before it may change it.
//!
//! Not here: the requests that carry the bytes of a login (`dispatch/login.rs`), and rights, which
//! follow from the principal.

mod exchange;
mod memo;
mod options;
mod tokens;
mod users;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use wire::acl::Principal;
use wire::sasl::{Mechanism, Refusal};

use crate::access::Verdicts;

pub(crate) use exchange::{Exchange, ProvenUser, Turn};
pub(crate) use memo::Memo;
pub use options::{LoginOptions, MechanismOptions, SecurityProtocol};
pub use tokens::{TokenFault, TokenOwner, TokenVerifier};
pub(crate) use users::Users;

/// Least time between two logins of a connection.
const AGAIN_MIN: Duration = Duration::from_secs(1);

/// The session of one connection.
#[derive(Debug)]
pub struct Session {
    /// How clients of the listener log in; `None` if they need not.
    login: Option<Arc<LoginOptions>>,
    stage: RefCell<Stage>,
    principal: RefCell<Principal>,
    /// That of the first login, which later ones repeat.
    mechanism: Cell<Option<Mechanism>>,
    /// When the last login after the first began.
    again: Cell<Option<Instant>>,
    /// What ACLs have permitted to the client, once it was asked for.
    verdicts: RefCell<Option<Arc<Verdicts>>>,
    /// What requests remember for later ones of the connection.
    pub(crate) memo: Memo,
}

/// How far a login is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Nothing was sent, or ApiVersions in a version that is not served.
    Greeting,
    /// `SaslHandshake` is due.
    Handshake,
    /// The next bytes of a mechanism are due.
    Tokens {
        /// The exchange.
        exchange: Exchange,
        /// True if they are in requests, false if they are frames by themselves.
        framed: bool,
    },
    /// A client that is logged in has asked for another mechanism.
    OtherMechanism,
    /// The client is logged in, until that time if there is one.
    Done(Option<Instant>),
    /// The connection ends.
    Failed,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It belongs to a login.
    Login,
    /// It is handled like those of a listener without login.
    Handled,
    /// The session is over.
    Expired,
}

/// What holds for a connection until it is logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginLimits {
    /// Largest frame.
    pub frame_bytes_max: usize,
    /// How long the first login may take, from the beginning of the connection.
    pub time_max: Duration,
}

impl Default for Session {
    /// A client that need not show who it is.
    fn default() -> Self {
        Self {
            login: None,
            stage: RefCell::new(Stage::Done(None)),
            principal: RefCell::new(Principal::anonymous()),
            mechanism: Cell::default(),
            again: Cell::default(),
            verdicts: RefCell::default(),
            memo: Memo::default(),
        }
    }
}

impl Session {
    /// A client that has to log in first.
    pub(crate) fn with_login(login: Arc<LoginOptions>) -> Self {
        Self {
            login: Some(login),
            stage: RefCell::new(Stage::Greeting),
            ..Self::default()
        }
    }

    /// Gives the client the principal of its certificate. A client that has to log in has the
    /// principal of its login, whatever its certificate says.
    #[must_use]
    pub fn known_as(self, principal: Principal) -> Self {
        if self.login.is_none() {
            self.principal.replace(principal);
        }
        self
    }

    /// Returns who the client is.
    pub fn principal(&self) -> Principal {
        self.principal.borrow().clone()
    }

    /// Returns what ACLs have permitted to the client on this connection.
    pub(crate) fn verdicts(&self) -> Arc<Verdicts> {
        Arc::clone(self.verdicts.borrow_mut().get_or_insert_default())
    }

    /// Returns what follows from the name of the client.
    pub(crate) fn named<T>(&self, then: impl FnOnce(&str) -> T) -> T {
        then(self.principal.borrow().name())
    }

    /// Returns the bounds on a connection that is not logged in; `None` if it is.
    pub fn login_limits(&self) -> Option<LoginLimits> {
        let login = self.login.as_ref().filter(|_| !self.is_logged_in())?;
        Some(LoginLimits {
            frame_bytes_max: login.frame_bytes_max,
            time_max: login.time_max,
        })
    }

    /// Returns how clients of the listener log in; `None` if they need not.
    pub(crate) fn login(&self) -> Option<&Arc<LoginOptions>> {
        self.login.as_ref()
    }

    /// Returns true if the client may send any request, or the listener has no login.
    pub(crate) fn is_logged_in(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Done(_))
    }

    /// Returns true if nothing changes any more who the client is: it need not log in, or is logged
    /// in for good, and then no `SaslHandshake` begins a login again ([`Self::admit`]).
    pub(crate) fn is_settled(&self) -> bool {
        matches!(*self.stage.borrow(), Stage::Done(None))
    }

    /// Returns true if the client was logged in before.
    pub(crate) fn is_again(&self) -> bool {
        self.mechanism.get().is_some()
    }

    /// Returns the mechanism of the login before.
    pub(crate) fn mechanism(&self) -> Option<Mechanism> {
        self.mechanism.get()
    }

    /// Returns what becomes of a request that is about to begin. A `SaslHandshake` begins a login
    /// again, once a second at most, and as in Kafka only where the session ends some time.
    pub(crate) fn admit(&self, is_handshake: bool, now: Instant) -> Admission {
        let Stage::Done(until) = *self.stage.borrow() else {
            return Admission::Login;
        };
        if self.login.is_none() {
            return Admission::Handled;
        }
        let is_early = |began| now.saturating_duration_since(began) < AGAIN_MIN;
        if is_handshake && until.is_some() && !self.again.get().is_some_and(is_early) {
            self.again.set(Some(now));
            self.stage.replace(Stage::Handshake);
            return Admission::Login;
        }
        if until.is_some_and(|until| now > until) {
            return Admission::Expired;
        }
        Admission::Handled
    }

    /// Returns why the token of the client is not accepted, as long as the client has not confirmed
    /// that.
    pub(crate) fn rejection(&self) -> Option<Refusal> {
        match &*self.stage.borrow() {
            Stage::Tokens { exchange, .. } => exchange.rejection(),
            _ => None,
        }
    }

    /// Takes the stage of a login out: unless another is put in its place, the login has failed.
    pub(crate) fn take_stage(&self) -> Stage {
        self.stage.replace(Stage::Failed)
    }

    /// Goes on with a login.
    pub(crate) fn put(&self, stage: Stage) {
        assert!(
            !matches!(stage, Stage::Done(_)),
            "a login is complete with a principal"
        );
        self.stage.replace(stage);
    }

    /// Ends a login: the client is `principal`, until that time if there is one.
    pub(crate) fn logged_in(
        &self,
        mechanism: Mechanism,
        principal: Principal,
        until: Option<Instant>,
    ) {
        let before = self.mechanism.replace(Some(mechanism));
        assert!(
            before.is_none_or(|before| before == mechanism),
            "a session has one mechanism"
        );
        assert!(
            before.is_none() || *self.principal.borrow() == principal,
            "a session has one principal"
        );
        self.principal.replace(principal);
        self.verdicts.take();
        self.stage.replace(Stage::Done(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_names_a_client_only_where_no_login_does() {
        let ada = Principal::user("CN=ada");
        let known = Session::default().known_as(ada.clone());
        assert_eq!(known.principal(), ada);
        assert!(known.is_logged_in());
        let asks = Session::with_login(Arc::new(LoginOptions::refused()));
        let unknown = asks.known_as(ada);
        assert_eq!(unknown.principal(), Principal::anonymous());
        assert!(!unknown.is_logged_in());
    }
}
