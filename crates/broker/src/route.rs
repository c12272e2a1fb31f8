//! Routes the items of a request to their partitions, on the shards that lead them.
//!
//! Invariant: each item has one result, and the results come in the order of the items.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "numbers of clients reach this: an overflow or an index out of bounds ends the broker"
    )
)]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

use platform::Platform;
use platform::task::yield_now;
use wire::types::{ErrorCode, TopicId};

use crate::Broker;
use crate::fetch_session::TopicKey;
use crate::join::{join_all, join_boxed};
use crate::partition::Partition;
use crate::rests::Rests;
use crate::shards::ShardIndex;

/// Items of one shard that begin without a pause, unless their order asks for more.
const AT_ONCE: usize = 512;

/// The result of an item whose shard does not answer because it is shutting down.
pub(crate) const UNANSWERED: ErrorCode = ErrorCode::UnknownServerError;

/// A partition that exists, by its topic's id.
pub(crate) type Target = (TopicId, i32);

impl<P: Platform> Broker<P> {
    /// Finds a partition in the metadata.
    ///
    /// As in Kafka, a missing name and a missing id have different errors.
    pub(crate) fn target(&self, topic: &TopicKey, partition: i32) -> Result<Target, ErrorCode> {
        let image = self.image();
        let found = match topic {
            TopicKey::Id(id) => image.topic_by_id(*id).ok_or(ErrorCode::UnknownTopicId)?,
            TopicKey::Name(name) => image
                .topic_by_name(name)
                .ok_or(ErrorCode::UnknownTopicOrPartition)?,
        };
        let exists = found.partitions.contains_key(&partition);
        if exists {
            Ok((found.id, partition))
        } else {
            Err(ErrorCode::UnknownTopicOrPartition)
        }
    }

    /// Returns the partition, if this shard leads it.
    pub(crate) fn led(&self, target: Target) -> Result<Rc<Partition<P>>, ErrorCode> {
        match self.partitions.borrow().get(&target) {
            Some(Ok(partition)) => Ok(Rc::clone(partition)),
            Some(Err(code)) => Err(*code),
            None => Err(ErrorCode::NotLeaderOrFollower),
        }
    }
}

/// The beginning of an item.
pub(crate) enum ItemStart<Fut> {
    /// The item has begun: the weight of that, in items, and the rest of the work.
    Now(usize, Fut),
    /// The item begins when this future completes, which does not block the shard; nothing of its
    /// line begins before.
    Later(Pin<Box<dyn Future<Output = Fut>>>),
}

/// Runs `work` for each item at its partition, on the shard that leads it, and returns the results
/// in the order of the items.
///
/// Items of one shard begin in their order, many of them in pieces, between which others have their
/// turn; waiting starts when all have begun. What has begun on other shards goes on to its end,
/// also when the caller goes away.
pub(crate) async fn at_partitions<P, T, R, F, Fut>(
    broker: &Rc<Broker<P>>,
    items: Vec<(Result<Target, ErrorCode>, T)>,
    work: F,
) -> Vec<Result<R, ErrorCode>>
where
    P: Platform,
    T: Send + 'static,
    R: Send + 'static,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<R, ErrorCode>> + 'static,
{
    let work = move |broker, partition, item| ItemStart::Now(1, work(broker, partition, item));
    at_partitions_in_line(broker, None, items, work).await
}

