//! Whether an open file takes writes that are durable when they complete (`RWF_DSYNC`).
//!
//! The kernel's first answer decides for all later writes: refused (an old kernel, some file
//! systems), a durable write is a write and a sync. Invariant: only an answer that says that
//! nothing was written counts as a refusal, and only before a durable write has completed. Not
//! here: the writes (`os/called.rs`).

use std::cell::Cell;
use std::io;

use rustix::io::Errno;

/// What holds when a write completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteKind {
    /// The kernel has the bytes.
    Plain,
    /// The bytes are durable (`RWF_DSYNC`); not every kernel and file system takes it.
    Durable,
}

/// What is known of a file.
#[derive(Default)]
pub(super) struct DurableWrites {
    /// `None` before the first answer.
    are_taken: Cell<Option<bool>>,
}

impl DurableWrites {
    /// Returns how a write of the wanted kind is made.
    pub(super) fn kind(&self, wanted: WriteKind) -> WriteKind {
        if self.are_taken.get() == Some(false) {
            WriteKind::Plain
        } else {
            wanted
        }
    }

    /// Notes that a write completed.
    pub(super) fn completed(&self, kind: WriteKind) {
        if kind == WriteKind::Durable && self.are_taken.get().is_none() {
            self.are_taken.set(Some(true));
        }
    }

    /// Returns true when an error only says that a write of this kind is not possible.
    pub(super) fn is_refused_by(&self, error: &io::Error, kind: WriteKind) -> bool {
        let codes = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS].map(Errno::raw_os_error);
        let is_refusal = error
            .raw_os_error()
            .is_some_and(|code| codes.contains(&code));
        if kind == WriteKind::Plain || !is_refusal || self.are_taken.get() == Some(true) {
            return false;
        }
        if self.are_taken.replace(Some(false)).is_none() {
            tracing::info!(%error, "no durable writes on this file system, syncing after each");
        }
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::rc::Rc;

    use super::super::called::CalledFile;
    use super::super::engine::{Engine, EngineChoice};
    use super::*;
    use crate::buf::{AlignedBuf, BufPool};
    use crate::disk::{BLOCK_BYTES, DiskFile};
    use crate::runtime::run_shard;

    /// The writes and syncs of an engine, and the error that durable writes get.
    #[derive(Default)]
    pub(in crate::os) struct WatchedEngine {
        seen: RefCell<Vec<&'static str>>,
        refused_with: Cell<Option<Errno>>,
        /// The number of syncs that fail.
        failing_syncs: Cell<u32>,
    }

    impl WatchedEngine {
        pub(in crate::os) fn write(&self, kind: WriteKind) -> io::Result<()> {
            let (name, refusal) = match kind {
                WriteKind::Plain => ("write", None),
                WriteKind::Durable => ("durable write", self.refused_with.get()),
            };
            self.seen.borrow_mut().push(name);
            refusal.map_or(Ok(()), |errno| Err(errno.into()))
        }

        pub(in crate::os) fn sync(&self) -> io::Result<()> {
            self.seen.borrow_mut().push("sync");
            let Some(left) = self.failing_syncs.get().checked_sub(1) else {
                return Ok(());
            };
            self.failing_syncs.set(left);
            Err(Errno::IO.into())
        }
    }

    fn file_of(engine: &Rc<Engine>) -> CalledFile {
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        let lane = engine.lanes.of(Path::new("/any"));
        let pool = BufPool::new(BLOCK_BYTES);
        CalledFile::new(Rc::clone(engine), lane, pool, file, false)
    }

    fn block(byte: u8) -> bytes::Bytes {
        let mut buf = AlignedBuf::zeroed(BLOCK_BYTES);
        buf.fill(byte);
        buf.freeze()
    }

