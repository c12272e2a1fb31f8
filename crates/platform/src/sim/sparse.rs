//! The bytes of a simulated file, without memory for blocks never written.
//!
//! Invariant: bytes beyond the length are never kept, so an extension shows zeroes. Not here:
//! durability (`sim/content.rs`).

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::disk::BLOCK_BYTES;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Content by block; clones are cheap.
#[derive(Clone, Default)]
pub(super) struct SparseContent {
    len: u64,
    blocks: BTreeMap<u64, Rc<[u8; BLOCK_BYTES]>>,
}

impl SparseContent {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the number of written blocks.
    pub(super) fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns the number of blocks in a range that are not written.
    pub(super) fn missing_blocks(&self, position: u64, len: u64) -> u64 {
        let blocks = position / BLOCK..(position + len).div_ceil(BLOCK);
        let in_all = blocks.end - blocks.start;
        in_all - self.blocks.range(blocks).count() as u64
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.blocks.split_off(&len.div_ceil(BLOCK));
        let tail = as_index(len % BLOCK);
        if tail > 0
            && let Some(block) = self.blocks.get_mut(&(len / BLOCK))
        {
            Rc::make_mut(block)[tail..].fill(0);
        }
        self.len = len;
    }

    pub(super) fn write(&mut self, position: u64, mut bytes: &[u8]) {
        let mut at = position;
        while !bytes.is_empty() {
            let offset = as_index(at % BLOCK);
            let count = bytes.len().min(BLOCK_BYTES - offset);
            let (part, rest) = bytes.split_at(count);
            let block = self
                .blocks
                .entry(at / BLOCK)
                .or_insert_with(|| Rc::new([0; BLOCK_BYTES]));
            Rc::make_mut(block)[offset..offset + count].copy_from_slice(part);
            bytes = rest;
            at += count as u64;
        }
        // An empty write does not extend the file to its position.
        if at > position {
            self.len = self.len.max(at);
        }
    }

    /// Fills `into` from `position`, and returns the number of bytes that the file has there.
    pub(super) fn read(&self, position: u64, into: &mut [u8]) -> usize {
        let available = as_index(self.len.saturating_sub(position));
        let count = into.len().min(available);
        let mut done = 0;
        while done < count {
            let at = position + done as u64;
            let offset = as_index(at % BLOCK);
            let part = (count - done).min(BLOCK_BYTES - offset);
            let target = &mut into[done..done + part];
            match self.blocks.get(&(at / BLOCK)) {
                Some(block) => target.copy_from_slice(&block[offset..offset + part]),
                None => target.fill(0),
            }
            done += part;
        }
        count
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; as_index(self.len)];
        self.read(0, &mut bytes);
        bytes
    }

    /// Inverts one bit, if the file is long enough.
    pub(super) fn flip(&mut self, position: u64, bit: u8) {
        let mut byte = [0];
        if self.read(position, &mut byte) == 1 {
            self.write(position, &[byte[0] ^ (1 << (bit % 8))]);
        }
    }
}

/// Converts a position; those of simulated files fit the address space.
fn as_index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
