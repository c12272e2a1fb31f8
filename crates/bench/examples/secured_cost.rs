//! What TLS costs the generator: its processor time per GB against a broker, writing alone and
//! writing and reading, over one connection each; records of 240 KB in batches of 1 MB.
//!
//!     cargo build --release -p forebay-bench --example secured_cost
//!     target/release/examples/secured_cost BOOTSTRAP BYTES [CLIENT.PROPERTIES]
//!
//! Run it for a listener without TLS and for one with it. Only ratios can be compared between
//! machines.

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use bench::load::{self, Control};
use bench::spec::Load;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (bootstrap, bytes, file) = match arguments.as_slice() {
        [bootstrap, bytes] => (bootstrap, bytes.parse::<u64>()?, None),
        [bootstrap, bytes, file] => (bootstrap, bytes.parse()?, Some(PathBuf::from(file))),
        _ => bail!("secured_cost BOOTSTRAP BYTES [CLIENT.PROPERTIES]"),
    };
    let reading = "[consume]\nconsumers = 1\nfrom = \"earliest\"\nmax_bytes = 52_428_800\n\
                   partition_max_bytes = 8_388_608\n";
    for (what, more) in [("writing", ""), ("writing and reading", reading)] {
        let mut load: Load = toml::from_str(&format!(
            "seconds = 120\nbytes_max = {bytes}\n[topics]\nprefix = \"cost\"\ncount = 1\n\
             partitions = 1\n[produce]\nproducers = 1\nrecord = 240_000\nbatch_bytes = 1_000_000\n\
             acks = 1\nin_flight_max = 5\n{more}"
        ))?;
        load.security.clone_from(&file);
        let outcome = load::run_blocking(bootstrap, &load, &Control::default())?;
        if let Some((error, count)) = outcome.errors.first_key_value() {
            bail!("{what}: {count} x {error}");
        }
        let written = outcome.produce.context("it writes")?.bytes;
        let read = outcome.consume.map_or(0, |side| side.bytes);
        let cpu = outcome.client.context("its own cost")?.cpu_seconds;
        let gigabytes = (written + read) as f64 / 1e9;
        writeln!(
            std::io::stdout(),
            "{what}: {gigabytes:.2} GB in {:.2} s, {:.3} CPU-s/GB",
            outcome.seconds,
            cpu / gigabytes
        )?;
    }
    Ok(())
}
