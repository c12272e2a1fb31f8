//! The `io_uring` engine: one ring per shard, driven by two local tasks.
//!
//! Calls queue requests; the submitting task wakes once for all requests queued in one turn of the
//! shard, and submits them with one system call. The completing task sleeps on an eventfd.
//! Invariants: everything that the kernel may access (buffers, vector of parts, file) is owned by
//! the slot of its request until the completion is seen, even when the future is dropped; requests
//! in flight never exceed the completion queue; the ring is dropped only after the last completion.
//! Not here: retries, and limits per directory (`os/lanes.rs`).
#![allow(unsafe_code, reason = "hands addresses to the kernel")]

mod slots;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::durable::WriteKind;
use super::lanes::Places;
use super::turns::Turn;
use crate::buf::AlignedBuf;
use crate::disk::IoClass;
use slots::{Key, RequestResources, Slots};

/// Maximum number of requests submitted at once.
const SUBMISSIONS_MAX: u32 = 128;

/// Maximum requests in flight: enough for several hanging directories and others.
const IN_FLIGHT_MAX: u32 = 1024;

/// Number of kernel workers when the kernel does not report it.
const WORKERS_DEFAULT: usize = 8;

/// Maximum length of one transfer; the kernel's limit is a page less than 2 GiB.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// A read into at least this many bytes of new memory goes directly to a kernel worker. Before a
/// direct read, the kernel allocates and clears the pages in the submitting thread: many such reads
/// in one turn would block the shard for hundreds of milliseconds.
const NEW_BYTES_MAX: usize = 256 << 10;

