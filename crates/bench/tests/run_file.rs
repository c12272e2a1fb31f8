//! The file a run leaves behind can be read again, by this version and later ones.

use bench::outcome::Run;

#[test]
fn a_run_is_read_as_it_was_written() {
    let text = include_str!("fixtures/run.json");
    let run: Run = serde_json::from_str(text).unwrap();
    assert_eq!(run.experiment, "car-ingest");
    let again: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(run, again);
}

#[test]
fn cells_of_the_sample_come_in_pairs() {
    let run: Run = serde_json::from_str(include_str!("fixtures/run.json")).unwrap();
    let alone = |cell: &&bench::outcome::Cell| {
        !run.cells.iter().any(|other| {
            other.target != cell.target
                && (
                    &other.phase,
                    &other.device,
                    &other.parameters,
                    other.repetition,
                ) == (&cell.phase, &cell.device, &cell.parameters, cell.repetition)
        })
    };
    assert_eq!(run.cells.iter().find(alone), None);
}
