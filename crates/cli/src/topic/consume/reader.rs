//! Takes records from a consumer until there is enough, and writes them out.
//!
//! The consumer works on a thread of its own: it fetches ahead and keeps its membership while
//! records are written. Invariant: a group's position covers only records that were written out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use client::Settings;
use client::blocking::Client;
use client::consumer::{Assignment, Consumer, ConsumerOptions, Event, FetchedRecords};
use client::fetch::{Position as ReadPosition, Whence};
use platform::net::TcpNet;
use wire::batch::record::DECOMPRESSED_BYTES_MAX;
use wire::types::TopicPartition;

use super::patience::Patience;
use super::{Consume, Form, Protocol};
use crate::ask::Refusal;
use crate::position::Position;
use crate::show;
use crate::stop::Stop;
use crate::target::ChosenTarget;

/// How long an event is waited for before other conditions are checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes that are collected before they are written out.
const OUT_BYTES: usize = 64 << 10;
/// How often a group's position is stored.
const COMMIT_EVERY: Duration = Duration::from_secs(5);
/// Bytes that are fetched ahead.
const BUFFER_BYTES: usize = 64 << 20;

/// A consumer and the options of its command.
pub(super) struct Reader<'a> {
    client: Client,
    consumer: Consumer,
    asked: &'a Consume,
    within: Duration,
    stop: Stop,
    left: Option<u64>,
    assigned: BTreeSet<TopicPartition>,
    /// Partitions that were read to their end, until another record comes.
    ended: BTreeSet<TopicPartition>,
    /// Records that are not written out yet, and the position after them in each partition.
    out: Vec<u8>,
    unwritten: BTreeMap<TopicPartition, ReadPosition>,
    patience: Patience,
}

/// Whether standard output still has a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Open,
    /// The reader of the output has gone.
    Gone,
}

impl<'a> Reader<'a> {
    /// Reads partitions from given positions.
    pub(super) fn assigned(
        asked: &'a Consume,
        target: &ChosenTarget,
        positions: BTreeMap<TopicPartition, Whence>,
    ) -> anyhow::Result<Self> {
        let assigned = positions.keys().cloned().collect();
        Self::open(asked, target, Assignment::Given(positions), assigned)
    }

    /// Reads these topics as a member of a group.
    pub(super) fn subscribed(
        asked: &'a Consume,
        target: &ChosenTarget,
        topics: BTreeSet<String>,
    ) -> anyhow::Result<Self> {
        Self::open(
            asked,
            target,
            Assignment::Subscribed(topics),
            BTreeSet::new(),
        )
    }

    fn open(
        asked: &'a Consume,
        target: &ChosenTarget,
        assignment: Assignment,
        assigned: BTreeSet<TopicPartition>,
    ) -> anyhow::Result<Self> {
        let settings = settings(asked, target)?;
        let options = ConsumerOptions {
            client: settings.client,
            auto_commit: asked.group.is_some().then_some(COMMIT_EVERY),
            buffer_bytes: BUFFER_BYTES,
        };
        let stop = Stop::on_signal()?;
        Ok(Self {
            client: Client::new()?,
            consumer: Consumer::apart(TcpNet, options, assignment)?,
            asked,
            within: target.within,
            stop,
            left: asked.num,
            assigned,
            ended: BTreeSet::new(),
            out: Vec::new(),
            unwritten: BTreeMap::new(),
            patience: Patience::new(target.within, Instant::now()),
        })
    }

    /// Reads until there is enough, and writes it out; then stores the group's position.
    pub(super) fn read(mut self, form: &Form) -> anyhow::Result<()> {
        let read = self.read_all(form);
        let deadline = platform::clock::Instant::now() + self.within;
        let closed = self.client.run(self.consumer.close(deadline));
        if self.asked.group.is_some() {
            return read.and(closed.context("storing the position"));
        }
        read
    }

    fn read_all(&mut self, form: &Form) -> anyhow::Result<()> {
        while self.left != Some(0) && !self.stop.is_set() {
            // Records that are available are written out together, at the latest when no more are
            // available.
            let wait = if self.out.is_empty() {
                LOOK_EVERY
            } else {
                Duration::ZERO
            };
            let deadline = platform::clock::Instant::now() + wait;
            let event = self.client.run(self.consumer.next(deadline));
            let is_end = matches!(event, Event::End { .. });
            if self.take(event, form)? == Output::Gone {
                return Ok(());
            }
            if is_end && self.asked.exit && self.is_at_end() {
                break;
            }
        }
        self.write()?;
        Ok(())
    }

