//! What each request does: one file for each API key, or for a few that refuse the same thing,
//! readable from top to bottom.
//!
//! Handlers decide with what the shard knows (an immutable image, its own partitions), send work to
//! the shards that own other partitions, and answer every part of the request with its own error
//! code. Requests that change metadata are the controller's (`controller/decide/`). Handlers know
//! no frames: `dispatch` decodes and encodes.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use wire::protocol::StrBytes;

use crate::session::Session;

/// The client of a request.
#[derive(Clone, Debug)]
pub struct Context {
    /// Name of the listener that the client connected to; decides which endpoint the client gets.
    pub listener: Arc<str>,
    /// The client's address.
    pub peer: SocketAddr,
    /// The client's software, as reported on this connection.
    pub software: Rc<RefCell<ClientSoftware>>,
    /// What the connection has shown about its client.
    pub session: Rc<Session>,
    /// The client id.
    pub client_id: StrBytes,
    /// Size of the request frame.
    pub frame_bytes: usize,
}

/// Name and version of a client library; empty when unknown.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClientSoftware {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

pub(crate) mod acls;
pub(crate) mod add_offsets_to_txn;
pub(crate) mod add_partitions_to_txn;
pub(crate) mod alter_replica_log_dirs;
pub(crate) mod api_versions;
pub(crate) mod consumer_group_describe;
pub(crate) mod consumer_group_heartbeat;
pub(crate) mod delegation_tokens;
pub(crate) mod delete_groups;
pub(crate) mod delete_records;
pub(crate) mod describe_client_quotas;
pub(crate) mod describe_cluster;
pub(crate) mod describe_configs;
pub(crate) mod describe_groups;
pub(crate) mod describe_log_dirs;
pub(crate) mod describe_producers;
pub(crate) mod describe_quorum;
pub(crate) mod describe_topic_partitions;
pub(crate) mod describe_transactions;
pub(crate) mod describe_user_scram_credentials;
pub(crate) mod elect_leaders;
pub(crate) mod end_txn;
pub(crate) mod fetch;
pub(crate) mod find_coordinator;
pub(crate) mod get_telemetry_subscriptions;
pub(crate) mod heartbeat;
pub(crate) mod init_producer_id;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod list_config_resources;
pub(crate) mod list_groups;
pub(crate) mod list_offsets;
pub(crate) mod list_partition_reassignments;
pub(crate) mod list_transactions;
pub(crate) mod metadata;
pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod produce;
pub(crate) mod push_telemetry;
pub(crate) mod raft_voters;
pub(crate) mod sasl;
pub(crate) mod sync_group;
pub(crate) mod txn_offset_commit;
pub(crate) mod write_txn_markers;
