//! Values that take long to free: a hundred thousand small ones take milliseconds.
//!
//! Invariant: a value is freed once, by a thread beside the shard where there is one. In a
//! simulation it is freed in place.

use std::ops::Deref;

use crate::workers;

/// Frees a value that holds very many others, without holding up the shard.
pub fn free_elsewhere<T: Send + 'static>(value: T) {
    // Without such a thread it comes back, and is freed here.
    drop(workers::run(Box::new(move || drop(value))));
}

/// A value which [`free_elsewhere`] frees, if it is heavy.
pub struct Heavy<T: Send + 'static> {
    /// `None` once it is being freed.
    value: Option<T>,
    is_heavy: bool,
}

impl<T: Send + 'static> Heavy<T> {
    /// Keeps a value; `is_heavy` says whether it holds very many others.
    pub const fn new(value: T, is_heavy: bool) -> Self {
        Self {
            value: Some(value),
            is_heavy,
        }
    }
}

impl<T: Send + 'static> Deref for Heavy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let Some(value) = &self.value else {
            unreachable!("it is there until it is dropped");
        };
        value
    }
}

impl<T: Send + 'static> Drop for Heavy<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take_if(|_| self.is_heavy) {
            free_elsewhere(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{self, ThreadId};

    use super::*;
    use crate::runtime::{run_shard, run_simulated};

    struct Freed(std::sync::mpsc::Sender<ThreadId>);

    impl Drop for Freed {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    #[test]
    fn only_what_is_heavy_is_freed_by_another_thread_and_all_of_it_once() {
        let me = thread::current().id();
        let (free, freed) = channel();
        run_shard(None, async {
            drop(Heavy::new(Freed(free.clone()), false));
            assert_eq!(freed.recv().unwrap(), me);
            drop(Heavy::new(Freed(free.clone()), true));
            assert_ne!(freed.recv().unwrap(), me);
        })
        .unwrap();
        run_simulated(async { drop(Heavy::new(Freed(free), true)) }).unwrap();
        assert_eq!(freed.iter().collect::<Vec<_>>(), [me]);
    }
}
