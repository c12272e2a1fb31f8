//! The thread that writes the audit lines.
//!
//! Each second, or as soon as an administrator has changed something, it takes what is due, writes
//! it, and syncs if a change is among it. What could not be written stays here, in its order, and
//! no further events are taken until it is: they wait within the bounds of `pending`.
//! Invariant: nothing that the disk answers ends the thread.

use std::collections::VecDeque;
use std::time::Instant;

use broker::audit::AuditClass;

use super::disk::AuditDisk;
use super::file::{AuditFile, AuditFileError};
use super::pending::TakenEvents;
use super::{AuditLog, line, wall_ms};

/// Writes what waits until the process ends.
pub(super) struct Writer<D: AuditDisk> {
    log: AuditLog,
    /// `None`: the lines go to the log of the process.
    file: Option<AuditFile<D>>,
    /// Lines that are not written yet.
    // Bounded: what is taken at once, `pending::EVENTS_MAX`.
    lines: VecDeque<Vec<u8>>,
    /// True if a change of an administrator was written that is not durable.
    owes_sync: bool,
}

impl<D: AuditDisk> Writer<D> {
    pub(super) fn new(log: AuditLog, file: Option<AuditFile<D>>) -> Self {
        Self {
            log,
            file,
            lines: VecDeque::new(),
            owes_sync: false,
        }
    }

    /// Runs until the process ends.
    pub(super) fn run(mut self) {
        loop {
            let is_ending = if self.is_clear() {
                let (taken, is_ending) = self.log.wait();
                self.take(taken);
                is_ending
            } else {
                self.log.pause()
            };
            self.write();
            if is_ending {
                self.end();
                return;
            }
        }
    }

    /// Writes what came while earlier lines waited for the disk, and says what cannot be written.
    fn end(&mut self) {
        let taken = self.log.pending().take(Instant::now(), true);
        self.take(taken);
        self.write();
        if !self.is_clear() {
            let lines = self.lines.len();
            tracing::error!(lines, "the last lines of the audit file are not written");
        }
    }

    fn is_clear(&self) -> bool {
        self.lines.is_empty() && !self.owes_sync
    }

    /// Puts events into words.
    pub(super) fn take(&mut self, taken: TakenEvents) {
        let TakenEvents { events, dropped } = taken;
        for due in events {
            let class = due.event.class;
            self.owes_sync |= class == AuditClass::Admin;
            let lines = line::lines(&due);
            self.log.0.metrics.written(class, lines.len());
            self.lines.extend(lines);
        }
        if !dropped.is_empty() {
            self.lines.push_back(line::of_dropped(&dropped, wall_ms()));
        }
    }

    /// Writes what there is.
    pub(super) fn write(&mut self) {
        let Some(file) = &mut self.file else {
            for line in self.lines.drain(..) {
                let event = String::from_utf8_lossy(&line);
                tracing::info!(target: "audit", event = event.trim_end(), "audit");
            }
            self.owes_sync = false;
            return;
        };
        let (lines, owes_sync) = (&mut self.lines, &mut self.owes_sync);
        let before = file.rotations();
        let written = self.log.timed(|| written(file, lines, owes_sync));
        let rotations = file.rotations().saturating_sub(before);
        self.log.0.metrics.rotations.inc_by(rotations);
        match written {
            Ok(()) => self.log.works(),
            Err(error) => self.log.fails(&error.to_string()),
        }
    }
}

fn written<D: AuditDisk>(
    file: &mut AuditFile<D>,
    lines: &mut VecDeque<Vec<u8>>,
    owes_sync: &mut bool,
) -> Result<(), AuditFileError> {
    file.look();
    file.open()?;
    file.append(lines)?;
    if *owes_sync {
        file.sync()?;
        *owes_sync = false;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
