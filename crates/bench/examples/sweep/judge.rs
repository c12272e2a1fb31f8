//! Puts cases to a broker and says whether what must hold did.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wire::kafka::Api;

use crate::cases::Case;
use crate::probe::{Probes, WaitTime};
use crate::process::Broker;
use crate::scene;
use crate::wire_up::{Connection, Fate};
use crate::words::Words;

/// More than this beyond what was resident at the beginning is not back.
const KEPT_BYTES_MAX: u64 = 512 << 20;
const KEPT_DESCRIPTORS_MAX: usize = 40;
/// Time for memory and descriptors to be back.
const BACK_MAX: Duration = Duration::from_secs(20);
/// Cases in one scene, which they wear out.
const SCENE_CASES: usize = 16;
/// After a failure others are served for so long, before the next question.
const SERVED_FOR: Duration = Duration::from_millis(600);
const TRIES: usize = 3;
/// A request that waits takes less than this of a processor in each second.
const WAITING_LOAD: Duration = Duration::from_millis(300);
/// More of them say nothing new.
const FAILURES_MAX: usize = 40;

/// Requests that may take as long as they ask for.
const WAIT: &[Api] = &[Api::Fetch, Api::JoinGroup, Api::SyncGroup];

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// For an answer, and for the metadata of others meanwhile, by the wall.
    pub(crate) answer: Duration,
    pub(crate) others: Duration,
    /// The same, counting only what the shards do: what the machine does beside them does not
    /// matter.
    pub(crate) answer_work: Duration,
    pub(crate) others_work: Duration,
}

pub(crate) struct Failure {
    pub(crate) case: String,
    why: String,
    frame: PathBuf,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}\n  bytes: {}",
            self.case,
            self.why,
            self.frame.display()
        )
    }
}

#[derive(Default, Debug)]
struct Counts {
    cases: usize,
    answered: usize,
    refused: usize,
    waited: usize,
    bytes: u64,
    restarts: usize,
    worst_answer: (Duration, String),
    worst_others: (Duration, String),
    /// For each API and what it was asked: the longest answer and wait of others, by the wall and
    /// by work.
    by_kind: BTreeMap<String, (WaitTime, WaitTime)>,
}

pub(crate) struct Judge {
    binary: PathBuf,
    keep: PathBuf,
    limits: Limits,
    lives: u64,
    broker: Broker,
    probes: Option<Probes>,
    resident_bytes: u64,
    descriptors: usize,
    scenes: u64,
    scene: Option<(Connection, Words, usize)>,
    counts: Counts,
    failures: Vec<Failure>,
}

impl Judge {
    pub(crate) fn new(
        binary: PathBuf,
        keep: &Path,
        limits: Limits,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let keep = keep.join(format!("{seed}-{}", std::process::id()));
        let broker = Broker::start(&binary, &keep.join("broker-0"))?;
        let mut judge = Self {
            binary,
            keep,
            limits,
            lives: 0,
            broker,
            probes: None,
            resident_bytes: 0,
            descriptors: 0,
            scenes: 0,
            scene: None,
            counts: Counts::default(),
            failures: Vec::new(),
        };
        judge.settle_in()?;
        Ok(judge)
    }

    /// What the broker takes when it has served a client once.
    fn settle_in(&mut self) -> anyhow::Result<()> {
        drop(scene::set(self.broker.address, self.scenes, 0)?);
        self.scenes += 1;
        self.probes = Some(Probes::start(self.broker.address, self.broker.shards()));
        thread::sleep(Duration::from_millis(200));
        self.resident_bytes = self.broker.resident_bytes();
        self.descriptors = self.broker.descriptors();
        Ok(())
    }

    /// A new broker on a new directory, after the death of the last.
    fn replace(&mut self) -> anyhow::Result<()> {
        self.scene = None;
        self.probes = None;
        self.lives += 1;
        self.counts.restarts += 1;
        let home = self.keep.join(format!("broker-{}", self.lives));
        self.broker = Broker::start(&self.binary, &home)?;
        self.settle_in()
    }

    pub(crate) fn failures(&self) -> &[Failure] {
        &self.failures
    }

    pub(crate) fn summary(&self) -> String {
        let counts = &self.counts;
        format!(
            "{} cases, {} MB: {} answered, {} refused, {} waited; longest answer {:?} ({}), longest for others {:?} ({}); \
             {} MB resident, {} at the beginning; {} failed",
            counts.cases,
            counts.bytes >> 20,
            counts.answered,
            counts.refused,
            counts.waited,
            counts.worst_answer.0,
            counts.worst_answer.1,
            counts.worst_others.0,
            counts.worst_others.1,
            self.broker.resident_bytes() >> 20,
            self.resident_bytes >> 20,
            self.failures.len()
        )
    }

