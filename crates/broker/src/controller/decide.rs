//! Requests that change the metadata: one file for each request, readable from top to bottom.
//!
//! Invariant: a decision is pure. It reads the newest image and the options, and returns the
//! records to write and the response to send once they are durable
//! ([`crate::controller::ControllerDecision`]). It does not append (`controller/service/turn.rs`),
//! and does not decode or encode (`dispatch`).

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

pub(crate) mod alter_client_quotas;
pub(crate) mod alter_configs;
pub(crate) mod alter_partition_reassignments;
pub(crate) mod alter_user_scram_credentials;
pub(crate) mod create_acls;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
pub(crate) mod delete_acls;
pub(crate) mod delete_topics;
pub(crate) mod incremental_alter_configs;
pub(crate) mod unregister_broker;
pub(crate) mod update_features;
