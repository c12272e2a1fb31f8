//! Places for requests that are about very many things.
//!
//! Such a request lets others have their turn again and again, and each of its things takes memory, several times of what it
//! took in the request, until it is answered. So only a few of them are at work on a shard at a time, one of each network; others
//! come one behind the other. Requests about few things, which are all that most clients send, need no place.
//! Expected of those who have one: they wait for nothing that takes another, or that only time or clients bring.

mod places;

use crate::queues::Turn;

/// Requests of a shard that are at work at a time: one may wait for a disk or another shard.
pub(crate) const AT_ONCE: usize = 2;
/// More things than these are very many.
pub(crate) const MANY: usize = 2048;
/// A request of more bytes may be about very many.
pub(crate) const LARGE_BYTES: usize = 64 << 10;

const _: () = assert!(
    AT_ONCE > 1,
    "one that waits for a disk leaves a place to another"
);
const _: () = assert!(
    MANY > crate::rests::PIECE,
    "very many things are more than one piece"
);

/// A place; dropped, it is the next one's.
pub(crate) type Place = Turn;
