//! The file on the real disk, with each operation failing in turn.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::rc::Rc;

use super::super::disk::SystemDisk;
use super::*;

/// The system's disk, whose operations from `at` up to `until` fail.
#[derive(Clone, Debug)]
pub(in crate::audit) struct FaultyDisk(Rc<RefCell<Faults>>);

#[derive(Debug)]
struct Faults {
    count: usize,
    at: usize,
    until: usize,
    errno: Errno,
}

impl FaultyDisk {
    pub(in crate::audit) fn new(errno: Errno, at: usize, until: usize) -> Self {
        Self(Rc::new(RefCell::new(Faults {
            count: 0,
            at,
            until,
            errno,
        })))
    }

    /// Ends the faults.
    pub(in crate::audit) fn mend(&self) {
        self.0.borrow_mut().until = 0;
    }

    fn operation(&self) -> io::Result<()> {
        let mut faults = self.0.borrow_mut();
        let now = faults.count;
        faults.count += 1;
        let fails = (faults.at..faults.until).contains(&now);
        if fails {
            return Err(faults.errno.into());
        }
        Ok(())
    }
}

impl AuditDisk for FaultyDisk {
    type File = fs::File;

    fn open(&self, path: &Path, mode: u32) -> io::Result<(fs::File, FileFacts)> {
        self.operation()?;
        SystemDisk.open(path, mode)
    }

    fn set_mode(&self, file: &fs::File, mode: u32) -> io::Result<()> {
        self.operation()?;
        SystemDisk.set_mode(file, mode)
    }

    fn write(&self, file: &mut fs::File, bytes: &[u8]) -> io::Result<usize> {
        self.operation()?;
        // A few bytes at a time, so that an error comes within a line.
        SystemDisk.write(file, &bytes[..bytes.len().min(7)])
    }

