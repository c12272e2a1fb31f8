//! Key and trust stores, names of protocols and cipher suites, and the configurations of rustls
//! that follow from them; who a client certificate stands for.
//!
//! [`ServerTls`] is what a listener serves with, [`ClientTls`] what a client connects with. Both
//! are opened as one set: key, chain and trusted certificates fit together or nothing is taken.
//! [`reload`] decides whether a new set may take the place of an old one, [`watch`] when it is time
//! to read the files again, [`inspect`] shows what is in a certificate or a file.
//!
//! Invariants: every problem names the setting, the file if there is one, and what to do; no
//! message, and no `Debug`, shows a key or a password; what is read has a bound; no bytes of a file
//! or a peer make anything here panic. A set never changes once it is open.
//!
//! Not here: sockets and handshakes (they are their owner's), Kafka's protocol, where settings come
//! from.

mod bounds;
mod certificate;
mod client;
mod der;
mod file;
pub mod inspect;
mod key;
#[cfg(test)]
mod made;
mod names;
mod p12;
mod password;
mod pem;
mod principal;
pub mod probe;
mod problem;
pub mod reload;
mod server;
mod settings;
mod store;
mod verify;
pub mod watch;

pub use certificate::CertificateFacts;
pub use client::ClientTls;
pub use password::Password;
pub use principal::{
    PrincipalProblem, PrincipalRules, RulesProblem, canonical_subject, subject_text,
};
pub use problem::{Opened, TlsProblem, TlsWarning};
pub use server::{Expiry, ServerTls};
pub use settings::{
    ClientAuth, ClientTlsSettings, ServerTlsSettings, Setting, StoreSettings, TlsNames,
};
pub use verify::UnnamedFault;
