//! The agent: runs the shares it receives, one at a time, and reports their outcomes.

use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use super::clock::now_us;
use super::message::{self, Report, Request, ShareResult, Start};
use crate::load::{Control, HostShare, Stop};
use crate::outcome::LoadOutcome;
use crate::spec::Load;
use crate::verify::session::Session;

/// How often an agent reports that it is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// Runs a load against a broker: bootstrap, load, control.
pub type Runner = Arc<dyn Fn(&str, &Load, &Control) -> anyhow::Result<LoadOutcome> + Send + Sync>;

/// Serves callers one after the other without end; passes the bound address to `listening`.
pub async fn listen(
    address: &str,
    runner: Runner,
    listening: impl FnOnce(std::net::SocketAddr),
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}"))?;
    listening(listener.local_addr()?);
    loop {
        let (socket, caller) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (reader, writer) = socket.into_split();
        if let Err(error) = serve(reader, writer, &runner).await {
            let why = format!("{error:#}");
            eprintln!(
                "forebay bench agent: {caller}: {}",
                wire::text::EscapedText(&why)
            );
        }
    }
}

/// Serves one caller until it disconnects.
pub async fn serve(
    reader: impl AsyncRead + Unpin + Send + 'static,
    mut writer: impl AsyncWrite + Unpin,
    runner: &Runner,
) -> anyhow::Result<()> {
    message::greet(&mut writer).await?;
    let (asked, mut requests) = mpsc::channel(16);
    let reading = tokio::spawn(read_all(reader, asked));
    let (tell, mut reports) = mpsc::unbounded_channel();
    let mut current = RunningShare::default();
    let channels = (&mut requests, &mut reports);
    let done = answer(&mut writer, channels, &tell, runner, &mut current).await;
    // The caller is gone or cannot be answered, so the rest of the load has no use.
    current.end().await;
    reading.abort();
    done
}

async fn read_all(
    mut reader: impl AsyncRead + Unpin,
    asked: mpsc::Sender<anyhow::Result<Request>>,
) {
    // Ends with the stream, with the first invalid request, or when the receiver is dropped.
    while let Some(request) = message::read(&mut reader).await.transpose() {
        let last = request.is_err();
        if asked.send(request).await.is_err() || last {
            return;
        }
    }
}

/// The running share.
#[derive(Default)]
struct RunningShare(Option<(Stop, JoinHandle<()>)>);

impl RunningShare {
    async fn end(&mut self) {
        if let Some((stop, handle)) = self.0.take() {
            stop.now();
            let _ = handle.await;
        }
    }

    fn is_free(&self) -> bool {
        self.0.is_none()
    }

    /// Waits for the task of a share that has reported its end.
    async fn over(&mut self) {
        if let Some((_, handle)) = self.0.take() {
            let _ = handle.await;
        }
    }

    fn stop(&self) {
        if let Some((stop, _)) = &self.0 {
            stop.now();
        }
    }
}

impl Drop for RunningShare {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn answer(
    writer: &mut (impl AsyncWrite + Unpin),
    (requests, reports): (
        &mut mpsc::Receiver<anyhow::Result<Request>>,
        &mut mpsc::UnboundedReceiver<Report>,
    ),
    tell: &mpsc::UnboundedSender<Report>,
    runner: &Runner,
    current: &mut RunningShare,
) -> anyhow::Result<()> {
    let mut alive = interval(ALIVE_EVERY);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let report = tokio::select! {
            request = requests.recv() => match request.transpose()? {
                None => return Ok(()),
                Some(Request::Clock) => Report::Clock(now_us()),
                Some(Request::Stop) => {
                    current.stop();
                    Report::Alive
                }
                Some(Request::Start(_)) if !current.is_free() => {
                    Report::Failed("it is running another load already".to_owned())
                }
                Some(Request::Start(start)) => {
                    current.0 = Some(run(*start, tell.clone(), Arc::clone(runner)));
                    Report::Alive
                }
            },
            // Never ends: this function's caller holds a sender.
            Some(report) = reports.recv() => {
                if matches!(report, Report::Done(_) | Report::Failed(_)) {
                    current.over().await;
                }
                report
            }
            _ = alive.tick() => Report::Alive,
        };
        message::write(writer, &report).await?;
    }
}

/// Runs a share on its own thread.
fn run(
    start: Start,
    tell: mpsc::UnboundedSender<Report>,
    runner: Runner,
) -> (Stop, JoinHandle<()>) {
    let stop = Stop::default();
    let session = start
        .numbering
        .map(|(id, run)| Arc::new(Session::of(id, run)));
    let progress = tell.clone();
    let control = Control {
        stop: stop.clone(),
        start_at: Some(UNIX_EPOCH + Duration::from_micros(start.start_at_us.unsigned_abs())),
        progress: Some(Arc::new(move |interval| {
            // Fails only if the caller is gone, which then needs no progress.
            let _ = progress.send(Report::Interval(Box::new(interval.clone())));
        })),
        host: HostShare {
            index: start.index,
            of: start.of,
        },
        verification: session.clone().map(|session| session as _),
        ..Control::default()
    };
    let handle = spawn_blocking(move || {
        let ended = EndReporter(Some(tell));
        let report = match runner(&start.bootstrap, &start.load, &control) {
            Ok(outcome) => Report::Done(Box::new(ShareResult {
                outcome,
                acknowledged: session.map_or_else(Vec::new, |session| session.acknowledged_here()),
            })),
            Err(error) => Report::Failed(format!("{error:#}")),
        };
        ended.with(report);
    });
    (stop, handle)
}

/// Reports how a share ended even if it panicked.
struct EndReporter(Option<mpsc::UnboundedSender<Report>>);

impl EndReporter {
    fn with(mut self, report: Report) {
        self.say(report);
    }

    fn say(&mut self, report: Report) {
        if let Some(tell) = self.0.take() {
            // Fails only if the caller is gone, which then has no use for the report.
            let _ = tell.send(report);
        }
    }
}

impl Drop for EndReporter {
    fn drop(&mut self) {
        self.say(Report::Failed("the load generator panicked".to_owned()));
    }
}

/// Serves the caller at the other end of standard input and output.
pub async fn serve_stdio(runner: &Runner) -> anyhow::Result<()> {
    let served = serve(tokio::io::stdin(), tokio::io::stdout(), runner).await;
    match served {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        served => served,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
