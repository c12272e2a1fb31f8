//! The turns of a consumer's driver.
//!
//! A turn: orders of the application, then everything that is due now (fetches; `looking.rs`:
//! lookups; `grouping.rs`: the member; `committing.rs`: commits), then waiting for whatever happens
//! first. It never waits for one thing while another could happen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Instant;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use wire::kafka::fetch::FetchResponse;
use wire::types::TopicPartition;

use super::driver::{Closing, Driver, TROUBLED_MAX};
use super::mailbox::{Mailbox, Order};
use super::tasks::{self, Done};
use crate::error::ClientError;
use crate::fetch::room::Held;
use crate::pauses::later;

/// What an event costs beside its records.
const EVENT_BYTES: usize = 1 << 10;
/// How long the end of sessions is waited for.
const SESSIONS_END_IN: Duration = Duration::from_millis(50);

impl Driver {
    /// Drives the consumer until it is closed or nobody holds it.
    pub(super) async fn run(mut self) {
        // Also if it panics: nobody waits for a driver that is gone.
        let _over = EndsMailbox(Arc::clone(&self.mailbox));
        while !self.mailbox.is_abandoned() {
            let now = Instant::now();
            self.take_orders(now);
            let wake = self.go_on(now);
            if self.is_closed(now) {
                break;
            }
            let until = wake.unwrap_or(now);
            tokio::select! {
                Some(done) = self.tasks.join_next() => {
                    // A task that was aborted has no result.
                    if let Ok(done) = done {
                        self.apply(done, Instant::now());
                    }
                }
                () = self.mailbox.asked() => {}
                () = self.room.freed() => {}
                () = sleep_until(until), if wake.is_some() => {}
            }
        }
        self.end().await;
    }

    fn take_orders(&mut self, now: Instant) {
        while let Some(order) = self.mailbox.next_order() {
            match order {
                Order::Commit(deadline, done) => self.commit_for(deadline, done, now),
                Order::Seek(place, whence) => {
                    self.mailbox.forget(&place);
                    if self.reads(&place) {
                        self.fetcher.begin(place, whence);
                    }
                }
                Order::Pause(place, is_paused) => self.fetcher.pause(&place, is_paused),
                Order::Close(deadline, done) => {
                    self.closing = Some(Closing {
                        deadline,
                        done,
                        committed: None,
                        has_left: false,
                    });
                    self.begin_to_close(now);
                }
            }
        }
    }

    fn reads(&self, place: &TopicPartition) -> bool {
        self.fetcher.positions().any(|(one, _)| one == place)
    }

    /// Starts everything that is due, and returns when something will be.
    fn go_on(&mut self, now: Instant) -> Option<Instant> {
        let group = self.go_on_in_group(now);
        let commit = self.go_on_committing(now);
        if self.closing.is_none() {
            self.look_up(now);
            self.fetch(now);
        }
        self.tell_refusals();
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        let fetch = self.fetcher.wake_at(now).filter(|_| closing.is_none());
        [group, commit, closing, fetch].into_iter().flatten().min()
    }

    fn fetch(&mut self, now: Instant) {
        let settings = &self.options.client.fetch;
        let one = usize::try_from(settings.partition_bytes).unwrap_or(0);
        let least = one.min(self.options.buffer_bytes / 4);
        let patience = self.patience(now);
        loop {
            let free = self.room.free();
            if free < least && !self.room.is_unused() {
                return;
            }
            let Some(order) = self.fetcher.next_fetch(free, now) else {
                return;
            };
            let held = self.room.take(order.bytes_max);
            let is_anew = self.failed.contains(&order.node);
            let fetch = tasks::fetch(self.data.clone(), order, is_anew, held, patience);
            self.tasks.spawn_local(fetch);
        }
    }

