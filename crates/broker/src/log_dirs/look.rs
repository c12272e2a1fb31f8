//! Looks at the directories as a start does, without starting: which cluster and node they belong
//! to, where the metadata log is, and whether a start would be refused.
//!
//! Invariant: only reads; a directory that does not exist is not made. Not here: what the metadata
//! log says (`controller::offline`), and whether the logs are sound (`storage::check`).

use std::io::ErrorKind;
use std::path::PathBuf;

use platform::Platform;
use storage::journal::start::look_for_rings;
use wire::types::NodeId;

use super::journals::unsettled;
use super::{LogDirs, LogDirsError, OperatorConsent, read_identity, roster};
use crate::names::{METADATA_TOPIC, OFFSETS_TOPIC};
use crate::options::JournalSettings;

/// What a start would find.
#[derive(Debug)]
pub struct ExaminedDirs {
    /// The cluster's id; `None` for new directories whose cluster has no id yet.
    pub cluster_id: Option<String>,
    /// This node's id.
    pub node_id: NodeId,
    /// The directory with the metadata log; `None` for new directories.
    pub metadata_dir: Option<PathBuf>,
    /// The folders of `__consumer_offsets`.
    pub offsets: Vec<PathBuf>,
    /// How many logs of topics there are.
    pub logs: usize,
    /// True if a start refuses metadata without a record: there are logs of topics.
    pub has_logs: bool,
}

impl LogDirs {
    /// Looks at the directories `homes`, and at the paths `lower` of lower tiers.
    ///
    /// The error is that of a start.
    pub async fn look<P: Platform>(
        platform: &P,
        homes: &[PathBuf],
        lower: &[PathBuf],
        journals: Option<&JournalSettings>,
        (node_id, cluster_id): (Option<NodeId>, Option<&str>),
    ) -> Result<ExaminedDirs, LogDirsError> {
        let told = OperatorConsent::default();
        Self::check_places(platform, homes, lower, told).await?;
        let mut identities = Vec::with_capacity(homes.len());
        for path in homes {
            identities.push(read_identity(platform, path).await?);
        }
        let mut dirs = Self::of(&identities, node_id, cluster_id, told, String::new);
        for (path, identity) in homes.iter().zip(&identities) {
            dirs.check_owner(path, identity.as_ref())?;
        }
        roster::check(platform, homes, &identities, told).await?;
        for (index, path) in homes.iter().enumerate() {
            match dirs.list(platform, path, index).await {
                Err(LogDirsError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                listed => listed?,
            }
        }
        dirs.check_found(homes, &identities)?;
        for (index, path) in homes.iter().enumerate() {
            let identity = identities.get(index).and_then(Option::as_ref);
            if identity.is_some_and(|meta| meta.journal.is_some()) {
                let also_in = journals.map(|journals| journals.places(index, path));
                let also_in = also_in.unwrap_or_default();
                look_for_rings(platform, &unsettled(path, &also_in, told)).await?;
            }
        }
        Ok(dirs.looked(homes))
    }

    fn looked(self, homes: &[PathBuf]) -> ExaminedDirs {
        let mut looked = ExaminedDirs {
            cluster_id: None,
            node_id: self.node_id,
            metadata_dir: None,
            offsets: Vec::new(),
            logs: 0,
            has_logs: self.has_logs(),
        };
        for (name, log) in self.found.all() {
            let Some(home) = homes.get(log.index) else {
                continue;
            };
            let topic = name.topic.as_ref();
            if topic == METADATA_TOPIC {
                looked.metadata_dir.get_or_insert_with(|| home.clone());
                continue;
            }
            looked.logs = looked.logs.saturating_add(1);
            if topic == OFFSETS_TOPIC {
                looked.offsets.push(home.join(name.to_string()));
            }
        }
        looked.cluster_id = Some(self.cluster_id).filter(|id| !id.is_empty());
        looked
    }
}
