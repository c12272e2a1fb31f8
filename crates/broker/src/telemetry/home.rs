//! The shard that knows a telemetry client: the one that its instance id selects.
//!
//! Invariant: an id selects the same shard as long as the process runs. It does not know clients
//! (`telemetry.rs`).

use std::future::Future;
use std::rc::Rc;

use platform::Platform;
use wire::types::{ErrorCode, Uuid};

use crate::Broker;

impl<P: Platform> Broker<P> {
    /// Runs `work` on the shard that knows a client.
    pub(crate) async fn at_telemetry<R, Fut>(
        &self,
        id: Uuid,
        work: impl FnOnce(Rc<Self>) -> Fut + Send + 'static,
    ) -> Result<R, ErrorCode>
    where
        R: Send + 'static,
        Fut: Future<Output = Result<R, ErrorCode>> + 'static,
    {
        let (high, low) = id.as_u64_pair();
        let owner = usize::try_from((high ^ low) % self.shards.count() as u64).unwrap_or(0);
        let done = self.shards.call(owner, work).await;
        done.unwrap_or(Err(ErrorCode::UnknownServerError))
    }
}
