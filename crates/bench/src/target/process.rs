//! A child process with its log: in its own process group, so that ^C at the terminal does not end
//! it, and bound to this process by the kernel, so that it does not outlive it.
//!
//! `forebay bench hold` starts it: this same binary, which binds itself to its parent, joins a
//! control group if there is one, and then executes the program.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use rustix::process::{Pid, Signal};

/// A running program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    program: String,
}

impl Process {
    /// Starts a program whose output is appended to `log`; `join` is a file that its pid is written
    /// to.
    pub fn start(argv: &[String], log: &Path, join: Option<&Path>) -> anyhow::Result<Self> {
        let program = argv.first().context("an empty command")?.clone();
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("opening {}", log.display()))?;
        let child = held(argv, join)?
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        Ok(Self {
            child,
            log: log.to_owned(),
            program,
        })
    }

    /// Returns its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its exit status; none while it runs.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Fails, with the last lines of its log, if it has ended.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status}):\n{}", self.program, self.tail(20)),
        }
    }

    /// Sends SIGTERM, and SIGKILL if the program does not end within the time.
    pub fn stop(&mut self, within: Duration) -> anyhow::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        let begun = Instant::now();
        while self.ended()?.is_none() {
            if begun.elapsed() > within {
                self.signal(Signal::KILL)?;
                self.child.wait()?;
                bail!(
                    "{} did not end within {within:?} and was killed",
                    self.program
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id())?;
        let pid = Pid::from_raw(pid).context("a process has a number")?;
        match rustix::process::kill_process(pid, signal) {
            // It has already ended.
            Err(rustix::io::Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    /// Returns the last lines of its log.
    pub fn tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<_> = text.lines().collect();
        let from = all.len().saturating_sub(lines);
        all.get(from..).unwrap_or_default().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A process that cannot be killed cannot be handled any further.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns a command that runs a program through `forebay bench hold`.
pub fn held<S: AsRef<OsStr>>(argv: &[S], join: Option<&Path>) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(own);
    command.args(["bench", "hold"]);
    if let Some(join) = join {
        command.arg("--join").arg(join);
    }
    command.arg("--parent").arg(std::process::id().to_string());
    command.arg("--").args(argv);
    Ok(command)
}

/// Arguments of `forebay bench hold`.
#[derive(Clone, Debug, Args)]
pub struct HoldArgs {
    /// File to write this process's pid to: cgroup.procs of a group.
    #[arg(long, value_name = "FILE")]
    join: Option<PathBuf>,
    /// Process to end with.
    #[arg(long, value_name = "PID")]
    parent: u32,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    argv: Vec<String>,
}

/// Becomes a program that ends when its parent does; returns only if that fails.
pub fn hold(arguments: &HoldArgs) -> anyhow::Error {
    match prepare(arguments) {
        Err(error) => error,
        Ok(mut command) => {
            let error = command.exec();
            anyhow::Error::new(error).context(format!("running {}", arguments.argv.join(" ")))
        }
    }
}

fn prepare(arguments: &HoldArgs) -> anyhow::Result<Command> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before the signal was set.
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if parent != Some(arguments.parent) {
        bail!("the parent {} is gone", arguments.parent);
    }
    if let Some(join) = &arguments.join {
        std::fs::write(join, std::process::id().to_string())
            .with_context(|| format!("joining {}", join.display()))?;
    }
    let (program, rest) = arguments
        .argv
        .split_first()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(program);
    command.args(rest);
    Ok(command)
}
