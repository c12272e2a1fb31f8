//! One connection to one broker: requests go out in the order of their asking, several on their way
//! at once, answers come back in the same order.

use platform::clock::Instant;

use crate::ask::Ask;
use crate::error::ClientError;

/// A handle to a connection; clones share it. The last one that goes ends it.
#[derive(Clone, Debug)]
pub struct Connection {}

impl Connection {
    /// Sends a request in the newest version that both sides know, and waits for the answer.
    ///
    /// The deadline is that of the exchange: when it passes, the connection is lost for everybody,
    /// since answers come in order. To stop waiting without that, drop the future; the answer is
    /// then read and thrown away.
    pub async fn ask<Q: Ask>(
        &self,
        _request: &Q,
        _deadline: Instant,
    ) -> Result<Q::Answer, ClientError> {
        Err(ClientError::Closed)
    }

    /// Does the same in this version, which the caller has from [`Self::version`].
    pub async fn ask_in<Q: Ask>(
        &self,
        _version: i16,
        _request: &Q,
        _deadline: Instant,
    ) -> Result<Q::Answer, ClientError> {
        Err(ClientError::Closed)
    }

    /// Returns the newest version of a request that both sides know.
    pub fn version<Q: Ask>(&self) -> Result<i16, ClientError> {
        self.version_up_to::<Q>(i16::MAX)
    }

    /// Does the same, for a caller that knows fewer versions.
    pub fn version_up_to<Q: Ask>(&self, _newest: i16) -> Result<i16, ClientError> {
        Err(ClientError::Closed)
    }

    /// Returns true if nothing can be asked any more.
    pub fn is_lost(&self) -> bool {
        true
    }

    /// Returns the address of the broker, `host:port`.
    pub fn address(&self) -> &str {
        ""
    }

    /// Returns the id of the broker, if the connection was made by it.
    pub fn node(&self) -> Option<i32> {
        None
    }
}
