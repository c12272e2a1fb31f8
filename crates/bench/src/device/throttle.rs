//! The kernel's throttle of a block device, through control groups.
//!
//! Version 1: a rule in the root group (and in this process's own) applies to every process, and to
//! the kernel's writeback, which version 1 charges to the root group. Version 2: only groups below
//! the root can have rules, so the processes under test join one; the kernel charges writeback to
//! it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

const V1_READ: &str = "blkio.throttle.read_bps_device";
const V1_WRITE: &str = "blkio.throttle.write_bps_device";

/// A throttle rule that can be set and removed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Throttle {
    /// Directories of the groups that get the rule.
    groups: Vec<PathBuf>,
    /// Version 2: the group was created by this program.
    own: bool,
    /// `major:minor`.
    number: String,
}

impl Throttle {
    /// Returns the throttle that this kernel offers; `root` is `/sys/fs/cgroup`.
    pub(super) fn find(root: &Path, name: &str) -> anyhow::Result<Self> {
        let rule = |groups, own| Self {
            groups,
            own,
            number: String::new(),
        };
        let blkio = root.join("blkio");
        if blkio.join(V1_WRITE).exists() {
            let mut groups = vec![blkio.clone()];
            let member = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            let own = own_group(&member).map(|path| blkio.join(path));
            groups.extend(own.filter(|dir| *dir != blkio && dir.join(V1_WRITE).exists()));
            return Ok(rule(groups, false));
        }
        for unified in [root.to_owned(), root.join("unified")] {
            let controllers = unified.join("cgroup.controllers");
            let offered = std::fs::read_to_string(controllers).unwrap_or_default();
            if offered.split_whitespace().any(|one| one == "io") {
                return Ok(rule(
                    vec![unified.join(format!("forebay-bench-{name}"))],
                    true,
                ));
            }
        }
        bail!(
            "the kernel offers no limit on block devices: neither {V1_WRITE} nor the controller io is in {}",
            root.display()
        )
    }

    /// Returns this throttle for the device `number`.
    pub(super) fn on(self, number: &str) -> Self {
        let number = number.to_owned();
        Self { number, ..self }
    }

    /// Sets the rule.
    pub(super) fn hold_to(&self, rate: u64) -> anyhow::Result<()> {
        for group in &self.groups {
            if self.own {
                let above = group.parent().context("a group has a parent")?;
                write(&above.join("cgroup.subtree_control"), "+io")?;
                std::fs::create_dir_all(group)
                    .with_context(|| format!("creating {}", group.display()))?;
                let rule = format!("{} rbps={rate} wbps={rate}", self.number);
                write(&group.join("io.max"), &rule)?;
            } else {
                let rule = format!("{} {rate}", self.number);
                write(&group.join(V1_READ), &rule)?;
                write(&group.join(V1_WRITE), &rule)?;
            }
        }
        Ok(())
    }

    /// Removes the rule, and in version 2 the group.
    pub(super) fn lift(&self) -> anyhow::Result<()> {
        for group in &self.groups {
            if self.own {
                if group.exists() {
                    std::fs::remove_dir(group)
                        .with_context(|| format!("removing {}", group.display()))?;
                }
            } else if !self.number.is_empty() {
                let rule = format!("{} 0", self.number);
                write(&group.join(V1_READ), &rule)?;
                write(&group.join(V1_WRITE), &rule)?;
            }
        }
        Ok(())
    }

    /// Returns the file that a process writes its pid to in order to be throttled.
    pub(super) fn join(&self) -> Option<PathBuf> {
        let group = self.groups.first().filter(|_| self.own)?;
        Some(group.join("cgroup.procs"))
    }
}

/// Returns the group of the controller blkio in `/proc/PID/cgroup`, without the leading slash.
fn own_group(member: &str) -> Option<&str> {
    member.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        let ours = controllers.split(',').any(|one| one == "blkio");
        ours.then(|| path.trim_start_matches('/'))
    })
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("writing {text:?} to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn version_1_holds_everybody_by_the_root_group() {
        let root = tempfile::tempdir().unwrap();
        files(
            root.path(),
            &[("blkio/blkio.throttle.write_bps_device", "")],
        );
        let throttle = Throttle::find(root.path(), "slow").unwrap().on("7:3");
        throttle.hold_to(500).unwrap();
        let read = |name| std::fs::read_to_string(root.path().join("blkio").join(name)).unwrap();
        assert_eq!(read(V1_READ), "7:3 500");
        assert_eq!(read(V1_WRITE), "7:3 500");
        assert_eq!(throttle.join(), None);
        throttle.lift().unwrap();
        assert_eq!(read(V1_WRITE), "7:3 0");
    }

    #[test]
    fn version_2_holds_who_joins_a_group() {
        let root = tempfile::tempdir().unwrap();
        files(root.path(), &[("cgroup.controllers", "cpu io memory\n")]);
        let throttle = Throttle::find(root.path(), "slow").unwrap().on("7:3");
        throttle.hold_to(500).unwrap();
        let group = root.path().join("forebay-bench-slow");
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(root.path().join("cgroup.subtree_control")), "+io");
        assert_eq!(read(group.join("io.max")), "7:3 rbps=500 wbps=500");
        assert_eq!(throttle.join(), Some(group.join("cgroup.procs")));
    }

    #[test]
    fn a_kernel_without_either_is_named() {
        let root = tempfile::tempdir().unwrap();
        files(root.path(), &[("cgroup.controllers", "cpu memory\n")]);
        let error = Throttle::find(root.path(), "slow").unwrap_err().to_string();
        assert!(error.contains("controller io"), "{error}");
    }

    #[test]
    fn the_group_of_a_process_is_found_among_its_controllers() {
        assert_eq!(
            own_group("9:name=systemd:/\n7:cpu,blkio:/a/b\n0::/\n"),
            Some("a/b")
        );
        assert_eq!(own_group("0::/user.slice\n"), None);
    }
}
