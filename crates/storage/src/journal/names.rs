//! The names of the files of rings: `<directory id>.<shard>.ring`.
//!
//! The id is that of the log directory whose logs write to the ring, so that the rings of several
//! log directories can be in one directory. Kafka looks at the folders of a log directory only.
//! It does not know what is in a file: its header says whose it is.

use std::io;
use std::path::{Path, PathBuf};

use platform::disk::Disk;
use wire::types::{Uuid, uuid_from_base64, uuid_to_base64};

const RING: &str = ".ring";

/// Returns the path of the ring to which a shard writes for a log directory.
pub fn ring_path(dir: &Path, directory_id: Uuid, shard: u32) -> PathBuf {
    let id = uuid_to_base64(directory_id);
    dir.join(format!("{id}.{shard}{RING}"))
}

/// What the name of the lock of a log directory's rings has behind the id.
const LOCK: &str = ".rings.lock";

/// Returns the name of the file by which the rings of a log directory are locked, where they lie.
pub fn lock_name(directory_id: Uuid) -> String {
    format!("{}{LOCK}", uuid_to_base64(directory_id))
}

/// Returns true for the name of such a file.
pub(super) fn is_lock(name: &str) -> bool {
    let id = name.strip_suffix(LOCK).and_then(uuid_from_base64);
    id.is_some()
}

/// Returns the log directory and the shard of a ring, by the name of its file.
pub fn parse_ring_name(name: &str) -> Option<(Uuid, u32)> {
    let (id, shard) = name.strip_suffix(RING)?.split_once('.')?;
    let is_canonical = shard == "0" || !shard.starts_with(['0', '+']);
    let shard = shard.parse().ok().filter(|_| is_canonical)?;
    Some((uuid_from_base64(id)?, shard))
}

/// Returns the rings of a log directory that are in `dir`, and their shards, in the order of these.
pub async fn rings_in<D: Disk>(
    disk: &D,
    dir: &Path,
    directory_id: Uuid,
) -> io::Result<Vec<(PathBuf, u32)>> {
    let entries = disk.list(dir).await?;
    let files = entries.iter().filter(|entry| !entry.is_dir);
    let rings = files.filter_map(|entry| parse_ring_name(&entry.name));
    let mut shards: Vec<_> = rings
        .filter(|(id, _)| *id == directory_id)
        .map(|(_, shard)| shard)
        .collect();
    shards.sort_unstable();
    let ring = |shard| (ring_path(dir, directory_id, shard), shard);
    Ok(shards.into_iter().map(ring).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_ring_it_is_and_nothing_else_is_a_ring() {
        let id = Uuid::from_u128(7);
        let path = ring_path(Path::new("/log"), id, 12);
        assert_eq!(path, Path::new("/log/AAAAAAAAAAAAAAAAAAAABw.12.ring"));
        let parse = |name| parse_ring_name(name);
        assert_eq!(parse("AAAAAAAAAAAAAAAAAAAABw.12.ring"), Some((id, 12)));
        assert_eq!(parse("AAAAAAAAAAAAAAAAAAAABw.0.ring"), Some((id, 0)));
        for other in [
            "AAAAAAAAAAAAAAAAAAAABw.12.ring.tmp",
            "AAAAAAAAAAAAAAAAAAAABw.012.ring",
            "AAAAAAAAAAAAAAAAAAAABw.+1.ring",
            "AAAAAAAAAAAAAAAAAAAABw.-1.ring",
            "AAAAAAAAAAAAAAAAAAAABw.4294967296.ring",
            "AAAAAAAAAAAAAAAAAAAABw..ring",
            "AAAAAAAAAAAAAAAAAAAABw.ring",
            "AAAAAAAAAAAAAAAAAAAA.1.ring",
            "ring",
            ".ring",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
