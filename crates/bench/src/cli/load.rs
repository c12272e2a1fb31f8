//! `forebay bench load`: a load from flags or from a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use super::{figures, quantity, shape, summary};
use crate::agent::{Hosts, HostsArguments};
use crate::conduct;
use crate::load::Control;
use crate::outcome::LoadOutcome;
use crate::spec::{
    Codec, Consume, ConsumeStart, Driver, Keys, Load, Produce, Rate, Requests, Sizes, Topics,
};

/// One load. Without flags: four producers of 1 KB records, unthrottled, for ten seconds.
#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// The broker, or several, comma-separated.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    bootstrap: String,
    /// File of properties as Kafka's tools take it, for TLS and logins: security.protocol, ssl.*,
    /// sasl.*. It replaces the one that a --spec names.
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// A TOML file with the load, instead of the flags that describe one.
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Format of what is printed: text for people, or a JSON object of numbers for a program such
    /// as `forebay tune experiment`.
    #[arg(long, value_enum, default_value_t = FormatArg::Text)]
    format: FormatArg,
    /// With --format json and a rate of steps: prints as `capacity_mb` the rate of the last step
    /// whose 99th percentile of writing is at most this, in milliseconds, with nothing lost.
    #[arg(long, value_name = "MS")]
    objective_p99: Option<f64>,
    /// Writes the outcome as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Checks every record and stores in this file what was acknowledged: with the same file the
    /// next check continues where the last one ended, over restarts of broker and generator. Topics
    /// stay.
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Client to use: native, or librdkafka to see what an ordinary client sees.
    #[arg(long, value_enum, default_value_t = DriverArg::Native)]
    driver: DriverArg,
    /// Threads of the generator; by default one for every four processors.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Prints the load as TOML instead of running it: a start for --spec.
    #[arg(long)]
    print_spec: bool,
    #[command(flatten)]
    topics: TopicsArgs,
    #[command(flatten)]
    produce: ProduceArgs,
    #[command(flatten)]
    consume: ConsumeArgs,
    #[command(flatten)]
    length: LengthArgs,
    #[command(flatten, next_help_heading = "Many hosts")]
    hosts: HostsArguments,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Topics")]
