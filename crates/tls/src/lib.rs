//! Key and trust stores, names of protocols and cipher suites, and the configurations of rustls
//! that follow from them; who a client certificate stands for.
//!
//! [`ServerTls`] is what a listener serves with, [`ClientTls`] what a client connects with. Both
//! are opened as one set: key, chain and trusted certificates fit together or nothing is taken.
//!
//! Invariants: every problem names the setting, the file if there is one, and what to do; no
//! message, and no `Debug`, shows a key or a password; what is read has a bound; no bytes of a file
//! or a peer make anything here panic. A set never changes once it is open.
//!
//! Not here: sockets and handshakes (they are their owner's), Kafka's protocol, where settings come
//! from.

mod client;
mod password;
mod principal;
mod problem;
mod server;
mod settings;

pub use client::ClientTls;
pub use password::Password;
pub use principal::{PrincipalProblem, PrincipalRules, RulesProblem};
pub use problem::{Opened, TlsProblem, TlsWarning};
pub use server::ServerTls;
pub use settings::{
    ClientAuth, ClientTlsSettings, ServerTlsSettings, Setting, StoreSettings, TlsNames,
};
