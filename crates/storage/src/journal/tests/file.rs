//! A ring's file, written as the broker writes it, without a crash.

use super::*;

/// Returns a part with bytes of its log's number.
pub(super) fn bytes_of(number: u128, position: u32, len: usize) -> WrittenPart {
    let fill = u8::try_from(number).unwrap();
    WrittenPart::bytes(log(number), position, vec![fill; len])
}

/// A ring's file, written as the broker writes it.
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) ring: Ring,
    pub(super) headers: [Header; 2],
}

impl File {
    pub(super) fn new(end: Head) -> Self {
        let (ring, headers) = opened(end);
        Self {
            bytes: vec![0; index_of(small().file_bytes())],
            ring,
            headers,
        }
    }

    /// Starts with headers that reserve so much, or less where the ring is full.
    pub(super) fn reserving(end: Head, bytes: u64) -> Self {
        let (ring, headers) = opened_reserving(end, bytes);
        Self {
            bytes: vec![0; index_of(small().file_bytes())],
            ring,
            headers,
        }
    }

    pub(super) fn newest(&self) -> &Header {
        &self.headers[1]
    }

    /// Returns the place and the blocks of a commit, and writes the skip mark before it.
    pub(super) fn reserve(
        &mut self,
        written: &[WrittenPart],
    ) -> Result<(Sequence, usize, Vec<u8>), Refusal> {
        let mut reserved = reserve(&mut self.ring, written);
        if reserved == Err(Refusal::Unreserved) {
            self.write_headers();
            reserved = reserve(&mut self.ring, written);
        }
        let reserved = reserved?;
        if let Some((stamp, skipped)) = reserved.skip {
            self.put(
                index_of(small().place(stamp.position)),
                &skip_block(stamp, skipped),
            );
            self.ring.synced(stamp.sequence);
        }
        let place = index_of(small().place(reserved.stamp.position));
        Ok((
            reserved.stamp.sequence,
            place,
            blocks(reserved.stamp, written),
        ))
    }

    pub(super) fn put(&mut self, place: usize, bytes: &[u8]) {
        self.bytes[place..place + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn commit(&mut self, written: &[WrittenPart]) -> Result<(Sequence, usize), Refusal> {
        let (sequence, place, blocks) = self.reserve(written)?;
        self.put(place, &blocks);
        self.ring.synced(sequence);
        Ok((sequence, place))
    }

    pub(super) fn land_all(&mut self) {
        while let Some(log) = self.ring.next_to_land() {
            let landing = self.ring.begin_landing(log).expect("all is durable");
            self.ring.end_landing(landing);
        }
        self.write_headers();
    }

    fn write_headers(&mut self) {
        while let Some(header) = self.ring.begin_header() {
            self.ring.header_synced();
            self.headers.rotate_left(1);
            self.headers[1] = header;
        }
    }
}
