//! What steers a run from outside: when it starts, who wants it ended, who watches, which share of it is ours.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use super::hook::Verification;
use crate::outcome::Interval;

/// Called with every interval as soon as it is over.
pub type Progress = Arc<dyn Fn(&Interval) + Send + Sync>;

/// What steers a run from outside. The default starts at once, takes the whole load, and tells nobody.
#[derive(Clone, Default)]
pub struct Control {
    /// Ends the run before its time.
    pub stop: Stop,
    /// When the load begins (its warm-up); at once where that has passed or is not said.
    pub start_at: Option<SystemTime>,
    /// Told of every interval.
    pub progress: Option<Progress>,
    /// Which share of the load is run here.
    pub host: HostShare,
    /// Threads of the generator; by default one for every four processors.
    pub threads: Option<usize>,
    /// The check of every record, where the load asks for one.
    pub verification: Option<Arc<dyn Verification>>,
}

/// Which share of a load one of many hosts runs: every `of`-th producer and consumer, from `index` on, and
/// that part of the rate. Whoever divides a load makes and deletes its topics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostShare {
    /// 0-based.
    pub index: u32,
    /// How many hosts there are.
    pub of: u32,
}

impl Default for HostShare {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl HostShare {
    /// Those of `count` things, numbered from 0, that are this host's.
    pub fn mine(self, count: u32) -> impl Iterator<Item = u32> {
        (self.index..count).step_by(self.of.max(1) as usize)
    }
}

/// A wish to end, seen by everyone who has a copy.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Ends the run.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// True once it is to end.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is to end.
    pub async fn wait(&self) {
        // The sender lives as long as `self`.
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
