//! A ledger over several runs, killed in between.

use super::*;

fn topics(count: u32) -> Topics {
    Topics {
        prefix: "t".to_owned(),
        count,
        partitions: 4,
        replication: 1,
        configs: BTreeMap::new(),
        existing: false,
    }
}

fn piece(producer: u32, partition: u32, first: u64, last: u64) -> AcknowledgedRange {
    let place = PartitionPlace {
        topic: 0,
        partition,
    };
    AcknowledgedRange {
        stream: Stream { place, producer },
        first,
        last,
    }
}

fn held(ledger: &mut Ledger) -> Vec<(Stream, Vec<(u64, u64)>)> {
    let all = ledger.take_acknowledged();
    all.iter()
        .map(|(stream, numbers)| (*stream, numbers.ranges().collect()))
        .collect()
}

#[test]
fn runs_add_up_and_no_number_of_a_run_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let mut ledger = Ledger::open(&path, &topics(1), 42).unwrap();
    assert_eq!(ledger.begin_run(1).unwrap(), 1);
    ledger
        .write(&[piece(0, 3, 10, 19), piece(1, 3, 5, 5)])
        .unwrap();
    drop(ledger);
    // Killed before anything of the second run was acknowledged.
    let mut ledger = Ledger::open(&path, &topics(1), 43).unwrap();
    assert_eq!(ledger.begin_run(2).unwrap(), 2);
    drop(ledger);
    let mut ledger = Ledger::open(&path, &topics(1), 44).unwrap();
    assert_eq!(ledger.begin_run(3).unwrap(), 3);
    ledger.write(&[piece(0, 3, 20, 29)]).unwrap();
    drop(ledger);
    let mut ledger = Ledger::existing(&path).unwrap();
    assert_eq!(ledger.subject().id, 42);
    assert_eq!(
        held(&mut ledger),
        [
            (piece(0, 3, 0, 0).stream, vec![(10, 29)]),
            (piece(1, 3, 0, 0).stream, vec![(5, 5)])
        ]
    );
}

#[test]
fn half_a_line_at_the_end_is_forgotten_at_every_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let mut ledger = Ledger::open(&path, &topics(1), 42).unwrap();
    ledger.begin_run(1).unwrap();
    ledger.write(&[piece(0, 0, 0, 9)]).unwrap();
    let kept = std::fs::metadata(&path).unwrap().len();
    ledger.write(&[piece(0, 0, 10, 19)]).unwrap();
    drop(ledger);
    let text = std::fs::read(&path).unwrap();
    for cut in usize::try_from(kept).unwrap()..text.len() {
        std::fs::write(&path, &text[..cut]).unwrap();
        let mut ledger = Ledger::open(&path, &topics(1), 42).unwrap();
        ledger.write(&[piece(0, 0, 30, 30)]).unwrap();
        drop(ledger);
        let mut ledger = Ledger::existing(&path).unwrap();
        assert_eq!(held(&mut ledger)[0].1, [(0, 9), (30, 30)], "cut at {cut}");
    }
}

#[test]
fn what_is_no_ledger_or_another_loads_or_in_use_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let said = |result: anyhow::Result<Ledger>| format!("{:#}", result.unwrap_err());
    assert!(said(Ledger::existing(&path)).contains("No such file"));
    let open = Ledger::open(&path, &topics(1), 42).unwrap();
    assert!(said(Ledger::existing(&path)).ends_with("another run is using it"));
    drop(open);
    let other = said(Ledger::open(&path, &topics(2), 42));
    assert!(
        other.ends_with("is of 1 topics \"t..\" with 4 partitions, this load has 2 topics \"t..\" with 4 partitions"),
        "{other}"
    );
    std::fs::write(&path, "{\"acknowledged\":[0,0,0,0,0]}\n").unwrap();
    assert!(
        said(Ledger::existing(&path)).ends_with("line 1: a ledger begins with what it verifies")
    );
    std::fs::write(&path, "hello\n").unwrap();
    assert!(said(Ledger::existing(&path)).contains("line 1: not a line of a ledger"));
}
