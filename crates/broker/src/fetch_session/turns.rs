//! Sessions of very many partitions, worked on in turns.
//!
//! A request of fifty bytes may continue a session of a hundred thousand partitions, each of which is looked up, listed and
//! told of. What a session remembers is taken out of its place meanwhile; other requests of the same session, which no
//! client sends before it was answered, are refused as if their epoch were wrong. Answers are those of [`FetchSessions`].
//! Invariants: who goes away in the middle takes the session along; what was taken out comes back to the same session or to
//! none: that may be gone by then, and its id another's.

use std::cell::RefCell;

use platform::clock::Instant;
use wire::types::ErrorCode;

use super::{
    Content, FINAL_EPOCH, FetchSessions, INITIAL_EPOCH, Key, Resolved, SessionClaim, Told, Wanted,
    epoch_after,
};
use crate::rests::{PIECE, Rests};

type Sessions = RefCell<FetchSessions>;

/// What a fetch asks for.
pub(crate) struct Asked {
    /// Of which session.
    pub(crate) claim: SessionClaim,
    /// Topics are named by id.
    pub(crate) by_id: bool,
    /// Each once.
    pub(crate) named: Vec<(Key, Wanted)>,
    /// What leaves the session.
    pub(crate) forgotten: Vec<Key>,
}

/// As [`FetchSessions::resolve`].
pub(crate) async fn resolve(
    sessions: &Sessions,
    asked: Asked,
    now: Instant,
    random: u64,
) -> Result<Resolved, ErrorCode> {
    let is_small = asked.named.len() <= PIECE && asked.forgotten.len() <= PIECE && {
        let known = &sessions.borrow().sessions;
        let session = known.get(&asked.claim.id);
        session.is_none_or(|session| session.content.order.len() <= PIECE)
    };
    if !is_small {
        // Boxed, so that nobody else's requests grow by what this needs.
        return Box::pin(resolve_many(sessions, asked, now, random)).await;
    }
    let Asked {
        claim,
        by_id,
        named,
        forgotten,
    } = asked;
    let mut sessions = sessions.borrow_mut();
    sessions.resolve(claim, by_id, named, &forgotten, now, random)
}

/// As [`FetchSessions::answer`].
pub(crate) async fn answer(
    sessions: &Sessions,
    resolved: &mut Resolved,
    told: &[Told],
) -> Vec<bool> {
    if told.len() <= PIECE {
        return sessions.borrow_mut().answer(resolved, told);
    }
    Box::pin(answer_many(sessions, resolved, told)).await
}

async fn resolve_many(
    sessions: &Sessions,
    asked: Asked,
    now: Instant,
    random: u64,
) -> Result<Resolved, ErrorCode> {
    let mut rests = Rests::new();
    let Asked {
        claim,
        by_id,
        named,
        forgotten,
    } = asked;
    if claim.epoch == FINAL_EPOCH || claim.epoch == INITIAL_EPOCH {
        sessions.borrow_mut().remove(claim.id);
        let wants_session = claim.epoch == INITIAL_EPOCH && !named.is_empty();
        let place = wants_session
            .then(|| sessions.borrow_mut().place(by_id, &named, now, random))
            .flatten();
        let begun = fill(sessions, place, &named).await;
        // Without a session the id is 0, which tells the client so.
        let (id, serial) = begun.unwrap_or_default();
        return Ok(Resolved {
            id,
            serial,
            partitions: named,
            incremental: false,
        });
    }
    let place = {
        let mut sessions = sessions.borrow_mut();
        let session = sessions.claimed(claim, by_id)?;
        session.used = now;
        session.next_epoch = epoch_after(claim.epoch);
        (claim.id, session.serial)
    };
    let mut out = Out::of(sessions, place).ok_or(ErrorCode::FetchSessionIdNotFound)?;
    for (key, wanted) in named {
        out.content.name(key, wanted);
        rests.item().await;
    }
    for key in &forgotten {
        out.content.forget(key);
        rests.item().await;
    }
    if !forgotten.is_empty() {
        let order = pieces(&mut out.content.order);
        for piece in order {
            let remembered = out.content.remembered(piece);
            out.content.order.extend(remembered);
            rests.items(PIECE).await;
        }
    }
    let mut partitions = Vec::with_capacity(out.content.order.len());
    for piece in out.content.order.chunks(PIECE) {
        partitions.extend(out.content.listed(piece));
        rests.items(PIECE).await;
    }
    let is_there = out.put_back();
    let is_over = !is_there || partitions.is_empty();
    Ok(Resolved {
        id: sessions.borrow_mut().id_of(place, is_over),
        serial: place.1,
        partitions,
        incremental: true,
    })
}

