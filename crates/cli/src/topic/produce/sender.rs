//! Sends records through librdkafka's queue, and reads the delivery reports.
//!
//! The reports come in the order of their arrival.

use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::Context as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DeliveryResult, NoCustomPartitioner, Producer as _, ProducerContext,
};
use rdkafka::{ClientConfig, ClientContext, Message as _};
use serde_json::json;

use super::{Produce, Record};
use crate::ask::CLIENT_ID;
use crate::show::{self, Format};
use crate::target::Chosen;

/// How long to wait for room in the queue before trying again.
const ROOM_WITHIN: Duration = Duration::from_millis(100);

/// The outcome of a record.
struct Report {
    partition: i32,
    offset: i64,
    error: Option<KafkaError>,
}

/// Receives librdkafka's delivery reports.
struct Reports(mpsc::Sender<Report>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let (message, error) = match result {
            Ok(message) => (message, None),
            Err((error, message)) => (message, Some(error.clone())),
        };
        // The send fails if the command has ended.
        let _ = self.0.send(Report {
            partition: message.partition(),
            offset: message.offset(),
            error,
        });
    }
}

/// Writes records and reports their outcomes.
pub(super) struct Sender<'a> {
    client: BaseProducer<Reports, NoCustomPartitioner>,
    reports: Receiver<Report>,
    asked: &'a Produce,
    format: Format,
    within: Duration,
    failed: u64,
}

impl<'a> Sender<'a> {
    pub(super) fn open(asked: &'a Produce, target: &Chosen) -> anyhow::Result<Self> {
        let mut settings = ClientConfig::new();
        settings
            .set("bootstrap.servers", &target.brokers)
            .set("client.id", CLIENT_ID);
        for (key, value) in asked.settings(target) {
            settings.set(key, value);
        }
        let (sender, reports) = mpsc::channel();
        let client = settings.create_with_context(Reports(sender));
        Ok(Self {
            client: client.context("settings of the producer")?,
            reports,
            asked,
            format: target.format,
            within: target.within,
            failed: 0,
        })
    }

    /// Puts a record into the queue, and waits for room.
    pub(super) fn send(&mut self, record: &Record) -> anyhow::Result<()> {
        let mut wanted = BaseRecord::<[u8], [u8]>::to(&self.asked.topic);
        if let Some(key) = &record.key {
            wanted = wanted.key(key);
        }
        if let Some(value) = &record.value {
            wanted = wanted.payload(value);
        }
        if let Some(partition) = record.partition {
            wanted = wanted.partition(partition);
        }
        if let Some(timestamp) = record.timestamp {
            wanted = wanted.timestamp(timestamp);
        }
        if !record.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
            for (key, value) in &record.headers {
                let value = value.as_deref();
                headers = headers.insert(Header { key, value });
            }
            wanted = wanted.headers(headers);
        }
        while let Err((error, unsent)) = self.client.send(wanted) {
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                self.say(&Report {
                    partition: record.partition.unwrap_or(-1),
                    offset: -1,
                    error: Some(error),
                })?;
                return Ok(());
            }
            wanted = unsent;
            self.client.poll(ROOM_WITHIN);
            self.drain()?;
        }
        self.client.poll(Duration::ZERO);
        self.drain()
    }

    /// Waits for the records under way; returns a failure if one was not written.
    pub(super) fn finish(mut self) -> anyhow::Result<ExitCode> {
        // Each record has a timeout of its own, which begins when it is queued; the extra time lets
        // it be reported.
        let flushed = self.client.flush(self.within + Duration::from_secs(5));
        self.drain()?;
        flushed.context("waiting for acknowledgements")?;
        if self.failed > 0 {
            show::say(&format!("{} records were not written", self.failed));
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn drain(&mut self) -> anyhow::Result<()> {
        while let Ok(report) = self.reports.try_recv() {
            self.say(&report)?;
        }
        Ok(())
    }

    fn say(&mut self, report: &Report) -> anyhow::Result<()> {
        let &Report {
            partition, offset, ..
        } = report;
        if let Some(error) = &report.error {
            self.failed += 1;
            let reason = match error.rdkafka_error_code() {
                Some(code) => code.to_string(),
                None => error.to_string(),
            };
            show::say(&format!(
                "topic {}, partition {partition}: {reason}",
                self.asked.topic
            ));
            return Ok(());
        }
        if self.asked.quiet {
            return Ok(());
        }
        // Without acknowledgements the offset is unknown.
        let offset = (offset >= 0).then_some(offset);
        let written = match self.format {
            Format::Json => {
                let topic = &self.asked.topic;
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
