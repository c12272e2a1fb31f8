//! Looks up leaders and offsets for partitions that cannot be fetched without.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use platform::clock::Instant;
use wire::types::ErrorCode;

use super::driver::Driver;
use super::tasks::{self, refusal_of};
use crate::cluster::TopicMetadata;
use crate::error::{ClientError, Refusal};
use crate::fetch::fetcher::LookupOrder;
use crate::fetch::reading::Lookup;
use crate::offsets::PartitionResults;

impl Driver {
    /// Starts the lookups that are due: one for each topic, or broker.
    pub(super) fn look_up(&mut self, now: Instant) {
        let patience = self.patience(now);
        let mut leaders: BTreeMap<Arc<str>, Vec<LookupOrder>> = BTreeMap::new();
        let mut offsets: BTreeMap<i32, Vec<LookupOrder>> = BTreeMap::new();
        for order in self.fetcher.lookups(now) {
            match order.lookup {
                Lookup::Leader => {
                    let topic = Arc::clone(&order.place.topic);
                    leaders.entry(topic).or_default().push(order);
                }
                Lookup::Offset(_, leader) => offsets.entry(leader.node).or_default().push(order),
            }
        }
        for (topic, orders) in leaders {
            let lead = tasks::lead(self.control.clone(), topic, orders, patience);
            self.tasks.spawn_local(lead);
        }
        let committed = self.options.client.fetch.read_committed;
        for (node, orders) in offsets {
            let control = self.control.clone();
            let list = tasks::list_at(control, node, orders, committed, patience);
            self.tasks.spawn_local(list);
        }
    }

    /// Takes what was found of a topic.
    pub(super) fn led(
        &mut self,
        orders: &[LookupOrder],
        topic: Result<Rc<TopicMetadata>, ClientError>,
        now: Instant,
    ) {
        let nothing = Arc::new(self.room.take(0));
        for order in orders {
            let at = (&order.place, order.serial);
            let leader = topic.as_ref().map(|topic| {
                let partition = topic.partition(order.place.partition);
                let leader = match partition {
                    Some(partition) => partition.leader.ok_or(ErrorCode::LeaderNotAvailable),
                    None => Err(ErrorCode::UnknownTopicOrPartition),
                };
                leader.map(|leader| (leader, topic.id))
            });
            let refusal = match leader {
                Ok(Ok(found)) => {
                    self.fetcher.led(at, found);
                    continue;
                }
                Ok(Err(code)) => Refusal::from(code),
                Err(ClientError::Refused(refusal)) => refusal.clone(),
                Err(_) => {
                    self.fetcher.lookup_failed(at, now);
                    continue;
                }
            };
            let events = self.fetcher.lookup_refused(at, refusal, now);
            self.take_events(events, &nothing);
        }
        if let Err(error) = topic
            && refusal_of(&error).is_none()
        {
            self.trouble(error, now);
        }
    }

    /// Takes the offsets that a broker told.
    pub(super) fn listed(
        &mut self,
        orders: &[LookupOrder],
        found: Result<PartitionResults<i64>, ClientError>,
        now: Instant,
    ) {
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                for order in orders {
                    self.control.stale(&order.place.topic);
                    self.fetcher
                        .lookup_failed((&order.place, order.serial), now);
                }
                return self.trouble(error, now);
            }
        };
        let nothing = Arc::new(self.room.take(0));
        for order in orders {
            let at = (&order.place, order.serial);
            match found.remove(&order.place) {
                Some(Ok(offset)) => {
                    if self.fetcher.found(at, offset) {
                        self.begins_at(&order.place, offset);
                    }
                }
                Some(Err(refusal)) => {
                    let events = self.fetcher.lookup_refused(at, refusal, now);
                    self.take_events(events, &nothing);
                }
                None => self.fetcher.lookup_failed(at, now),
            }
        }
    }
}
