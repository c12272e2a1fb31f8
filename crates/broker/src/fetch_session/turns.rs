//! Processes sessions of very many partitions in pieces, yielding in between.
//!
//! A request of fifty bytes may continue a session of a hundred thousand partitions; each is looked
//! up, listed and answered. Meanwhile the session's content is taken out of it; other requests of
//! the same session, which a client never sends before it has the response, are refused as if their
//! epoch were wrong. The results are those of [`FetchSessions`].
//!
//! Invariants: if the request is dropped in the middle, the session ends; content that was taken
//! out returns to the same session or to none: the session may be gone by then, and its id reused.

use std::cell::RefCell;

use platform::clock::Instant;
use wire::types::ErrorCode;

use super::{
    AnswerState, Content, FINAL_EPOCH, FetchSessions, INITIAL_EPOCH, Key, PartitionFetch,
    ResolvedFetch, SessionClaim, epoch_after,
};
use crate::rests::{PIECE, Rests};

type Sessions = RefCell<FetchSessions>;

/// A fetch request.
pub(crate) struct SessionRequest {
    /// Its session fields.
    pub(crate) claim: SessionClaim,
    /// True if topics are named by id.
    pub(crate) by_id: bool,
    /// The partitions, each once.
    pub(crate) named: Vec<(Key, PartitionFetch)>,
    /// The partitions that leave the session.
    pub(crate) forgotten: Vec<Key>,
}

/// Like [`FetchSessions::resolve`].
pub(crate) async fn resolve(
    sessions: &Sessions,
    asked: SessionRequest,
    now: Instant,
    random: u64,
) -> Result<ResolvedFetch, ErrorCode> {
    let is_small = asked.named.len() <= PIECE && asked.forgotten.len() <= PIECE && {
        let known = &sessions.borrow().sessions;
        let session = known.get(&asked.claim.id);
        session.is_none_or(|session| session.content.order.len() <= PIECE)
    };
    if !is_small {
        // Boxed, so that this does not enlarge the futures of small requests.
        return Box::pin(resolve_many(sessions, asked, now, random)).await;
    }
    let SessionRequest {
        claim,
        by_id,
        named,
        forgotten,
    } = asked;
    let mut sessions = sessions.borrow_mut();
    sessions.resolve(claim, by_id, named, &forgotten, now, random)
}

/// Like [`FetchSessions::answer`].
pub(crate) async fn answer(
    sessions: &Sessions,
    resolved: &mut ResolvedFetch,
    told: &[AnswerState],
) -> Vec<bool> {
    if told.len() <= PIECE {
        return sessions.borrow_mut().answer(resolved, told);
    }
    Box::pin(answer_many(sessions, resolved, told)).await
}

async fn resolve_many(
    sessions: &Sessions,
    asked: SessionRequest,
    now: Instant,
    random: u64,
) -> Result<ResolvedFetch, ErrorCode> {
    let mut rests = Rests::new();
    let SessionRequest {
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
        // Without a session, the response has id 0.
        let (id, serial) = begun.unwrap_or_default();
        return Ok(ResolvedFetch {
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
    let mut out = TakenSession::of(sessions, place).ok_or(ErrorCode::FetchSessionIdNotFound)?;
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
    Ok(ResolvedFetch {
        id: sessions.borrow_mut().id_of(place, is_over),
        serial: place.1,
        partitions,
        incremental: true,
    })
}

/// Adds the partitions of a new session. Returns its id and serial number, unless it ended
/// meanwhile.
async fn fill(
    sessions: &Sessions,
    place: Option<(i32, u64)>,
    named: &[(Key, PartitionFetch)],
) -> Option<(i32, u64)> {
    let mut out = TakenSession::of(sessions, place?)?;
    let mut rests = Rests::new();
    for (key, wanted) in named {
        out.content.name(key.clone(), *wanted);
        rests.item().await;
    }
    out.put_back().then_some(place).flatten()
}

async fn answer_many(
    sessions: &Sessions,
    resolved: &mut ResolvedFetch,
    told: &[AnswerState],
) -> Vec<bool> {
    let place = (resolved.id, resolved.serial);
    let Some(mut out) = TakenSession::of(sessions, place) else {
        // As for few partitions: the session is gone, or another request has the content out.
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

/// Takes an order apart into pieces; the caller rebuilds it.
fn pieces(order: &mut Vec<Key>) -> impl Iterator<Item = Vec<Key>> + use<> {
    let capacity = order.len();
    let mut rest = std::mem::replace(order, Vec::with_capacity(capacity)).into_iter();
    std::iter::from_fn(move || {
        let piece: Vec<Key> = rest.by_ref().take(PIECE).collect();
        (!piece.is_empty()).then_some(piece)
    })
}

/// The content of a session, taken out of it.
struct TakenSession<'a> {
    sessions: &'a Sessions,
    /// The session's id and serial number.
    place: (i32, u64),
    content: Content,
    is_back: bool,
}

impl<'a> TakenSession<'a> {
    /// Takes the content out; `None` if there is no such session, or another request has the
    /// content out.
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

    /// Returns the content to its session; false if that is gone.
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

impl Drop for TakenSession<'_> {
    fn drop(&mut self) {
        if !self.is_back {
            self.sessions.borrow_mut().remove_same(self.place);
        }
    }
}

#[cfg(test)]
mod tests;
