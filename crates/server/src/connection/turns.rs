//! Turns in which the connections of a shard write large answers.
//!
//! The system takes megabytes at a time from a connection, also if its client reads nothing, and
//! copies them meanwhile. Many large answers would keep the shard for as long as all of those
//! copies take. So a few connections write a piece each, the sockets and disks that are ready come
//! next, and then the connections behind them write.
//!
//! Invariants: at most [`AT_ONCE`] connections of the shard have a turn; each gives its turn up at
//! its next poll, when its socket takes nothing more, and when it ends. Small answers take no
//! turns. Not here: how much a piece is (`replies.rs`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many connections write a piece before other work comes. A turn ends when a connection's task
/// runs again, so with one turn the socket of a fast reader would mostly be idle.
const AT_ONCE: usize = 4;

/// The turns of a shard; clones share them.
#[derive(Clone)]
pub struct WriteTurns(Arc<Semaphore>);

impl Default for WriteTurns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl WriteTurns {
    /// Returns the place of a connection.
    pub(super) fn place(&self) -> WritePlace {
        WritePlace {
            turns: Arc::clone(&self.0),
            waiting: None,
            turn: None,
        }
    }
}

/// What a connection has of the turns.
pub(super) struct WritePlace {
    turns: Arc<Semaphore>,
    waiting: Option<Pin<Box<dyn Future<Output = OwnedSemaphorePermit>>>>,
    turn: Option<OwnedSemaphorePermit>,
}

impl WritePlace {
    /// Waits for the turn, in the order in which connections begin to wait.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.turn.is_none() {
            let turns = &self.turns;
            let waiting = self
                .waiting
                .get_or_insert_with(|| Box::pin(turn_at(Arc::clone(turns))));
            self.turn = Some(ready!(waiting.as_mut().poll(cx)));
            self.waiting = None;
        }
        Poll::Ready(())
    }

    /// Returns true while the connection could write, and others have the turns.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Returns true while all turns of the shard are taken, this connection's among them or not.
    pub(super) fn is_crowded(&self) -> bool {
        self.turns.available_permits() == 0
    }

    /// Takes the turn if this connection waits and its turn has come: no other connection gets it
    /// before.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) {
        if self.waiting.is_some() {
            // If it has not come, this task is woken then.
            let _ = self.poll_turn(cx);
        }
    }

    /// Gives the turn to the next connection.
    pub(super) fn pass_on(&mut self) {
        self.turn = None;
    }

    /// Gives up the turn, and the wait for it.
    pub(super) fn leave(&mut self) {
        self.waiting = None;
        self.turn = None;
    }
}

async fn turn_at(turns: Arc<Semaphore>) -> OwnedSemaphorePermit {
    let Ok(turn) = turns.acquire_owned().await else {
        unreachable!("turns are never closed");
    };
    turn
}