    /// Writes a block durably, twice, then a plain one; returns what the engine did.
    fn write_twice(choice: EngineChoice, refused_with: Option<Errno>) -> Vec<&'static str> {
        let ran = run_shard(None, async {
            let engine = Rc::new(Engine::start(choice).unwrap());
            engine.watched.refused_with.set(refused_with);
            let file = file_of(&engine);
            for byte in [1, 2] {
                let position = u64::from(byte - 1) * BLOCK_BYTES as u64;
                let written = file.write_durably_at(position, vec![block(byte)]).await;
                if let Err(error) = written {
                    assert_eq!(error.raw_os_error(), refused_with.map(Errno::raw_os_error));
                    let after = file.write_at(0, vec![block(3)]).await.unwrap_err();
                    assert!(after.to_string().contains("latched"), "{after}");
                    return engine.watched.seen.take();
                }
            }
            file.write_at(2 * BLOCK_BYTES as u64, vec![block(3)])
                .await
                .unwrap();
            for byte in [1, 2, 3_u8] {
                let position = u64::from(byte - 1) * BLOCK_BYTES as u64;
                assert_eq!(file.read_at(position, 1).await.unwrap(), [byte][..]);
            }
            engine.watched.seen.take()
        });
        ran.unwrap()
    }

    #[test]
    fn a_write_is_durable_by_itself_where_the_kernel_takes_it() {
        for choice in [EngineChoice::Auto, EngineChoice::Threads] {
            let seen = write_twice(choice, None);
            assert_eq!(seen, ["durable write", "durable write", "write"]);
        }
    }

    #[test]
    fn where_it_is_refused_each_write_is_synced_and_the_kernel_is_asked_once() {
        for errno in [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS] {
            for choice in [EngineChoice::Auto, EngineChoice::Threads] {
                let seen = write_twice(choice, Some(errno));
                let expected = ["durable write", "write", "sync", "write", "sync", "write"];
                assert_eq!(seen, expected);
            }
        }
    }

    #[test]
    fn a_failure_is_no_refusal() {
        for errno in [Errno::IO, Errno::NOSPC] {
            assert_eq!(
                write_twice(EngineChoice::Threads, Some(errno)),
                ["durable write"]
            );
        }
    }

    /// The system tells a failure of writing back once: the other sync hears of nothing.
    #[test]
    fn what_was_under_way_when_the_file_failed_has_failed() {
        for choice in [EngineChoice::Auto, EngineChoice::Threads] {
            let ran = run_shard(None, async move {
                let engine = Rc::new(Engine::start(choice).unwrap());
                let file = file_of(&engine);
                engine.watched.failing_syncs.set(1);
                let (first, second) = tokio::join!(file.sync(), file.sync());
                assert_eq!(engine.watched.seen.take(), ["sync", "sync"]);
                assert_eq!(
                    first.unwrap_err().raw_os_error(),
                    Some(Errno::IO.raw_os_error())
                );
                let second = second.unwrap_err().to_string();
                assert!(second.contains("latched"), "{second}");

                let file = file_of(&engine);
                engine.watched.refused_with.set(Some(Errno::INVAL));
                engine.watched.failing_syncs.set(1);
                let (first, second) = tokio::join!(
                    file.write_durably_at(0, vec![block(1)]),
                    file.write_durably_at(BLOCK_BYTES as u64, vec![block(2)])
                );
                assert!(first.is_err() && second.is_err(), "{first:?} {second:?}");
            });
            ran.unwrap();
        }
    }

    #[test]
    fn what_was_taken_once_is_not_refused_later() {
        let writes = DurableWrites::default();
        writes.completed(WriteKind::Plain);
        assert_eq!(writes.kind(WriteKind::Durable), WriteKind::Durable);
        writes.completed(WriteKind::Durable);
        let error = Errno::INVAL.into();
        assert!(!writes.is_refused_by(&error, WriteKind::Durable));
        assert_eq!(writes.kind(WriteKind::Durable), WriteKind::Durable);
        let others = DurableWrites::default();
        assert!(!others.is_refused_by(&error, WriteKind::Plain));
        assert!(others.is_refused_by(&error, WriteKind::Durable));
        assert_eq!(others.kind(WriteKind::Durable), WriteKind::Plain);
    }
}