/// Does the same in the order of `line`, for `work` that returns the weight of beginning an item.
///
/// Requests of one line begin in the order in which they come here, however much each has to begin:
/// a request waits for those of its connection that have not begun everything yet.
pub(crate) async fn at_partitions_in_line<P, T, R, F, Fut>(
    broker: &Rc<Broker<P>>,
    line: Option<SocketAddr>,
    mut items: Vec<(Result<Target, ErrorCode>, T)>,
    work: F,
) -> Vec<Result<R, ErrorCode>>
where
    P: Platform,
    T: Send + 'static,
    R: Send + 'static,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> ItemStart<Fut> + Clone + Send + 'static,
    Fut: Future<Output = Result<R, ErrorCode>> + 'static,
{
    if items.len() == 1
        && let Some((target, item)) = items.pop()
    {
        return vec![match target {
            Err(code) => Err(code),
            Ok(target) => {
                let owner = broker.shards.owner(target.0, target.1);
                let this = move |broker| at_this_in_line(broker, line, target, item, work);
                // Boxed, so that the caller's future stays small.
                let done = Box::pin(broker.shards.call(owner, this)).await;
                done.unwrap_or(Err(UNANSWERED))
            }
        }];
    }
    let asked = items.len();
    let (mut results, by_shard) = match line {
        // The items of a line begin in the first poll.
        Some(_) => divided(broker, items),
        None => divided_in_turns(broker, items).await,
    };
    let calls = by_shard
        .into_iter()
        .enumerate()
        .filter(|(_, list)| !list.is_empty())
        .map(|(shard, list)| {
            let work = work.clone();
            let all = move |broker| at_these_in_line(broker, line, list, work);
            broker.shards.call(shard, all)
        });
    fill(&mut results, join_all(calls).await).await;
    // Callers pair the results with their items.
    assert_eq!(results.len(), asked, "each item has a result");
    results
}

/// Does the same as [`at_partitions`] for work that only reads and waits.
///
/// The work ends on all shards when the caller goes away, and of many items some wait for others.
pub(crate) async fn at_partitions_abandoned<P, T, R, F, Fut>(
    broker: &Rc<Broker<P>>,
    mut items: Vec<(Result<Target, ErrorCode>, T)>,
    work: F,
) -> Vec<Result<R, ErrorCode>>
where
    P: Platform,
    T: Send + 'static,
    R: Send + 'static,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<R, ErrorCode>> + 'static,
{
    if items.len() == 1
        && let Some((target, item)) = items.pop()
    {
        return vec![match target {
            Err(code) => Err(code),
            Ok(target) => {
                let owner = broker.shards.owner(target.0, target.1);
                let this = move |broker| at_this(broker, target, item, work);
                // Boxed, so that the caller's future stays small.
                let done = Box::pin(broker.shards.call_abandoned(owner, this)).await;
                done.unwrap_or(Err(UNANSWERED))
            }
        }];
    }
    let asked = items.len();
    let (mut results, by_shard) = divided_in_turns(broker, items).await;
    let calls = by_shard
        .into_iter()
        .enumerate()
        .filter(|(_, list)| !list.is_empty())
        .map(|(shard, list)| {
            let work = work.clone();
            let all = move |broker| at_these_in_turns(broker, list, work);
            broker.shards.call_abandoned(shard, all)
        });
    fill(&mut results, join_all(calls).await).await;
    // Callers pair the results with their items.
    assert_eq!(results.len(), asked, "each item has a result");
    results
}

/// Items of one shard, each with its index in the request.
type OfShard<T> = Vec<(usize, Target, T)>;

/// The results of items whose shard does not answer, and the items by shard.
type DividedItems<T, R> = (Vec<Result<R, ErrorCode>>, Vec<OfShard<T>>);

fn divided<P: Platform, T, R>(
    broker: &Broker<P>,
    items: Vec<(Result<Target, ErrorCode>, T)>,
) -> DividedItems<T, R> {
    let mut divided = undivided(broker, items.len());
    for (index, (target, item)) in items.into_iter().enumerate() {
        divide(broker, &mut divided, index, target, item);
    }
    divided
}

/// Does the same with rests, where the order does not forbid them.
async fn divided_in_turns<P: Platform, T, R>(
    broker: &Broker<P>,
    items: Vec<(Result<Target, ErrorCode>, T)>,
) -> DividedItems<T, R> {
    if items.len() <= AT_ONCE {
        return divided(broker, items);
    }
    let mut divided = undivided(broker, items.len());
    let mut rests = Rests::new();
    for (index, (target, item)) in items.into_iter().enumerate() {
        divide(broker, &mut divided, index, target, item);
        rests.item().await;
    }
    divided
}

fn undivided<P: Platform, T, R>(broker: &Broker<P>, count: usize) -> DividedItems<T, R> {
    let mut by_shard: Vec<OfShard<T>> = Vec::new();
    by_shard.resize_with(broker.shards.count(), Vec::new);
    (Vec::with_capacity(count), by_shard)
}

