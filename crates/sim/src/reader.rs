//! Readers: they read below the high watermark, at the tail and at random offsets, and compare with
//! the ledger.

use platform::sim::Rng;
use wire::types::Offset;

use crate::actor::Actor;
use crate::checker::reads::{self, Read};
use crate::plan::one_of;
use crate::world::World;

/// Reads until it is time to stop.
pub(crate) async fn run<W: World>(actor: Actor<W>, mut rng: Rng) {
    let mut position = Offset::ZERO;
    while !actor.is_stopping() {
        let (start, below) = (actor.log.log_start_offset(), actor.log.high_watermark());
        if rng.chance(30) || position < start || position > below {
            let span = u64::try_from(below.since(start)).unwrap_or(0);
            position = start.plus(i64::try_from(rng.below(span + 1)).unwrap_or(0));
        }
        let read = Read {
            from: position,
            below,
            bytes_max: one_of(&mut rng, &[0, 1000, 16 << 10, 1 << 20]),
        };
        position = reads::read_checked(&actor, read).await.unwrap_or(position);
        actor.pause(&mut rng, 40).await;
    }
}
