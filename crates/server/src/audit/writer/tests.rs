//! The writer over a disk that fails, and over one that hangs.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use broker::audit::{AuditClasses, AuditDetail, AuditEvent, AuditOrigin, AuditSink, AuditedChange};
use rustix::io::Errno;

use super::super::disk::{FileFacts, Identity, SystemDisk};
use super::super::file::FileLimits;
use super::super::file::tests::FaultyDisk;
use super::super::{AuditSettings, HANGS_AFTER, TICK};
use super::*;
use crate::metrics::AuditMetrics;

const LIMITS: FileLimits = FileLimits {
    mode: 0o600,
    bytes_max: 1 << 20,
    files: 2,
};

fn log(required: bool) -> AuditLog {
    let settings = AuditSettings {
        classes: AuditClasses::parse(["auth_failure", "admin"]).unwrap(),
        path: None,
        file_bytes: LIMITS.bytes_max,
        files: LIMITS.files,
        mode: LIMITS.mode,
        per_second: 100,
        repeat: Duration::from_secs(1),
        required,
    };
    AuditLog::new(&settings, AuditMetrics::default())
}

fn event(class: AuditClass, name: &str) -> AuditEvent {
    let origin = AuditOrigin::of_login([10, 0, 0, 1].into(), &"A".into(), "");
    let detail = match class {
        AuditClass::Admin => AuditDetail::Changes(vec![AuditedChange::new("order", name, "")]),
        _ => AuditDetail::Login(name.to_owned()),
    };
    AuditEvent::new(class, "User:ada", origin, detail)
}

fn take(log: &AuditLog, writer: &mut Writer<impl AuditDisk>) {
    let taken = log.pending().take(Instant::now(), false);
    writer.take(taken);
}

fn written_lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let each = text.lines().map(|line| {
        let read: serde_json::Value = serde_json::from_str(line).unwrap();
        let target = &read["changes"][0]["target"];
        let shown = if target.is_null() {
            &read["reason"]
        } else {
            target
        };
        shown.as_str().unwrap().to_owned()
    });
    each.collect()
}

#[test]
fn a_disk_that_fails_delays_lines_and_refuses_changes_only_if_they_are_required() {
    for errno in [Errno::NOSPC, Errno::ROFS, Errno::IO, Errno::MFILE] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let disk = FaultyDisk::new(errno, 0, usize::MAX);
        let file = AuditFile::new(disk.clone(), path.clone(), LIMITS);
        for required in [false, true] {
            let log = log(required);
            let file = AuditFile::new(disk.clone(), path.clone(), LIMITS);
            let mut writer = Writer::new(log.clone(), Some(file));
            assert!(log.takes_changes());
            log.put(event(AuditClass::Admin, "one"));
            take(&log, &mut writer);
            writer.write();
            assert!(!writer.is_clear());
            assert_eq!(log.takes_changes(), !required);
            assert_eq!(log.reason().unwrap().name, "audit_file");
            assert_eq!(log.0.metrics.failing.get(), 1);
        }
        let log = log(true);
        let mut writer = Writer::new(log.clone(), Some(file));
        log.put(event(AuditClass::Admin, "first"));
        take(&log, &mut writer);
        writer.write();
        log.put(event(AuditClass::AuthFailure, "second"));
        disk.mend();
        writer.write();
        assert!(writer.is_clear() && log.takes_changes() && log.reason().is_none());
        assert_eq!(log.0.metrics.failing.get(), 0);
        take(&log, &mut writer);
        writer.write();
        assert_eq!(written_lines(&path), ["first", "second"], "{errno}");
    }
}

/// A disk whose writes wait until they are let go.
#[derive(Clone)]
struct HangingDisk(Arc<(Mutex<bool>, Condvar)>);

impl AuditDisk for HangingDisk {
    type File = fs::File;

    fn open(&self, path: &Path, mode: u32) -> io::Result<(fs::File, FileFacts)> {
        SystemDisk.open(path, mode)
    }

