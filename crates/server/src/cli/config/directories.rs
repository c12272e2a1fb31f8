//! What is in the directories that a file of settings names: `forebay config check --data`.
//!
//! It looks as a start does and changes nothing: which cluster and node they belong to, whether a
//! start would be refused, and what in the metadata and in `__consumer_offsets` would be neither
//! served nor enforced. What cannot be read takes nothing from what can. Not here: whether the logs
//! are sound (`forebay check`), and segments of `__consumer_offsets` on lower tiers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use broker::controller::offline::Reading;
use broker::image::{Image, ResourceType};
use broker::log_dirs::{ExaminedDirs, LogDirs, LogDirsError};
use broker::unserved::{UnservedItem, groups, unknown_features, unserved};
use platform::Platform as _;
use platform::lock;
use platform::os::{EngineChoice, System};
use platform::runtime::run_shard;
use wire::records::offsets::UnservedKind;
use wire::types::NodeId;

use super::super::why;
use super::facts::Facts;
use super::finding::{Finding, Group, line_of};
use super::groups::groups_of;
use super::reading::judged;
use crate::config::{Origin, Problem, RawSettings, Settings, keys};

/// What a look at the directories gave.
#[derive(Default, Debug)]
pub(super) struct DirectorySurvey {
    pub(super) findings: Vec<Finding>,
    /// What they are; `None` if a start would be refused, or formats them.
    pub(super) facts: Option<Facts>,
    /// Why not everything could be looked at; empty if it was.
    pub(super) unseen: Vec<String>,
}

/// Looks into the directories of `settings`, which come from `raw` and have these problems.
pub(super) fn look(
    settings: &Settings,
    raw: &RawSettings,
    problems: &[Problem],
) -> DirectorySurvey {
    let mut seen = DirectorySurvey::default();
    // In the place of a wrong value stands the default, which names other directories.
    if let Some(wrong) = problems.iter().find(|one| names_directories(&one.key)) {
        let key = &wrong.key;
        let why = format!("the directories were not looked at: {key} has to be corrected first");
        seen.unseen.push(why);
        return seen;
    }
    if let Err(error) = seen.look(settings, raw) {
        seen.cannot(&error);
    }
    seen
}

/// Returns true if a setting says which directories there are, or whose.
fn names_directories(key: &str) -> bool {
    ["log.dir", "log.dirs", "node.id", "broker.id", "cluster.id"].contains(&key)
        || key.starts_with("storage.tier")
}

/// Returns the metadata of the directories, and the node that they belong to; `None` if there are
/// none yet.
pub(super) fn metadata_of(settings: &Settings) -> anyhow::Result<Option<(Reading, NodeId)>> {
    let looked = look_as_a_start(settings)??;
    let Some(dir) = &looked.metadata_dir else {
        return Ok(None);
    };
    let reading = judged(dir, looked.has_logs, lock::is_held(dir))?;
    Ok(Some((reading, looked.node_id)))
}

/// Returns the value of a setting that changed while a broker ran, and for which brokers.
///
/// Not every such value is in force: [`keys::may_change`].
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
        let ids = (settings.node_id.map(NodeId), settings.cluster_id.as_deref());
        let (homes, journals) = (&settings.log_dirs, settings.journals());
        let looked = LogDirs::look(&system, homes, &lower, journals, ids).await;
        anyhow::Ok(looked)
    });
    looked.context("starting to look")?
}

