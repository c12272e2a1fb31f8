//! The messages between agents and their caller.
//!
//! An agent first sends the line [`GREETING`]; the caller skips anything before it (such as the
//! output of a login shell). After that both send frames: a big-endian length of four bytes, then
//! that many bytes of JSON. Invariant: no frame is longer than [`FRAME_BYTES_MAX`]; a longer one is
//! an error before any of its body is read.

use anyhow::{Context as _, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::outcome::{Interval, LoadOutcome};
use crate::spec::Load;
use crate::verify::ledger::AcknowledgedRange;

/// First line of an agent; the number is the version of the protocol that follows.
pub const GREETING: &str = "forebay-bench-agent 1";
/// Longest output that may precede the greeting.
const NOISE_BYTES_MAX: usize = 64 << 10;
/// Room for more than an outcome with a histogram for each second of a day.
const FRAME_BYTES_MAX: usize = 256 << 20;

/// A message to an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Asks for the time.
    Clock,
    /// Runs a share; an agent runs one at a time.
    Start(Box<Start>),
    /// Stops the running share, whose outcome is then reported.
    Stop,
}

/// A share of a load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Start {
    /// Address of the broker.
    pub bootstrap: String,
    /// The whole load; its topics exist already.
    pub load: Load,
    /// Index of the share that this host runs.
    pub index: u32,
    /// Number of shares.
    pub of: u32,
    /// When the share begins, in microseconds since 1970 by the agent's own clock.
    pub start_at_us: i64,
    /// Id and run to number records with, if they are checked.
    pub numbering: Option<(u64, u64)>,
}

/// A message from an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Its clock, in microseconds since 1970.
    Clock(i64),
    /// Nothing new; the agent is alive.
    Alive,
    /// One more point of the curve.
    Interval(Box<Interval>),
    /// The share ended.
    Done(Box<ShareResult>),
    /// The share could not be run.
    Failed(String),
}

/// The result of a share.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ShareResult {
    /// The outcome; its times are by the agent's own clock.
    pub outcome: LoadOutcome,
    /// The records acknowledged to this host, if records were numbered.
    pub acknowledged: Vec<AcknowledgedRange>,
}

/// Writes a frame.
pub async fn write<T: Serialize>(
    to: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> anyhow::Result<()> {
    let text = serde_json::to_vec(message)?;
    ensure!(
        text.len() <= FRAME_BYTES_MAX,
        "a message of {} bytes is too long to be sent",
        text.len()
    );
    let length = u32::try_from(text.len())?;
    to.write_all(&length.to_be_bytes()).await?;
    to.write_all(&text).await?;
    Ok(to.flush().await?)
}

/// Reads a frame; returns none at the end of the stream.
pub async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> anyhow::Result<Option<T>> {
    let mut length = [0; 4];
    if from.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..]).await?;
    let length = u32::from_be_bytes(length) as usize;
    ensure!(
        length <= FRAME_BYTES_MAX,
        "a message that claims {length} bytes (at most {FRAME_BYTES_MAX})"
    );
    // The buffer grows with the received bytes; the claimed length reserves nothing.
    let mut text = Vec::new();
    from.take(length as u64).read_to_end(&mut text).await?;
    ensure!(text.len() == length, "a message that was cut off");
    let message = serde_json::from_slice(&text).context("a message that is none of ours")?;
    Ok(Some(message))
}

/// Sends the greeting.
pub async fn greet(to: &mut (impl AsyncWrite + Unpin)) -> anyhow::Result<()> {
    to.write_all(format!("{GREETING}\n").as_bytes()).await?;
    Ok(to.flush().await?)
}

/// Reads up to the greeting; without one, the error shows what was received.
pub async fn greeted(from: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<()> {
    let mut heard = Vec::new();
    let wanted = format!("{GREETING}\n");
    while !heard.ends_with(wanted.as_bytes()) {
        let mut byte = [0];
        ensure!(
            from.read(&mut byte).await? == 1 && heard.len() < NOISE_BYTES_MAX,
            "no agent that says \"{GREETING}\"; it said \"{}\"",
            String::from_utf8_lossy(&heard[..heard.len().min(200)]).trim()
        );
        heard.push(byte[0]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn messages_come_back_one_after_the_other() {
        block_on(async {
            let mut wire = Vec::new();
            let messages = [
                Report::Clock(-5),
                Report::Failed("why".to_owned()),
                Report::Done(Box::default()),
            ];
            for message in &messages {
                write(&mut wire, message).await.unwrap();
            }
            let mut from = wire.as_slice();
            for message in &messages {
                assert_eq!(read(&mut from).await.unwrap().as_ref(), Some(message));
            }
            assert_eq!(read::<Report>(&mut from).await.unwrap(), None);
        });
    }

    #[test]
    fn a_greeting_is_found_behind_the_words_of_a_shell() {
        block_on(async {
            let mut text = b"Welcome to host7!\nforebay-bench-agent 1\nrest".as_slice();
            greeted(&mut text).await.unwrap();
            assert_eq!(text, b"rest");
            let mut other = b"forebay-bench-agent 2\n".as_slice();
            let said = greeted(&mut other).await.unwrap_err().to_string();
            assert!(
                said.ends_with("it said \"forebay-bench-agent 2\""),
                "{said}"
            );
            let endless = vec![b'x'; NOISE_BYTES_MAX * 2];
            assert!(greeted(&mut endless.as_slice()).await.is_err());
        });
    }

    #[test]
    fn a_frame_too_long_is_refused_by_its_length_alone() {
        block_on(async {
            let mut wire = u32::MAX.to_be_bytes().to_vec();
            wire.extend_from_slice(b"{}");
            let said = read::<Report>(&mut wire.as_slice()).await.unwrap_err();
            assert!(said.to_string().contains("claims 4294967295 bytes"));
        });
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = block_on(read::<Report>(&mut bytes.as_slice()));
        }
    }
}