/// Pause after the kernel refused requests for a lasting reason.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// Confines the kernel workers of a ring to the CPUs of the process.
///
/// They do not inherit the CPUs of the thread that creates the ring.
fn keep_workers(ring: &IoUring) {
    let kept = crate::cpus::allowed().and_then(|cpus| {
        // SAFETY: a set of CPUs is an array of numbers, and all zeros is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in cpus
            .into_iter()
            .filter(|cpu| *cpu < libc::CPU_SETSIZE as usize)
        {
            // SAFETY: the CPU is within the set.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        ring.submitter().register_iowq_aff(&set)
    });
    if let Err(error) = kept {
        // Kernels before 5.14 lack the call; the workers then run on any CPU.
        tracing::debug!(%error, "the workers of a ring are not confined to the CPUs of the process");
    }
}

/// A shard's ring and the tasks that drive it.
pub(super) struct Ring {
    core: Rc<RingCore>,
    tasks: [AbortHandle; 2],
}

/// The state that calls and tasks share.
struct RingCore {
    ring: RefCell<IoUring>,
    slots: RefCell<Slots>,
    /// Requests not submitted yet.
    queue: RefCell<VecDeque<squeue::Entry>>,
    in_flight: Cell<usize>,
    in_flight_max: usize,
    queued: Notify,
}

impl Ring {
    /// Sets up a ring; an error names the reason why this machine cannot.
    pub(super) fn start() -> io::Result<Self> {
        let explain =
            |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
        let ring = IoUring::builder()
            .dontfork()
            .setup_cqsize(IN_FLIGHT_MAX)
            .build(SUBMISSIONS_MAX)
            .map_err(|error| explain("io_uring_setup", error))?;
        let mut probe = Probe::new();
        let submitter = ring.submitter();
        submitter
            .register_probe(&mut probe)
            .map_err(|error| explain("io_uring probe", error))?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
        ];
        if !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's io_uring lacks operations",
            ));
        }
        keep_workers(&ring);
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        submitter
            .register_eventfd(event.as_raw_fd())
            .map_err(|error| explain("io_uring eventfd", error))?;
        // SAFETY: an `OwnedFd` keeps the same descriptor open, and the `AsyncFd` owns it.
        let event = unsafe { AsyncFd::register_with_interest(event, Interest::READABLE)? };
        let core = Rc::new(RingCore {
            in_flight_max: ring.params().cq_entries() as usize,
            ring: RefCell::new(ring),
            slots: RefCell::default(),
            queue: RefCell::default(),
            in_flight: Cell::new(0),
            queued: Notify::new(),
        });
        let submitting = tokio::task::spawn_local(submit_forever(Rc::downgrade(&core)));
        let completing = tokio::task::spawn_local(complete_forever(Rc::downgrade(&core), event));
        Ok(Self {
            core,
            tasks: [submitting.abort_handle(), completing.abort_handle()],
        })
    }

    pub(super) async fn write(
        &self,
        file: &Arc<OwnedFd>,
        class: IoClass,
        position: u64,
        parts: Vec<Bytes>,
        kind: WriteKind,
        places: Places,
    ) -> io::Result<usize> {
        let priority = priority_of(class);
        let flags = match kind {
            WriteKind::Plain => 0,
            WriteKind::Durable => libc::RWF_DSYNC,
        };
        let fd = Fd(file.as_raw_fd());
        let (kept, entry) = if let [part] = parts.as_slice() {
            let len = transfer_len(part.len());
            let entry = opcode::Write::new(fd, part.as_ptr(), len);
            let entry = entry.offset(position).ioprio(priority).rw_flags(flags);
            (RequestResources::parts(file, parts, places), entry.build())
        } else {
            let kept = RequestResources::parts(file, parts, places);
            let (vector, count) = kept.vector();
            let entry = opcode::Writev::new(fd, vector.cast(), count);
            let entry = entry.offset(position).ioprio(priority).rw_flags(flags);
            (kept, entry.build())
        };
        let (count, _) = self.core.perform(entry, kept).await?;
        Ok(count)
    }

    pub(super) async fn read(
        &self,
        file: &Arc<OwnedFd>,
        class: IoClass,
        position: u64,
        mut buf: AlignedBuf,
        part: Range<usize>,
        kept: (Turn, Places),
    ) -> io::Result<(usize, AlignedBuf)> {
        let is_slow = is_slow(&buf);
        let target = &mut buf[part];
        let len = transfer_len(target.len());
        let mut entry = opcode::Read::new(Fd(file.as_raw_fd()), target.as_mut_ptr(), len)
            .offset(position)
            .ioprio(priority_of(class))
            .build();
        if is_slow {
            entry = entry.flags(squeue::Flags::ASYNC);
        }
        let (count, kept) = self
            .core
            .perform(entry, RequestResources::buf(file, buf, kept))
            .await?;
        let buf = kept
            .into_buf()
            .ok_or_else(|| io::Error::other("read lost its buffer"))?;
        Ok((count, buf))
    }

    pub(super) async fn sync(&self, file: &Arc<OwnedFd>, places: Places) -> io::Result<()> {
        let entry = opcode::Fsync::new(Fd(file.as_raw_fd()))
            .flags(FsyncFlags::DATASYNC)
            .build();
        let kept = RequestResources::file(file, places);
        self.core.perform(entry, kept).await.map(drop)
    }

    pub(super) async fn allocate(
        &self,
        file: &Arc<OwnedFd>,
        len: u64,
        places: Places,
    ) -> io::Result<()> {
        let entry = opcode::Fallocate::new(Fd(file.as_raw_fd()), len).build();
        let kept = RequestResources::file(file, places);
        self.core.perform(entry, kept).await.map(drop)
    }

    /// Returns the number of kernel workers for requests that cannot complete at once.
    pub(super) fn workers(&self) -> usize {
        let ring = self.core.ring.borrow();
        // Zeros only query.
        let mut workers = [0, 0];
        let asked = ring.submitter().register_iowq_max_workers(&mut workers);
        let bounded = usize::try_from(workers[0]).unwrap_or(0);
        if asked.is_ok() && bounded > 0 {
            bounded
        } else {
            WORKERS_DEFAULT
        }
    }

    /// Sets the maximum number of kernel workers.
    pub(super) fn allow_workers(&self, count: usize) {
        let ring = self.core.ring.borrow();
        let mut workers = [u32::try_from(count).unwrap_or(u32::MAX), 0];
        if let Err(error) = ring.submitter().register_iowq_max_workers(&mut workers) {
            tracing::warn!(%error, "io_uring keeps its number of workers: directories that hang may hold up others");
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Returns true for a read that goes to a kernel worker.
pub(super) fn is_slow(buf: &AlignedBuf) -> bool {
    buf.is_new() && buf.len() >= NEW_BYTES_MAX
}

/// Returns the priority as for `ioprio_set(2)`.
///
/// 0 is that of the process; the idle class is 3, in the upper three of sixteen bits.
fn priority_of(class: IoClass) -> u16 {
    match class {
        IoClass::Foreground => 0,
        IoClass::Background => 3 << 13,
    }
}

fn transfer_len(len: usize) -> u32 {
    u32::try_from(len.min(TRANSFER_BYTES_MAX)).unwrap_or(u32::MAX)
}

impl RingCore {
    /// Queues a request and waits for its result.
    ///
    /// If the future is dropped early, the request continues.
    async fn perform(
        self: &Rc<Self>,
        entry: squeue::Entry,
        kept: RequestResources,
    ) -> io::Result<(usize, RequestResources)> {
        let key = self.slots.borrow_mut().insert(kept);
        let entry = entry.user_data(key.as_user_data());
        self.queue.borrow_mut().push_back(entry);
        self.queued.notify_one();
        let waiting = CompletionFuture {
            core: self,
            key: Some(key),
        };
        let (result, kept) = waiting.await;
        match usize::try_from(result) {
            Ok(count) => Ok((count, kept)),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        }
    }

    /// Submits as many queued requests as there is room for.
    fn submit(&self) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        let mut queue = self.queue.borrow_mut();
        loop {
            let mut submissions = ring.submission();
            while self.in_flight.get() < self.in_flight_max
                && let Some(entry) = queue.front()
            {
                // SAFETY: everything that the entry points to belongs to its slot, which stays
                // until its completion is reaped.
                if unsafe { submissions.push(entry) }.is_err() {
                    break;
                }
                self.in_flight.set(self.in_flight.get() + 1);
                queue.pop_front();
            }
            let waiting = submissions.len();
            drop(submissions);
            if waiting == 0 {
                return Ok(());
            }
            ring.submit()?;
        }
    }

    /// Takes completions and wakes their waiters.
    fn reap(&self) {
        loop {
            let completed: Vec<(u64, i32)> = {
                let mut ring = self.ring.borrow_mut();
                let entries = ring.completion();
                entries
                    .map(|entry| (entry.user_data(), entry.result()))
                    .collect()
            };
            if completed.is_empty() {
                return;
            }
            self.in_flight.set(self.in_flight.get() - completed.len());
            for (user_data, result) in completed {
                let key = Key::of_user_data(user_data);
                let left_over = self.slots.borrow_mut().complete(key, result);
                // Outside the borrow, because waking and dropping buffers run foreign code.
                left_over.settle();
            }
        }
    }

    /// Submits and reaps, and returns when to run again.
    fn turn(&self) -> NextRun {
        let submitted = self.submit();
        self.reap();
        let Err(error) = submitted else {
            let room = self.in_flight.get() < self.in_flight_max;
            return if room && !self.queue.borrow().is_empty() {
                NextRun::Again
            } else {
                NextRun::Wait
            };
        };
        let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY].map(Errno::raw_os_error);
        if error
            .raw_os_error()
            .is_some_and(|code| passing.contains(&code))
        {
            return NextRun::Again;
        }
        tracing::error!(%error, "io_uring takes no requests");
        let refused: Vec<_> = self.queue.borrow_mut().drain(..).collect();
        for entry in refused {
            let key = Key::of_user_data(entry.get_user_data());
            let code = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            let left_over = self.slots.borrow_mut().complete(key, -code);
            left_over.settle();
        }
        NextRun::Later
    }
}

