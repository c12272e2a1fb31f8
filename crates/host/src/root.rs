//! A host as a tree of names, for all reads and writes: the machine itself, a recorded copy of one,
//! or a simulated one for tests.
//!
//! Names are relative (`proc/sys/vm/swappiness`). Settings without a file also have names, so that
//! a recorded tree contains everything: rings and channels of a network card below `ethtool/`, the
//! CPUs of a card's threads below `napi/`, what polls its queues below `netdev/`, the CPUs of the
//! broker and its limits in `server/`, drops of queues in `qdisc/all`, and settings of the firmware
//! below `firmware/`, if a service of the machine's controller is named. Invariants: neither a name
//! nor a link leads out of the root, because a recorded tree may come from a stranger; every read
//! is bounded; a write is one call to an existing file.

mod nic;
mod server;
mod threads;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use platform::bounded;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::firmware::{self, Firmware, Setting};

/// Limit on the size of a file; the kernel's are smaller.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Limit on what is overwritten behind a value; no file of one value is that long.
const REST_BYTES_MAX: usize = 64 << 10;

/// A host as names and texts.
pub trait Tree {
    /// Returns the whole text of a file.
    fn read(&self, name: &str) -> io::Result<String>;
    /// Replaces a value; the file must exist.
    fn write(&self, name: &str, text: &str) -> io::Result<()>;
    /// Returns the names in a directory, in order.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Returns the target of a link as written in the link.
    fn link(&self, name: &str) -> io::Result<String>;

    /// Returns the trimmed text of a file; none if it cannot be read.
    fn text(&self, name: &str) -> Option<String> {
        Some(self.read(name).ok()?.trim().to_owned())
    }

    /// Returns a file's whole text as a number.
    fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the names in a directory; empty if it cannot be read.
    fn names(&self, dir: &str) -> Vec<String> {
        self.list(dir).unwrap_or_default()
    }
}

/// A directory that contains `proc`, `sys` and `etc`: `/`, or a copy.
#[derive(Clone, Debug)]
pub struct Root {
    dir: PathBuf,
    firmware: Option<Arc<Firmware>>,
}

impl Root {
    /// Creates the tree below a directory.
    pub fn new(dir: impl Into<PathBuf>) -> Root {
        Root {
            dir: dir.into(),
            firmware: None,
        }
    }

    /// Creates the tree of a host whose firmware is asked by a controller.
    pub fn with_firmware(dir: impl Into<PathBuf>, firmware: Option<Firmware>) -> Root {
        Root {
            firmware: firmware.map(Arc::new),
            ..Root::new(dir)
        }
    }

    /// Returns whether it is this machine, not a copy.
    pub fn is_this_machine(&self) -> bool {
        self.dir == Path::new("/")
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        let relative = Path::new(name);
        let plain = relative
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !plain || name.is_empty() || name.contains('\0') {
            let error = format!("{name:?} is no name below a root");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        Ok(self.dir.join(relative))
    }

    /// Opens a name; in a copy, links resolve within the copy.
    fn open(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let path = self.path(name)?;
        let flags = flags | OFlags::CLOEXEC;
        let file = if self.is_this_machine() {
            rustix::fs::open(path, flags, Mode::empty())?
        } else {
            let dir = File::open(&self.dir)?;
            let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            // Opening a FIFO in the place of a file must not block.
            let flags = if flags.contains(OFlags::PATH) {
                flags
            } else {
                flags | OFlags::NONBLOCK | OFlags::NOCTTY
            };
            rustix::fs::openat2(dir, name, flags, Mode::empty(), inside)?
        };
        Ok(file.into())
    }
}

impl Tree for Root {
    fn read(&self, name: &str) -> io::Result<String> {
        if self.is_this_machine()
            && let Some(of_nic) = name.strip_prefix(nic::PREFIX)
        {
            return nic::read(of_nic);
        }
        if self.is_this_machine()
            && let Some(thread) = name.strip_prefix(threads::PREFIX)
        {
            return threads::read(thread);
        }
        if self.is_this_machine()
            && let Some(device) = name.strip_prefix(nic::QUEUES)
        {
            return nic::queues(device);
        }
        match name {
            nic::QDISC if self.is_this_machine() => return nic::qdiscs(),
            server::NAME if self.is_this_machine() => return server::read(),
            server::LIMITS if self.is_this_machine() => return server::limits(),
            _ => {}
        }
        if let Some(firmware) = &self.firmware
            && let Some(setting) = Setting::of(name)
        {
            return firmware.read(&setting);
        }
        let bytes = bounded::stream(self.open(name, OFlags::RDONLY)?, FILE_BYTES_MAX)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        if self.is_this_machine()
            && let Some(of_nic) = name.strip_prefix(nic::PREFIX)
        {
            return nic::write(of_nic, text);
        }
        if self.is_this_machine()
            && let Some(thread) = name.strip_prefix(threads::PREFIX)
        {
            return threads::write(thread, text);
        }
        if self.is_this_machine() && name == server::NAME {
            return server::write(text);
        }
        if let Some(firmware) = &self.firmware
            && let Some(setting) = Setting::of(name)
        {
            return firmware.write(&setting, text);
        }
        let mut file = self.open(name, OFlags::WRONLY)?;
        let is_of_disk = name.starts_with("etc/");
        // The kernel takes a value whole: one call, as from `echo`. A file of the disk may be
        // longer: its rest is overwritten by the same call, because a kill behind it would leave a
        // mixture.
        let mut line = format!("{text}\n");
        let length = line.len();
        if is_of_disk {
            let old = usize::try_from(file.metadata()?.len()).unwrap_or(0);
            let rest = old.saturating_sub(length).min(REST_BYTES_MAX);
            line.extend(std::iter::repeat_n('\n', rest));
        }
        let written = file.write(line.as_bytes())?;
        if written != line.len() {
            let what = format!("{written} of {} bytes were taken", line.len());
            return Err(io::Error::new(io::ErrorKind::WriteZero, what));
        }
        if !self.is_this_machine() || is_of_disk {
            // A regular file, which a shorter text must truncate; truncating it before the write
            // would leave it empty for a moment.
            file.set_len(length as u64)?;
        }
        if is_of_disk {
            file.sync_all()?;
        }
        Ok(())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        if self.is_this_machine()
            && let Some(device) = dir.strip_prefix(threads::PREFIX)
        {
            return threads::list(device);
        }
        if let Some(firmware) = &self.firmware
            && dir == firmware::DIR
        {
            return firmware.names();
        }
        let open = self.open(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(open)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| name != "." && name != "..");
        names.sort_by_key(|name| natural(name));
        Ok(names)
    }

