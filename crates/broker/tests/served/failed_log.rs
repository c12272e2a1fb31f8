//! An idempotent producer and a log whose disk has failed: every batch gets the disk's error, not
//! the sequence's.

use platform::sim::{Effect, Fault, OpKind, SimDisk};
use wire::types::ErrorCode;

use crate::harness::batches::produced;
use crate::harness::{Setup, life};

#[test]
fn batches_behind_one_that_a_failed_log_refused_are_not_called_out_of_order() {
    life(&SimDisk::new(1), &Setup::shards(1), async |cluster| {
        cluster.create("t", 1).await;
        let send = async |sequence| {
            let records = produced(7, 0, sequence, &["a"]);
            cluster.try_produce("t", 0, records).await
        };
        assert_eq!(send(0).await, Ok(0));
        let mut fault = Fault::at_kind(0, OpKind::Sync, Effect::Fail(std::io::ErrorKind::Other));
        fault.path_contains = Some("/t-0/".into());
        cluster.disk().inject(fault);
        // The first one is in the log and not safe, the second is not in the log: the third has a
        // gap before it. With that error a producer gives up its epoch and sends everything again.
        for sequence in 1..4 {
            assert_eq!(send(sequence).await, Err(ErrorCode::KafkaStorageError));
        }
    });
}
