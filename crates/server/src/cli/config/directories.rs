//! What is in the directories that a file of settings names: `forebay config check --data`.
//!
//! It looks as a start does and changes nothing: which cluster and node they belong to, whether a
//! start would be refused, and what in the metadata and in `__consumer_offsets` would be neither
//! served nor enforced. Not here: whether the logs are sound (`forebay check`), and segments of
//! `__consumer_offsets` on lower tiers.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use broker::controller::offline::{self, Reading};
use broker::group::unserved::UnservedGroups;
use broker::image::{Image, ResourceType};
use broker::log_dirs::{ExaminedDirs, LogDirs, LogDirsError};
use broker::unserved::{groups, unknown_features, unserved};
use platform::Platform as _;
use platform::os::{EngineChoice, System};
use platform::runtime::run_shard;
use wire::records::offsets::UnservedKind;
use wire::types::NodeId;

use super::super::{metadata, why};
use super::facts::Facts;
use super::finding::{Finding, Group, line_of};
use super::groups::groups_of;
use crate::config::{Origin, Raw, Settings};

/// What a look at the directories gave.
#[derive(Default, Debug)]
pub(super) struct Seen {
    pub(super) findings: Vec<Finding>,
    /// What they are; `None` if a start would be refused, or makes them anew.
    pub(super) facts: Option<Facts>,
    /// Why not everything could be looked at.
    pub(super) unseen: Option<String>,
}

/// Looks into the directories of `settings`, which come from `raw`.
pub(super) fn look(settings: &Settings, raw: &Raw) -> Seen {
    let mut seen = Seen::default();
    if let Err(error) = seen.look(settings, raw) {
        seen.unseen = Some(format!("cannot look at everything: {}", why::why(&error)));
    }
    seen
}

/// Returns the metadata of the directories, and the node that they belong to; `None` if there are
/// none yet.
pub(super) fn metadata_of(settings: &Settings) -> anyhow::Result<Option<(Reading, NodeId)>> {
    let looked = look_as_a_start(settings)??;
    let Some(dir) = &looked.metadata_dir else {
        return Ok(None);
    };
    let reading = offline::read(&metadata::files_of(dir)?);
    Ok(Some((reading, looked.node_id)))
}

/// Returns the value of a setting that changed while a broker ran, and for which brokers.
pub(super) fn changed(image: &Image, node: NodeId, key: &str) -> Option<(String, String)> {
    let (own, all) = (node.0.to_string(), String::new());
    let of = |name: &str| image.setting(ResourceType::BROKER, name, key);
    let own = of(&own).map(|value| (value, format!("metadata, broker {own}")));
    let found = own.or_else(|| Some((of(&all)?, "metadata, all brokers".to_owned())));
    found.map(|(value, origin)| (value.to_owned(), origin))
}

fn look_as_a_start(settings: &Settings) -> anyhow::Result<Result<ExaminedDirs, LogDirsError>> {
    let lower: Vec<PathBuf> = settings.lower_dirs().map(Path::to_path_buf).collect();
    let looked = run_shard(None, async {
        let system = System::start(EngineChoice::Threads)?;
        system.disk().set_read_only();
        let (node, cluster) = (settings.node_id.map(NodeId), settings.cluster_id.as_deref());
        let looked = LogDirs::look(&system, &settings.log_dirs, &lower, node, cluster).await;
        anyhow::Ok(looked)
    });
    looked.context("starting to look")?
}