    fn link(&self, name: &str) -> io::Result<String> {
        let (dir, last) = name.rsplit_once('/').ok_or(io::ErrorKind::InvalidInput)?;
        self.path(name)?;
        let dir = self.open(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        let target = rustix::fs::readlinkat(dir, last, Vec::new())?;
        Ok(target.to_string_lossy().into_owned())
    }
}

/// Returns the last part of a path.
pub fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a sort key that orders `cpu2` before `cpu10`: the text before the first digit, the
/// number, the whole name.
pub fn natural(name: &str) -> (String, u64, String) {
    let start = name.find(|letter: char| letter.is_ascii_digit());
    let (letters, rest) = name.split_at(start.unwrap_or(name.len()));
    let end = rest.find(|letter: char| !letter.is_ascii_digit());
    let number = rest[..end.unwrap_or(rest.len())].parse().unwrap_or(0);
    (letters.to_owned(), number, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_ends_at_its_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("inside")).unwrap();
        std::fs::write(dir.path().join("secret"), "1\n").unwrap();
        let root = Root::new(dir.path().join("inside"));
        for name in ["../secret", "/etc/passwd", "a/../../secret", "", "./secret"] {
            let refused = root.read(name).unwrap_err();
            let kind = refused.kind();
            let expected = [io::ErrorKind::InvalidInput, io::ErrorKind::NotFound];
            assert!(expected.contains(&kind), "{name}: {refused}");
            assert!(root.write(name, "2").is_err(), "{name}");
        }
        let kept = std::fs::read_to_string(dir.path().join("secret")).unwrap();
        assert_eq!(kept, "1\n");
    }

    #[test]
    fn a_link_in_a_recorded_tree_does_not_lead_out_of_it() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (secret, inside) = (dir.path().join("secret"), dir.path().join("inside"));
        std::fs::create_dir_all(inside.join("sys/real")).unwrap();
        std::fs::write(&secret, "1\n").unwrap();
        std::fs::write(inside.join("sys/real/value"), "7\n").unwrap();
        symlink(&secret, inside.join("absolute")).unwrap();
        symlink("../secret", inside.join("relative")).unwrap();
        symlink(dir.path(), inside.join("up")).unwrap();
        symlink("/sys/real", inside.join("sys/own")).unwrap();
        let root = Root::new(&inside);
        for name in ["absolute", "relative", "up/secret"] {
            assert!(root.read(name).is_err(), "{name}");
            assert!(root.write(name, "2").is_err(), "{name}");
        }
        assert!(
            root.list("up")
                .is_ok_and(|names| names == ["absolute", "relative", "sys", "up"])
                || root.list("up").is_err()
        );
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "1\n");
        // A link that stays inside is followed, as on the host.
        assert_eq!(root.number("sys/own/value"), Some(7));
        assert_eq!(root.link("sys/own").unwrap(), "/sys/real");
    }

    #[test]
    fn a_value_is_replaced_whole_and_never_made() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert!(root.write("new", "1").is_err());
        std::fs::write(dir.path().join("there"), "4096\n").unwrap();
        root.write("there", "8").unwrap();
        assert_eq!(root.read("there").unwrap(), "8\n");
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/cpus"), "0-31,40\n").unwrap();
        root.write("etc/cpus", "4-7").unwrap();
        assert_eq!(root.read("etc/cpus").unwrap(), "4-7\n");
        assert_eq!(root.number("there"), Some(8));
    }

    #[test]
    fn numbers_in_names_are_numbers() {
        let mut names = ["cpu10", "cpu2", "cpufreq", "cpu2a"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["cpu2", "cpu2a", "cpu10", "cpufreq"]);
    }
}
