//! One agent as its caller sees it: connecting or starting it, measuring its clock, sending a
//! share, awaiting the end.
//!
//! Invariant: nothing here waits longer than its limit for a message of the agent; the caller gives
//! up an agent that runs a load and is silent for [`SILENCE_MAX`].

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::arguments::HostsArguments;
use super::clock::{Offset, RoundTrip, now_us};
use super::message::{self, Report, Request, ShareResult};
use crate::load::Stop;
use crate::outcome::Interval;

/// Longest time that starting an agent may take.
const GREETED_WITHIN: Duration = Duration::from_secs(30);
/// Longest silence of an agent, which reports every second.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Number of times the caller asks for the agent's clock.
const ROUND_TRIPS: usize = 20;
/// Prefix of the name of an agent that already listens.
const LISTENING: &str = "tcp://";

/// A connection to an agent.
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) clock: Offset,
    reports: mpsc::Receiver<anyhow::Result<Report>>,
    writer: Box<dyn AsyncWrite + Unpin + Send>,
    /// Killed when this is dropped.
    _child: Option<Child>,
}

impl Agent {
    /// Connects to the agent of a host.
    ///
    /// `tcp://HOST:PORT` is an agent that already listens; for any other name ssh starts one.
    pub(super) async fn reach(name: &str, arguments: &HostsArguments) -> anyhow::Result<Self> {
        let reached = timeout(GREETED_WITHIN, Self::try_reach(name, arguments)).await;
        reached
            .unwrap_or_else(|_| bail!("no agent answered within {GREETED_WITHIN:?}"))
            .with_context(|| format!("host {name}"))
    }

    async fn try_reach(name: &str, arguments: &HostsArguments) -> anyhow::Result<Self> {
        if let Some(address) = name.strip_prefix(LISTENING) {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            let (reader, writer) = socket.into_split();
            return Self::greet(name, reader, writer, None).await;
        }
        let command = arguments.command(name)?;
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting `{}`", command.join(" ")))?;
        let (Some(writer), Some(reader)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("`{}` has no input or output", command.join(" "));
        };
        Self::greet(name, reader, writer, Some(child))
            .await
            .with_context(|| format!("started by `{}`", command.join(" ")))
    }

    async fn greet(
        name: &str,
        mut reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        child: Option<Child>,
    ) -> anyhow::Result<Self> {
        message::greeted(&mut reader).await?;
        let (heard, reports) = mpsc::channel(64);
        tokio::spawn(async move {
            loop {
                let report = message::read(&mut reader).await;
                let report = report.transpose().unwrap_or_else(|| {
                    Err(anyhow::anyhow!(
                        "the agent is gone: its connection was closed"
                    ))
                });
                let last = report.is_err();
                if heard.send(report).await.is_err() || last {
                    return;
                }
            }
        });
        let mut agent = Self {
            name: name.to_owned(),
            clock: Offset::default(),
            reports,
            writer: Box::new(writer),
            _child: child,
        };
        agent.ask_clock().await?;
        Ok(agent)
    }

    /// Measures how far the agent's clock differs from this host's.
    pub(super) async fn ask_clock(&mut self) -> anyhow::Result<()> {
        let mut trips = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let asked = now_us();
            self.send(&Request::Clock).await?;
            let said = loop {
                if let Report::Clock(said) = self.report().await? {
                    break said;
                }
            };
            trips.push(RoundTrip {
                asked,
                said,
                heard: now_us(),
            });
        }
        self.clock = Offset::of(&trips);
        Ok(())
    }

    /// Sends a request.
    pub(super) async fn send(&mut self, request: &Request) -> anyhow::Result<()> {
        timeout(SILENCE_MAX, message::write(&mut self.writer, request))
            .await
            .unwrap_or_else(|_| bail!("it has taken nothing for {SILENCE_MAX:?}"))
    }

    async fn report(&mut self) -> anyhow::Result<Report> {
        match timeout(SILENCE_MAX, self.reports.recv()).await {
            Ok(Some(report)) => report,
            Ok(None) => bail!("the agent is gone"),
            Err(_) => bail!("it has said nothing for {SILENCE_MAX:?}"),
        }
    }

    /// Waits for the end of the started share.
    pub(super) async fn ended(
        &mut self,
        stop: &Stop,
        mut progress: impl FnMut(Interval),
    ) -> anyhow::Result<ShareResult> {
        let mut stopped = false;
        loop {
            let report = tokio::select! {
                report = self.reports.recv() => report,
                () = stop.wait(), if !stopped => {
                    stopped = true;
                    self.send(&Request::Stop).await?;
                    continue;
                }
                () = tokio::time::sleep(SILENCE_MAX) => {
                    bail!("it has said nothing for {SILENCE_MAX:?}");
                }
            };
            match report.unwrap_or_else(|| bail!("the agent is gone"))? {
                Report::Clock(_) | Report::Alive => {}
                Report::Interval(interval) => progress(*interval),
                Report::Done(done) => return Ok(*done),
                Report::Failed(why) => bail!(why),
            }
        }
    }
}