    fn apply(&mut self, done: Done, now: Instant) {
        match done {
            Done::Fetched { node, held, answer } => self.fetched(node, held, answer, now),
            Done::Led { orders, topic } => self.led(&orders, topic, now),
            Done::Listed { orders, found } => self.listed(&orders, found, now),
            Done::Group(answer) => self.group_answered(answer, now),
            Done::Seen { topics, seen } => self.seen(topics, seen, now),
            Done::Positions { places, found } => self.positioned(&places, found, now),
            Done::Committed(stored) => self.committed(stored, now),
            Done::LetGo(serial) => self.let_go(serial, now),
            Done::SessionEnded => {}
        }
    }

    fn fetched(
        &mut self,
        node: i32,
        held: Held,
        answer: Result<FetchResponse, ClientError>,
        now: Instant,
    ) {
        match answer {
            Ok(answer) => {
                self.failed.remove(&node);
                let bytes = answer.records_bytes();
                let events = self.fetcher.answered(node, answer, now);
                // What was kept for the answer becomes what it takes.
                let bytes = bytes.saturating_add(events.len().saturating_mul(EVENT_BYTES));
                let taken = Arc::new(self.room.take(bytes));
                drop(held);
                self.take_events(events, &taken);
            }
            Err(error) => {
                drop(held);
                if self.failed.len() >= TROUBLED_MAX {
                    self.failed.clear();
                }
                self.failed.insert(node);
                let events = self.fetcher.failed(node, now);
                let nothing = Arc::new(self.room.take(0));
                self.take_events(events, &nothing);
                self.trouble(error, now);
            }
        }
    }

    fn tell_refusals(&mut self) {
        let refusals: BTreeMap<_, _> = self
            .fetcher
            .refusals()
            .map(|(place, refusal)| (place.clone(), refusal.clone()))
            .collect();
        let has_refusals = !refusals.is_empty();
        if has_refusals || self.has_refusals {
            self.mailbox.tell_refusals(refusals);
        }
        self.has_refusals = has_refusals;
    }

    /// Begins the end: the last commit, then the farewell.
    fn begin_to_close(&mut self, now: Instant) {
        let places: Vec<_> = self
            .fetcher
            .positions()
            .map(|(one, _)| one.clone())
            .collect();
        for place in &places {
            self.fetcher.end(place);
        }
        let deadline = self
            .closing
            .as_ref()
            .map_or(now, |closing| closing.deadline);
        if self.membership.is_none() || self.options.auto_commit.is_none() {
            self.close_committed(Ok(()), now);
        } else {
            self.commit_to_close(deadline, now);
        }
    }

    /// Takes the result of the last commit: now the member leaves.
    pub(super) fn close_committed(&mut self, result: Result<(), ClientError>, now: Instant) {
        let Some(closing) = &mut self.closing else {
            return;
        };
        closing.committed.get_or_insert(result);
        if self.membership.is_some() {
            self.leave_group(now);
        } else if let Some(closing) = &mut self.closing {
            closing.has_left = true;
        }
    }

    fn is_closed(&self, now: Instant) -> bool {
        self.closing
            .as_ref()
            .is_some_and(|closing| closing.has_left || now >= closing.deadline)
    }

    /// Ends sessions, and tells whoever waits.
    async fn end(mut self) {
        let mut ends = JoinSet::new();
        let now = Instant::now();
        let deadline = later(now, SESSIONS_END_IN);
        let patience = self.patience(now);
        for order in self.fetcher.end_sessions() {
            ends.spawn_local(tasks::end_session(self.data.clone(), order, patience));
        }
        let all = async { while ends.join_next().await.is_some() {} };
        // They are forgotten after a while in any case.
        drop(platform::task::timeout_at(deadline, all).await);
        if let Some(closing) = self.closing {
            let late = || Err(ClientError::timed_out("the coordinator", "the last commit"));
            // Nobody may wait any more.
            drop(closing.done.send(closing.committed.unwrap_or_else(late)));
        }
    }
}

/// Ends the mailbox when the driver ends.
struct EndsMailbox(Arc<Mailbox>);

impl Drop for EndsMailbox {
    fn drop(&mut self) {
        self.0.end();
    }
}
