//! How far back a start goes for the producers: no further than the newest snapshot, also when that
//! names none.

use std::io::ErrorKind;

use crate::world::*;
use platform::sim::{Effect, Fault, OpKind};
use storage::LogOptions;
use wire::types::Offset;

/// The log of clients without producer ids; retention took some of its first segments. Returns the
/// recovery point of an earlier checkpoint.
async fn retained(log: &SimLog) -> i64 {
    while log.segment_count() <= 8 {
        produce(log, 3, 3000).await;
    }
    log.set_high_watermark(log.durable_offset());
    log.save().await.unwrap();
    log.set_options(LogOptions {
        retention_bytes: Some(300 << 10),
        ..options()
    });
    assert!(log.retain(NOW_MS).await.unwrap() > 1);
    let point = log.durable_offset().0;
    log.roll().await.unwrap();
    produce(log, 3, 3000).await;
    log.save().await.unwrap();
    point
}

#[test]
fn a_start_reads_no_sealed_segment_of_a_log_without_producers_after_retention() {
    for clean in [false, true] {
        simulate(async {
            let world = World::new();
            let log = world.open(options()).await;
            let mut point = retained(&log).await;
            let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
            assert!(start > 0);
            if clean {
                log.close().await.unwrap();
                point = end;
            }
            let names = world.names();
            let logs: Vec<_> = names.iter().filter(|name| name.ends_with(".log")).collect();
            let next = world.successor(world.disk().kill(1));
            // The last two are what the recovery point leaves open.
            let sealed = &logs[..logs.len() - 2];
            assert!(sealed.len() > 2, "{logs:?}");
            for name in sealed {
                next.disk().inject(Fault {
                    path_contains: Some(format!("{FOLDER}/{name}")),
                    ..Fault::at_kind(0, OpKind::Read, Effect::Fail(ErrorKind::Other))
                });
            }
            let log = next.try_open(options(), clean, point, 0).await.unwrap();
            assert_eq!(next.disk().struck(), [], "none of them was read");
            next.disk().clear_faults();
            let found = (log.log_start_offset(), log.log_end_offset());
            assert_eq!(found, (Offset(start), Offset(end)));
            assert_holds(&log, start, end).await;
        });
    }
}
