//! `process.cpus`: the CPUs of the process, as a list or in a file.
//!
//! It is read before all other settings: a process is confined before it starts threads, and the
//! number of shards follows from its CPUs.

use std::path::Path;

use host::cpus::Cpus;
use platform::bounded;

use super::raw::RawSettings;

/// The key.
pub(crate) const KEY: &str = "process.cpus";

/// A list of CPUs is shorter.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Parses a value; an empty one is `None`. `@FILE` stands for the first line of a file.
pub(crate) fn parse(value: &str) -> Result<Option<Cpus>, String> {
    let list = match value.strip_prefix('@') {
        Some(file) => {
            let read = bounded::file(Path::new(file), FILE_BYTES_MAX);
            let bytes =
                read.map_err(|error| format!("must name a file that can be read: {error}"))?;
            String::from_utf8_lossy(&bytes)
                .lines()
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        }
        None if value.is_empty() => return Ok(None),
        None => value.to_owned(),
    };
    let cpus = Cpus::from_list(&list).filter(|cpus| !cpus.is_empty());
    cpus.map(Some)
        .ok_or_else(|| "must be a list of CPUs such as 2-7,10, or @FILE with one".to_owned())
}

/// Confines the process to the CPUs of the setting, if it is given.
///
/// The caller runs this before it starts a thread.
pub(crate) fn confine(raw: &RawSettings) -> anyhow::Result<()> {
    let given = raw.entries.iter().rev().find(|entry| entry.key == KEY);
    // `resolve` reports a wrong value together with the other problems.
    let Some(cpus) = given.and_then(|entry| parse(entry.text()).ok().flatten()) else {
        return Ok(());
    };
    let cpus: Vec<usize> = cpus.iter().collect();
    platform::cpus::confine(&cpus).map_err(|error| anyhow::anyhow!("{KEY}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_or_a_file_with_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cpus");
        std::fs::write(&file, "2-3\n").unwrap();
        let named = format!("@{}", file.display());
        assert_eq!(parse("").unwrap(), None);
        assert_eq!(parse("2-3").unwrap(), Cpus::from_list("2-3"));
        assert_eq!(parse(&named).unwrap(), Cpus::from_list("2-3"));
        std::fs::write(&file, "\n").unwrap();
        for wrong in ["3-2", "all", named.as_str(), "@/nowhere/at/all"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
