//! The command line.

mod backup;
mod check;
mod completion;
mod config;
mod format;
mod format_dirs;
mod http;
mod journal;
mod metadata;
mod plan;
mod recover;
mod tier;
mod why;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use broker::log_dirs::OperatorConsent;
use clap::{CommandFactory as _, Parser, Subcommand};
use wire::text::{escaped, escaped_lines};

use crate::config::{Problem, RawSettings, ResolvedSettings, Settings, Warning};
use crate::machine::Machine;

/// A broker that Kafka clients produce to and consume from, on Kafka's own on-disk format.
#[derive(Debug, Parser)]
#[command(name = "forebay", version = crate::version::LONG, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the broker.
    Serve {
        /// File with settings, in Kafka's server.properties syntax.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Formats unformatted directories of log.dirs beside formatted ones: new disks. Without
        /// it, they count as file systems that are not mounted.
        #[arg(long)]
        format_new_log_dirs: bool,
        /// Starts without log directories that existed before and are gone: their logs restart
        /// empty.
        #[arg(long)]
        forget_missing_log_dirs: bool,
        /// Starts without journals that are missing or cannot be read: records that were only in
        /// them are lost.
        #[arg(long)]
        forget_journals: bool,
        /// Settings; they override the environment (`FOREBAY_LOG_DIRS` is log.dirs) and the file.
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Formats the log directories of a new node, with its first users. `serve` also formats empty
    /// ones.
    Format(format_dirs::FormatArgs),
    /// Settings, without running the broker: what is wrong with them, and which are in force.
    Config(config::ConfigArgs),
    /// Inspects and repairs the metadata of a broker that does not run.
    Metadata(metadata::MetadataArgs),
    /// Reads all files of log directories that no broker uses, and reports what is wrong with them
    /// (docs/check.md).
    Check(check::CheckArgs),
    /// Gives the logs of directories that no broker uses what their journals have of them.
    /// Afterwards the directories are Kafka's, too (docs/journal.md).
    Recover(recover::RecoverArgs),
    /// Shows what journals hold.
    Journal(journal::JournalArgs),
    /// Copies all directories of a broker as they are at one instant, also while it runs
    /// (docs/backup.md).
    Backup(backup::BackupArgs),
    /// Shows the tiers of a running broker, and gives orders to them.
    #[command(visible_alias = "tiers")]
    Tier(tier::TierArgs),
    /// Topics, and the records in them. This and the next twelve work with any Kafka.
    #[command(visible_alias = "topics")]
    Topic(cli::TopicArgs),
    /// Consumer groups.
    #[command(visible_alias = "groups")]
    Group(cli::GroupArgs),
    /// The brokers, their health and their settings.
    #[command(alias = "clusters")]
    Cluster(cli::ClusterArgs),
    /// How much users, client ids and addresses may use.
    #[command(visible_alias = "quotas")]
    Quota(cli::QuotaArgs),
    /// Log directories, their size, and the partitions in them.
    #[command(visible_alias = "logdirs")]
    Logdir(cli::LogdirArgs),
    /// Features of the cluster and their levels.
    #[command(visible_alias = "features")]
    Feature(cli::FeatureArgs),
    /// Which metrics clients send.
    ClientMetrics(cli::ClientMetricsArgs),
    /// Transactions.
    #[command(visible_aliases = ["txns", "transactions"], alias = "transaction")]
    Txn(cli::TxnArgs),
    /// Users who log in by SCRAM.
    #[command(visible_alias = "users")]
    User(cli::UserArgs),
    /// What principals may do.
    #[command(visible_alias = "acls")]
    Acl(cli::AclArgs),
    /// Who this client is for a cluster, and what principals may do.
    Auth(cli::AuthArgs),
    /// Whether keys, certificates and listeners with TLS are as they should be.
    Tls(cli::TlsArgs),
    /// Named clusters, one of them in use.
    #[command(visible_alias = "profiles")]
    Profile(cli::ProfileArgs),
    /// Prints a script with which a shell completes commands and options.
    Completion(completion::CompletionArgs),
    /// The settings of this host: what they are, and changes that can be undone (docs/tune.md).
    Tune(host::cli::TuneArgs),
    /// Measures a broker, this one or any other Kafka, over the network.
    Bench(bench::cli::BenchArgs),
    /// The cheapest hardware for a load, what limits it, and the proof (docs/plan.md).
    Plan(Box<plan::PlanArgs>),
}