    fn sync(&self, file: &fs::File) -> io::Result<()> {
        self.operation()?;
        SystemDisk.sync(file)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.operation()?;
        SystemDisk.sync_dir(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        self.operation()?;
        SystemDisk.identity(path)
    }

    fn holds_lines(&self, path: &Path) -> io::Result<bool> {
        self.operation()?;
        SystemDisk.holds_lines(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operation()?;
        SystemDisk.rename(from, to)
    }
}

const LIMITS: FileLimits = FileLimits {
    mode: 0o600,
    bytes_max: 60,
    files: 50,
};

fn line(number: usize) -> Vec<u8> {
    format!("{{\"time\":\"line {number:03} ..\"}}\n").into_bytes()
}

/// The text of all files, the oldest first.
fn text(path: &Path, files: usize) -> String {
    let aside = (1..files)
        .rev()
        .map(|number| format!("{}.{number}", path.display()));
    let all = aside.chain([path.display().to_string()]);
    all.filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

fn refused(path: &Path) -> String {
    let mut file = AuditFile::new(SystemDisk, path.to_owned(), LIMITS);
    let error = file.open().unwrap_err();
    assert!(error.is_unsafe(), "{error}");
    error.to_string()
}

#[test]
fn each_line_is_written_once_and_in_order_whatever_fails_and_when() {
    for errno in [Errno::NOSPC, Errno::ROFS, Errno::IO, Errno::MFILE] {
        for at in 0..150 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("audit.log");
            let disk = FaultyDisk::new(errno, at, at + 3);
            let mut file = AuditFile::new(disk, path.clone(), LIMITS);
            let mut lines: VecDeque<_> = (0..20).map(line).collect();
            let mut failures = 0;
            while !lines.is_empty() {
                file.look();
                if let Err(error) = file.append(&mut lines) {
                    assert!(!error.is_unsafe(), "{error}");
                    failures += 1;
                }
                assert!(failures < 10, "{errno} {at}");
            }
            let expected: Vec<u8> = (0..20).flat_map(line).collect();
            let found = text(&path, LIMITS.files);
            assert_eq!(found.as_bytes(), expected, "{errno} at operation {at}");
        }
    }
}

#[test]
fn a_file_that_is_large_is_put_aside_and_the_oldest_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let limits = FileLimits { files: 3, ..LIMITS };
    let mut file = AuditFile::new(SystemDisk, path.clone(), limits);
    for number in 0..11 {
        file.append(&mut [line(number)].into()).unwrap();
    }
    // Two lines in each.
    let expected: Vec<u8> = (6..11).flat_map(line).collect();
    assert_eq!(text(&path, 100).as_bytes(), expected);
    assert_eq!(file.rotations(), 5);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    for entry in fs::read_dir(dir.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn what_a_kill_has_cut_is_ended_before_the_next_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    fs::write(&path, "{\"time\":\"whole\"}\n{\"cut\":").unwrap();
    let mut file = AuditFile::new(SystemDisk, path.clone(), LIMITS);
    file.append(&mut [line(1)].into()).unwrap();
    file.append(&mut [line(2)].into()).unwrap();
    let expected = "{\"time\":\"whole\"}\n{\"cut\":\n{\"time\":\"line 001 ..\"}\n\
                    {\"time\":\"line 002 ..\"}\n";
    assert_eq!(text(&path, 3), expected);
}

#[test]
fn a_file_of_another_program_is_neither_written_to_nor_moved_nor_narrowed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.properties");
    let foreign = [
        "listeners=PLAINTEXT://:9092\n",
        "{}",
        "\0\x01",
        "{\"time\":1}\n",
    ];
    for text in foreign {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let said = refused(&path);
        assert!(said.contains("another program's"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }
    // What a kill or a power cut has left of a first line is ours, and so is an empty file.
    for text in [
        "",
        "{",
        "{\"time\":\"",
        "{\"time\":\"2026",
        "\0\0\0",
        &"\0".repeat(30),
    ] {
        fs::write(&path, text).unwrap();
        let mut file = AuditFile::new(SystemDisk, path.clone(), LIMITS);
        file.append(&mut [line(1)].into()).unwrap();
        let found = fs::read(&path).unwrap();
        assert!(found.starts_with(text.as_bytes()) && found.ends_with(&line(1)));
    }
}

#[test]
fn what_has_the_name_of_a_file_that_is_put_aside_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.log");
    let other = dir.path().join("app.log.1");
    fs::write(&other, "of another program\n").unwrap();
    assert!(refused(&path).contains("another program's"));
    assert!(!path.exists());
    fs::remove_file(&other).unwrap();
    symlink(dir.path(), &other).unwrap();
    assert!(refused(&path).contains("another program's"));
    fs::remove_file(&other).unwrap();
    // It may come later.
    let mut file = AuditFile::new(SystemDisk, path.clone(), LIMITS);
    file.append(&mut [line(1)].into()).unwrap();
    fs::write(&other, "of another program\n").unwrap();
    let mut lines: VecDeque<_> = (2..4).map(line).collect();
    assert!(file.append(&mut lines).unwrap_err().is_unsafe());
    assert_eq!(fs::read_to_string(&other).unwrap(), "of another program\n");
    fs::remove_file(&other).unwrap();
    file.append(&mut lines).unwrap();
    let expected: Vec<u8> = (1..4).flat_map(line).collect();
    assert_eq!(text(&path, LIMITS.files).as_bytes(), expected);
}

#[test]
fn only_a_regular_file_of_this_user_is_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let named = |name: &str| dir.path().join(name);
    let victim = named("victim");
    fs::write(&victim, "precious\n").unwrap();
    symlink(&victim, named("link")).unwrap();
    assert!(refused(&named("link")).contains("symbolic link"));
    fs::hard_link(&victim, named("second")).unwrap();
    assert!(refused(&named("second")).contains("hard link"));
    fs::create_dir(named("dir")).unwrap();
    assert!(refused(&named("dir")).contains("directory"));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        named("pipe"),
        rustix::fs::FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    // Opened for both, a pipe does not wait for the other end.
    assert!(refused(&named("pipe")).contains("pipe"));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    // A directory that is not there is a disk that is not mounted: it is not made.
    let mut file = AuditFile::new(SystemDisk, named("absent/audit.log"), LIMITS);
    assert!(!file.open().unwrap_err().is_unsafe());
    assert!(!named("absent").exists());
}

#[test]
fn a_file_that_others_may_read_is_closed_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    for (limit, found, expected) in [
        (0o600, 0o644, 0o600),
        (0o640, 0o666, 0o640),
        (0o640, 0o600, 0o600),
    ] {
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(found)).unwrap();
        let limits = FileLimits {
            mode: limit,
            ..LIMITS
        };
        AuditFile::new(SystemDisk, path.clone(), limits)
            .open()
            .unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{found:o}");
    }
}

#[test]
fn a_file_that_was_moved_away_is_left_to_who_moved_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let limits = FileLimits {
        bytes_max: 1 << 20,
        ..LIMITS
    };
    let mut file = AuditFile::new(SystemDisk, path.clone(), limits);
    file.append(&mut [line(1)].into()).unwrap();
    let taken = dir.path().join("taken");
    fs::rename(&path, &taken).unwrap();
    file.look();
    file.append(&mut [line(2)].into()).unwrap();
    assert_eq!(fs::read(&taken).unwrap(), line(1));
    assert_eq!(fs::read(&path).unwrap(), line(2));
    // A link in its place is not followed.
    fs::remove_file(&path).unwrap();
    symlink(&taken, &path).unwrap();
    file.look();
    let mut lines = [line(3)].into();
    assert!(file.append(&mut lines).unwrap_err().is_unsafe());
    assert_eq!((lines.len(), fs::read(&taken).unwrap()), (1, line(1)));
}

