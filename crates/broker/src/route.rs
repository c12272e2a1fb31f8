//! From what a request names to the partitions themselves, on whatever shard they live.

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

/// Items of one shard that are begun without letting others run, where the order does not ask for more.
const AT_ONCE: usize = 512;

/// What an item is answered whose shard does not: it is shutting down.
const UNANSWERED: ErrorCode = ErrorCode::UnknownServerError;

/// A partition that exists, by its topic's id.
pub(crate) type Target = (TopicId, i32);

impl<P: Platform> Broker<P> {
    /// Finds a partition in the metadata: Kafka's error tells a missing name from a missing id.
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

    /// The partition, if this shard leads it.
    pub(crate) fn led(&self, target: Target) -> Result<Rc<Partition<P>>, ErrorCode> {
        match self.partitions.borrow().get(&target) {
            Some(Ok(partition)) => Ok(Rc::clone(partition)),
            Some(Err(code)) => Err(*code),
            None => Err(ErrorCode::NotLeaderOrFollower),
        }
    }
}

/// What came of beginning an item.
pub(crate) enum Begun<Fut> {
    /// It has begun; what that was worth, in items, and the rest of it.
    Now(usize, Fut),
    /// It begins when this is done, which does not hold up the shard. Nothing of its line begins before.
    Later(Pin<Box<dyn Future<Output = Fut>>>),
}

/// Runs `work` for each item at its partition, on the shard that leads it, and returns the results in the order of
/// the items. Items of one shard begin in their order, many of them in pieces between which others have their turn;
/// nothing is waited for before all have begun. What has begun on other shards goes on to its end, also when the caller goes
/// away.
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
    let work = move |broker, partition, item| Begun::Now(1, work(broker, partition, item));
    at_partitions_in_line(broker, None, items, work).await
}

/// The same for `work` that says what it was worth to begin an item, in items; and behind requests of the same connection
/// that have not begun everything yet: requests of one line begin in the order in which they come here, however much they
/// have to begin.
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
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> Begun<Fut> + Clone + Send + 'static,
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
                // Boxed, so that the caller's future does not grow by it.
                let done = Box::pin(broker.shards.call(owner, this)).await;
                done.unwrap_or(Err(UNANSWERED))
            }
        }];
    }
    let asked = items.len();
    let (mut results, by_shard) = match line {
        // Those of a line begin in the first poll.
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
    // Callers put the results beside what they asked for.
    assert_eq!(results.len(), asked, "each item has a result");
    results
}

/// As [`at_partitions`], for work that only reads and waits: it ends everywhere when the caller goes away, and of many
/// items some wait for others.
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
                // Boxed, so that the caller's future does not grow by it.
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
    // Callers put the results beside what they asked for.
    assert_eq!(results.len(), asked, "each item has a result");
    results
}

/// Items of one shard: each with its place in the request.
type OfShard<T> = Vec<(usize, Target, T)>;

/// What each item is answered if its shard does not, and the items by shard.
type Divided<T, R> = (Vec<Result<R, ErrorCode>>, Vec<OfShard<T>>);

fn divided<P: Platform, T, R>(
    broker: &Broker<P>,
    items: Vec<(Result<Target, ErrorCode>, T)>,
) -> Divided<T, R> {
    let mut divided = undivided(broker, items.len());
    for (index, (target, item)) in items.into_iter().enumerate() {
        divide(broker, &mut divided, index, target, item);
    }
    divided
}

/// The same, where the order does not ask for it at once.
async fn divided_in_turns<P: Platform, T, R>(
    broker: &Broker<P>,
    items: Vec<(Result<Target, ErrorCode>, T)>,
) -> Divided<T, R> {
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

fn undivided<P: Platform, T, R>(broker: &Broker<P>, count: usize) -> Divided<T, R> {
    let mut by_shard: Vec<OfShard<T>> = Vec::new();
    by_shard.resize_with(broker.shards.count(), Vec::new);
    (Vec::with_capacity(count), by_shard)
}

fn divide<P: Platform, T, R>(
    broker: &Broker<P>,
    (results, by_shard): &mut Divided<T, R>,
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

/// Does the work of a request about one partition, as most are: without lists.
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

/// The same, behind those of its line.
async fn at_this_in_line<P, T, R, F, Fut>(
    broker: Rc<Broker<P>>,
    line: Option<SocketAddr>,
    target: Target,
    item: T,
    work: F,
) -> Result<R, ErrorCode>
where
    P: Platform,
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> Begun<Fut>,
    Fut: Future<Output = Result<R, ErrorCode>>,
{
    let mut place = line.and_then(|line| broker.lines.behind(|| line));
    if let Some(place) = &mut place {
        place.turn().await;
    }
    let partition = broker.led(target)?;
    let begun = match work(Rc::clone(&broker), partition, item) {
        Begun::Now(_, begun) => begun,
        Begun::Later(begins) => {
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
    F: Fn(Rc<Broker<P>>, Rc<Partition<P>>, T) -> Begun<Fut>,
    Fut: Future<Output = Result<R, ErrorCode>>,
{
    let mut place = line.and_then(|line| broker.lines.behind(|| line));
    if let Some(place) = &mut place {
        place.turn().await;
    }
    let mut all = Vec::with_capacity(list.len());
    let mut list = list.into_iter();
    let mut left = AT_ONCE;
    while let Some((index, target, item)) = list.next() {
        let (worth, begun) = match broker.led(target) {
            Ok(partition) => match work(Rc::clone(&broker), partition, item) {
                Begun::Now(worth, begun) => (worth.max(1), Ok(begun)),
                Begun::Later(begins) => {
                    place = place.or_else(|| line.map(|line| Box::new(broker.lines.enter(line))));
                    (1, Ok(begins.await))
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
            // Taken in the first poll, before anything behind it comes.
            place = place.or_else(|| line.map(|line| Box::new(broker.lines.enter(line))));
            yield_now().await;
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

/// Does the work of one shard, all of it begun at once.
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

/// The same, not all at once: the shard has others to serve.
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

/// What the items of one shard came to, each with its place; `None` from a shard that is shutting down.
type Done<R> = Option<Vec<(usize, Result<R, ErrorCode>)>>;

async fn fill<R>(results: &mut [Result<R, ErrorCode>], done: Vec<Done<R>>) {
    let mut rests = Rests::new();
    for (index, result) in done.into_iter().flatten().flatten() {
        let Some(slot) = results.get_mut(index) else {
            unreachable!("a shard answers what it was asked");
        };
        *slot = result;
        rests.item().await;
    }
}

/// Has the shard of each item work on it, and returns the results in the order of the items: one message for each shard,
/// however many items there are. `None` where a shard is shutting down.
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
