//! Sends records through a producer, and tells what became of each.
//!
//! Records are read on a thread of their own, so that what was read is sent while the input waits.
//! The reports come in the order of their arrival. Those that come together are written together:
//! to write each by itself costs more than to send its record.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use client::blocking::Client;
use client::{Cluster, Producer, Report};
use platform::clock::Instant;
use platform::net::TcpNet;
use platform::task;
use serde_json::json;

use super::ahead;
use super::{Produce, Record};
use crate::show::{self, Format};
use crate::target::ChosenTarget;

/// Bytes of lines that are written at once, whatever comes.
const LINES_BYTES: usize = 64 << 10;

/// The reports of the records so far: what the command showed, and how many failed.
struct SendOutcome {
    topic: String,
    format: Format,
    is_quiet: bool,
    failed: u64,
    /// Lines that are not written yet.
    // Bounded: `LINES_BYTES`, and one line
    lines: String,
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
        lines: String::new(),
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
    outcome.write_all();
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
            let done = move |report| take(&told, &report);
            let taken = producer.send(record.into_record(&topic), done).await;
            if let Err(error) = taken {
                let result = Err(error);
                take(outcome, &Report { partition, result });
            }
            if outcome.borrow().unwritten.is_some() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Takes a report. Its line is written with those of the reports that come with it.
fn take(outcome: &Rc<RefCell<SendOutcome>>, report: &Report) {
    let mut told = outcome.borrow_mut();
    let was_empty = told.lines.is_empty();
    told.take(report);
    if told.lines.len() >= LINES_BYTES {
        told.write_all();
    } else if was_empty && !told.lines.is_empty() {
        let later = Rc::clone(outcome);
        task::spawn(async move { later.borrow_mut().write_all() });
    }
}

impl SendOutcome {
    fn take(&mut self, report: &Report) {
        if let Err(error) = self.say(report) {
            self.unwritten.get_or_insert(error);
        }
    }

    /// Writes the lines that are not written yet.
    fn write_all(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let written = show::print(&self.lines);
        self.lines.clear();
        if let Err(error) = written {
            self.unwritten.get_or_insert(error);
        }
    }

    fn say(&mut self, report: &Report) -> anyhow::Result<()> {
        let partition = report.partition;
        let receipt = match &report.result {
            Ok(receipt) => receipt,
            Err(error) => {
                self.failed += 1;
                // After the lines of the reports before.
                self.write_all();
                let topic = &self.topic;
                show::say(&format!("topic {topic}, partition {partition}: {error}"));
                return Ok(());
            }
        };
        if self.is_quiet {
            return Ok(());
        }
        // Without acknowledgements the offset is unknown.
        let offset = receipt.offset;
        match (self.format, offset) {
            (Format::Json, _) => {
                let topic = &self.topic;
                let line = json!({"topic": topic, "partition": partition, "offset": offset});
                self.lines.push_str(&show::json_line(&line)?);
            }
            (Format::Text, Some(offset)) => {
                writeln!(self.lines, "partition {partition}, offset {offset}")?;
            }
            (Format::Text, None) => writeln!(self.lines, "partition {partition}")?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use client::{ClientError, Receipt};

    use super::*;

    fn outcome(format: Format) -> SendOutcome {
        SendOutcome {
            topic: "t\u{1b}".to_owned(),
            format,
            is_quiet: false,
            failed: 0,
            lines: String::new(),
            unwritten: None,
        }
    }

    fn report(partition: i32, offset: Option<i64>) -> Report {
        let receipt = Receipt {
            offset,
            append_time: None,
        };
        Report {
            partition,
            result: Ok(receipt),
        }
    }

    #[test]
    fn a_report_is_a_line_and_one_that_failed_is_counted() {
        let mut text = outcome(Format::Text);
        text.take(&report(3, Some(7)));
        text.take(&report(4, None));
        assert_eq!(text.lines, "partition 3, offset 7\npartition 4\n");
        let mut json = outcome(Format::Json);
        json.take(&report(3, Some(7)));
        assert_eq!(
            json.lines,
            "{\"offset\":7,\"partition\":3,\"topic\":\"t\\u001b\"}\n"
        );
        let mut quiet = SendOutcome {
            is_quiet: true,
            ..outcome(Format::Text)
        };
        quiet.take(&report(3, Some(7)));
        let result = Err(ClientError::Closed);
        quiet.take(&Report {
            partition: 0,
            result,
        });
        assert_eq!((quiet.lines.as_str(), quiet.failed), ("", 1));
        assert!(quiet.unwritten.is_none());
    }
}
