//! Recorded `/proc` files, and windows between samples.

use super::*;

fn recorded(root: &Path) {
    let dir = root.join("proc/42");
    std::fs::create_dir_all(dir.join("net")).unwrap();
    let files = [
        (
            "stat",
            "42 (a (b) c) S 1 42 42 0 -1 4194560 9 0 0 0 250 150 0 0 20 0 9 0 777 1 2 3 4 5\n",
        ),
        (
            "status",
            "Name:\tx\nVmPeak:\t   9000 kB\nVmRSS:\t    2048 kB\n",
        ),
        ("io", "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\n"),
        (
            "net/dev",
            "Inter-|   Receive                            |  Transmit\n face |bytes packets|bytes\n\
             \x20   lo: 100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n  eth0:   5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n",
        ),
    ];
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

#[test]
fn counters_are_read_whatever_the_programs_name() {
    let root = tempfile::tempdir().unwrap();
    recorded(root.path());
    let found = sample(root.path(), 42, 5).unwrap();
    let expected = Usage {
        cpu_seconds: 4.0,
        system_seconds: 1.5,
        resident_bytes_max: 2048 * 1024,
        disk_written_bytes: 8192,
        disk_read_bytes: 4096,
        network_received_bytes: 105,
        network_sent_bytes: 207,
    };
    assert_eq!(
        found,
        Sample {
            at_ms: 5,
            usage: expected
        }
    );
}

#[test]
fn a_process_that_is_gone_is_an_error_and_hidden_io_is_none() {
    let root = tempfile::tempdir().unwrap();
    recorded(root.path());
    assert!(sample(root.path(), 43, 0).is_err());
    std::fs::remove_file(root.path().join("proc/42/io")).unwrap();
    assert_eq!(
        sample(root.path(), 42, 0).unwrap().usage.disk_written_bytes,
        0
    );
}

fn at(at_ms: i64, cpu: f64, resident: u64) -> Sample {
    let usage = Usage {
        cpu_seconds: cpu,
        disk_written_bytes: (cpu * 1000.0) as u64,
        resident_bytes_max: resident,
        ..Usage::default()
    };
    Sample { at_ms, usage }
}

#[test]
fn a_window_is_cut_between_samples() {
    let samples = [
        at(0, 0.0, 1),
        at(100, 1.0, 9),
        at(200, 3.0, 5),
        at(300, 3.0, 2),
    ];
    let used = between(&samples, 50, 150).unwrap();
    assert_eq!(used.cpu_seconds, 1.5);
    assert_eq!(used.disk_written_bytes, 1500);
    assert_eq!(used.resident_bytes_max, 9);
}

#[test]
fn a_window_beyond_the_samples_gives_what_there_is() {
    let samples = [at(100, 1.0, 1), at(200, 3.0, 1)];
    assert_eq!(between(&samples, 0, 900).unwrap().cpu_seconds, 2.0);
    assert_eq!(between(&[], 0, 900), None);
}
