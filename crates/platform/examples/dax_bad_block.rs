//! Marks a block of a mapped file bad and sees who notices: `dax_bad_block DIR BAD_BLOCKS`, as
//! `tests/dax` runs it in a machine in software. DIR is on a DAX mount; `BAD_BLOCKS` is the
//! kernel's list of its device; the file system has all of it (`/sys/block/pmem0/badblocks`).
//! The block stays bad for as long as the machine runs.

#![allow(clippy::print_stdout, reason = "a tool prints")]
#![allow(clippy::unwrap_used, reason = "a tool may stop at the first error")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use platform::Platform;
use platform::buf::AlignedBuf;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, Open};
use platform::os::{EngineChoice, System};

const BLOCK: u64 = BLOCK_BYTES as u64;
const EIO: i32 = 5;

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(dir), Some(bad_blocks)) = (arguments.next(), arguments.next()) else {
        panic!("dax_bad_block DIR BAD_BLOCKS");
    };
    platform::runtime::run_shard(None, run(dir.join("bad"), bad_blocks)).unwrap();
    println!("bad block: told to those who touched it, and to nobody else");
}

async fn run(path: PathBuf, bad_blocks: PathBuf) {
    let system = System::start(EngineChoice::Auto).unwrap();
    let disk = system.disk();
    disk.use_dax(path.parent().unwrap(), false).await.unwrap();
    let file = disk.open(&path, Open::Create).await.unwrap();
    file.allocate(64 * BLOCK).await.unwrap();
    file.write_at(0, vec![blocks(64, 1)]).await.unwrap();
    file.sync().await.unwrap();
    drop(file);
    let sector = block_on_device(&path, 10) * (BLOCK / 512);
    std::fs::write(bad_blocks, format!("{sector} 8\n")).unwrap();
    // Mapped again, as by a process that starts.
    let file = disk.open(&path, Open::Write).await.unwrap();
    for (from, count) in [(10, 1), (0, 64), (10, 54)] {
        let read = file.read_at(from * BLOCK, count * BLOCK_BYTES).await;
        let code = read.err().and_then(|error| error.raw_os_error());
        assert_eq!(code, Some(EIO), "{count} blocks from {from}");
    }
    for (from, count) in [(0, 10), (11, 52)] {
        let read = file
            .read_at(from * BLOCK, count * BLOCK_BYTES)
            .await
            .unwrap();
        assert!(
            read.iter().all(|byte| *byte == 1),
            "{count} blocks from {from}"
        );
    }
    let written = file.write_at(10 * BLOCK, vec![blocks(1, 2)]).await;
    assert_eq!(written.unwrap_err().raw_os_error(), Some(EIO));
}

fn blocks(count: usize, byte: u8) -> Bytes {
    let mut buf = AlignedBuf::zeroed(count * BLOCK_BYTES);
    buf.fill(byte);
    buf.freeze()
}

/// Where a block of a file lies on the device of its file system.
#[allow(unsafe_code, reason = "a call that nobody has wrapped")]
fn block_on_device(path: &Path, index: u64) -> u64 {
    use std::os::fd::AsRawFd;
    const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b;
    let file = std::fs::File::open(path).unwrap();
    // `struct fiemap` with room for one extent: start, length, flags and count of the found, room
    // for extents; then the extent: logical, physical, length, and more.
    let mut map = [index * BLOCK, BLOCK, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: the call is given the address of such a structure, and writes into the one extent
    // that it has room for.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
    let failed = std::io::Error::last_os_error();
    assert!(
        result == 0 && map[2] >> 32 == 1,
        "{result}: {failed}, {map:?}"
    );
    let [logical, physical] = [map[4], map[5]];
    (physical + index * BLOCK - logical) / BLOCK
}
