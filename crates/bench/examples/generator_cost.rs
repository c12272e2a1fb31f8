//! What the generator costs beside the least that can send: pairs of `bare_sender` and the
//! generator, one after the other, against one sink in a process of its own; one connection,
//! records of 240 KB in batches of 1 MB, five in flight.
//!
//!     cargo build --release -p forebay-bench --example bare_sender --example generator_cost
//!     target/release/examples/generator_cost PAIRS SECONDS
//!
//! Goals: 80 % of the bare sender's rate, 0.15 CPU-s per GB. Only ratios can be compared between
//! machines.

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use bench::load::{self, Control};
use bench::sink::{self, SinkMode};
use bench::spec::Load;

/// What one of the two came to: GB/s, CPU-s per GB.
type Figures = (f64, f64);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (pairs, seconds) = match arguments.as_slice() {
        [sink] if sink == "sink" => {
            return sink::run("127.0.0.1:0", SinkMode::Copies, |address| {
                // The process that started it waits for this line.
                let _ = writeln!(std::io::stdout(), "{address}");
            });
        }
        [pairs, seconds] => (pairs.parse::<u32>()?, seconds.parse::<f64>()?),
        _ => bail!("generator_cost PAIRS SECONDS"),
    };
    let sink = Sink::start()?;
    let mut all: Vec<(Figures, Figures)> = Vec::new();
    let mut out = std::io::stdout();
    for _ in 0..pairs {
        let pair = (
            bare(&sink.address, seconds)?,
            generator(&sink.address, seconds)?,
        );
        let ((bare, bare_cpu), (ours, our_cpu)) = pair;
        writeln!(
            out,
            "bare {bare:.3} GB/s {bare_cpu:.3} CPU-s/GB, generator {ours:.3} GB/s {our_cpu:.3} CPU-s/GB: \
             rate {:.2}, cost {:.2}",
            ours / bare,
            our_cpu / bare_cpu
        )?;
        all.push(pair);
    }
    writeln!(
        out,
        "medians: rate {:.2}, cost {:.2}, generator {:.3} CPU-s/GB",
        median(all.iter().map(|(bare, ours)| ours.0 / bare.0)),
        median(all.iter().map(|(bare, ours)| ours.1 / bare.1)),
        median(all.iter().map(|(_, ours)| ours.1)),
    )?;
    Ok(())
}

struct Sink {
    child: Child,
    address: String,
}

impl Sink {
    fn start() -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("sink")
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().context("a sink says where it is")?;
        let mut address = String::new();
        BufReader::new(said).read_line(&mut address)?;
        let address = address.trim().to_owned();
        Ok(Self { child, address })
    }
}

/// A count that fails ends its sink, too.
impl Drop for Sink {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        drop(ended);
    }
}

fn bare(address: &str, seconds: f64) -> anyhow::Result<Figures> {
    let program = std::env::current_exe()?.with_file_name("bare_sender");
    let sent = Command::new(&program)
        .args([
            address,
            "240000",
            "1000000",
            "5",
            seconds.to_string().as_str(),
        ])
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    let line = String::from_utf8_lossy(&sent.stdout);
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [rate, "GB/s,", cpu, "CPU-s/GB"] => Ok((rate.parse()?, cpu.parse()?)),
        _ => bail!(
            "{}: {line}{}",
            program.display(),
            String::from_utf8_lossy(&sent.stderr)
        ),
    }
}

fn generator(address: &str, seconds: f64) -> anyhow::Result<Figures> {
    let load: Load = toml::from_str(&format!(
        "seconds = {seconds:?}\n[topics]\ncount = 1\npartitions = 1\n[produce]\nproducers = 1\n\
         record = 240_000\nbatch_bytes = 1_000_000\nacks = -1\nin_flight_max = 5\n"
    ))?;
    let outcome = load::run_blocking(address, &load, &Control::default())?;
    let bytes = outcome.produce.context("it writes")?.bytes as f64;
    let cpu = outcome.client.context("its own cost")?.cpu_seconds;
    Ok((bytes / outcome.seconds / 1e9, cpu / (bytes / 1e9)))
}

fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}
