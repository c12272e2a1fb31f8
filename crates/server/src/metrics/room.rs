//! Room on the file systems of the directories that hold logs.
//!
//! A scrape asks for the room of each directory, unless an earlier question about it is not
//! answered yet: a disk that does not answer delays a scrape by [`PATIENCE`] at most, and its
//! directory has no room shown until it answers. Invariant: one question at a time for each
//! directory. Not here: which directories there are (`assemble`), and what the settings of tiers
//! leave of the room (`tiers/metrics.rs`).

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use platform::disk::Space;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::time::timeout;

/// Longest wait of a scrape for the answers of all disks.
const PATIENCE: Duration = Duration::from_millis(500);

/// A directory, and the name of its tier, which is empty without tiers.
pub type TierDir = (PathBuf, String);

#[derive(Default, Debug)]
struct TierSpace {
    tier: String,
    space: Option<Space>,
    is_asked: bool,
}

/// The room of each directory; clones share it.
#[derive(Clone, Default, Debug)]
// Bounded: the directories of the settings, `log.dirs` and the paths of tiers.
pub struct RoomMetrics(Arc<Mutex<BTreeMap<PathBuf, TierSpace>>>);

#[derive(Clone, Debug, EncodeLabelSet)]
struct Labels {
    dir: String,
    tier: String,
}

impl RoomMetrics {
    /// Creates and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Asks for the room of these directories; returns when all have answered, or after
    /// [`PATIENCE`]. Late answers are taken, too.
    ///
    /// It runs on a shard, within a set of local tasks.
    pub async fn look<F>(&self, dirs: Vec<TierDir>, space: impl Fn(PathBuf) -> F)
    where
        F: Future<Output = io::Result<Space>> + 'static,
    {
        let mut asked = Vec::new();
        for (dir, tier) in dirs {
            if self.is_to_be_asked(&dir, tier) {
                let (answer, me) = (space(dir.clone()), self.clone());
                asked.push(tokio::task::spawn_local(async move {
                    me.answered(&dir, answer.await.ok());
                }));
            }
        }
        let all = async {
            for answer in asked {
                // The task ends early only with its shard.
                let _ = answer.await;
            }
        };
        if timeout(PATIENCE, all).await.is_err() {
            self.forget_silent();
        }
    }

    /// Forgets the room of directories whose disks have not answered.
    fn forget_silent(&self) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for known in known.values_mut().filter(|known| known.is_asked) {
            known.space = None;
        }
    }

    /// Returns true if no question about the directory is under way, and notes one.
    fn is_to_be_asked(&self, dir: &Path, tier: String) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(dir.to_path_buf()).or_default();
        known.tier = tier;
        !std::mem::replace(&mut known.is_asked, true)
    }

    fn answered(&self, dir: &Path, space: Option<Space>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(dir) {
            known.is_asked = false;
            known.space = space;
        }
    }
}

impl Collector for RoomMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        type Series = (&'static str, &'static str, fn(&Space) -> u64);
        const SERIES: [Series; 2] = [
            (
                "forebay_log_dir_free_bytes",
                "Bytes that the file system of the directory has left",
                |space| space.free,
            ),
            (
                "forebay_log_dir_size_bytes",
                "Bytes of the file system of the directory",
                |space| space.total,
            ),
        ];
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, help, value) in SERIES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (dir, known) in known.iter() {
                let Some(space) = &known.space else { continue };
                let labels = Labels {
                    dir: dir.display().to_string(),
                    tier: known.tier.clone(),
                };
                let bytes = i64::try_from(value(space)).unwrap_or(i64::MAX);
                ConstGauge::new(bytes).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::task::LocalSet;

    fn text(registry: &Registry) -> String {
        let mut shown = String::new();
        prometheus_client::encoding::text::encode(&mut shown, registry).unwrap();
        shown
    }

    #[test]
    fn a_disk_that_does_not_answer_has_no_room_and_holds_up_no_other() {
        let mut registry = Registry::default();
        let room = RoomMetrics::register(&mut registry);
        let dirs = || {
            vec![
                ("/a".into(), "fast".to_owned()),
                ("/b".into(), String::new()),
            ]
        };
        let space = |free| Space {
            free,
            total: 100,
            in_memory: false,
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            room.look(dirs(), |dir| async move {
                Ok(space(if dir.ends_with("a") { 7 } else { 9 }))
            })
            .await;
            let shown = text(&registry);
            for line in [
                "forebay_log_dir_free_bytes{dir=\"/a\",tier=\"fast\"} 7\n",
                "forebay_log_dir_free_bytes{dir=\"/b\",tier=\"\"} 9\n",
                "forebay_log_dir_size_bytes{dir=\"/b\",tier=\"\"} 100\n",
            ] {
                assert!(shown.contains(line), "{shown}");
            }
            let hangs = |dir: PathBuf| async move {
                if dir.ends_with("a") {
                    pending::<()>().await;
                }
                Ok(space(8))
            };
            room.look(dirs(), hangs).await;
            let shown = text(&registry);
            assert!(!shown.contains("dir=\"/a\""), "{shown}");
            assert!(shown.contains("{dir=\"/b\",tier=\"\"} 8\n"), "{shown}");
            room.look(dirs(), |_| async {
                Err(io::Error::other("the disk is gone"))
            })
            .await;
            assert!(!text(&registry).contains("dir=\"/b\""));
        });
    }
}