impl Cli {
    /// Runs the command; `serve` runs the broker.
    pub fn run(self, serve: impl FnOnce(Settings, Vec<Warning>) -> anyhow::Result<()>) -> ExitCode {
        let done = match self.command {
            Command::Serve {
                config,
                format_new_log_dirs: format_new,
                forget_missing_log_dirs: forget_missing,
                forget_journals,
                settings,
            } => {
                let told = OperatorConsent {
                    format_new,
                    forget_missing,
                    forget_journals,
                };
                start(config.as_deref(), &settings, told, serve)
            }
            Command::Format(format) => return exit(format.run()),
            Command::Config(config) => return exit(config.run()),
            Command::Metadata(metadata) => return exit(metadata.run()),
            Command::Check(check) => return check.run(),
            Command::Recover(recover) => return exit(recover.run()),
            Command::Journal(journal) => return exit(journal.run()),
            Command::Backup(backup) => return exit(backup.run()),
            Command::Tier(tier) => return exit_of_client(tier.run()),
            Command::Topic(topic) => return exit_of_client(topic.run()),
            Command::Group(group) => return exit_of_client(group.run()),
            Command::Cluster(cluster) => return exit_of_client(cluster.run()),
            Command::Quota(quota) => return exit_of_client(quota.run()),
            Command::Logdir(logdir) => return exit_of_client(logdir.run()),
            Command::Feature(feature) => return exit_of_client(feature.run()),
            Command::ClientMetrics(metrics) => return exit_of_client(metrics.run()),
            Command::Txn(txn) => return exit_of_client(txn.run()),
            Command::User(user) => return exit_of_client(run_user(&user)),
            Command::Acl(acl) => return exit_of_client(acl.run()),
            Command::Auth(auth) => return exit_of_client(auth.run()),
            Command::Tls(tls) => return exit_of_client(tls.run()),
            Command::Profile(profile) => return exit(profile.run()),
            Command::Completion(completion) => return exit(completion.run(Self::command())),
            Command::Tune(tune) => return exit(tune.run()),
            Command::Bench(bench) => return exit(bench.run()),
            Command::Plan(plan) => return plan.run(),
        };
        exit(done.map(|()| ExitCode::SUCCESS))
    }
}

/// Runs `forebay user`: with brokers, or with the directory of one that does not run.
fn run_user(user: &cli::UserArgs) -> anyhow::Result<ExitCode> {
    match user.offline()? {
        Some(offline) => metadata::set_user(&offline),
        None => user.run(),
    }
}

/// Ends a local command: an error about files or settings may span several lines.
fn exit(done: anyhow::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        complain(&escaped_lines(&why::why(&error)));
        ExitCode::FAILURE
    })
}

/// Ends a client command: the error of a broker is shown on one line, with its line breaks escaped.
fn exit_of_client(done: anyhow::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        complain(&escaped(&why::why(&error)));
        ExitCode::FAILURE
    })
}

fn start(
    config: Option<&Path>,
    arguments: &[String],
    told: OperatorConsent,
    serve: impl FnOnce(Settings, Vec<Warning>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let raw = raw_of(config, arguments)?;
    let ResolvedSettings {
        mut settings,
        warnings,
    } = Settings::resolve(&raw, &Machine::read()).map_err(|problems| wrong(&problems))?;
    settings.told = told;
    // From here on, secrets are only where they are needed.
    drop(raw);
    serve(settings, warnings)
}

/// Reads the settings of `serve`, and confines the process to the CPUs that they name.
fn raw_of(config: Option<&Path>, arguments: &[String]) -> anyhow::Result<RawSettings> {
    let mut raw = RawSettings::default();
    if let Some(file) = config {
        raw.add_file(file).map_err(anyhow::Error::msg)?;
    }
    raw.add_environment(std::env::vars_os().filter_map(|(name, value)| {
        // No setting has a name that is not UTF-8; a value that is not UTF-8 fails its check.
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    }));
    raw.add_arguments(arguments).map_err(anyhow::Error::msg)?;
    raw.settle();
    crate::config::cpus::confine(&raw)?;
    Ok(raw)
}

fn wrong(problems: &[Problem]) -> anyhow::Error {
    let lines: Vec<_> = problems
        .iter()
        .map(|problem| format!("\n  {problem}"))
        .collect();
    anyhow::anyhow!("wrong settings:{}", lines.concat())
}

/// Writes an error to standard error; if that fails, the exit code alone reports it.
fn complain(text: &str) {
    let mut line = format!("forebay: {text}\n");
    if crate::logging::journal::takes_stderr() {
        line = crate::logging::journal::as_error(&line);
    }
    let said = io::stderr().write_all(line.as_bytes());
    drop(said);
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let text = escaped_lines(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader of the pipe has closed it: it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_contains_its_cause_says_it_once() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let cause = denied.to_string();
        let lock = platform::Error::Lock {
            dir: PathBuf::from("/d"),
            source: denied,
        };
        let text = why::why(&anyhow::Error::new(lock).context("cannot start"));
        assert_eq!(text.matches(&cause).count(), 1, "{text}");
        assert!(
            text.starts_with("cannot start: cannot lock directory /d"),
            "{text}"
        );
        assert!(text.contains("runs as uid"), "{text}");
    }
}
