//! What a ring says of a log, put together, against a model that keeps each byte; and what is done
//! to a log that has this and that on the disk.

use std::collections::BTreeMap;

use platform::sim::Rng;

use super::*;
use crate::journal::replay::RefusalReason;
use crate::journal::replay::image::{CutPlace, Extent, LogImage};
use crate::journal::replay::plan::{LogPlan, SegmentPlan, plan};

/// A log, byte by byte: where in the ring each byte is.
#[derive(Default)]
struct Naive {
    segments: BTreeMap<Offset, BTreeMap<u32, u64>>,
    void_from: BTreeMap<Offset, u32>,
    cut: Option<Offset>,
}

impl Naive {
    fn note_bytes(&mut self, segment: Offset, position: u32, places: std::ops::Range<u64>) {
        if self.cut.is_some_and(|cut| cut < segment) && !self.segments.contains_key(&segment) {
            self.void_from.insert(segment, 0);
        }
        let bytes = self.segments.entry(segment).or_default();
        bytes.extend((position..).zip(places));
    }

    fn note_cut(&mut self, segment: Offset, position: u32) {
        self.note_bytes(segment, position, 0..0);
        self.segments.retain(|base, _| *base <= segment);
        self.void_from.retain(|base, _| *base <= segment);
        let bytes = self.segments.get_mut(&segment).unwrap();
        bytes.retain(|at, _| *at < position);
        let void_from = self.void_from.entry(segment).or_insert(position);
        *void_from = position.min(*void_from);
        self.cut = Some(self.cut.map_or(segment, |cut| cut.min(segment)));
    }
}

fn bytes_of(image: &LogImage) -> BTreeMap<Offset, BTreeMap<u32, u64>> {
    let bytes = image.segments.iter().map(|(base, image)| {
        let mut bytes = BTreeMap::new();
        let mut end = 0;
        for extent in &image.extents {
            assert!(extent.length > 0 && end <= extent.position, "{image:?}");
            end = extent.stop();
            let places = extent.place..extent.place + u64::from(extent.length);
            bytes.extend((extent.position..end).zip(places));
        }
        (*base, bytes)
    });
    bytes.collect()
}

#[test]
fn parts_in_any_order_make_the_image_that_each_byte_makes() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let (mut image, mut naive) = (LogImage::default(), Naive::default());
        let mut place = 0;
        for _ in 0..=rng.below(40) {
            let segment = Offset(i64::try_from(100 * rng.below(4)).unwrap());
            let position = u32::try_from(rng.below(60)).unwrap();
            if rng.chance(15) {
                let offset = segment.plus(i64::from(position));
                image.note((segment, position), Change::Cut { offset }, place);
                naive.note_cut(segment, position);
            } else {
                let bytes = vec![7; index_of(1 + rng.below(30))];
                let change = Change::Bytes {
                    leader_epoch: LeaderEpoch(1),
                    bytes: &bytes,
                };
                image.note((segment, position), change, place);
                let end = place + bytes.len() as u64;
                naive.note_bytes(segment, position, place..end);
                place = end;
            }
        }
        assert_eq!(bytes_of(&image), naive.segments, "seed {seed}");
        let void_from = image.segments.iter();
        let void_from = void_from.filter_map(|(base, image)| Some((*base, image.void_from?)));
        assert_eq!(void_from.collect::<BTreeMap<_, _>>(), naive.void_from);
        assert_eq!(image.cut.map(|cut| cut.segment), naive.cut, "seed {seed}");
    }
}

fn extent(position: u32, length: u32) -> Extent {
    Extent {
        position,
        length,
        place: 8192 + u64::from(position),
    }
}

/// Returns the image of parts: a segment, a position, and a length; 0 is a cut.
fn image(parts: &[(i64, u32, u32)]) -> LogImage {
    let mut image = LogImage::default();
    for &(segment, position, length) in parts {
        let bytes = vec![1; length as usize];
        let change = if length == 0 {
            let offset = Offset(segment + i64::from(position));
            Change::Cut { offset }
        } else {
            Change::Bytes {
                leader_epoch: LeaderEpoch(1),
                bytes: &bytes,
            }
        };
        let place = 8192 + u64::from(position);
        image.note((Offset(segment), position), change, place);
    }
    image
}

fn planned(parts: &[(i64, u32, u32)], found: &[(i64, u64)]) -> Result<LogPlan, RefusalReason> {
    let found = found.iter().map(|(base, len)| (Offset(*base), *len));
    plan(&image(parts), &found.collect())
}

fn one(segment: i64, found: Option<u64>, extents: Vec<Extent>) -> SegmentPlan {
    SegmentPlan {
        segment: Offset(segment),
        found,
        void_from: None,
        extents,
    }
}

