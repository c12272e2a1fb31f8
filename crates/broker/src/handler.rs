//! Request handlers, one file per API key.
//!
//! A handler tells the story of its request: it reads an immutable image, asks partitions or the
//! controller, and gives the response. Those that change metadata are pure: they return the records
//! to write with the response to send once they are durable ([`crate::controller::Outcome`]).

pub(crate) mod alter_configs;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
pub(crate) mod delete_groups;
pub(crate) mod delete_topics;
pub(crate) mod describe_cluster;
pub(crate) mod describe_configs;
pub(crate) mod describe_groups;
pub(crate) mod describe_topic_partitions;
pub(crate) mod find_coordinator;
pub(crate) mod heartbeat;
pub(crate) mod incremental_alter_configs;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod list_groups;
pub(crate) mod metadata;
pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
pub(crate) mod sync_group;
