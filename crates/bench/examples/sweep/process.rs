//! The broker that is swept, as a process: started on a directory of its own, looked at from
//! outside, ended by its id.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// Bounds that are small, so that what goes beyond them shows. Topics are made by `CreateTopics`
/// only: thousands that a question makes stay, and memory could not be back.
const SETTINGS: [&str; 9] = [
    "auto.create.topics.enable=false",
    "node.id=1",
    "admin.listener=",
    "log.format=json",
    "log.cache.bytes=67108864",
    "queued.max.request.bytes=268435456",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
];
const START_MAX: Duration = Duration::from_mins(1);

pub(crate) struct Broker {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) log: PathBuf,
}

/// The threads of a broker that serve.
pub(crate) struct Shards(Vec<fs::File>);

impl Shards {
    /// Time that each has had a processor, in nanoseconds: unlike the time on the wall it does not
    /// count what else the machine does.
    pub(crate) fn busy(&self) -> Vec<u64> {
        let busy = |file: &fs::File| {
            let mut text = [0; 64];
            let length = file.read_at(&mut text, 0).ok()?;
            let text = str::from_utf8(&text[..length]).ok()?;
            text.split(' ').next()?.parse().ok()
        };
        self.0.iter().map(|file| busy(file).unwrap_or(0)).collect()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Broker {
    /// Starts a broker on a directory and waits until it is ready.
    pub(crate) fn start(binary: &Path, home: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(home)?;
        let log = home.join("broker.log");
        let out = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)?;
        let told = out.metadata()?.len();
        let process = Command::new(binary)
            .arg("serve")
            .args(SETTINGS)
            .arg("listeners=PLAINTEXT://127.0.0.1:0")
            .arg(format!("log.dirs={}", home.join("data").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let mut broker = Self {
            process,
            address: ([127, 0, 0, 1], 0).into(),
            log,
        };
        let begun = Instant::now();
        loop {
            if let Some(port) = broker.ready_port(told)? {
                broker.address.set_port(port);
                return Ok(broker);
            }
            if let Some(status) = broker.process.try_wait()? {
                bail!("the broker ended with {status}:\n{}", broker.tail());
            }
            if begun.elapsed() > START_MAX {
                bail!(
                    "the broker is not ready after {START_MAX:?}:\n{}",
                    broker.tail()
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The port, once the log says that the broker is ready, behind what was in it before.
    fn ready_port(&self, told: u64) -> anyhow::Result<Option<u16>> {
        let text = fs::read(&self.log)?;
        let (mut port, mut ready) = (None, false);
        let news = text.get(usize::try_from(told)?..).unwrap_or_default();
        for line in BufReader::new(news).lines() {
            let line: serde_json::Value = serde_json::from_str(&line?).unwrap_or_default();
            match line["message"].as_str() {
                Some("listening") => port = line["port"].as_u64(),
                Some("ready") => ready = true,
                _ => {}
            }
        }
        Ok(port.filter(|_| ready).and_then(|port| port.try_into().ok()))
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        // A process that ended is a zombie until it is waited for, which this does.
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Bytes of memory that are resident.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let pages = self.proc_text("statm");
        let pages = pages.split(' ').nth(1).and_then(|text| text.parse().ok());
        pages.unwrap_or(0_u64).saturating_mul(4096)
    }

    /// Time on processors, of all threads.
    pub(crate) fn processor_time(&self) -> Duration {
        let text = self.proc_text("stat");
        let after_name = text.rsplit(") ").next().unwrap_or_default();
        let ticks = after_name.split(' ').skip(11).take(2);
        let ticks: u64 = ticks.map(|text| text.parse().unwrap_or(0)).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Its shards, to see how long each has been at work.
    pub(crate) fn shards(&self) -> Shards {
        let tasks = format!("/proc/{}/task", self.process.id());
        let tasks = fs::read_dir(tasks).into_iter().flatten().flatten();
        let is_shard = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("shard-"))
        };
        let shards = tasks.map(|task| task.path()).filter(is_shard);
        let open = |task: PathBuf| fs::File::open(task.join("schedstat")).ok();
        Shards(shards.filter_map(open).collect())
    }

    pub(crate) fn descriptors(&self) -> usize {
        let dir = format!("/proc/{}/fd", self.process.id());
        fs::read_dir(dir).map_or(0, Iterator::count)
    }

    fn proc_text(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.process.id())).unwrap_or_default()
    }

    /// The end of its log.
    pub(crate) fn tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..]
            .iter()
            .map(|line| line.chars().take(400).collect::<String>())
            .collect::<Vec<_>>()
            .join("\n")
    }
}
