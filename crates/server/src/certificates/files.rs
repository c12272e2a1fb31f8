//! Which files a set is read from, and whether one of them is another than before.
//!
//! A file is known by its number, size and time of change, behind links: where it is replaced by
//! exchanging a link, as Kubernetes does, its number changes. Not here: contents.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tls::StoreSettings;

/// The files of a set at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stamps(Vec<Option<Stamp>>);

/// One file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamps {
    /// Looks at the files; one that cannot be looked at is as one that is not there.
    pub(super) fn of(stores: &StoreSettings) -> Self {
        let paths = [
            &stores.keystore_location,
            &stores.truststore_location,
            &stores.crl_location,
        ];
        let given = paths.into_iter().flatten();
        Self(given.map(|path| stamp(&path.value)).collect())
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some(Stamp {
        device: found.dev(),
        inode: found.ino(),
        bytes: found.size(),
        changed: (found.mtime(), found.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tls::Setting;

    use super::*;

    #[test]
    fn a_file_that_was_written_or_exchanged_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("1"), dir.path().join("2"));
        fs::write(&one, "a").unwrap();
        fs::write(&two, "a").unwrap();
        let link = dir.path().join("link");
        symlink(&one, &link).unwrap();
        let stores = StoreSettings {
            keystore_location: Some(Setting::new("ssl.keystore.location", link.clone())),
            truststore_location: Some(Setting::new(
                "ssl.truststore.location",
                dir.path().join("-"),
            )),
            ..StoreSettings::default()
        };
        let first = Stamps::of(&stores);
        assert_eq!(Stamps::of(&stores), first);
        fs::write(&one, "ab").unwrap();
        let written = Stamps::of(&stores);
        assert_ne!(written, first);
        // As Kubernetes does it: a new link beside the old one, and then in its place.
        let next = dir.path().join("next");
        symlink(&two, &next).unwrap();
        fs::rename(&next, &link).unwrap();
        assert_ne!(Stamps::of(&stores), written);
        fs::remove_file(&link).unwrap();
        let gone = Stamps::of(&stores);
        assert_ne!(gone, written);
        fs::write(dir.path().join("-"), "trust").unwrap();
        assert_ne!(Stamps::of(&stores), gone);
    }
}