fn divide<P: Platform, T, R>(
    broker: &Broker<P>,
    (results, by_shard): &mut DividedItems<T, R>,
    index: usize,
    target: Result<Target, ErrorCode>,
    item: T,
) {
    results.push(Err(target.as_ref().err().copied().unwrap_or(UNANSWERED)));
    if let Ok(target) = target {
        let owner = broker.shards.owner(target.0, target.1);
        let Some(list) = by_shard.get_mut(owner) else {
            unreachable!("an owner is one of the shards");
        };
        list.push((index, target, item));
    }
}

/// Does the work of a request about one partition, without lists, because most requests are of this
/// kind.
async fn at_this<P, T, R, F, Fut>(
    broker: Rc<Broker<P>>,
    target: Target,
    item: T,
    work: F,
) -> Result<R, ErrorCode>
where
    P: Platform,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> Fut,
    Fut: Future<Output = Result<R, ErrorCode>>,
{
    let partition = broker.led(target)?;
    work(broker, partition, item).await
}

/// Does the same behind the other requests of the line.
async fn at_this_in_line<P, T, R, F, Fut>(
    broker: Rc<Broker<P>>,
    line: Option<SocketAddr>,
    target: Target,
    item: T,
    work: F,
) -> Result<R, ErrorCode>
where
    P: Platform,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> ItemStart<Fut>,
    Fut: Future<Output = Result<R, ErrorCode>>,
{
    let mut place = line.and_then(|line| broker.lines.behind(|| line));
    if let Some(place) = &mut place {
        place.turn().await;
    }
    let partition = broker.led(target)?;
    let begun = match work(Rc::clone(&broker), partition, item) {
        ItemStart::Now(_, begun) => begun,
        ItemStart::Later(begins) => {
            place = place.or_else(|| line.map(|line| Box::new(broker.lines.enter(line))));
            begins.await
        }
    };
    drop(place);
    begun.await
}

/// Does the work of one shard.
async fn at_these_in_line<P, T, R, F, Fut>(
    broker: Rc<Broker<P>>,
    line: Option<SocketAddr>,
    list: OfShard<T>,
    work: F,
) -> Vec<(usize, Result<R, ErrorCode>)>
where
    P: Platform,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> ItemStart<Fut>,
    Fut: Future<Output = Result<R, ErrorCode>>,
{
    let mut place = line.and_then(|line| broker.lines.behind(|| line));
    if let Some(place) = &mut place {
        place.turn().await;
    }
    let mut all = Vec::with_capacity(list.len());
    let mut list = list.into_iter();
    let mut left = AT_ONCE;
    let mut piece = (list.len() > 1).then(|| broker.bulk.begin(broker.platform.clock()));
    while let Some((index, target, item)) = list.next() {
        let (worth, begun) = match broker.led(target) {
            Ok(partition) => match work(Rc::clone(&broker), partition, item) {
                ItemStart::Now(worth, begun) => (worth.max(1), Ok(begun)),
                ItemStart::Later(begins) => {
                    place = place.or_else(|| line.map(|line| Box::new(broker.lines.enter(line))));
                    let begun = begins.await;
                    piece = piece.map(|_| broker.bulk.begin(broker.platform.clock()));
                    (1, Ok(begun))
                }
            },
            Err(code) => (1, Err(code)),
        };
        all.push(Box::pin(async move {
            match begun {
                Ok(begun) => (index, begun.await),
                Err(code) => (index, Err(code)),
            }
        }));
        left = left.saturating_sub(worth);
        if left == 0 && list.len() > 0 {
            // The place is taken in the first poll, before a request behind this one comes.
            place = place.or_else(|| line.map(|line| Box::new(broker.lines.enter(line))));
            broker.bulk.rest(broker.platform.clock(), piece).await;
            piece = piece.map(|_| broker.bulk.begin(broker.platform.clock()));
            left = AT_ONCE;
        }
    }
    drop(place);
    if all.len() <= AT_ONCE {
        return join_boxed(all.into_iter()).await;
    }
    let mut done = Vec::with_capacity(all.len());
    let mut all = all.into_iter();
    while all.len() > 0 {
        done.extend(join_boxed(all.by_ref().take(AT_ONCE)).await);
        yield_now().await;
    }
    done
}