#[test]
fn bytes_go_where_those_before_them_are() {
    let plan = planned(&[(0, 100, 50), (0, 150, 10)], &[(0, 120)]).unwrap();
    let expected = one(0, Some(120), vec![extent(100, 50), extent(150, 10)]);
    assert_eq!(plan.segments, [expected]);
    assert_eq!(plan.segments[0].length(), 160);
    // Room that was reserved, or what landed without being acknowledged, stays.
    let plan = planned(&[(0, 100, 50)], &[(0, 8192)]).unwrap();
    assert_eq!(plan.segments[0].length(), 8192);
    // Between two parts the log was appended to past the journal.
    planned(&[(0, 0, 10), (0, 500, 10)], &[(0, 500)]).unwrap();
}

#[test]
fn what_is_missing_before_the_parts_refuses_the_log() {
    let short = |segment, from, to| {
        let segment = Offset(segment);
        Err(RefusalReason::Short { segment, from, to })
    };
    assert_eq!(planned(&[(0, 100, 50)], &[(0, 99)]), short(0, 99, 100));
    assert_eq!(
        planned(&[(0, 0, 10), (0, 500, 10)], &[(0, 499)]),
        short(0, 499, 500)
    );
    assert_eq!(planned(&[(70, 1, 1)], &[(0, 70)]), short(70, 0, 1));
    assert_eq!(planned(&[(0, 1, 1)], &[]), short(0, 0, 1));
    // A cut says that what is before it was there.
    assert_eq!(planned(&[(0, 50, 0)], &[(0, 49)]), short(0, 49, 50));
    assert_eq!(
        planned(&[(0, 50, 0), (0, 50, 9)], &[(0, 20)]),
        short(0, 20, 50)
    );
    let text = short(7, 1, 2).unwrap_err().to_string();
    assert_eq!(
        text,
        "segment 7 ends at byte 1, and what the journal has begins at byte 2"
    );
}

#[test]
fn segments_behind_the_first_are_made_and_those_before_it_were_deleted() {
    let parts = [(0, 0, 10), (100, 0, 10), (200, 0, 10)];
    let plan = planned(&parts, &[(50, 7), (200, 3)]).unwrap();
    assert_eq!(plan.deleted, [Offset(0)]);
    let made: Vec<_> = plan.segments.iter().map(|one| one.found).collect();
    assert_eq!(made, [None, Some(3)]);
    let plan = planned(&parts[2..], &[(50, 7)]).unwrap();
    assert_eq!(plan.segments, [one(200, None, vec![extent(0, 10)])]);
    // Nothing says where a log without a segment begins but the ring.
    let plan = planned(&[(100, 0, 0), (100, 0, 10)], &[]).unwrap();
    assert_eq!(plan.segments.len(), 1);
}

#[test]
fn a_cut_ends_its_segment_and_removes_those_behind_it() {
    let parts = [(0, 90, 20), (100, 0, 5), (0, 60, 0), (0, 60, 4)];
    let plan = planned(&parts, &[(0, 110), (100, 5), (110, 0)]).unwrap();
    assert_eq!(plan.removed, [Offset(110), Offset(100)]);
    let (segment, offset) = (Offset(0), Offset(60));
    assert_eq!(plan.cut, Some(CutPlace { segment, offset }));
    let [only] = &plan.segments[..] else {
        panic!("{plan:?}");
    };
    assert_eq!((only.void_from, only.length()), (Some(60), 64));
    assert_eq!(only.extents, [extent(60, 4)]);
    // Behind the cut a segment of the same name is another one: nothing of the old one counts.
    let parts = [(0, 60, 0), (0, 60, 4), (64, 0, 9)];
    let plan = planned(&parts, &[(0, 110), (64, 900)]).unwrap();
    assert_eq!(plan.removed, []);
    let behind = &plan.segments[1];
    assert_eq!((behind.void_from, behind.length()), (Some(0), 9));
}

#[test]
fn where_the_segment_that_was_cut_was_deleted_nothing_is_removed() {
    let plan = planned(&[(0, 90, 20), (0, 60, 0)], &[(70, 0)]).unwrap();
    assert_eq!((plan.removed, plan.cut), (Vec::new(), None));
    assert_eq!(plan.deleted, [Offset(0)]);
}

#[test]
fn the_order_of_the_ring_is_that_from_its_head() {
    let size = small();
    let head = Position(5 * size.bytes() + 3 * BLOCK);
    let distance = |blocks: u64| size.distance(head, RING_START + blocks * BLOCK) / BLOCK;
    assert_eq!([3, 4, 15, 0, 2].map(distance), [0, 1, 12, 13, 15]);
}
