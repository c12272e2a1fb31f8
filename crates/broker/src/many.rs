//! Places for requests that are about very many things.
//!
//! Such a request yields many times, and each of its things takes several times the memory that it
//! took in the request, until the request is answered. So a shard processes only a few of them at
//! the same time, one of each network; the others wait in line. Requests about few things, which
//! are all that most clients send, need no place.
//!
//! A request with a place must not wait for anything that needs another place, or that only time or
//! clients bring.

mod places;

use crate::queues::Turn;

/// Such requests that a shard processes at the same time: one may wait for a disk or another shard.
pub(crate) const AT_ONCE: usize = 2;
/// A request about more things than this needs a place.
pub(crate) const MANY: usize = 2048;
/// A request of more bytes than this may be about very many things.
pub(crate) const LARGE_BYTES: usize = 64 << 10;

const _: () = assert!(
    AT_ONCE > 1,
    "one that waits for a disk leaves a place to another"
);
const _: () = assert!(
    MANY > crate::rests::PIECE,
    "very many things are more than one piece"
);

/// A place; dropping it gives it to the next request.
pub(crate) type RequestPlace = Turn;
