//! The directories that a running broker uses beside those that are named, by the lock files that
//! it holds open.
//!
//! The lists in Forebay's log directories say what belongs together, too; Kafka's directories have
//! none. Not here: directories of a broker that is stopped.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use platform::lock::LOCK_FILE;
use storage::checkpoint::meta_properties;
use wire::text::EscapedText;

/// Fails if a broker holds the lock of a directory that is not among `dirs`.
pub(super) fn refuse_unnamed(pid: i32, dirs: &[PathBuf]) -> anyhow::Result<()> {
    let held = format!("/proc/{pid}/fd");
    let entries = match fs::read_dir(&held) {
        Ok(entries) => entries,
        // A process that leaves no core shows them to root only; the lists remain.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("reading {held}")),
    };
    let named: Vec<_> = dirs
        .iter()
        .filter_map(|dir| id_of(&dir.join(LOCK_FILE)))
        .collect();
    for entry in entries {
        // Descriptors come and go.
        let Ok(entry) = entry else { continue };
        let Ok(link) = fs::read_link(entry.path()) else {
            continue;
        };
        let Some(dir) = link.parent().filter(|_| link.ends_with(LOCK_FILE)) else {
            continue;
        };
        let Some(id) = id_of(&entry.path()) else {
            continue;
        };
        let is_elses =
            fs::exists(dir).unwrap_or(false) && !dir.join(meta_properties::FILE).exists();
        if !named.contains(&id) && !is_elses {
            bail!(
                "the running broker uses {}, too, which is not named: all its directories and all \
                 paths of its tiers make one backup",
                EscapedText(&dir.display().to_string())
            );
        }
    }
    Ok(())
}

fn id_of(file: &Path) -> Option<(u64, u64)> {
    let facts = fs::metadata(file).ok()?;
    Some((facts.dev(), facts.ino()))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_directory_whose_lock_the_broker_holds_has_to_be_named() {
        let root = tempfile::tempdir().unwrap();
        let dirs = ["one", "two", "other"].map(|name| root.path().join(name));
        for dir in &dirs {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join(LOCK_FILE), "").unwrap();
        }
        // The third is of something else than a broker.
        for dir in &dirs[..2] {
            fs::write(dir.join(meta_properties::FILE), "version=1\n").unwrap();
        }
        let holds = "exec 3<one/.lock 4<two/.lock 5<other/.lock; echo .; read line";
        let mut holder = Command::new("sh");
        let holder = holder.args(["-c", holds]).current_dir(root.path());
        let holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut said = holder.stdout.take().unwrap();
        said.read_exact(&mut [0; 2]).unwrap();
        let pid = i32::try_from(holder.id()).unwrap();
        refuse_unnamed(pid, &dirs[..2]).unwrap();
        let refused = refuse_unnamed(pid, &dirs[..1]).unwrap_err().to_string();
        assert!(refused.contains("/two, too"), "{refused}");
        drop(holder.stdin.take());
        holder.wait().unwrap();
    }
}
