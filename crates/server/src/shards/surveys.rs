//! The updates of metrics that scrapes ask shards for: one at a time on each shard.
//!
//! A scrape that comes while a shard is updating waits for that update. So scrapes of a shard that
//! is stuck do not pile up in its queue, and many clients cost a shard no more than one.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// The updates under way; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Surveys {
    /// By shard; the update is over when the sender is gone.
    // Bounded: one for each of `num.shards`.
    under_way: Arc<Mutex<Vec<Option<watch::Receiver<()>>>>>,
}

impl Surveys {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            under_way: Arc::new(Mutex::new(vec![None; shards])),
        }
    }

    /// Waits for an update of every shard; `send` asks a shard that is not updating for one.
    pub(super) async fn all(&self, send: impl Fn(usize, watch::Sender<()>)) {
        for mut update in self.begun(send) {
            // Nothing is ever sent: the wait ends when the sender is gone.
            let _ = update.changed().await;
        }
    }

    fn begun(&self, send: impl Fn(usize, watch::Sender<()>)) -> Vec<watch::Receiver<()>> {
        let mut under_way = self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let join = |(shard, known): (usize, &mut Option<watch::Receiver<()>>)| {
            // This is an error when the sender is gone.
            if let Some(update) = known.as_ref().filter(|update| update.has_changed().is_ok()) {
                return update.clone();
            }
            let (done, update) = watch::channel(());
            send(shard, done);
            known.insert(update).clone()
        };
        under_way.iter_mut().enumerate().map(join).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn scrapes_share_the_update_of_a_shard_and_do_not_pile_up_on_one_that_is_stuck() {
        let surveys = Surveys::new(2);
        let asked: RefCell<Vec<(usize, watch::Sender<()>)>> = RefCell::default();
        let send = |shard, done| asked.borrow_mut().push((shard, done));
        let context = &mut Context::from_waker(Waker::noop());
        let mut first = pin!(surveys.all(send));
        assert!(first.as_mut().poll(context).is_pending());
        assert_eq!(asked.borrow().len(), 2);
        for _ in 0..100 {
            // Each of them gives up after a while.
            assert!(pin!(surveys.all(send)).poll(context).is_pending());
        }
        assert_eq!(asked.borrow().len(), 2);
        // The second shard is stuck, the first one is not.
        asked.borrow_mut().remove(0);
        let mut second = pin!(surveys.all(send));
        assert!(second.as_mut().poll(context).is_pending());
        let shards: Vec<usize> = asked.borrow().iter().map(|(shard, _)| *shard).collect();
        assert_eq!(shards, [1, 0]);
        asked.borrow_mut().clear();
        assert!(first.as_mut().poll(context).is_ready());
        assert!(second.as_mut().poll(context).is_ready());
    }
}
