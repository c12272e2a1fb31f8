//! The bound on the lines of one thread about connections that a fault of their client ended
//! ([`LineBound`]).

use std::cell::RefCell;
use std::rc::Rc;

use tokio::time::Instant;

use crate::line_bound::LineBound;

/// The bound on the lines of one shard; clones share it.
#[derive(Clone, Default, Debug)]
pub struct ClientFaultLines(Rc<RefCell<LineBound>>);

impl ClientFaultLines {
    /// Returns how many lines of this cause were left out since its last one; `None` if this one is
    /// left out, too.
    pub(crate) fn turn(&self, cause: &'static str, now: Instant) -> Option<u64> {
        self.0.borrow_mut().turn(cause, now)
    }
}
