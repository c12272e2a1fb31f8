//! Notes that have no room for a text and are a name only: an older text beside one, and a path
//! that is away, mislead no start.

use std::path::Path;

use platform::Disk;
use storage::LogOptions;
use wire::types::{Offset, Uuid, uuid_to_base64};

use super::failing::{SECOND, SECOND_FOLDER, two_slow};
use super::scene::*;
use crate::world::*;

fn id_at(scene: &Scene, at: usize) -> Uuid {
    scene.tiers.paths()[at].identity().unwrap()
}

fn by_name(base: i64, id: Uuid) -> String {
    format!("{FOLDER}/{base:020}.{}.away", id.simple())
}

/// A log whose sealed segments are on the slow path `at`; the other one takes nothing.
async fn on_one(at: usize) -> (Scene, i64) {
    let scene = two_slow();
    let log = scene.open(options()).await;
    fill(&log, 3).await;
    scene.tiers.paths()[3 - at].set_draining(true);
    scene.settle(eager()).await;
    let end = log.log_end_offset().0;
    log.close().await.unwrap();
    (scene, end)
}

#[test]
fn a_text_of_an_earlier_place_never_outlives_the_note_by_name_of_a_later_one() {
    for ended in 0..80 {
        simulate(async {
            let (scene, end) = on_one(2).await;
            let away = scene.bases_on(SECOND_FOLDER);
            assert!(away.len() > 1, "{away:?}");
            let next = scene.successor(scene.disk().kill(1), store_options());
            let text = format!("version: 1\n{} {BULK}\n", uuid_to_base64(id_at(&scene, 1)));
            for base in &away {
                let note = format!("{FOLDER}/{base:020}.away");
                next.disk().put(Path::new(&note), text.as_bytes()).unwrap();
                let name = by_name(*base, id_at(&scene, 2));
                next.disk().put(Path::new(&name), b"").unwrap();
            }
            // Without room the start leaves the notes as they are.
            next.disk().set_capacity_of(Path::new(DIR), Some(1));
            let log = next.try_open(options(), true, end, 0).await.unwrap();
            assert_holds(&log, 0, end).await;
            next.disk().set_capacity_of(Path::new(DIR), None);
            let last = *away.last().unwrap();
            log.tiers().ask_for_tier(Offset(last), 0);
            let settled = next.settle(still());
            let mut settled = std::pin::pin!(settled);
            let mut turns = 0;
            let until = next.disk().operations() + ended;
            while turns < 2000 && next.disk().operations() < until {
                turns += 1;
                if polled(settled.as_mut(), 1).await {
                    break;
                }
            }
            for crashed in [false, true] {
                let disk = next.disk();
                let disk = if crashed {
                    disk.crash(ended)
                } else {
                    disk.kill(ended)
                };
                let again = next.successor(disk, store_options());
                again.tiers.paths()[1].fail("it is not mounted");
                let opened = again.try_open(options(), true, end, 0).await;
                let log = opened.unwrap();
                assert_holds(&log, 0, end).await;
            }
        });
    }
}

#[test]
fn what_was_deleted_while_its_path_was_away_does_not_come_back_from_an_older_copy() {
    simulate(async {
        let (scene, end) = on_one(1).await;
        let away = scene.bases_on(BULK_FOLDER);
        let next = scene.successor(scene.disk().kill(1), store_options());
        let disk = next.disk().clone();
        // All of it is on the second path, too, where it does not count.
        for entry in disk.list(Path::new(BULK_FOLDER)).await.unwrap() {
            let bytes = disk.contents(&Path::new(BULK_FOLDER).join(&entry.name));
            let copy = Path::new(SECOND_FOLDER).join(&entry.name);
            disk.put(&copy, &bytes.unwrap()).unwrap();
        }
        for base in &away {
            let text = format!("{FOLDER}/{base:020}.away");
            disk.remove_file(Path::new(&text)).await.unwrap();
            let name = by_name(*base, id_at(&scene, 1));
            disk.put(Path::new(&name), b"").unwrap();
        }
        next.tiers.paths()[1].fail("it is not mounted");
        disk.set_read_only_below(Path::new(SECOND), true);
        let log = next.try_open(options(), true, end, 0).await.unwrap();
        log.set_high_watermark(log.durable_offset());
        log.set_options(LogOptions {
            retention_bytes: Some(0),
            ..options()
        });
        assert!(log.retain(NOW_MS).await.unwrap() > 0);
        let found = (log.log_start_offset(), log.log_end_offset());
        assert!(found.0 > Offset(0));
        let again = next.successor(disk.kill(2), store_options());
        again.disk().set_read_only_below(Path::new(SECOND), false);
        let log = again.try_open(options(), false, end, 0).await.unwrap();
        assert_eq!((log.log_start_offset(), log.log_end_offset()), found);
    });
}