impl DirectorySurvey {
    fn look(&mut self, settings: &Settings, raw: &RawSettings) -> anyhow::Result<()> {
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
            let is_there = |dir: &PathBuf| dir.try_exists().unwrap_or(true);
            if !settings.log_dirs.iter().any(is_there) {
                let why = "there was nothing to look at: no directory of log.dirs is there";
                self.unseen.push(why.into());
            }
            return Ok(());
        };
        let is_running = settings.log_dirs.iter().any(|dir| lock::is_held(dir));
        let all = match judged(dir, looked.has_logs, is_running) {
            Ok(reading) => self.say_metadata(settings, raw, &looked, &reading, is_running),
            Err(error) => {
                self.cannot(&error);
                Vec::new()
            }
        };
        let place = dir.display().to_string();
        let all = self.with_groups(&looked.offsets, all);
        self.findings
            .extend(all.iter().map(|one| Finding::of_unserved(&place, one)));
        Ok(())
    }

    /// Notes that not everything could be looked at.
    fn cannot(&mut self, error: &anyhow::Error) {
        self.unseen
            .push(format!("cannot look at everything: {}", why::why(error)));
    }

    /// Says what is to be said of the metadata, and returns what of them is not served.
    fn say_metadata(
        &mut self,
        settings: &Settings,
        raw: &RawSettings,
        looked: &ExaminedDirs,
        reading: &Reading,
        is_running: bool,
    ) -> Vec<UnservedItem> {
        let dir = looked.metadata_dir.as_deref().unwrap_or(Path::new(""));
        let dir = dir.display().to_string();
        if is_running {
            let what = "a broker uses the directories: what it is writing may be missed";
            self.say(Group::NoEffect, &dir, "running", what.into());
        }
        self.say_damage(&dir, reading, is_running);
        if reading.is_empty() {
            // Formatted, and never started.
            if !reading.is_fatal() {
                self.say_new(settings);
            }
            return Vec::new();
        }
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
        if settings.has_authorizer() {
            self.refuse_acls(&dir, image);
        }
        unserved(image, looked.node_id, settings.enforced_metadata())
    }

    /// Puts what the groups themselves say in the place of what the metadata tell of them.
    fn with_groups(
        &mut self,
        folders: &[PathBuf],
        mut all: Vec<UnservedItem>,
    ) -> Vec<UnservedItem> {
        let found = groups_of(folders);
        for kind in [UnservedKind::Share, UnservedKind::Streams] {
            if let Some(mut one) = groups(kind, found.groups.of(kind), str::to_owned) {
                one.is_cut = found.groups.is_cut(kind);
                all.retain(|other| other.kind != one.kind);
                all.push(one);
            }
        }
        if let Some((path, error)) = found.errors.first() {
            let why = format!("cannot look at everything: {}: {error}", path.display());
            self.unseen.push(why);
        }
        for (path, error) in &found.errors {
            let what = format!("cannot be read, so groups in it are not named: {error}");
            self.say(Group::Changes, &path.display().to_string(), "unread", what);
        }
        all
    }

    /// Says something that needs no advice.
    fn say(&mut self, group: Group, place: &str, key: &str, what: String) {
        self.findings.push(Finding {
            group,
            place: place.to_owned(),
            line: None,
            key: key.to_owned(),
            value: None,
            what,
            advice: String::new(),
        });
    }

    /// Says why a start refuses the directories, at the line that names them.
    fn refuse_directories(&mut self, raw: &RawSettings, error: &LogDirsError) {
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

    fn say_damage(&mut self, dir: &str, reading: &Reading, is_running: bool) {
        let (written, defects): (Vec<_>, Vec<_>) = reading
            .findings
            .iter()
            .partition(|one| is_running && one.in_flight);
        if let Some(first) = written.first() {
            let (offset, problem) = (first.offset, &first.problem);
            let what = format!("a broker is writing it, at offset {offset}: {problem}");
            self.say(Group::NoEffect, dir, "metadata", what);
        }
        let fatal = defects.iter().find(|one| one.fatal);
        let Some(first) = fatal.or(defects.first()) else {
            return;
        };
        let count = defects.len().saturating_add(reading.more_findings);
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

    /// Says which ACL no authorizer could enforce.
    fn refuse_acls(&mut self, dir: &str, image: &Image) {
        let acls = image.acls();
        if let Some((_, first)) = acls.unplaced().next() {
            let count = acls.unplaced_count();
            self.findings.push(Finding {
                group: Group::Refuses,
                place: dir.to_owned(),
                line: None,
                key: "acls".into(),
                value: None,
                what: format!("ACLs that cannot be enforced ({count}): {first}"),
                advice: "delete them with the release that made them, or take \
                         authorizer.class.name out"
                    .into(),
            });
        }
    }

    fn say_features(&mut self, dir: &str, image: &Image) {
        let unknown = unknown_features(image);
        if unknown.is_empty() {
            return;
        }
        let each = unknown
            .iter()
            .map(|(name, level)| format!("{name}={level}"));
        let each = each.collect::<Vec<_>>().join(", ");
        let what = format!("kept, and clients are not told of them: {each}");
        self.say(Group::NoEffect, dir, "features", what);
    }

    /// Names the settings of the file in whose place a dynamic value is in force.
    fn say_changed(&mut self, image: &Image, node: NodeId, raw: &RawSettings) {
        // Of several lines with one key the last is in force.
        let last: BTreeMap<_, _> = raw.entries.iter().map(|one| (&one.key, one)).collect();
        for (key, entry) in last {
            let changed = changed(image, node, key).filter(|_| keys::may_change(key));
            let Some((_, origin)) = changed else {
                continue;
            };
            let config = match &entry.origin {
                Origin::File(file, _) => format!("--config {} ", file.display()),
                _ => String::new(),
            };
            self.findings.push(Finding {
                group: Group::NoEffect,
                place: entry.origin.to_string(),
                line: line_of(&entry.origin),
                key: key.clone(),
                value: None,
                what: format!("a dynamic value is in force in its place ({origin})"),
                advice: format!("`forebay config show {config}--data {key}` shows it"),
            });
        }
    }
}
