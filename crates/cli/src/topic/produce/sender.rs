//! Sends records through a producer, and tells what became of each.
//!
//! Records are read on a thread of their own, so that what was read is sent while the input waits.
//! The reports come in the order of their arrival.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use client::blocking::Client;
use client::{Cluster, Producer, Report};
use platform::clock::Instant;
use platform::net::TcpNet;
use serde_json::json;

use super::ahead;
use super::{Produce, Record};
use crate::show::{self, Format};
use crate::target::ChosenTarget;

/// The reports of the records so far: what the command showed, and how many failed.
struct SendOutcome {
    topic: String,
    format: Format,
    is_quiet: bool,
    failed: u64,
    /// The first error of the output, which ends the command.
    unwritten: Option<anyhow::Error>,
}

/// Sends the records that `read` hands out; returns a failure if one was not written.
pub(super) fn send(
    asked: &Produce,
    target: &ChosenTarget,
    read: impl FnOnce(&mut dyn FnMut(Record) -> anyhow::Result<()>) -> anyhow::Result<()>
    + Send
    + 'static,
) -> anyhow::Result<ExitCode> {
    let mut builder = target.settings()?;
    for (key, value) in asked.settings(target) {
        builder
            .set(&key, &value)
            .context("settings of the producer")?;
    }
    let settings = target.finish(builder)?;
    // A record that is sent at the end of its time is waited for as long as a request takes.
    let request = settings.client.request_timeout;
    let within = settings.producer.delivery_timeout + request + Duration::from_secs(5);
    let outcome = Rc::new(RefCell::new(SendOutcome {
        topic: asked.topic.clone(),
        format: target.format,
        is_quiet: asked.quiet,
        failed: 0,
        unwritten: None,
    }));
    let told = Rc::clone(&outcome);
    Client::new()?.run(async move {
        let cluster = Cluster::new(TcpNet, settings.client);
        let producer = Producer::new(cluster, settings.producer);
        let sent = send_all(&producer, asked, &told, read).await;
        let flushed = producer.flush(Instant::now() + within).await;
        sent.and(flushed.context("waiting for acknowledgements"))
    })?;
    let mut outcome = outcome.borrow_mut();
    if let Some(error) = outcome.unwritten.take() {
        return Err(error);
    }
    if outcome.failed > 0 {
        show::say(&format!("{} records were not written", outcome.failed));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Hands the records to the producer as they are read.
async fn send_all(
    producer: &Producer,
    asked: &Produce,
    outcome: &Rc<RefCell<SendOutcome>>,
    read: impl FnOnce(&mut dyn FnMut(Record) -> anyhow::Result<()>) -> anyhow::Result<()>
    + Send
    + 'static,
) -> anyhow::Result<()> {
    let (to, records) = ahead::ends();
    // The thread ends with the input, or at its next record after the command has ended.
    thread::spawn(move || {
        let mut each = |record| to.give(Ok(record));
        if let Err(error) = read(&mut each) {
            // The command may have ended.
            drop(to.give(Err(error)));
        }
    });
    let topic = asked.topic.as_str().into();
    while let Some(read) = records.take().await {
        for record in read {
            let record = asked.fill(record?);
            let told = Rc::clone(outcome);
            let partition = record.partition.unwrap_or(-1);
            let done = move |report| told.borrow_mut().take(&report);
            let taken = producer.send(record.into_record(&topic), done).await;
            if let Err(error) = taken {
                let result = Err(error);
                outcome.borrow_mut().take(&Report { partition, result });
            }
            if outcome.borrow().unwritten.is_some() {
                return Ok(());
            }
        }
    }
    Ok(())
}

impl SendOutcome {
    fn take(&mut self, report: &Report) {
        if let Err(error) = self.say(report) {
            self.unwritten.get_or_insert(error);
        }
    }

    fn say(&mut self, report: &Report) -> anyhow::Result<()> {
        let (topic, partition) = (&self.topic, report.partition);
        let receipt = match &report.result {
            Ok(receipt) => receipt,
            Err(error) => {
                self.failed += 1;
                show::say(&format!("topic {topic}, partition {partition}: {error}"));
                return Ok(());
            }
        };
        if self.is_quiet {
            return Ok(());
        }
        // Without acknowledgements the offset is unknown.
        let offset = receipt.offset;
        let written = match self.format {
            Format::Json => {
                let line = json!({"topic": topic, "partition": partition, "offset": offset});
                show::print_json(&line)
            }
            Format::Text => match offset {
                Some(offset) => show::print(&format!("partition {partition}, offset {offset}\n")),
                None => show::print(&format!("partition {partition}\n")),
            },
        };
        written.map(drop)
    }
}