/// Names what a new session remembers. Gives its place, unless it has ended meanwhile.
async fn fill(
    sessions: &Sessions,
    place: Option<(i32, u64)>,
    named: &[(Key, Wanted)],
) -> Option<(i32, u64)> {
    let mut out = Out::of(sessions, place?)?;
    let mut rests = Rests::new();
    for (key, wanted) in named {
        out.content.name(key.clone(), *wanted);
        rests.item().await;
    }
    out.put_back().then_some(place).flatten()
}

async fn answer_many(sessions: &Sessions, resolved: &mut Resolved, told: &[Told]) -> Vec<bool> {
    let place = (resolved.id, resolved.serial);
    let Some(mut out) = Out::of(sessions, place) else {
        // As of few: gone, or somebody else works on it.
        return sessions.borrow_mut().answer(resolved, told);
    };
    let mut rests = Rests::new();
    let mut mentioned = Vec::with_capacity(told.len());
    let mut served = 0_usize;
    assert_eq!(
        told.len(),
        resolved.partitions.len(),
        "each partition is told of"
    );
    for ((key, _), told) in resolved.partitions.iter().zip(told) {
        mentioned.push(out.content.tell(key, *told, resolved.incremental));
        served = served.saturating_add(usize::from(told.urgent));
        rests.item().await;
    }
    if served > 0 && served < out.content.order.len() {
        let mut last = Vec::new();
        let order = pieces(&mut out.content.order);
        for piece in order {
            let (first, served) = out.content.by_turn(piece);
            out.content.order.extend(first);
            last.extend(served);
            rests.items(PIECE).await;
        }
        out.content.order.append(&mut last);
    }
    if !out.put_back() {
        resolved.id = 0;
    }
    mentioned
}

/// Takes an order, to be made anew, apart.
fn pieces(order: &mut Vec<Key>) -> impl Iterator<Item = Vec<Key>> + use<> {
    let capacity = order.len();
    let mut rest = std::mem::replace(order, Vec::with_capacity(capacity)).into_iter();
    std::iter::from_fn(move || {
        let piece: Vec<Key> = rest.by_ref().take(PIECE).collect();
        (!piece.is_empty()).then_some(piece)
    })
}

/// What a session remembers, out of its place.
struct Out<'a> {
    sessions: &'a Sessions,
    /// Its id, and its number.
    place: (i32, u64),
    content: Content,
    is_back: bool,
}

impl<'a> Out<'a> {
    /// `None`: there is no such session, or somebody else works on it.
    fn of(sessions: &'a Sessions, place: (i32, u64)) -> Option<Self> {
        let mut all = sessions.borrow_mut();
        let session = all.same(place).filter(|session| !session.is_out)?;
        session.is_out = true;
        Some(Self {
            sessions,
            place,
            content: std::mem::take(&mut session.content),
            is_back: false,
        })
    }

    /// Back to its place; false when that is gone.
    fn put_back(mut self) -> bool {
        self.is_back = true;
        let content = std::mem::take(&mut self.content);
        let mut all = self.sessions.borrow_mut();
        let Some(session) = all.same(self.place) else {
            return false;
        };
        assert!(session.is_out, "one works on it at a time");
        content.check();
        let before = std::mem::replace(&mut session.bytes, content.bytes);
        let bytes = content.bytes;
        session.content = content;
        session.is_out = false;
        all.weigh(before, bytes);
        true
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        if !self.is_back {
            self.sessions.borrow_mut().remove_same(self.place);
        }
    }
}

#[cfg(test)]
mod tests;