struct TopicsArgs {
    /// Prefix of topic names; with --existing and a single topic also its whole name.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    topic: String,
    /// Number of topics.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    topics: u32,
    /// Partitions of each topic.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    partitions: u32,
    /// Replicas of each partition.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    replication: i16,
    /// A setting for created topics; may be given several times.
    #[arg(long = "config", value_name = "KEY=VALUE", value_parser = setting)]
    configs: Vec<(String, String)>,
    /// The topics exist already and stay: they are neither created nor deleted.
    #[arg(long)]
    existing: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Writing")]
struct ProduceArgs {
    /// Connections that produce, 0 for none.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    producers: u32,
    /// Bytes of a value: 1KB, evenly 100..10KB, or weighted 100*1,10KB*3.
    #[arg(long, value_name = "SIZE", default_value = "1KB", value_parser = shape::sizes)]
    record: Sizes,
    /// Bits of entropy per byte of value, 0 to 8.
    #[arg(long, value_name = "BITS", default_value_t = 8.0)]
    entropy: f64,
    /// Keys: none, cycle:N, random:N.
    #[arg(long, value_name = "KEYS", default_value = "none", value_parser = shape::keys)]
    keys: Keys,
    /// Codec of batches.
    #[arg(long, value_enum, default_value_t = CodecArg::None)]
    compression: CodecArg,
    /// Bytes of a full batch.
    #[arg(long, value_name = "SIZE", default_value = "1MB", value_parser = quantity::small)]
    batch: u32,
    /// How long a batch waits for more records, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    linger: f64,
    /// 0, 1 or all.
    #[arg(long, default_value = "all", value_parser = acks)]
    acks: i16,
    /// Produces idempotently, with producer ids and sequences.
    #[arg(long)]
    idempotent: bool,
    /// Unanswered requests per connection.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    in_flight: u32,
    /// Whether a request takes along batches of the other partitions of its broker, as Kafka's
    /// producers send.
    #[arg(long, value_enum, default_value_t = RequestsArg::Packed)]
    requests: RequestsArg,
    /// Bytes of records per second, all producers together: 100MB, step:1MB,2MB/SECONDS,
    /// ramp:1MB,9MB/SECONDS, burst:BASE,PEAK/LENGTH,INTERVAL, sine:MEAN,AMPLITUDE/PERIOD,
    /// replay:FILE, unlimited.
    #[arg(long, value_name = "RATE", default_value = "unlimited", value_parser = shape::rate)]
    rate: Rate,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
struct ConsumeArgs {
    /// Connections that consume, per group; 0 for none.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    consumers: u32,
    /// Number of groups; each reads everything.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    groups: u32,
    /// Where consumers start.
    #[arg(long, value_enum, default_value_t = FromArg::Earliest)]
    from: FromArg,
    /// Minimum bytes of a fetch response.
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = quantity::small)]
    min_bytes: u32,
    /// How long the broker may wait for the minimum bytes, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    max_wait: u32,
    /// Maximum bytes of a fetch response.
    #[arg(long, value_name = "SIZE", default_value = "50MiB", value_parser = quantity::small)]
    max_bytes: u32,
    /// Maximum bytes of one partition in a fetch response.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = quantity::small)]
    partition_max_bytes: u32,
    /// Consumers leave records in the kernel instead of copying them to memory, which no real
    /// client can do: shows the most that a broker can send.
    #[arg(long)]
    discard: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Length")]
struct LengthArgs {
    /// Duration of the measured part.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    seconds: f64,
    /// Duration of the warm-up before it.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    warmup: f64,
    /// Bytes of records after which the load ends early.
    #[arg(long, value_name = "SIZE", value_parser = quantity::whole)]
    bytes: Option<u64>,
    /// Length of one point of the curve.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Numbers every record and checks what consumers read; consumers read everything.
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CodecArg {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RequestsArg {
    Packed,
    OnePerBatch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum FormatArg {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DriverArg {
    Native,
    Librdkafka,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FromArg {
    Earliest,
    Latest,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let setting = text.split_once('=');
    let setting = setting.ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((setting.0.to_owned(), setting.1.to_owned()))
}

fn acks(text: &str) -> Result<i16, String> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        "all" | "-1" => Ok(-1),
        _ => Err(format!("{text:?} is none of 0, 1, all")),
    }
}

impl LoadArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut load = match &self.spec {
            Some(file) => read(file)?,
            None => self.described(),
        };
        if self.command_config.is_some() {
            load.security.clone_from(&self.command_config);
        }
        if self.print_spec {
            return super::say(&toml::to_string(&load)?);
        }
        let objective = figures::Objective::of(&load, self.objective_p99)?;
        let mut control = Control {
            threads: self.threads,
            ..Control::default()
        };
        let seconds = load.interval_seconds;
        control.progress = Some(Arc::new(move |interval| {
            eprintln!("{}", summary::interval(interval, seconds));
        }));
        let outcome = run(&self, &load, &control)?;
        if let Some(file) = &self.json {
            let text = serde_json::to_string_pretty(&outcome)? + "\n";
            std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        match self.format {
            FormatArg::Text => super::say(&summary::outcome(&outcome)?)?,
            FormatArg::Json => {
                let figures = figures::of(&outcome, objective.as_ref())?;
                super::say(&(serde_json::to_string(&figures)? + "\n"))?;
            }
        }
        conduct::must_be_sound(&outcome)
    }

    fn described(&self) -> Load {
        let (topics, length) = (&self.topics, &self.length);
        Load {
            topics: Topics {
                prefix: topics.topic.clone(),
                count: topics.topics,
                partitions: topics.partitions,
                replication: topics.replication,
                configs: topics.configs.iter().cloned().collect::<BTreeMap<_, _>>(),
                existing: topics.existing,
            },
            produce: (self.produce.producers > 0).then(|| self.produce.described()),
            consume: (self.consume.consumers > 0).then(|| self.consume.described()),
            driver: match self.driver {
                DriverArg::Native => Driver::Native,
                DriverArg::Librdkafka => Driver::Librdkafka,
            },
            warmup_seconds: length.warmup,
            seconds: length.seconds,
            bytes_max: length.bytes,
            interval_seconds: length.interval,
            verify: length.verify,
            security: self.command_config.clone(),
        }
    }
}

impl ProduceArgs {
    fn described(&self) -> Produce {
        Produce {
            producers: self.producers,
            record: self.record.clone(),
            entropy: self.entropy,
            keys: self.keys,
            compression: match self.compression {
                CodecArg::None => Codec::None,
                CodecArg::Gzip => Codec::Gzip,
                CodecArg::Snappy => Codec::Snappy,
                CodecArg::Lz4 => Codec::Lz4,
                CodecArg::Zstd => Codec::Zstd,
            },
            batch_bytes: self.batch,
            linger_ms: self.linger,
            acks: self.acks,
            idempotent: self.idempotent,
            in_flight_max: self.in_flight,
            requests: match self.requests {
                RequestsArg::Packed => Requests::Packed,
                RequestsArg::OnePerBatch => Requests::OnePerBatch,
            },
            rate: self.rate.clone(),
        }
    }
}

impl ConsumeArgs {
    fn described(&self) -> Consume {
        Consume {
            consumers: self.consumers,
            groups: self.groups,
            from: match self.from {
                FromArg::Earliest => ConsumeStart::Earliest,
                FromArg::Latest => ConsumeStart::Latest,
            },
            min_bytes: self.min_bytes,
            max_wait_ms: self.max_wait,
            max_bytes: self.max_bytes,
            partition_max_bytes: self.partition_max_bytes,
            discard: self.discard,
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Load> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("reading {}", file.display()))?;
    toml::from_str(&text).with_context(|| format!("{}", file.display()))
}

/// Runs the load; ^C ends it with the outcome so far.
fn run(args: &LoadArgs, load: &Load, control: &Control) -> anyhow::Result<LoadOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = control.stop.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.now();
            }
        });
        let mut hosts = match args.hosts.hosts.as_slice() {
            [] => None,
            _ => Some(Hosts::reach(&args.hosts).await?),
        };
        let ledger = args.ledger.as_deref();
        conduct::run(&args.bootstrap, load, control, hosts.as_mut(), ledger).await
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: LoadArgs,
    }

    fn described(line: &str) -> Load {
        let words = std::iter::once("load").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().args.described()
    }

    #[test]
    fn a_load_described_by_flags_is_the_same_from_a_file() {
        let lines = [
            "",
            "--record 240KB --producers 30 --rate burst:1MB,9MB/2,10 --acks 1 --consumers 2 --discard",
            "--producers 0 --consumers 3 --existing --topic t --bytes 2GB --config a.b=c",
            "--record 100..10KB --keys random:7 --compression zstd --idempotent --rate 5MB \
             --driver librdkafka",
        ];
        for line in lines {
            let load = described(line);
            let text = toml::to_string(&load).unwrap();
            assert_eq!(toml::from_str::<Load>(&text).unwrap(), load, "{line}");
        }
        let load = described("--acks all --record 100*1,1KB*2");
        let produce = load.produce.unwrap();
        assert_eq!(produce.acks, -1);
        let weights = vec![(100, 1.0), (1000, 2.0)];
        assert_eq!(produce.record, Sizes::Weighted { weights });
    }
}
