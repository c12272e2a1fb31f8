//! What an auditor has to know of clients: events as values, and the place that takes them.
//!
//! - `classes`: the classes of events, and which of them an operator wants;
//! - `event`: one event, with every text of a client cut to a bound;
//! - `request`: the request that an event is about, as the steps of a request note it;
//! - `changes`: from metadata records to the words of what has changed.
//!
//! Invariants: giving an event away waits for nothing and fails for no caller; without a sink it
//! costs one comparison. An event holds no secret that can be shown: of a credential it names the
//! user and the mechanism, of a setting that is hidden only the name. Not here: how events are
//! joined, bounded and written (the server).

mod changes;
mod classes;
mod event;
mod request;

use std::fmt;
use std::sync::Arc;

pub use changes::{AuditedChange, AuditedRecords, RECORDS_BYTES_MAX, TEXT_BYTES_MAX};
pub use classes::{AuditClass, AuditClasses};
pub use event::{ADMIN_API, AuditDetail, AuditEvent, AuditOrigin, AuditedRight};
pub(crate) use request::{AuditedRequest, AuditedTurn};

/// Takes the events of a process, from any thread.
pub trait AuditSink: Send + Sync {
    /// Returns the classes that the operator wants; they never change.
    fn classes(&self) -> AuditClasses;

    /// Takes an event, or counts it as lost; never waits for a disk.
    fn put(&self, event: AuditEvent);

    /// Returns false while changes of the metadata are refused, because the operator wants none
    /// that is not written down, and none can be.
    fn takes_changes(&self) -> bool;
}

/// Where events go; clones share it. The default is nowhere.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<dyn AuditSink>>);

impl Audit {
    /// Sends events to `sink`.
    pub fn to(sink: Arc<dyn AuditSink>) -> Self {
        Self(Some(sink))
    }

    /// Returns true if events of the class are wanted.
    #[inline]
    pub fn takes(&self, class: AuditClass) -> bool {
        let sink = self.0.as_ref();
        sink.is_some_and(|sink| sink.classes().has(class))
    }

    /// Returns true if it is to be written down that clients did what they may do.
    pub(crate) fn takes_allowed(&self, operation: wire::acl::Operation) -> bool {
        let sink = self.0.as_ref();
        sink.is_some_and(|sink| sink.classes().has_allowed(operation))
    }

    /// Returns true if any event is wanted.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Gives an event away, if its class is wanted.
    pub fn put(&self, event: AuditEvent) {
        if let Some(sink) = self.0.as_ref().filter(|_| self.takes(event.class)) {
            sink.put(event);
        }
    }

    /// Returns false while changes of the metadata are refused.
    pub(crate) fn takes_changes(&self) -> bool {
        self.0.as_ref().is_none_or(|sink| sink.takes_changes())
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("Audit").field(&self.is_on()).finish()
    }
}
