//! A client for programs that are not async: one runtime, one set of local tasks.

use std::future::Future;

use crate::error::ClientError;

/// A thread's runtime. Tasks of a client make progress only within [`Self::run`].
#[derive(Debug)]
pub struct Client {}

impl Client {
    /// Makes a runtime on this thread.
    pub fn new() -> Result<Self, ClientError> {
        Err(ClientError::Closed)
    }

    /// Runs until the future completes.
    pub fn run<F: Future>(&self, _future: F) -> F::Output {
        unreachable!("a skeleton")
    }
}
