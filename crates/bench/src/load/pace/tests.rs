//! Paces: every due byte is sent, none before its time, whatever the delays of broker and client.

use proptest::prelude::*;

use super::*;
use crate::spec::Rate;

fn constant(rate: f64) -> Arc<Schedule> {
    let schedule = Schedule::new(&Rate::Constant { rate }, 0.0).unwrap();
    Arc::new(schedule.unwrap())
}

fn cut(batch_bytes: u32, linger: f64) -> Cut {
    Cut {
        key_bytes: None,
        batch_bytes,
        linger,
    }
}

/// Takes whenever something is due, late by `delay` each time, until the end; returns all takes.
fn run(pace: &mut Pace, delay: f64) -> Vec<(f64, Take)> {
    let (mut now, mut all) = (0.0, Vec::new());
    loop {
        match pace.next(now) {
            ProducerStep::Now(take) => all.push((now, take)),
            ProducerStep::At(time) => {
                assert!(time > now, "{time} {now}");
                now = time + delay;
            }
            ProducerStep::Never => return all,
        }
    }
}

proptest! {
    #[test]
    fn all_that_is_due_is_sent_in_time(
        rate in 1e3..1e6f64, fixed: bool, batch_bytes in 100u32..20_000, linger in 0.0..0.2f64,
        delay in 0.0..0.3f64, part in 0.1..1.0f64,
    ) {
        let sizes = if fixed {
            spec::Sizes::Fixed(300)
        } else {
            spec::Sizes::Uniform { min: 10, max: 700 }
        };
        let end = 5.0;
        let schedule = constant(rate);
        let (sizes, cut) = (Sizes::new(&sizes, 1), cut(batch_bytes, linger));
        let mut pace = Pace::new(Some((schedule, part)), sizes, cut, end, 0.0);
        let all = run(&mut pace, delay);
        let mut bytes = 0.0;
        for (now, take) in &all {
            prop_assert!(take.first_due <= take.last_due && take.last_due <= *now + 1e-9);
            // The first record is due when all records before it are.
            prop_assert!((take.first_due - bytes / (rate * part)).abs() < 1e-6);
            prop_assert!(*now >= take.first_due);
            bytes += take.payload_bytes as f64;
        }
        // Everything due by the end was taken, however late; the last record is due before the end
        // and may extend past it.
        let all_due = rate * part * end;
        prop_assert!(bytes <= all_due + 700.0 + 1e-3, "{bytes} {all_due}");
        prop_assert!(bytes + 1e-3 >= all_due, "{bytes} {all_due}");
        prop_assert_eq!(pace.overdue(end), 0);
    }

    #[test]
    fn what_is_due_and_not_taken_is_counted(
        rate in 1e4..1e6f64, fixed: bool, taken in 0usize..20, until in 0.0..9.0f64,
    ) {
        let sizes = if fixed {
            spec::Sizes::Fixed(300)
        } else {
            spec::Sizes::Uniform { min: 300, max: 301 }
        };
        let end = 5.0;
        let sizes = Sizes::new(&sizes, 1);
        let mut pace = Pace::new(Some((constant(rate), 1.0)), sizes, cut(100, 0.0), end, 0.0);
        let mut sent = 0;
        for _ in 0..taken {
            if let ProducerStep::Now(take) = pace.next(until) {
                sent += u64::from(take.count);
            }
        }
        let due = rate * until.min(end) / 300.0;
        let all = (sent + pace.overdue(until)) as f64;
        prop_assert!((all - due).abs() <= 1.0 + due / 300.0, "{all} {due}");
    }
}

#[test]
fn without_linger_each_record_goes_alone_unless_late() {
    let sizes = Sizes::Fixed(1000);
    let mut pace = Pace::new(
        Some((constant(1e6), 1.0)),
        sizes,
        cut(64_000, 0.0),
        1.0,
        0.0,
    );
    let ProducerStep::Now(first) = pace.next(0.0) else {
        panic!("the first record is due at once");
    };
    assert_eq!((first.count, first.payload_bytes), (1, 1000));
    assert_eq!(pace.next(0.0), ProducerStep::At(0.001));
    // 9 ms late: the records due at 1, 2, .. 10 ms.
    let ProducerStep::Now(late) = pace.next(0.010) else {
        panic!("ten are due");
    };
    assert_eq!(late.count, 10);
    assert!((late.first_due - 0.001).abs() < 1e-9 && (late.last_due - 0.010).abs() < 1e-9);
}

#[test]
fn batches_wait_for_linger_or_until_they_are_full() {
    let lingering = |batch_bytes| {
        let cut = cut(batch_bytes, 0.005);
        Pace::new(
            Some((constant(1e6), 1.0)),
            Sizes::Fixed(1000),
            cut,
            1.0,
            0.0,
        )
    };
    assert_eq!(lingering(64_000).next(0.0), ProducerStep::At(0.005));
    // Three records fill a batch, and the third is due at 2 ms.
    assert_eq!(lingering(3_200).next(0.0), ProducerStep::At(0.002));
}

#[test]
fn a_closed_loop_gives_full_batches_at_any_time() {
    let mut pace = Pace::new(None, Sizes::Fixed(1000), cut(16_384, 1.0), 9.0, 0.0);
    let ProducerStep::Now(take) = pace.next(3.0) else {
        panic!("always due");
    };
    assert_eq!((take.count, take.first_due), (16, 3.0));
    assert_eq!(pace.full_count(), Some(16));
    let mut large = Pace::new(None, Sizes::Fixed(100_000), cut(16_384, 0.0), 9.0, 0.0);
    assert!(matches!(
        large.next(0.0),
        ProducerStep::Now(Take { count: 1, .. })
    ));
    assert_eq!(large.next(9.0), ProducerStep::Never);
}

#[test]
fn weights_are_kept() {
    let weights = vec![(10, 1.0), (20, 3.0)];
    let mut sizes = Sizes::new(&spec::Sizes::Weighted { weights }, 3);
    let drawn: Vec<u32> = (0..10_000).map(|_| sizes.draw()).collect();
    let large = drawn.iter().filter(|size| **size == 20).count();
    assert!((7_300..7_700).contains(&large), "{large}");
    assert!(drawn.iter().all(|size| [10, 20].contains(size)));
}
