//! The bound on the lines of the log about clients of the admin endpoint ([`LineBound`]), which any
//! of its threads writes.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::line_bound::LineBound;

/// The bound.
#[derive(Default, Debug)]
pub(super) struct Lines(Mutex<LineBound>);

impl Lines {
    /// Returns how many lines of this cause were left out since its last one; `None` if this one is
    /// left out, too.
    pub(super) fn turn(&self, cause: &'static str, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.turn(cause, now)
    }
}
