//! The groups in `__consumer_offsets` that are not served.
//!
//! Invariant: one segment is in memory at a time. Not here: segments on lower tiers, which are not
//! read, and what the records say (`broker::group::unserved`).

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use broker::group::unserved::UnservedGroups;
use platform::bounded;

/// Far larger than a segment of `__consumer_offsets`: 100 MiB.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Reads the groups in these folders of `__consumer_offsets`.
pub(super) fn groups_of(folders: &[PathBuf]) -> anyhow::Result<UnservedGroups> {
    let mut groups = UnservedGroups::default();
    for folder in folders {
        let listed =
            fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
        let mut segments = Vec::new();
        for entry in listed {
            let path = entry
                .with_context(|| format!("reading {}", folder.display()))?
                .path();
            if path.extension().is_some_and(|ending| ending == "log") {
                segments.push(path);
            }
        }
        // Their names are offsets of one length, so they sort as the numbers do.
        segments.sort();
        for path in segments {
            let bytes = bounded::file(&path, SEGMENT_BYTES_MAX)
                .with_context(|| format!("reading {}", path.display()))?;
            groups.read(&bytes.into());
        }
    }
    Ok(groups)
}
