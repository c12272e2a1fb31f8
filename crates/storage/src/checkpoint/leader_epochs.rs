//! `leader-epoch-checkpoint` in a partition's directory: the start offset of each leader epoch of a
//! log.

use std::path::Path;

use wire::types::{LeaderEpoch, Offset};

use super::{MalformedFileError, lines};
use crate::log::epoch_cache::EpochStart;

/// Name of the file.
pub const FILE: &str = "leader-epoch-checkpoint";

/// Reads the file.
///
/// Epochs and offsets must increase from entry to entry.
pub fn parse(file: &Path, bytes: &[u8]) -> Result<Vec<EpochStart>, MalformedFileError> {
    let mut epochs: Vec<EpochStart> = Vec::new();
    for entry in lines::entries(file, bytes)? {
        let [epoch, start] = entry.fields("epoch and start offset")?;
        let next = EpochStart {
            epoch: LeaderEpoch(entry.number(epoch, 0, "an epoch from 0 on")?),
            start: Offset(entry.number(start, 0, "an offset from 0 on")?),
        };
        if epochs
            .last()
            .is_some_and(|last| next.epoch <= last.epoch || next.start <= last.start)
        {
            return Err(entry.malformed("a larger epoch and offset than before"));
        }
        epochs.push(next);
    }
    Ok(epochs)
}

/// Returns the bytes of the file.
pub fn encode(epochs: &[EpochStart]) -> Vec<u8> {
    lines::file(
        epochs
            .iter()
            .map(|entry| format!("{} {}", entry.epoch, entry.start)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_that_do_not_grow_are_refused() {
        let parse = |text: &str| parse(Path::new("f"), text.as_bytes());
        let text = "0\n2\n0 0\n3 17\n";
        assert_eq!(
            parse(text).map(|epochs| encode(&epochs)),
            Ok(text.as_bytes().to_vec())
        );
        for bad in ["0\n2\n3 0\n3 17\n", "0\n2\n0 17\n3 17\n"] {
            assert_eq!(parse(bad).map_err(|error| error.line), Err(4), "{bad:?}");
        }
        assert_eq!(parse("0\n1\n-1 0\n").map_err(|error| error.line), Err(3));
    }
}
