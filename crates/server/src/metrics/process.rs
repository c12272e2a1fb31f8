//! What the process uses of the machine, read at each scrape.

use crate::secrecy;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use host::cpus::Cpus;
use host::facts::interrupts;
use host::root::Root;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Collects the `process_*` metrics.
#[derive(Debug)]
pub(super) struct Process {
    started_seconds: f64,
}

impl Process {
    pub(super) fn new() -> Self {
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started_seconds: started.as_secs_f64(),
        }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut put = |name, help, metric: &dyn Encode| metric.put(&mut encoder, name, help);
        put(
            "process_start_time_seconds",
            "When the process started, since the Unix epoch",
            &ConstGauge::new(self.started_seconds),
        )?;
        // Without /proc there is nothing to report.
        let Ok(usage) = platform::process::usage() else {
            return Ok(());
        };
        put(
            "process_cpu_seconds",
            "Processor time, user and system",
            &ConstCounter::new(usage.cpu.as_secs_f64()),
        )?;
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Memory that is resident",
                usage.resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "Address space",
                usage.virtual_bytes,
            ),
            (
                "process_open_fds",
                "Open file descriptors",
                usage.open_files,
            ),
        ];
        for (name, help, value) in gauges {
            put(name, help, &ConstGauge::new(signed(value)))?;
        }
        disk(&mut encoder)?;
        let mut put = |name, help, metric: &dyn Encode| metric.put(&mut encoder, name, help);
        let own: Cpus = platform::cpus::allowed()
            .unwrap_or_default()
            .into_iter()
            .collect();
        let both = interrupts::cpus_of_cards(&Root::new("/")).and(&own);
        put(
            "forebay_cpu_irq_overlap",
            "Processors of the process that take interrupts of network cards",
            &ConstGauge::new(signed(both.len() as u64)),
        )?;
        if let Some(max) = usage.open_files_max {
            let help = "Largest number of open file descriptors";
            put("process_max_fds", help, &ConstGauge::new(signed(max)))?;
        }
        Ok(())
    }
}

/// Writes what the process has read from disks and written to them, under Kafka's names.
fn disk(encoder: &mut DescriptorEncoder) -> fmt::Result {
    let Some((read, written)) = secrecy::disk_bytes() else {
        return Ok(());
    };
    let gauges = [
        ("read", "Bytes that the process has read from disks", read),
        (
            "write",
            "Bytes that the process has written to disks",
            written,
        ),
    ];
    for (what, help, bytes) in gauges {
        let name = format!("kafka_server_kafkaserver_linux_disk_{what}_bytes");
        ConstGauge::new(signed(bytes)).put(encoder, &name, help)?;
    }
    Ok(())
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A metric with its value, of any type.
trait Encode {
    fn put(&self, encoder: &mut DescriptorEncoder, name: &str, help: &str) -> fmt::Result;
}

impl<M: EncodeMetric> Encode for M {
    fn put(&self, encoder: &mut DescriptorEncoder, name: &str, help: &str) -> fmt::Result {
        let descriptor = encoder.encode_descriptor(name, help, None, self.metric_type())?;
        self.encode(descriptor)
    }
}