    fn take(&mut self, event: Event, form: &Form) -> anyhow::Result<Output> {
        match event {
            Event::Records(records) => {
                self.patience.progressed(Instant::now());
                self.ended.remove(&records.place);
                return self.write_records(&records, form);
            }
            Event::End { place, .. } => {
                self.patience.progressed(Instant::now());
                self.ended.insert(place);
            }
            Event::Assigned(places) => self.assigned.extend(places),
            Event::Revoking(revocation) => {
                // What was read of them is written out and stored before they are let go.
                let output = self.write()?;
                self.forget(&revocation.places);
                return Ok(output);
            }
            Event::Lost(places) => self.forget(&places),
            Event::Truncated { place, from, to } => show::say(&format!(
                "partition {place}: the log was cut: reading on at offset {to} instead of {from}"
            )),
            Event::Trouble(error) => show::say(&format!("{error}; trying on")),
            Event::Failed { place, error } => {
                self.write()?;
                let failed = Err(error);
                return match place {
                    Some(place) => failed.with_context(|| format!("partition {place}")),
                    None => failed.map_err(Into::into),
                };
            }
            Event::Nothing if self.out.is_empty() => self.look()?,
            Event::Nothing => return self.write(),
            Event::Closed => bail!("the consumer has ended"),
        }
        Ok(Output::Open)
    }

    fn write_records(&mut self, records: &FetchedRecords, form: &Form) -> anyhow::Result<Output> {
        let place = &records.place;
        let broken = || format!("partition {place}");
        for batch in &records.batches {
            if self.stop.is_set() {
                return Ok(Output::Open);
            }
            let epoch = Some(batch.header().leader_epoch.0).filter(|epoch| *epoch >= 0);
            let open = batch.open(DECOMPRESSED_BYTES_MAX).with_context(broken)?;
            for record in open.records() {
                let record = record.with_context(broken)?;
                form.write(place, &record, &mut self.out)?;
                let offset = record.offset + 1;
                self.left = self.left.map(|left| left - 1);
                let is_enough = self.left == Some(0);
                if is_enough || self.out.len() >= OUT_BYTES {
                    let position = ReadPosition { offset, epoch };
                    self.unwritten.insert(place.clone(), position);
                    if self.write()? == Output::Gone {
                        return Ok(Output::Gone);
                    }
                }
                if is_enough {
                    return Ok(Output::Open);
                }
            }
            let offset = batch.next_offset();
            let position = ReadPosition { offset, epoch };
            self.unwritten.insert(place.clone(), position);
        }
        self.unwritten.insert(place.clone(), records.position);
        Ok(Output::Open)
    }

    /// Writes out the collected records. The group's position covers only what was written out.
    fn write(&mut self) -> anyhow::Result<Output> {
        let mut to = io::stdout().lock();
        let written = to.write_all(&self.out).and_then(|()| to.flush());
        self.out.clear();
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Output::Gone),
            written => written?,
        }
        for (place, position) in std::mem::take(&mut self.unwritten) {
            self.consumer.store(&place, position);
        }
        Ok(Output::Open)
    }

    /// Forgets partitions that the group has given to others.
    fn forget(&mut self, gone: &BTreeSet<TopicPartition>) {
        self.assigned.retain(|place| !gone.contains(place));
        self.ended.retain(|place| !gone.contains(place));
        self.unwritten.retain(|place, _| !gone.contains(place));
    }

    /// Looks, from time to time, whether a refusal is why no records come.
    fn look(&mut self) -> anyhow::Result<()> {
        if !self.patience.wants_to_look(Instant::now()) {
            return Ok(());
        }
        let refusals = self.consumer.refusals().into_iter();
        let refusals = refusals
            .map(|(place, refusal)| (place, Refusal::from(refusal.code)))
            .collect();
        match self.patience.looked(refusals, Instant::now()) {
            Ok(new) => {
                for (place, refusal) in new {
                    show::say(&format!("partition {place}: {refusal}; trying on"));
                }
                Ok(())
            }
            Err((place, refusal)) => {
                self.write()?;
                Err(refusal).with_context(|| format!("partition {place}"))
            }
        }
    }

    fn is_at_end(&self) -> bool {
        !self.assigned.is_empty() && self.assigned.is_subset(&self.ended)
    }
}

fn settings(asked: &Consume, target: &ChosenTarget) -> anyhow::Result<Settings> {
    let isolation = if asked.read_uncommitted {
        "read_uncommitted"
    } else {
        "read_committed"
    };
    let reset = match asked.offset {
        Position::End => "latest",
        _ => "earliest",
    };
    // With `--exit` the end of a partition should be reported soon.
    let wait_ms = if asked.exit { "20" } else { "500" };
    let protocol = match asked.group_protocol {
        Protocol::Classic => "classic",
        Protocol::Consumer => "consumer",
    };
    let mut settings = target.settings()?;
    for (key, value) in [
        ("isolation.level", isolation),
        ("auto.offset.reset", reset),
        ("fetch.max.wait.ms", wait_ms),
        ("max.partition.fetch.bytes", "4194304"),
        ("allow.auto.create.topics", "false"),
        ("group.protocol", protocol),
        ("partition.assignment.strategy", "range"),
    ] {
        settings.set(key, value)?;
    }
    if let Some(group) = &asked.group {
        settings.set("group.id", group)?;
    }
    for property in &asked.properties {
        settings.set(&property.key, &property.value)?;
    }
    target.finish(settings)
}
