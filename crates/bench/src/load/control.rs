//! External control of a run: its start, its stop, its progress callback, and the share of the load
//! that this host runs.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use super::hook::Verification;
use crate::outcome::Interval;

/// Called with every interval as soon as it has ended.
pub type Progress = Arc<dyn Fn(&Interval) + Send + Sync>;

/// External control of a run.
///
/// The default starts at once, runs the whole load, and reports no progress.
#[derive(Clone, Default)]
pub struct Control {
    /// Ends the run early.
    pub stop: Stop,
    /// When the load begins (its warm-up); at once if this is past or absent.
    pub start_at: Option<SystemTime>,
    /// Receives every interval.
    pub progress: Option<Progress>,
    /// The share of the load that this host runs.
    pub host: HostShare,
    /// Threads of the generator; by default one for every four processors.
    pub threads: Option<usize>,
    /// The check of every record, if the load asks for one.
    pub verification: Option<Arc<dyn Verification>>,
}

/// The share of a load that one of many hosts runs.
///
/// It is every `of`-th producer and consumer, starting at `index`, and that part of the rate. The
/// caller that divides a load creates and deletes its topics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostShare {
    /// Index of the share, 0-based.
    pub index: u32,
    /// Number of hosts.
    pub of: u32,
}

impl Default for HostShare {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl HostShare {
    /// Returns this host's items out of `count`, numbered from 0.
    pub fn mine(self, count: u32) -> impl Iterator<Item = u32> {
        (self.index..count).step_by(self.of.max(1) as usize)
    }
}

/// A request to stop, visible to every copy.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Requests the stop.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// Returns whether the stop was requested.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the stop is requested.
    pub async fn wait(&self) {
        // Cannot fail: the sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_share_everything_and_nothing_twice() {
        let of = 3;
        let mut all: Vec<u32> = (0..of)
            .flat_map(|index| HostShare { index, of }.mine(10))
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_eq!(HostShare::default().mine(2).collect::<Vec<_>>(), [0, 1]);
    }

    #[tokio::test]
    async fn a_stop_is_seen_by_who_comes_late() {
        let stop = Stop::default();
        let other = stop.clone();
        assert!(!other.is_set());
        stop.now();
        other.wait().await;
        assert!(other.is_set());
    }
}
