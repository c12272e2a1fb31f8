//! The command lines of agents and of the commands that use agents.

use anyhow::ensure;
use clap::Args;

use super::serve::{self, Runner};

/// Runs shares of loads for a caller that uses `--hosts`; needed on its own only where there is no
/// ssh.
#[derive(Clone, Debug, Args)]
pub struct AgentArguments {
    /// Address to listen on. Any client that reaches it can run loads from this host: trusted
    /// networks only.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9707")]
    listen: String,
    /// Serves one caller on standard input and output instead, as over ssh.
    #[arg(long, conflicts_with = "listen")]
    stdio: bool,
}

impl AgentArguments {
    /// Serves callers; `runner` runs their shares of loads.
    pub fn run(&self, runner: Runner) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let served = runtime.block_on(async {
            if self.stdio {
                return serve::serve_stdio(&runner).await;
            }
            serve::listen(&self.listen, runner, |address| {
                eprintln!("forebay bench agent: listening on {address}");
            })
            .await
        });
        // A thread that still waits for input must not keep the process alive.
        runtime.shutdown_background();
        served
    }
}

/// The hosts that run the load.
#[derive(Clone, Debug, Default, Args)]
pub struct HostsArguments {
    /// Hosts that share the load, reached by ssh; tcp://HOST:PORT is an agent that already listens.
    #[arg(long, value_name = "HOST,..", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Command that runs another command on a host; the host and that command are appended.
    #[arg(long, value_name = "COMMAND", default_value = "ssh -o BatchMode=yes")]
    pub ssh: String,
    /// Path of the forebay binary on the hosts.
    #[arg(long, value_name = "PATH", default_value = "forebay")]
    pub remote_forebay: String,
}

impl HostsArguments {
    /// Returns the command that starts an agent on a host.
    pub(super) fn command(&self, host: &str) -> anyhow::Result<Vec<String>> {
        ensure!(
            !host.is_empty() && !host.starts_with('-'),
            "\"{host}\" is no name of a host"
        );
        let ssh = self.ssh.split_whitespace().map(str::to_owned);
        let agent = [host, &self.remote_forebay, "bench", "agent", "--stdio"];
        let command: Vec<_> = ssh.chain(agent.map(str::to_owned)).collect();
        ensure!(command.len() > 5, "--ssh is empty");
        Ok(command)
    }
}