    /// Puts a case, again if it failed for reasons that may pass.
    pub(crate) fn judge(&mut self, case: &Case) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.failures.len() < FAILURES_MAX,
            "too much is wrong:\n{}",
            self.told()
        );
        self.counts.cases += 1;
        let mut whys = Vec::new();
        for _ in 0..TRIES {
            let (frame, why) = self.put(case);
            let Some(why) = why else { return Ok(()) };
            let died = !self.broker.is_alive();
            let hangs = !died && self.hangs();
            if died || hangs || whys.len() + 1 == TRIES {
                whys.push(why);
                let mut told = whys.join("; then ");
                if died {
                    told = format!("the broker ended: {}", self.broker.tail());
                } else if hangs {
                    told = format!("the broker hangs; {told}");
                }
                self.fail(case, told, &frame)?;
                if died || hangs {
                    self.replace()?;
                }
                return Ok(());
            }
            whys.push(why);
            self.scene = None;
        }
        Ok(())
    }

    fn told(&self) -> String {
        let lines: Vec<String> = self.failures.iter().map(Failure::to_string).collect();
        lines.join("\n")
    }

    /// Waits until others are served as ever; whether they are not, long after.
    fn hangs(&mut self) -> bool {
        let begun = Instant::now();
        let Some(probes) = &self.probes else {
            return false;
        };
        let mut served_since = Instant::now();
        probes.worst();
        while served_since.elapsed() < SERVED_FOR {
            thread::sleep(Duration::from_millis(50));
            if probes.worst().wall > self.limits.others {
                served_since = Instant::now();
            }
            if begun.elapsed() > BACK_MAX {
                return true;
            }
        }
        false
    }

    fn fail(&mut self, case: &Case, why: String, frame: &[u8]) -> anyhow::Result<()> {
        let file = self.keep.join(format!("{}.frame", self.failures.len()));
        fs::write(&file, frame)?;
        let failure = Failure {
            case: case.to_string(),
            why,
            frame: file,
        };
        tell(&format!("FAILED {failure}"));
        self.failures.push(failure);
        Ok(())
    }

    /// Puts a case once; what was wrong.
    fn put(&mut self, case: &Case) -> (Vec<u8>, Option<String>) {
        let (mut connection, words) = match self.client(case) {
            Ok(client) => client,
            Err(error) => return (Vec::new(), Some(format!("before it, {error:#}"))),
        };
        let (frame, items) = case.frame(&words);
        self.counts.bytes += frame.len() as u64;
        if let Some(probes) = &self.probes {
            probes.worst();
        }
        let before = (self.broker.processor_time(), self.busy());
        let fate = connection.fate_of(&frame, self.limits.answer);
        let what = format!("{items} items, {} bytes", frame.len());
        let why = self.weigh(case, fate, before, &what);
        if matches!(fate, Fate::Answered(_)) && case.in_scene {
            let used = self.scene.take().map_or(0, |(_, _, used)| used);
            self.scene = Some((connection, words, used + 1));
        } else {
            self.scene = None;
        }
        if why.is_none() && case.is_large() {
            return (frame, self.is_back());
        }
        (frame, why)
    }

    /// How long all shards have been at work.
    fn busy(&self) -> Duration {
        let busy = self.broker.shards().busy();
        Duration::from_nanos(busy.iter().fold(0, |all, one| all.saturating_add(*one)))
    }

    fn weigh(
        &mut self,
        case: &Case,
        fate: Fate,
        (before, busy): (Duration, Duration),
        what: &str,
    ) -> Option<String> {
        let work = self.busy().saturating_sub(busy);
        let others = self.probes.as_ref().map(Probes::worst).unwrap_or_default();
        if others.wall > self.counts.worst_others.0 {
            self.counts.worst_others = (others.wall, case.to_string());
        }
        let mut whys = Vec::new();
        self.count_kind(case, fate, work, others);
        match fate {
            Fate::Answered(took) | Fate::Refused(took) => {
                if matches!(fate, Fate::Answered(_)) {
                    self.counts.answered += 1;
                } else {
                    self.counts.refused += 1;
                }
                if took > self.counts.worst_answer.0 {
                    self.counts.worst_answer = (took, case.to_string());
                }
                if took > self.limits.answer || work > self.limits.answer_work {
                    whys.push(format!("it took {took:?}, {work:?} of them work"));
                }
            }
            Fate::Waits if WAIT.contains(&case.api) => {
                self.counts.waited += 1;
                let used = self.broker.processor_time().saturating_sub(before);
                thread::sleep(Duration::from_secs(1));
                let later = self.broker.processor_time().saturating_sub(before + used);
                // What came with the request takes its time; what comes after it is no waiting.
                if later > WAITING_LOAD {
                    whys.push(format!(
                        "it waits, and takes {later:?} of a processor in a second"
                    ));
                }
            }
            Fate::Waits => whys.push(format!("no answer after {:?}", self.limits.answer)),
        }
        if others.wall > self.limits.others || others.work > self.limits.others_work {
            let WaitTime { wall, work } = others;
            whys.push(format!("others waited {wall:?}, for {work:?} of work"));
        }
        (!whys.is_empty()).then(|| format!("{what}: {}", whys.join(", ")))
    }

    fn count_kind(&mut self, case: &Case, fate: Fate, work: Duration, others: WaitTime) {
        let kind = self.counts.by_kind.entry(case.kind()).or_default();
        if let Fate::Answered(wall) | Fate::Refused(wall) = fate {
            kind.0 = kind.0.max(WaitTime { wall, work });
        }
        kind.1 = kind.1.max(others);
    }

    /// What held others up the most, and the longest answers, by API and what it was asked; the
    /// worst first.
    pub(crate) fn table(&self) -> String {
        let mut kinds: Vec<_> = self.counts.by_kind.iter().collect();
        kinds.sort_by_key(|(_, (answer, others))| Reverse(others.work.max(answer.work / 10)));
        let lines = kinds.iter().map(|(kind, (answer, others))| {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            format!(
                "{kind:<60} answer {:7.1} ms, {:7.1} of work; others {:6.1} ms, {:6.1} of work",
                ms(answer.wall),
                ms(answer.work),
                ms(others.wall),
                ms(others.work)
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The client whose case it is, and its words.
    fn client(&mut self, case: &Case) -> anyhow::Result<(Connection, Words)> {
        if !case.in_scene {
            return Ok((
                Connection::open(self.broker.address)?,
                Words::stranger(case.dice),
            ));
        }
        if let Some((connection, mut words, used)) = self.scene.take()
            && used < SCENE_CASES
        {
            words.dice = case.dice;
            let copy = connection.copy()?;
            self.scene = Some((connection, words.clone(), used));
            return Ok((copy, words));
        }
        self.scenes += 1;
        let (connection, words) = scene::set(self.broker.address, self.scenes, case.dice)?;
        Ok((connection, words))
    }

    /// Whether memory and descriptors are back; else what is not.
    fn is_back(&self) -> Option<String> {
        let begun = Instant::now();
        loop {
            let bytes = self
                .broker
                .resident_bytes()
                .saturating_sub(self.resident_bytes);
            let descriptors = self.broker.descriptors().saturating_sub(self.descriptors);
            if bytes <= KEPT_BYTES_MAX && descriptors <= KEPT_DESCRIPTORS_MAX {
                return None;
            }
            if begun.elapsed() > BACK_MAX {
                return Some(format!(
                    "{} MB and {descriptors} descriptors more than at the beginning, {BACK_MAX:?} later",
                    bytes >> 20
                ));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Bytes of a frame, as they are.
    pub(crate) fn raw(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        let before = self.broker.processor_time();
        let fate = Connection::open(self.broker.address)?.fate_of(frame, self.limits.answer);
        let used = self.broker.processor_time().saturating_sub(before);
        let others = self.probes.as_ref().map(Probes::worst).unwrap_or_default();
        tell(&format!(
            "{fate:?}, {used:?} of a processor, others waited {others:?}"
        ));
        anyhow::ensure!(
            self.broker.is_alive(),
            "the broker ended: {}",
            self.broker.tail()
        );
        Ok(())
    }

    /// After everything: a kill, and a start on what it left, with a client that is served.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        self.scene = None;
        self.probes = None;
        let home = self.keep.join(format!("broker-{}", self.lives));
        self.broker.kill();
        self.broker = Broker::start(&self.binary, &home)?;
        self.scenes += 1;
        drop(scene::set(self.broker.address, self.scenes, 0)?);
        Ok(())
    }
}

/// What has to be said at once.
#[allow(clippy::print_stdout, reason = "what a command has to say")]
fn tell(text: &str) {
    println!("{text}");
}