impl Seen {
    fn look(&mut self, settings: &Settings, raw: &Raw) -> anyhow::Result<()> {
        let looked = match look_as_a_start(settings)? {
            Err(error @ LogDirsError::Io { .. }) => return Err(error.into()),
            Err(error) => {
                self.refuse_directories(raw, &error);
                return Ok(());
            }
            Ok(looked) => looked,
        };
        let Some(dir) = &looked.metadata_dir else {
            self.say_new(settings);
            return Ok(());
        };
        let reading = offline::read(&metadata::files_of(dir)?);
        let dir = dir.display().to_string();
        self.say_damage(&dir, &reading);
        let image = reading.image();
        self.facts = Some(Facts {
            cluster_id: looked.cluster_id.clone().unwrap_or_default(),
            node_id: looked.node_id,
            metadata_version: image.metadata_version().0,
            directories: settings.log_dirs.len(),
            topics: image.topics().count(),
            logs: looked.logs,
        });
        self.say_features(&dir, image);
        self.say_changed(image, looked.node_id, raw);
        let mut all = unserved(image, looked.node_id);
        // The groups themselves say more than what the metadata tell of them.
        let (named, read) = match groups_of(&looked.offsets) {
            Ok(named) => (named, Ok(())),
            Err(error) => (UnservedGroups::default(), Err(error)),
        };
        for kind in [UnservedKind::Share, UnservedKind::Streams] {
            if let Some(one) = groups(kind, named.of(kind).map(str::to_owned)) {
                all.retain(|other| other.kind != one.kind);
                all.push(one);
            }
        }
        self.findings
            .extend(all.iter().map(|one| Finding::of_unserved(&dir, one)));
        read
    }

    /// Says why a start refuses the directories, at the line that names them.
    fn refuse_directories(&mut self, raw: &Raw, error: &LogDirsError) {
        let is_dirs = |key: &str| ["log.dirs", "log.dir", "storage.tiers"].contains(&key);
        let named = raw.entries.iter().rfind(|entry| is_dirs(&entry.key));
        let origin = named.map_or(&Origin::Default, |entry| &entry.origin);
        self.findings.push(Finding {
            group: Group::Refuses,
            place: origin.to_string(),
            line: line_of(origin),
            key: "log.dirs".into(),
            value: None,
            what: error.to_string(),
            advice: String::new(),
        });
    }

    /// Says that there is nothing yet.
    fn say_new(&mut self, settings: &Settings) {
        let dirs = settings.log_dirs.iter();
        let dirs: Vec<_> = dirs.map(|dir| dir.display().to_string()).collect();
        self.findings.push(Finding {
            group: Group::Changes,
            place: dirs.join(","),
            line: None,
            key: "new-cluster".into(),
            value: None,
            what: "there are no metadata: a start begins a new cluster, without topics".into(),
            advice: "if there should be some, name their directories in log.dirs".into(),
        });
    }

    fn say_damage(&mut self, dir: &str, reading: &Reading) {
        let Some(first) = reading.findings.iter().max_by_key(|one| one.fatal) else {
            return;
        };
        let count = reading.findings.len();
        let what = format!(
            "{count} defects, such as at offset {}: {}",
            first.offset, first.problem
        );
        let advice = format!("`forebay metadata check {dir}` names them (docs/repair.md)");
        let is_fatal = reading.is_fatal();
        self.findings.push(Finding {
            group: if is_fatal {
                Group::Refuses
            } else {
                Group::Changes
            },
            place: dir.to_owned(),
            line: None,
            key: "metadata".into(),
            value: None,
            what: if is_fatal {
                what
            } else {
                format!("what does not fit is passed over: {what}")
            },
            advice,
        });
    }

    fn say_features(&mut self, dir: &str, image: &Image) {
        let unknown = unknown_features(image);
        if unknown.is_empty() {
            return;
        }
        let each = unknown
            .iter()
            .map(|(name, level)| format!("{name}={level}"));
        self.findings.push(Finding {
            group: Group::NoEffect,
            place: dir.to_owned(),
            line: None,
            key: "features".into(),
            value: None,
            what: format!(
                "kept, and clients are not told of them: {}",
                each.collect::<Vec<_>>().join(", ")
            ),
            advice: String::new(),
        });
    }

    /// Names the settings of the file in whose place a dynamic value is in force.
    fn say_changed(&mut self, image: &Image, node: NodeId, raw: &Raw) {
        for entry in &raw.entries {
            let Some((_, origin)) = changed(image, node, &entry.key) else {
                continue;
            };
            self.findings.push(Finding {
                group: Group::NoEffect,
                place: entry.origin.to_string(),
                line: None,
                key: entry.key.clone(),
                value: None,
                what: format!("a dynamic value is in force in its place ({origin})"),
                advice: format!("`forebay config show --data {}` shows it", entry.key),
            });
        }
    }
}
