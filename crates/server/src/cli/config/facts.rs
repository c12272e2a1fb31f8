//! Directories in one line: their cluster, their level, and how much is in them.
//!
//! They are no findings: nothing follows from them.

use std::fmt;

use serde_json::json;
use wire::types::NodeId;

/// What the directories are.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) cluster_id: String,
    pub(super) node_id: NodeId,
    pub(super) metadata_version: i16,
    pub(super) directories: usize,
    pub(super) topics: usize,
    pub(super) logs: usize,
}

impl Facts {
    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "cluster_id": self.cluster_id,
            "node_id": self.node_id.0,
            "metadata_version": self.metadata_version,
            "directories": self.directories,
            "topics": self.topics,
            "logs": self.logs,
        })
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cluster_id,
            node_id,
            metadata_version,
            directories,
            topics,
            logs,
        } = self;
        write!(
            to,
            "node {} of cluster {cluster_id}, metadata.version {metadata_version}, {topics} topics, \
             {logs} logs in {directories} log directories",
            node_id.0
        )
    }
}