/// When the submitting task must run again.
enum NextRun {
    /// When a request is queued.
    Wait,
    /// After the other tasks had their turn.
    Again,
    /// After a pause: the kernel refused.
    Later,
}

impl Drop for RingCore {
    fn drop(&mut self) {
        // The kernel may still write to buffers of the slots. Wait for it, even if the shutdown
        // takes that long.
        self.queue.get_mut().clear();
        while self.in_flight.get() > 0 {
            let waited = self.ring.get_mut().submit_and_wait(1);
            self.reap();
            if let Err(error) = waited
                && error.raw_os_error() != Some(Errno::INTR.raw_os_error())
            {
                tracing::error!(%error, "cannot wait for io_uring, leaving its buffers allocated");
                std::mem::forget(self.slots.take());
                return;
            }
        }
    }
}

/// A future that waits for a completion.
///
/// If it is dropped early, it leaves the slot to the completion.
struct CompletionFuture<'a> {
    core: &'a Rc<RingCore>,
    /// `None` once the slot has been taken.
    key: Option<Key>,
}

impl Future for CompletionFuture<'_> {
    type Output = (i32, RequestResources);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key.expect("not polled after completion");
        let polled = self.core.slots.borrow_mut().poll(key, context.waker());
        if polled.is_ready() {
            self.key = None;
        }
        polled
    }
}

impl Drop for CompletionFuture<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let left_over = self.core.slots.borrow_mut().abandon(key);
            left_over.settle();
        }
    }
}

async fn submit_forever(core: Weak<RingCore>) {
    while let Some(core) = core.upgrade() {
        // Holding the ring while waiting is safe: its owner aborts this task.
        match core.turn() {
            NextRun::Wait => core.queued.notified().await,
            NextRun::Again => tokio::task::yield_now().await,
            NextRun::Later => tokio::time::sleep(REFUSED_PAUSE).await,
        }
    }
}

async fn complete_forever(core: Weak<RingCore>, event: AsyncFd<OwnedFd>) {
    loop {
        match event.readable().await {
            Ok(mut ready) => {
                let mut count = [0; 8];
                // An empty eventfd only means that the completions were already reaped.
                let _ = rustix::io::read(event.get_ref(), &mut count);
                ready.clear_ready();
            }
            Err(error) => {
                tracing::error!(%error, "cannot wait for io_uring completions");
                return;
            }
        }
        let Some(core) = core.upgrade() else { return };
        core.reap();
        if !core.queue.borrow().is_empty() {
            core.queued.notify_one();
        }
    }
}