    fn set_mode(&self, file: &fs::File, mode: u32) -> io::Result<()> {
        SystemDisk.set_mode(file, mode)
    }

    fn write(&self, file: &mut fs::File, bytes: &[u8]) -> io::Result<usize> {
        let (hangs, mended) = &*self.0;
        let hangs = hangs.lock().unwrap();
        drop(mended.wait_while(hangs, |hangs| *hangs).unwrap());
        SystemDisk.write(file, bytes)
    }

    fn sync(&self, file: &fs::File) -> io::Result<()> {
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
fn a_disk_that_hangs_holds_up_no_one_and_what_finds_no_room_is_a_line_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let disk = HangingDisk(Arc::new((Mutex::new(true), Condvar::new())));
    let log = log(false);
    let writer = {
        let (log, path, disk) = (log.clone(), path.clone(), disk.clone());
        thread::spawn(move || {
            let file = AuditFile::new(disk, path, LIMITS);
            Writer::new(log, Some(file)).run();
        })
    };
    log.put(event(AuditClass::Admin, "hangs"));
    let since = Instant::now();
    while log.0.busy_since.load(std::sync::atomic::Ordering::Acquire) == 0 {
        assert!(since.elapsed() < 30 * TICK, "the writer writes");
        thread::sleep(Duration::from_millis(5));
    }
    // No shard waits for it.
    let since = Instant::now();
    for number in 0..1000 {
        log.put(event(AuditClass::AuthFailure, &number.to_string()));
    }
    assert!(since.elapsed() < Duration::from_secs(5));
    let (hangs, mended) = &*disk.0;
    *hangs.lock().unwrap() = false;
    mended.notify_all();
    log.0
        .is_ending
        .store(true, std::sync::atomic::Ordering::Release);
    log.0.wake.notify_one();
    writer.join().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |class: &'static str| lines.iter().filter(move |line| line["class"] == class);
    assert_eq!(of("admin").count(), 1);
    let (failed, dropped) = (of("auth_failure").count(), of("audit").next().unwrap());
    assert!(failed >= 25, "{failed}");
    let lost = dropped["dropped"]["auth_failure"].as_u64().unwrap();
    assert_eq!(usize::try_from(lost).unwrap() + failed, 1000);
}

fn end(log: &AuditLog) {
    let is_ending = &log.0.is_ending;
    is_ending.store(true, std::sync::atomic::Ordering::Release);
}

#[test]
fn the_end_writes_what_came_while_lines_waited_for_a_disk_that_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let disk = FaultyDisk::new(Errno::NOSPC, 0, usize::MAX);
    let file = AuditFile::new(disk.clone(), path.clone(), LIMITS);
    let log = log(false);
    let mut writer = Writer::new(log.clone(), Some(file));
    log.put(event(AuditClass::Admin, "first"));
    take(&log, &mut writer);
    writer.write();
    log.put(event(AuditClass::Admin, "second"));
    disk.mend();
    end(&log);
    writer.run();
    assert_eq!(written_lines(&path), ["first", "second"]);
}

#[test]
fn a_disk_that_hangs_is_a_reason_and_a_metric_until_it_answers() {
    let log = log(true);
    log.timed(|| {
        log.put(event(AuditClass::AuthFailure, "one"));
        assert_eq!(
            (log.0.metrics.failing.get(), log.takes_changes()),
            (0, true)
        );
        thread::sleep(HANGS_AFTER + Duration::from_millis(50));
        log.put(event(AuditClass::AuthFailure, "two"));
        assert_eq!(
            (log.0.metrics.failing.get(), log.takes_changes()),
            (1, false)
        );
        assert_eq!(log.reason().unwrap().name, "audit_file");
    });
    assert_eq!(
        (log.0.metrics.failing.get(), log.takes_changes()),
        (0, true)
    );
    assert!(log.reason().is_none());
}
