//! `run.json`, complete after every measurement.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use host::facts::machine;
use host::root::Root;

use crate::device::Device;
use crate::experiment::{Experiment, Phase};
use crate::limit;
use crate::outcome::{Cell, Limit, Run, TargetFacts};
use crate::usage::now_ms;

/// The results so far and their file.
#[derive(Debug)]
pub(super) struct Record {
    run: Run,
    file: PathBuf,
}

impl Record {
    pub(super) fn begin(experiment: &Experiment, out: &Path) -> anyhow::Result<Self> {
        let mut run = Run {
            version: 1,
            experiment: experiment.name.clone(),
            about: experiment.about.trim().to_owned(),
            started_ms: now_ms(),
            command: command_line(),
            machine: machine::facts(&Root::new("/")),
            order: experiment.targets.clone(),
            ..Run::default()
        };
        if let Some(readers) = readers(experiment) {
            run.machine.push(("readers".to_owned(), readers));
        }
        if experiment.limits
            && let Some(missing) = limit::fio_missing()
        {
            run.machine.push(("not measured".to_owned(), missing));
        }
        let record = Self {
            run,
            file: out.join("run.json"),
        };
        record.save()?;
        Ok(record)
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    pub(super) fn device(&mut self, device: &Device) -> anyhow::Result<()> {
        let dir = std::fs::canonicalize(&device.dir).unwrap_or_else(|_| device.dir.clone());
        if let Some(words) = machine::directory(&Root::new("/"), &dir) {
            self.run
                .machine
                .push((format!("device {}", device.name), words));
        }
        self.run.emulated.extend(device.emulated.clone());
        self.save()
    }

    /// Adds what a target only emulates, each once.
    pub(super) fn emulated(&mut self, what: &[String]) {
        for what in what {
            if !self.run.emulated.contains(what) {
                self.run.emulated.push(what.clone());
            }
        }
    }

    /// Adds a fact on how it was measured, once.
    pub(super) fn fact(&mut self, name: &str, value: &str) {
        let fact = (name.to_owned(), value.to_owned());
        if !self.run.machine.contains(&fact) {
            self.run.machine.push(fact);
        }
    }

    pub(super) fn target(&mut self, name: &str, facts: &TargetFacts) {
        let facts = facts.clone();
        self.run.targets.entry(name.to_owned()).or_insert(facts);
    }

    pub(super) fn limits(&mut self, limits: Vec<Limit>) -> anyhow::Result<()> {
        self.run.limits.extend(limits);
        self.save()
    }

    pub(super) fn cell(&mut self, cell: Cell) -> anyhow::Result<()> {
        self.run.cells.push(cell);
        self.save()
    }

    pub(super) fn end(&mut self, aborted: Option<String>) -> anyhow::Result<()> {
        self.run.aborted = aborted;
        self.save()
    }

    /// Writes a second file and renames it, so that a reader never sees half a file.
    fn save(&self) -> anyhow::Result<()> {
        let beside = self.file.with_extension("json.next");
        let text = serde_json::to_vec(&self.run)?;
        std::fs::write(&beside, text)
            .and_then(|()| std::fs::rename(&beside, &self.file))
            .with_context(|| format!("writing {}", self.file.display()))
    }
}

/// Returns what the experiment's consumers do with records; none without consumers.
fn readers(experiment: &Experiment) -> Option<String> {
    let reading = |phase: &&Phase| phase.load.consume.is_some();
    let discarding = |phase: &&Phase| phase.load.consume.as_ref().is_some_and(|it| it.discard);
    experiment.phase.iter().find(reading)?;
    let names = experiment.phase.iter().filter(discarding);
    let names: Vec<_> = names.map(|phase| phase.name.as_str()).collect();
    Some(if names.is_empty() {
        "copy every byte to memory, as clients do".to_owned()
    } else {
        format!(
            "leave records in the kernel, which throws them away (discard), in {}: no client can do that, and it \
             flatters brokers that send files",
            names.join(", ")
        )
    })
}

/// Returns the command as typed, without the directory of the program.
fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let first = name.unwrap_or(program);
    std::iter::once(first)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}
