//! Programs on the controller that a rollout runs for a host: the gate, which says whether it still
//! serves, and those that drain it, restart it, and wait until it serves again.
//!
//! The gate runs whenever a host's values have been verified: after they were applied, and before
//! they are confirmed. Invariant: a gate that does not end in its time has not passed.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use platform::bounded;
use rustix::process::{Pid, Signal, kill_process_group};

/// Stands for the host's name among the arguments.
const HOST: &str = "{host}";
/// Longest time of a gate.
const GATE_TIME: Duration = Duration::from_mins(1);
/// Limit on its messages; one that says more is ended by its next message.
const MESSAGES_BYTES_MAX: u64 = 1 << 20;
/// Limit on the shown part of its messages.
const WHY_LETTERS_MAX: usize = 400;

/// Runs a gate for a host; the error is why it did not pass.
pub fn passes(gate: &[String], host: &str) -> Result<(), String> {
    within(gate, host, GATE_TIME)
}

/// Runs a program for each host at the same time; the errors are why they failed.
pub fn for_each(
    program: &[String],
    hosts: &[String],
    time: Duration,
) -> BTreeMap<String, Result<(), String>> {
    std::thread::scope(|scope| {
        let run = |host: &String| {
            let name = host.clone();
            scope.spawn(move || {
                let ended = within(program, &name, time);
                (name, ended)
            })
        };
        let running: Vec<_> = hosts.iter().map(run).collect();
        // One that panicked has no answer, and counts as failed.
        running
            .into_iter()
            .filter_map(|one| one.join().ok())
            .collect()
    })
}

fn within(gate: &[String], host: &str, time: Duration) -> Result<(), String> {
    let words: Vec<String> = gate.iter().map(|word| word.replace(HOST, host)).collect();
    let Some((program, arguments)) = words.split_first() else {
        return Ok(());
    };
    let failed = |why: &dyn std::fmt::Display| format!("the gate {program}: {why}");
    // In its own process group, so that the processes it started end with it.
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(&error))?;
    let group = Pid::from_child(&child);
    let messages = child.stderr.take();
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        // Read first: a gate that says much would wait for a reader.
        let said = messages.and_then(|from| bounded::stream(from, MESSAGES_BYTES_MAX).ok());
        let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
        let said: String = said.trim().chars().take(WHY_LETTERS_MAX).collect();
        // The receiver is gone if the gate took too long.
        drop(sender.send((child.wait(), said)));
    });
    let answer = ended.recv_timeout(time);
    // Fails if the group is empty, which is the normal case.
    let _ = kill_process_group(group, Signal::KILL);
    match answer {
        Err(_) => Err(failed(&format!("no end within {} s", time.as_secs_f64()))),
        Ok((Err(error), _)) => Err(failed(&error)),
        Ok((Ok(status), _)) if status.success() => Ok(()),
        Ok((Ok(status), said)) => Err(failed(&format!("{status}: {said}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(words: &[&str], time: Duration) -> Result<(), String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        within(&words, "edge-1", time)
    }

    #[test]
    fn a_gate_passes_by_its_exit_code() {
        let long = Duration::from_mins(1);
        assert_eq!(gate(&[], long), Ok(()));
        assert_eq!(gate(&["test", "{host}", "=", "edge-1"], long), Ok(()));
        let why = gate(&["sh", "-c", "echo not ready: {host} >&2; exit 3"], long).unwrap_err();
        assert!(
            why.contains("not ready: edge-1") && why.contains('3'),
            "{why}"
        );
        assert!(gate(&["/nowhere/gate"], long).is_err());
    }

    #[test]
    fn a_gate_that_does_not_end_has_not_passed() {
        let begun = std::time::Instant::now();
        let why = gate(
            &["sh", "-c", "sleep 60 & sleep 60"],
            Duration::from_millis(50),
        );
        assert!(why.unwrap_err().contains("no end within"));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