/// Does the work of one shard, all of it at once.
async fn at_these<P, T, R, F, Fut>(
    broker: Rc<Broker<P>>,
    list: OfShard<T>,
    work: F,
) -> Vec<(usize, Result<R, ErrorCode>)>
where
    P: Platform,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> Fut,
    Fut: Future<Output = Result<R, ErrorCode>>,
{
    let each = list.into_iter().map(|(index, target, item)| {
        let begun = broker
            .led(target)
            .map(|partition| work(Rc::clone(&broker), partition, item));
        async move {
            match begun {
                Ok(begun) => (index, begun.await),
                Err(code) => (index, Err(code)),
            }
        }
    });
    join_all(each).await
}

/// Does the same in pieces, between which the shard serves others.
async fn at_these_in_turns<P, T, R, F, Fut>(
    broker: Rc<Broker<P>>,
    list: OfShard<T>,
    work: F,
) -> Vec<(usize, Result<R, ErrorCode>)>
where
    P: Platform,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> Fut + Clone,
    Fut: Future<Output = Result<R, ErrorCode>>,
{
    if list.len() <= AT_ONCE {
        return at_these(broker, list, work).await;
    }
    let mut done = Vec::with_capacity(list.len());
    let mut list = list.into_iter();
    loop {
        let some: Vec<_> = list.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            return done;
        }
        done.extend(at_these(Rc::clone(&broker), some, work.clone()).await);
        yield_now().await;
    }
}

/// The results of the items of one shard, each with its index; `None` if the shard is shutting
/// down.
type ShardResults<R> = Option<Vec<(usize, Result<R, ErrorCode>)>>;

async fn fill<R>(results: &mut [Result<R, ErrorCode>], done: Vec<ShardResults<R>>) {
    let mut rests = Rests::new();
    for (index, result) in done.into_iter().flatten().flatten() {
        let Some(slot) = results.get_mut(index) else {
            unreachable!("a shard answers what it was asked");
        };
        *slot = result;
        rests.item().await;
    }
}

/// Runs `work` for each item on its shard, and returns the results in the order of the items.
///
/// Each shard gets one message, however many items there are. `None`: the shard is shutting down.
pub(crate) async fn at_homes<P, T, R, F, Fut>(
    broker: &Rc<Broker<P>>,
    items: Vec<(ShardIndex, T)>,
    work: F,
) -> Vec<Option<R>>
where
    P: Platform,
    T: Send + 'static,
    R: Send + 'static,
    F: Fn(Rc<Broker<P>>, T) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = R> + 'static,
{
    let mut results = Vec::new();
    results.resize_with(items.len(), || None);
    let mut by_shard: Vec<Vec<(usize, T)>> = Vec::new();
    by_shard.resize_with(broker.shards.count(), Vec::new);
    let mut rests = Rests::new();
    for (index, (home, item)) in items.into_iter().enumerate() {
        let Some(list) = by_shard.get_mut(home) else {
            unreachable!("a home is one of the shards");
        };
        list.push((index, item));
        rests.item().await;
    }
    let calls = by_shard
        .into_iter()
        .enumerate()
        .filter(|(_, list)| !list.is_empty())
        .map(|(shard, list)| {
            let work = work.clone();
            broker
                .shards
                .call(shard, move |broker| at_home(broker, list, work))
        });
    for (index, result) in join_all(calls).await.into_iter().flatten().flatten() {
        let Some(slot) = results.get_mut(index) else {
            unreachable!("a home answers what it was asked");
        };
        assert!(slot.is_none(), "an item is answered once");
        *slot = Some(result);
        rests.item().await;
    }
    results
}

async fn at_home<P, T, R, F, Fut>(
    broker: Rc<Broker<P>>,
    list: Vec<(usize, T)>,
    work: F,
) -> Vec<(usize, R)>
where
    P: Platform,
    F: Fn(Rc<Broker<P>>, T) -> Fut,
    Fut: Future<Output = R>,
{
    let mut done = Vec::with_capacity(list.len());
    let mut list = list.into_iter();
    loop {
        let some = list.by_ref().take(AT_ONCE);
        let some = some.map(|(index, item)| {
            let work = work(Rc::clone(&broker), item);
            async move { (index, work.await) }
        });
        let some = join_all(some).await;
        let last = some.len() < AT_ONCE;
        done.extend(some);
        if last {
            return done;
        }
        yield_now().await;
    }
}
