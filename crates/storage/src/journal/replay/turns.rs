//! Work on many logs at once, a bounded number of them.
//!
//! Invariant: when it has failed, or ended, nothing that was begun is still under way.
//! It does not decide what may go on beside what.

use std::collections::VecDeque;

use platform::task::{self, JoinHandle};

use crate::journal::error::{JournalError, Result};

/// How many go on at once.
const AT_ONCE: usize = 64;

/// Tasks that are under way, and what those that have ended returned, in the order of their
/// beginning.
pub(super) struct Turns<T> {
    /// Bounded: [`AT_ONCE`].
    under_way: VecDeque<JoinHandle<Result<T>>>,
    /// Bounded: what was begun.
    ended: Vec<T>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            under_way: VecDeque::new(),
            ended: Vec::new(),
        }
    }
}

impl<T: 'static> Turns<T> {
    /// Begins a task, after another has ended if there are many.
    pub(super) async fn begin(
        &mut self,
        work: impl Future<Output = Result<T>> + 'static,
    ) -> Result<()> {
        if self.under_way.len() >= AT_ONCE {
            self.end_first().await?;
        }
        self.under_way.push_back(task::spawn(work));
        Ok(())
    }

    /// Waits for all of them, and returns what they returned.
    pub(super) async fn end(mut self) -> Result<Vec<T>> {
        while !self.under_way.is_empty() {
            self.end_first().await?;
        }
        Ok(self.ended)
    }

    async fn end_first(&mut self) -> Result<()> {
        let Some(first) = self.under_way.pop_front() else {
            return Ok(());
        };
        // A task ends early only with its runtime.
        match first.await.unwrap_or(Err(JournalError::Closed)) {
            Ok(result) => {
                self.ended.push(result);
                Ok(())
            }
            Err(error) => {
                for other in self.under_way.drain(..) {
                    drop(other.await);
                }
                Err(error)
            }
        }
    }
}
