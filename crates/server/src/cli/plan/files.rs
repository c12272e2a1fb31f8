//! The files of a plan: all of them are written, or none is changed.

use std::fs;
use std::path::{Path, PathBuf};

use ::plan::emit;
use anyhow::Context as _;
use platform::bounded;

use super::ScenarioAnswer;

/// Writes the files of a plan, those of its variants into directories of their names.
///
/// Nothing is written if one of them would replace a different file (it may be the settings of a
/// broker), or if not all of them can be written.
pub(super) fn write_all(dir: &Path, all: &[ScenarioAnswer], overwrite: bool) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for answered in all {
        let dir = match &answered.plan.variant {
            Some(name) => dir.join(emit::directory_name(name)),
            None => dir.to_owned(),
        };
        let written = emit::files(&answered.plan).into_iter();
        files.extend(written.map(|(name, text)| (dir.join(name), text)));
    }
    let others = files.iter().filter(|(file, text)| is_another(file, text));
    let others: Vec<_> = others.map(|(file, _)| file.display().to_string()).collect();
    if !overwrite && !others.is_empty() {
        anyhow::bail!(
            "there already, with something else in them: {}; name another directory, or add --overwrite",
            others.join(", ")
        );
    }
    replace(&files)
}

/// Returns true if there is a file of this name with other contents.
fn is_another(file: &Path, text: &str) -> bool {
    let most = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let is_same = |file| bounded::file(file, most).is_ok_and(|there| there == text.as_bytes());
    fs::symlink_metadata(file).is_ok() && !is_same(file)
}

/// Writes a file by renaming: it is complete, or unchanged.
pub(super) fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    replace(&[(file.to_owned(), text.to_owned())])
}

/// Writes files by renaming, after all of them are complete beside their places.
///
/// A disk that fills up changes none of them; if a renaming fails, the error names the files that
/// are new.
fn replace(files: &[(PathBuf, String)]) -> anyhow::Result<()> {
    let mut beside = Vec::new();
    let replaced = files
        .iter()
        .try_for_each(|(file, text)| {
            let place = beside_of(file);
            beside.push(place.clone());
            write_beside(&place, text).with_context(|| format!("writing {}", file.display()))
        })
        .and_then(|()| rename_all(files, &beside));
    if replaced.is_err() {
        for place in &beside {
            // Partial files are of no use; those that were renamed are not there any more.
            let _ = fs::remove_file(place);
        }
    }
    replaced
}

/// Returns the place in which a file is made.
fn beside_of(file: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    file.with_file_name(name)
}

fn write_beside(place: &Path, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(place.parent().unwrap_or(Path::new(".")))?;
    fs::write(place, text)
}

fn rename_all(files: &[(PathBuf, String)], beside: &[PathBuf]) -> anyhow::Result<()> {
    for (at, ((file, _), place)) in files.iter().zip(beside).enumerate() {
        fs::rename(place, file).with_context(|| {
            let new: Vec<_> = files
                .iter()
                .take(at)
                .map(|(file, _)| file.display().to_string())
                .collect();
            let new = if new.is_empty() {
                "nothing was written".to_owned()
            } else {
                format!("these are new: {}", new.join(", "))
            };
            format!("writing {} ({new})", file.display())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ::plan::load::{Scenario, shipped};

    use super::super::tests::planned;
    use super::*;

    #[test]
    fn a_file_of_somebody_else_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let scenario = || Scenario::read("steady", shipped("steady").unwrap(), &[]).unwrap();
        let all = [ScenarioAnswer {
            scenario: scenario(),
            plan: planned("steady", &[]),
        }];
        let settings = dir.path().join("server.properties");
        fs::write(&settings, "node.id=7\n").unwrap();
        let said = write_all(dir.path(), &all, false).unwrap_err().to_string();
        assert!(
            said.contains("server.properties") && said.contains("--overwrite"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&settings).unwrap(), "node.id=7\n");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing else is written"
        );
        write_all(dir.path(), &all, true).unwrap();
        assert!(
            fs::read_to_string(&settings)
                .unwrap()
                .contains("storage.tiers")
        );
        // Writing the same files again replaces no other file.
        write_all(dir.path(), &all, false).unwrap();
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            6,
            "nothing is left beside"
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_all_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        fs::write(place("a"), "old").unwrap();
        // A name that is a directory's cannot be written below.
        fs::write(place("file"), "").unwrap();
        let files = |last: &str| {
            [("a", "new"), (last, "new")].map(|(name, text)| (place(name), text.to_owned()))
        };
        let said = format!("{:#}", replace(&files("file/b")).unwrap_err());
        assert!(said.contains("file/b"), "{said}");
        assert_eq!(fs::read_to_string(place("a")).unwrap(), "old");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "nothing is left beside"
        );
        // A place that is taken by a directory is only noticed when files are renamed.
        fs::create_dir(place("taken")).unwrap();
        fs::write(place("taken/there"), "").unwrap();
        let said = format!("{:#}", replace(&files("taken")).unwrap_err());
        assert!(
            said.contains("these are new") && said.contains("/a"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(place("a")).unwrap(), "new");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            3,
            "nothing is left beside"
        );
    }
}
