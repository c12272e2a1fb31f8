//! Requests about committed offsets, handled in pieces: one may name 200,000 partitions, and other
//! tasks of the shard have their turn in between.

use platform::Platform;
use platform::task::yield_now;
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{GroupCoordinator, OffsetsLog, VISITED_AT_ONCE};
use crate::group::groups::Groups;
use crate::group::records::GroupRecord;
use crate::group::{ClockReading, OffsetFetchAnswer};
use crate::lines::LinePlace;
use crate::network::network_of_host;
use crate::room::Room;

/// A source of commits: the group and the client's network; commits of different networks to a
/// group have no order.
pub(super) type Committer = (StrBytes, StrBytes);

/// A place in the line of commits to a group from one network.
pub(crate) type InLine = Option<Box<LinePlace<Committer>>>;

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// Returns a place in line behind the commits of the same source that are being checked in
    /// pieces.
    ///
    /// A commit that `rests` always gets one, and later commits queue behind it. Any other commit
    /// gets `None` if no such commit is in line, which is nearly always.
    pub(crate) fn in_line(&self, group: &StrBytes, host: &StrBytes, rests: bool) -> InLine {
        let committer = || (group.clone(), network_of_host(host));
        if rests {
            return Some(Box::new(self.lines.enter(committer())));
        }
        self.lines.behind(committer)
    }

    /// Returns the time for a commit, and the longest metadata of an offset.
    pub(crate) fn commit_rules(&self) -> (i64, usize) {
        let note_max = self.options.offset_metadata_bytes_max;
        (self.now().wall_ms, note_max)
    }

    /// Returns whether a commit whose records take this many bytes is worth deciding: not if no
    /// batch of the log holds it.
    pub(crate) fn fits_log(&self, group: &str, bytes: usize) -> Result<bool, ErrorCode> {
        /// A smaller commit is always decided; the log may still refuse it.
        const SMALL: usize = 256 << 10;
        /// A decision is not interrupted: tens of milliseconds for this many bytes, however large
        /// batches may be.
        const DECIDED_BYTES_MAX: usize = 4 << 20;
        const _: () = assert!(SMALL < DECIDED_BYTES_MAX, "what is small may be decided");
        if bytes <= SMALL {
            return Ok(true);
        }
        let (partition, ()) = self.moving(group, |_, _| ())?;
        Ok(bytes <= self.log.batch_bytes_max(partition).min(DECIDED_BYTES_MAX))
    }

    /// As [`Self::write`], but the next commit in line continues when these records are queued for
    /// the log.
    pub(crate) async fn write_in_line<R>(
        &self,
        group: &str,
        place: InLine,
        decide: impl FnOnce(&mut Groups, ClockReading) -> (Vec<GroupRecord>, R),
    ) -> Result<R, ErrorCode> {
        let (partition, (records, answer)) = self.moving(group, decide)?;
        let written = (!records.is_empty()).then(|| self.begin_append(partition, records));
        drop(place);
        if let Some(written) = written {
            written.await.unwrap_or(Err(ErrorCode::NotCoordinator))?;
        }
        Ok(answer)
    }

    /// Returns the committed offsets that a request asks for; fails if they do not fit into `room`.
    ///
    /// With `stable` it returns the latest offsets, after they are committed.
    pub(crate) async fn fetch(
        &self,
        request: &OffsetFetchRequestGroup,
        stable: bool,
        room: &Room,
    ) -> Result<OffsetFetchResponseGroup, ErrorCode> {
        let group = request.group_id.as_str();
        let begin = |groups: &mut Groups, _| (groups.refusals(), groups.check_fetch(request));
        let (partition, (refusals, allowed)) = self.active(group, begin)?;
        allowed?;
        let incarnation = self.incarnation(partition);
        let (mut found, pieces) = (OffsetFetchAnswer::default(), room.pieces());
        loop {
            let some = self.active_in(partition, |groups, _| {
                groups.fetch_some(request, stable, VISITED_AT_ONCE, &mut found)
            })?;
            let more = some.ok_or(ErrorCode::PolicyViolation)?;
            if !pieces.has(found.take_bytes()) {
                return Err(room.refusal());
            }
            if !more {
                break;
            }
            yield_now().await;
        }
        if stable && self.has_queue(partition) {
            let written = self.append(partition, Vec::new()).await;
            // With this error the client asks the same coordinator again; otherwise it would look
            // up the coordinator.
            written.map_err(|error| match error {
                ErrorCode::CoordinatorNotAvailable => ErrorCode::CoordinatorLoadInProgress,
                other => other,
            })?;
        }
        if found.tells_staged() {
            // The append of an offset in the answer may have failed while other tasks ran or while
            // this one waited.
            let is_lost =
                |groups: &mut Groups, _| groups.was_refused_since(&request.group_id, refusals);
            let is_lost = self.active_in(partition, is_lost)?;
            if is_lost || self.incarnation(partition) != incarnation {
                return Err(ErrorCode::CoordinatorLoadInProgress);
            }
        }
        let answer = OffsetFetchResponseGroup::default().with_group_id(request.group_id.clone());
        Ok(answer.with_topics(found.into_topics()))
    }

    /// Returns a number that changes when the groups of the partition are loaded again.
    fn incarnation(&self, partition: i32) -> Option<u64> {
        let slots = self.slots.borrow();
        slots.get(&partition).map(|slot| slot.incarnation)
    }

    /// Calls `look` with the groups of `group`'s partition for each of `items`, and yields in
    /// between.
    pub(crate) async fn look_through<T, R>(
        &self,
        group: &str,
        items: impl Iterator<Item = T>,
        mut look: impl FnMut(&Groups, T) -> R,
    ) -> Result<Vec<R>, ErrorCode> {
        let partition = self.partition_of(group)?;
        let mut items = items.fuse();
        let mut results = Vec::with_capacity(items.size_hint().0);
        loop {
            let before = results.len();
            self.active_in(partition, |groups, _| {
                let some = items.by_ref().take(VISITED_AT_ONCE);
                results.extend(some.map(|item| look(groups, item)));
            })?;
            if results.len() - before < VISITED_AT_ONCE {
                return Ok(results);
            }
            yield_now().await;
        }
    }
}
