//! Copies around the processor's cache, for bytes that go to the disk and are seldom read before.
//!
//! About twice as fast as a copy through the cache, which first reads the lines that it overwrites,
//! and evicts others.
//! Invariant: after the call, every thread that receives the memory sees the bytes, as after any
//! other copy.
#![allow(unsafe_code, reason = "instructions that the compiler does not choose")]

use std::ptr;

/// Fewer bytes are copied through the cache, where readers of the log's end find them.
const STREAMED_BYTES_MIN: usize = 32 << 10;

/// Does the same as `ptr::copy_nonoverlapping`.
///
/// # Safety
/// As for that function: `from` is valid for reads and `to` for writes of `len` bytes, and they do
/// not overlap.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: both copies require exactly what the caller guarantees.
    unsafe {
        if len >= STREAMED_BYTES_MIN {
            wide::copy(from, to, len);
        } else {
            ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// Other processors have such instructions too, but their gain was not measured.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod wide {
    pub(super) use std::ptr::copy_nonoverlapping as copy;
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    use std::ptr;

    /// Bytes of a cache line: streaming stores are fast when they fill whole lines.
    const LINE_BYTES: usize = 64;
    const STEP_BYTES: usize = 16;
    const _: () = assert!(LINE_BYTES == 4 * STEP_BYTES, "a line is four steps");

    /// Never inlined: its loop is then the same in every build.
    ///
    /// # Safety
    /// As `ptr::copy_nonoverlapping`.
    #[inline(never)]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        let head = to.align_offset(LINE_BYTES).min(len);
        let body = (len - head) - (len - head) % LINE_BYTES;
        // SAFETY: head, body and the rest are adjacent and make up `len` bytes, which the caller
        // guarantees. Streaming stores need a target aligned to 16 bytes: it is the start of a line
        // plus a multiple of 16. Every x86-64 processor has these instructions (SSE2). The fence
        // orders the stores before the operation that publishes the bytes.
        unsafe {
            ptr::copy_nonoverlapping(from, to, head);
            let done = head + body;
            let mut line = head;
            while line < done {
                let (from, to) = (from.add(line), to.add(line));
                let first = _mm_loadu_si128(from.cast());
                let second = _mm_loadu_si128(from.add(STEP_BYTES).cast());
                let third = _mm_loadu_si128(from.add(2 * STEP_BYTES).cast());
                let fourth = _mm_loadu_si128(from.add(3 * STEP_BYTES).cast());
                _mm_stream_si128(to.cast(), first);
                _mm_stream_si128(to.add(STEP_BYTES).cast(), second);
                _mm_stream_si128(to.add(2 * STEP_BYTES).cast(), third);
                _mm_stream_si128(to.add(3 * STEP_BYTES).cast(), fourth);
                line += LINE_BYTES;
            }
            ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done);
            _mm_sfence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies `len` bytes between places of these alignments, and checks the surrounding bytes too.
    fn copied(from_at: usize, to_at: usize, len: usize) {
        let source: Vec<u8> = (0..=250_u8).cycle().take(from_at + len).collect();
        let mut target = vec![0xff; to_at + len + 64];
        // SAFETY: both are long enough and different allocations.
        unsafe {
            copy(
                source.as_ptr().add(from_at),
                target.as_mut_ptr().add(to_at),
                len,
            );
        };
        assert_eq!(target[to_at..to_at + len], source[from_at..]);
        let around = target[..to_at].iter().chain(&target[to_at + len..]);
        assert!(around.into_iter().all(|byte| *byte == 0xff), "wrote beside");
    }

    #[test]
    fn every_alignment_and_length_is_copied_exactly() {
        for at in 0..65 {
            copied(at, 0, STREAMED_BYTES_MIN + at);
            copied(0, at, STREAMED_BYTES_MIN + 3 * at);
            copied(at, 64 - at, STREAMED_BYTES_MIN - at);
        }
        copied(1, 2, 0);
        copied(0, 0, 1);
        copied(13, 61, (1 << 20) + 61);
    }
}
