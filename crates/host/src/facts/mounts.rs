//! File systems on block devices, with the options that cost a broker work.
//!
//! Invariant: reported, never written: what is mounted how is the operator's `/etc/fstab`. Names of
//! directories are not kept: they may say whose data they hold.

use serde::Serialize;

use crate::root::Tree;

/// Options that are shown, if they are set.
const OPTIONS: &[&str] = &[
    "noatime",
    "relatime",
    "strictatime",
    "lazytime",
    "discard",
    "sync",
    "dirsync",
    "nobarrier",
    "data",
    "dax",
    "ro",
];
/// Limit on the file systems that are shown.
const MOUNTS_MAX: usize = 256;

/// A file system.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Mount {
    /// Its block device.
    pub disk: String,
    /// Its kind, such as `ext4`.
    pub kind: String,
    /// The known options that are set.
    pub options: Vec<String>,
}

/// The mounts of this process.
const MOUNTS: &str = "proc/self/mountinfo";

/// Returns the file systems on block devices, each once.
pub(super) fn all(tree: &dyn Tree) -> Vec<Mount> {
    of_text(&tree.read(MOUNTS).unwrap_or_default())
}

/// Returns whether `/proc/sys` is mounted read-only over `/proc`.
pub(super) fn are_settings_read_only(tree: &dyn Tree) -> bool {
    let text = tree.read(MOUNTS).unwrap_or_default();
    let places = text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(4);
        Some((fields.next()?, fields.next()?))
    });
    // The last one is above the others.
    let mut of_settings = places.filter(|(place, _)| *place == "/proc/sys");
    let options = of_settings.next_back().map_or("", |(_, options)| options);
    options.split(',').any(|option| option == "ro")
}

fn of_text(text: &str) -> Vec<Mount> {
    let mut found: Vec<Mount> = Vec::new();
    for mount in text.lines().filter_map(parse) {
        if found.len() < MOUNTS_MAX && !found.contains(&mount) {
            found.push(mount);
        }
    }
    found
}

/// Returns the lines of file systems on block devices, without the names of directories and of
/// volumes, which often have that of the host.
pub(crate) fn without_names(text: &str) -> String {
    let line = |(number, mount): (usize, Mount)| {
        let options = mount.options.join(",");
        let disk = if mount.disk.contains('/') {
            format!("mapper/{number}")
        } else {
            mount.disk
        };
        format!("0 0 0:0 / / {options} - {} /dev/{disk} rw\n", mount.kind)
    };
    of_text(text).into_iter().enumerate().map(line).collect()
}

/// Parses a line: fields up to a lone dash, the sixth the options of the place; then kind, source,
/// options of the file system.
fn parse(line: &str) -> Option<Mount> {
    let (before, behind) = line.split_once(" - ")?;
    let of_place = before.split(' ').nth(5)?;
    let mut behind = behind.split(' ');
    let (kind, source) = (behind.next()?, behind.next()?);
    let of_all = behind.next().unwrap_or_default();
    let mut options: Vec<String> = Vec::new();
    for option in of_place.split(',').chain(of_all.split(',')) {
        let name = option.split('=').next().unwrap_or_default();
        if OPTIONS.contains(&name) && options.iter().all(|known| known != option) {
            options.push(option.to_owned());
        }
    }
    Some(Mount {
        disk: source.strip_prefix("/dev/")?.to_owned(),
        kind: kind.to_owned(),
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
                        23 22 0:5 / /proc rw,nosuid - proc proc rw\n\
                        24 22 259:1 / /srv/of\\040somebody rw,noatime - xfs /dev/nvme0n1p1 rw,attr2\n\
                        25 22 259:1 /a /b rw,noatime - xfs /dev/nvme0n1p1 rw,attr2\n\
                        26 22 x\n";

    #[test]
    fn file_systems_of_disks_are_shown_without_their_directories() {
        let found = of_text(TEXT);
        let shown: Vec<String> = found
            .iter()
            .map(|one| format!("{} {} {}", one.disk, one.kind, one.options.join(",")))
            .collect();
        assert_eq!(
            shown,
            ["vda ext4 relatime,discard", "nvme0n1p1 xfs noatime"]
        );
        assert_eq!(of_text(&without_names(TEXT)), found);
        let volume = "27 22 254:3 / /srv/alice rw - ext4 /dev/mapper/alices--host-root rw\n";
        let recorded = without_names(&format!("{TEXT}{volume}"));
        assert!(!recorded.contains("somebody"), "{recorded}");
        assert!(!recorded.contains("alice"), "{recorded}");
    }
}
