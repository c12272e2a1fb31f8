//! Opening the logs of a store.
//!
//! It does not interpret a log's files (`log/open.rs` does), and does not know which logs should
//! exist.

use std::path::Path;
use std::rc::Rc;

use platform::Platform;
use wire::types::{TopicId, TopicPartition};

use super::Store;
use crate::error::Result;
use crate::log::Log;
use crate::log::flush::SHORTAGE_RETRY_INTERVAL;
use crate::options::{LogOptions, OpenAs};

/// How many times opening a log is retried while the machine is short of descriptors.
const OPEN_TRIES: usize = 20;

impl<P: Platform> Store<P> {
    /// Opens or creates the log of `partition` in the log directory `dir`.
    ///
    /// Everything that was durable when the process or the machine stopped is in the log; recovery
    /// cuts off the rest.
    pub async fn open_log(
        &self,
        dir: &Path,
        partition: TopicPartition,
        topic_id: TopicId,
        options: LogOptions,
        how: OpenAs,
    ) -> Result<Rc<Log<P>>> {
        let whose = (partition, topic_id);
        self.open_or_begin(dir, whose, options, how, false).await
    }

    /// Opens or creates the log of a topic that was created since the process started.
    ///
    /// Only earlier calls can have created files of it, so it does not wait for paths that do not
    /// answer.
    pub async fn begin_log(
        &self,
        dir: &Path,
        partition: TopicPartition,
        topic_id: TopicId,
        options: LogOptions,
        how: OpenAs,
    ) -> Result<Rc<Log<P>>> {
        let whose = (partition, topic_id);
        self.open_or_begin(dir, whose, options, how, true).await
    }

    /// Opens logs as plainly as possible from now on: folder by folder and file by file, nothing
    /// read before it is needed, nothing left out. The reference for the fast way.
    pub fn open_step_by_step(&self) {
        self.shared.step_by_step.set(true);
    }

    pub(crate) fn opens_step_by_step(&self) -> bool {
        self.shared.step_by_step.get()
    }

    async fn open_or_begin(
        &self,
        dir: &Path,
        whose: (TopicPartition, TopicId),
        options: LogOptions,
        how: OpenAs,
        is_new: bool,
    ) -> Result<Rc<Log<P>>> {
        let mut tries = 0;
        let log = loop {
            let (whose, options) = (whose.clone(), options.clone());
            match crate::log::open::open(self, dir, whose, options, how, is_new).await {
                Err(error) if error.is_exhausted() && tries < OPEN_TRIES => {
                    self.close_unused_files();
                    self.clock().sleep(SHORTAGE_RETRY_INTERVAL).await;
                    tries += 1;
                }
                opened => break opened?,
            }
        };
        let mut logs = self.shared.logs.borrow_mut();
        // An opener of ten thousand logs does not look at all of them for each.
        if logs.len() == logs.capacity() {
            logs.retain(|log| log.strong_count() > 0);
        }
        logs.push(Rc::downgrade(&log));
        self.touch();
        self.shared.metrics.logs.inc();
        Ok(log)
    }
}
