//! `forebay topic|group|cluster|quota|logdir|feature|client-metrics|txn|user|acl|auth|tls|profile`
//! `...`: administers a cluster from a terminal or a script.
//!
//! It is a client only: it knows brokers by the protocol, so it works with any Kafka.
//! Everything goes over connections of `client` (docs/adr/0040): administrative requests one step
//! after the other ([`ask`]), records through its producer and its consumer.
//!
//! Invariant: standard output has the answer alone, as text or as JSON; all other messages go to
//! standard error. Exit codes: 0 done, 1 not done (or not all of it), 2 wrong usage, 3 an answer
//! that is not the good one (`auth explain`, `tls check`), 130 ended by a second signal.
//!
//! Not here: running a broker, its configuration file, tiers, measuring
//! (`forebay serve|config|tier|bench`).

mod acl;
mod admin;
mod ask;
mod auth;
mod client_metrics;
mod cluster;
mod command_config;
mod configs;
mod confirm;
mod feature;
mod group;
mod logdir;
mod moment;
mod names;
mod outcome;
mod position;
mod profile;
mod progress;
mod property;
mod quota;
mod resource;
mod secrecy;
mod show;
mod stop;
mod target;
mod terminal;
mod tls;
mod topic;
mod txn;
mod user;
mod watch;

pub use self::tls::TlsArgs;
pub use acl::AclArgs;
pub use admin::{AdminArgs, AdminTarget};
pub use auth::AuthArgs;
pub use client_metrics::ClientMetricsArgs;
pub use cluster::ClusterArgs;
pub use feature::FeatureArgs;
pub use group::GroupArgs;
pub use logdir::LogdirArgs;
pub use profile::ProfileArgs;
pub use progress::counted;
pub use quota::QuotaArgs;
pub use topic::TopicArgs;
pub use txn::TxnArgs;
pub use user::password::read as read_password;
pub use user::{OfflineUser, UserArgs};
