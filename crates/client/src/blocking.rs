//! A client for programs that are not async: one runtime, one set of local tasks.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use crate::error::ClientError;

/// A thread's runtime. Tasks of a client (connections, producers, members of groups) make progress
/// only within [`Self::run`], so a program that computes or writes for long between two runs should
/// do that elsewhere: brokers expect heartbeats.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    tasks: LocalSet,
}

impl Client {
    /// Makes a runtime for this thread.
    pub fn new() -> Result<Self, ClientError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ClientError::io("any", "beginning", &error))?;
        Ok(Self {
            runtime,
            tasks: LocalSet::new(),
        })
    }

    /// Runs until the future completes.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.tasks.block_on(&self.runtime, future)
    }
}
