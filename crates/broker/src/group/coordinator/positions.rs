//! Positions, piece by piece: requests about them may name 200,000 partitions, and others of the shard have their turn in between.

use platform::Platform;
use platform::task::yield_now;
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use wire::protocol::StrBytes;
use wire::types::ErrorCode;

use super::{GroupCoordinator, OffsetsLog, VISITED_AT_ONCE};
use crate::group::groups::Groups;
use crate::group::records::GroupRecord;
use crate::group::{Fetched, Now};
use crate::lines::Place;
use crate::network::network_of_host;
use crate::room::Room;

/// Who commits: to which group, and from which network. What others commit to a group has no order with it.
pub(super) type Committer = (StrBytes, StrBytes);

/// A place in the line of those who commit to a group.
pub(crate) type InLine = Option<Box<Place<Committer>>>;

impl<P: Platform, L: OffsetsLog> GroupCoordinator<P, L> {
    /// A place behind the commits to the group that rest while they are looked through; one that `rests` itself has others
    /// behind it. None for all others, which is nearly always.
    pub(crate) fn in_line(&self, group: &StrBytes, host: &StrBytes, rests: bool) -> InLine {
        let committer = || (group.clone(), network_of_host(host));
        if rests {
            return Some(Box::new(self.lines.enter(committer())));
        }
        self.lines.behind(committer)
    }

    /// The time for what is committed, and how long a note may be.
    pub(crate) fn commit_rules(&self) -> (i64, usize) {
        let note_max = self.options.offset_metadata_bytes_max;
        (self.now().wall_ms, note_max)
    }

    /// Whether a commit may be tried whose records take so many bytes: one that no batch of the log holds need not be decided.
    pub(crate) fn fits_log(&self, group: &str, bytes: usize) -> Result<bool, ErrorCode> {
        /// Less is decided first, and refused by the log.
        const SMALL: usize = 256 << 10;
        /// A decision is made in one piece: tens of milliseconds for so much, however large batches may be.
        const DECIDED_BYTES_MAX: usize = 4 << 20;
        const _: () = assert!(SMALL < DECIDED_BYTES_MAX, "what is small may be decided");
        if bytes <= SMALL {
            return Ok(true);
        }
        let (partition, ()) = self.moving(group, |_, _| ())?;
        Ok(bytes <= self.log.batch_bytes_max(partition).min(DECIDED_BYTES_MAX))
    }

    /// As [`Self::write`]; whoever is behind in the line goes on when what was decided has its place in the log's queue.
    pub(crate) async fn write_in_line<R>(
        &self,
        group: &str,
        place: InLine,
        decide: impl FnOnce(&mut Groups, Now) -> (Vec<GroupRecord>, R),
    ) -> Result<R, ErrorCode> {
        let (partition, (records, answer)) = self.moving(group, decide)?;
        let written = (!records.is_empty()).then(|| self.begin_append(partition, records));
        drop(place);
        if let Some(written) = written {
            written.await.unwrap_or(Err(ErrorCode::NotCoordinator))?;
        }
        Ok(answer)
    }

    /// The positions that a group is asked for, as far as there is room for them. Who wants stable ones is shown the latest, when
    /// they are in the log.
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
        let (mut found, pieces) = (Fetched::default(), room.pieces());
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
            // Positions are asked for again where they are, not at a coordinator that is looked for.
            written.map_err(|error| match error {
                ErrorCode::CoordinatorNotAvailable => ErrorCode::CoordinatorLoadInProgress,
                other => other,
            })?;
        }
        if found.tells_staged() {
            // What was told of may not have arrived, while others had their turn or while it was waited for.
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

    /// Tells the groups of a partition apart that were loaded anew.
    fn incarnation(&self, partition: i32) -> Option<u64> {
        let slots = self.slots.borrow();
        slots.get(&partition).map(|slot| slot.incarnation)
    }

    /// Looks at the groups of the partition that holds `group`, again and again: `look` is called for each of `items`, with rests.
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