/// A disk that is taken away and comes back with the same files: what was open stays dead.
#[derive(Clone, Default)]
struct ReturningDisk(Rc<RefCell<usize>>);

impl ReturningDisk {
    fn goes_and_comes(&self) {
        *self.0.borrow_mut() += 1;
    }

    fn is_alive(&self, opened: usize) -> io::Result<()> {
        (opened == *self.0.borrow())
            .then_some(())
            .ok_or(Errno::IO.into())
    }
}

impl AuditDisk for ReturningDisk {
    type File = (usize, fs::File);

    fn open(&self, path: &Path, mode: u32) -> io::Result<(Self::File, FileFacts)> {
        let (file, facts) = SystemDisk.open(path, mode)?;
        Ok(((*self.0.borrow(), file), facts))
    }

    fn set_mode(&self, (opened, file): &Self::File, mode: u32) -> io::Result<()> {
        self.is_alive(*opened)?;
        SystemDisk.set_mode(file, mode)
    }

    fn write(&self, (opened, file): &mut Self::File, bytes: &[u8]) -> io::Result<usize> {
        self.is_alive(*opened)?;
        SystemDisk.write(file, bytes)
    }

    fn sync(&self, (opened, file): &Self::File) -> io::Result<()> {
        self.is_alive(*opened)?;
        SystemDisk.sync(file)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        SystemDisk.sync_dir(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        SystemDisk.identity(path)
    }

    fn holds_lines(&self, path: &Path) -> io::Result<bool> {
        SystemDisk.holds_lines(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }
}

#[test]
fn a_disk_that_was_gone_and_is_back_is_written_to_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let disk = ReturningDisk::default();
    let mut file = AuditFile::new(disk.clone(), path.clone(), LIMITS);
    file.append(&mut [line(1)].into()).unwrap();
    for is_synced in [false, true] {
        disk.goes_and_comes();
        let mut lines: VecDeque<_> = [line(2)].into();
        if is_synced {
            assert!(file.sync().is_err());
        } else {
            assert!(file.append(&mut lines).is_err());
        }
        file.look();
        file.append(&mut lines).unwrap();
        file.sync().unwrap();
        file.append(&mut [line(3)].into()).unwrap();
    }
    let expected: Vec<u8> = [1, 2, 3, 2, 3].into_iter().flat_map(line).collect();
    assert_eq!(text(&path, LIMITS.files).as_bytes(), expected);
}

/// Notes which files are synced.
#[derive(Clone, Default)]
struct NotedSyncs(Rc<RefCell<Vec<Identity>>>);

impl AuditDisk for NotedSyncs {
    type File = (Identity, fs::File);

    fn open(&self, path: &Path, mode: u32) -> io::Result<(Self::File, FileFacts)> {
        let (file, facts) = SystemDisk.open(path, mode)?;
        Ok(((facts.identity, file), facts))
    }

    fn set_mode(&self, (_, file): &Self::File, mode: u32) -> io::Result<()> {
        SystemDisk.set_mode(file, mode)
    }

    fn write(&self, (_, file): &mut Self::File, bytes: &[u8]) -> io::Result<usize> {
        SystemDisk.write(file, bytes)
    }

    fn sync(&self, (identity, file): &Self::File) -> io::Result<()> {
        self.0.borrow_mut().push(*identity);
        SystemDisk.sync(file)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.borrow_mut().push(SystemDisk.identity(path)?);
        SystemDisk.sync_dir(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        SystemDisk.identity(path)
    }

    fn holds_lines(&self, path: &Path) -> io::Result<bool> {
        SystemDisk.holds_lines(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }
}

#[test]
fn a_file_that_is_put_aside_or_moved_away_is_synced_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let disk = NotedSyncs::default();
    let identity = |path: &Path| SystemDisk.identity(path).unwrap();
    let mut file = AuditFile::new(disk.clone(), path.clone(), LIMITS);
    let taken = || disk.0.take();
    file.append(&mut (0..3).map(line).collect()).unwrap();
    let aside = identity(&dir.path().join("audit.log.1"));
    let names = identity(dir.path());
    assert_eq!(taken(), [aside, names]);
    let moved = identity(&path);
    fs::rename(&path, dir.path().join("moved")).unwrap();
    file.look();
    assert_eq!(taken(), [moved]);
    file.append(&mut [line(4)].into()).unwrap();
    file.sync().unwrap();
    assert_eq!(taken(), [identity(&path), names]);
    // Nothing is owed.
    file.sync().unwrap();
    assert_eq!(taken(), []);
}

#[test]
fn a_file_that_must_be_written_is_written_at_the_start() {
    for at in 2..5 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let new = || {
            let disk = FaultyDisk::new(Errno::NOSPC, at, usize::MAX);
            AuditFile::new(disk, path.clone(), LIMITS)
        };
        assert!(new().open_with(None).is_ok());
        assert!(new().open_with(Some(line(1))).is_err(), "{at}");
    }
}
