//! Mapped files: what readers see while the file goes on, and what happens when the medium fails.
//! Emulated, on the file system of the build; on a real DAX mount where one is named (see below).
#![allow(clippy::unwrap_used, reason = "a test")]

use std::future::Future;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use platform::buf::AlignedBuf;
use platform::disk::{BLOCK_BYTES, Disk, DiskFile, Medium, Open};
use platform::os::{EngineChoice, System, SystemFile};
use platform::runtime::run_shard;
use platform::{Error, Platform};

const BLOCK: u64 = BLOCK_BYTES as u64;
const EIO: i32 = 5;
const EFAULT: i32 = 14;
const SIGBUS: i32 = 7;

/// Names a directory on a DAX mount, for those who have one: the tests then run there.
const DIR_VARIABLE: &str = "FOREBAY_TEST_DAX_DIR";

fn on_dax<F: Future<Output = ()>>(test: impl Fn(System, PathBuf) -> F) {
    let real = std::env::var_os(DIR_VARIABLE).map(PathBuf::from);
    let root = real
        .clone()
        .unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let dir = tempfile::tempdir_in(root).unwrap();
    let ran = run_shard(None, async {
        let system = System::start(EngineChoice::Threads).unwrap();
        let medium = system.disk().use_dax(dir.path(), real.is_none()).await;
        let emulated = real.is_none();
        assert_eq!(medium.unwrap(), Medium::Dax { emulated });
        test(system, dir.path().to_owned()).await;
    });
    ran.unwrap();
}

fn blocks(count: usize, byte: u8) -> Bytes {
    let mut buf = AlignedBuf::zeroed(count * BLOCK_BYTES);
    buf.fill(byte);
    buf.freeze()
}

fn log(dir: &Path) -> PathBuf {
    dir.join("00000000000000000000.log")
}

async fn create(system: &System, dir: &Path) -> SystemFile {
    system.disk().open(&log(dir), Open::Create).await.unwrap()
}

/// As another program would that does not know of us.
fn cut_from_outside(dir: &Path, len: u64) {
    let file = std::fs::File::options().write(true).open(log(dir));
    file.unwrap().set_len(len).unwrap();
}

#[test]
fn a_mount_that_is_not_dax_is_refused_by_name_unless_nothing_is_expected_of_it() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let ran = run_shard(None, async {
        let system = System::start(EngineChoice::Threads).unwrap();
        let disk = system.disk();
        let refusal = disk.use_dax(dir.path(), false).await.unwrap_err();
        assert!(matches!(refusal, Error::NotDax { .. }));
        let said = refusal.to_string();
        assert!(said.contains(&dir.path().display().to_string()), "{said}");
        assert!(
            said.contains("MAP_SYNC") && said.contains("dax=always"),
            "{said}"
        );
        assert_eq!(disk.medium(dir.path()), Medium::File);
        let emulated = disk.use_dax(dir.path(), true).await.unwrap();
        assert_eq!(emulated, Medium::Dax { emulated: true });
        assert_eq!(disk.medium(&log(dir.path())), emulated);
        assert_eq!(disk.medium(Path::new("/")), Medium::File);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "the trial leaves a file"
        );
    });
    ran.unwrap();
}

#[test]
fn what_is_written_is_in_the_file_and_in_the_slices() {
    on_dax(|system, dir| async move {
        let file = create(&system, &dir).await;
        file.write_at(0, vec![blocks(1, 1)]).await.unwrap();
        file.allocate(64 * BLOCK).await.unwrap();
        file.write_at(BLOCK, vec![blocks(2, 2), blocks(70, 3)])
            .await
            .unwrap();
        file.sync().await.unwrap();
        assert_eq!(file.len().await.unwrap(), 73 * BLOCK);
        let bytes = std::fs::read(log(&dir)).unwrap();
        for (position, byte) in bytes.iter().enumerate() {
            let expected = [1, 2, 2, 3][(position / BLOCK_BYTES).min(3)];
            assert_eq!(*byte, expected, "at {position}");
        }
        for (from, len) in [(0, 10), (4095, 2), (5000, 200_000), (290_000, 100_000)] {
            let read = file.read_at(from as u64, len).await.unwrap();
            assert!(
                read == bytes[from..bytes.len().min(from + len)],
                "{from} {len}"
            );
            drop(read);
        }
        let read = file
            .read_into(BLOCK, AlignedBuf::zeroed(2 * BLOCK_BYTES))
            .await
            .unwrap();
        assert_eq!(read[..], bytes[BLOCK_BYTES..3 * BLOCK_BYTES]);
    });
}

#[test]
fn slices_are_of_the_mapping_and_outlive_the_file() {
    on_dax(|system, dir| async move {
        let file = create(&system, &dir).await;
        file.write_at(0, vec![blocks(3, 1)]).await.unwrap();
        let (one, other) = (
            file.read_at(100, 5000).await.unwrap(),
            file.read_at(100, 10).await.unwrap(),
        );
        assert_eq!(one.as_ptr(), other.as_ptr(), "copied");
        // The last block may be written again, with more in it.
        let last = file.read_at(2 * BLOCK, 10).await.unwrap();
        assert_ne!(
            last.as_ptr(),
            one.as_ptr().wrapping_add(2 * BLOCK_BYTES - 100)
        );
        drop(file);
        system.disk().remove_file(&log(&dir)).await.unwrap();
        assert_eq!(one, [1; 5000][..]);
        assert_eq!(last, [1; 10][..]);
    });
}

#[test]
fn readers_keep_what_they_have_when_the_file_is_cut_and_written_anew() {
    on_dax(|system, dir| async move {
        let file = create(&system, &dir).await;
        file.allocate(600 * BLOCK).await.unwrap();
        file.write_at(0, vec![blocks(600, 1)]).await.unwrap();
        drop(file);
        // A sealed segment is opened for reading, and by another handle to be cut.
        let disk = system.disk();
        let reading = disk.open(&log(&dir), Open::Read).await.unwrap();
        let all = reading.read_at(0, 600 * BLOCK_BYTES).await.unwrap();
        let within = reading.read_at(BLOCK + 7, BLOCK_BYTES).await.unwrap();
        let writing = disk.open(&log(&dir), Open::Write).await.unwrap();
        writing.set_len(2 * BLOCK + 5).await.unwrap();
        writing.sync().await.unwrap();
        assert!(all.iter().all(|byte| *byte == 1));
        assert_eq!(reading.len().await.unwrap(), 2 * BLOCK + 5);
        writing.write_at(BLOCK, vec![blocks(1, 2)]).await.unwrap();
        writing
            .write_at(2 * BLOCK, vec![blocks(500, 3)])
            .await
            .unwrap();
        assert!(all.iter().all(|byte| *byte == 1));
        assert!(within.iter().all(|byte| *byte == 1));
        let after = reading.read_at(0, 600 * BLOCK_BYTES).await.unwrap();
        assert_eq!(after.len(), 502 * BLOCK_BYTES);
        for (position, byte) in after.iter().enumerate() {
            assert_eq!(
                *byte,
                [1, 2, 3][(position / BLOCK_BYTES).min(2)],
                "at {position}"
            );
        }
    });
}

#[test]
fn what_was_cut_off_and_added_again_is_zeros() {
    on_dax(|system, dir| async move {
        let file = create(&system, &dir).await;
        file.allocate(10 * BLOCK).await.unwrap();
        file.write_at(0, vec![blocks(10, 1)]).await.unwrap();
        file.set_len(100).await.unwrap();
        file.allocate(20 * BLOCK).await.unwrap();
        let bytes = file.read_at(0, 20 * BLOCK_BYTES).await.unwrap();
        assert_eq!(bytes.len(), 20 * BLOCK_BYTES);
        assert!(bytes[..100].iter().all(|byte| *byte == 1));
        assert!(bytes[100..].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn a_page_that_is_gone_fails_the_read_and_the_write_and_nothing_else() {
    on_dax(|system, dir| async move {
        let file = create(&system, &dir).await;
        file.allocate(100 * BLOCK).await.unwrap();
        file.write_at(0, vec![blocks(90, 1)]).await.unwrap();
        assert_eq!(file.read_at(0, 10).await.unwrap().len(), 10);
        cut_from_outside(&dir, 10 * BLOCK);
        let failed = file
            .write_at(50 * BLOCK, vec![blocks(1, 2)])
            .await
            .unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(EIO), "{failed}");
        let latched = file.write_at(0, vec![blocks(1, 2)]).await.unwrap_err();
        assert!(latched.to_string().contains("latched"), "{latched}");
        // What is still there is served, and what comes back, too.
        assert_eq!(
            file.read_at(0, 90 * BLOCK_BYTES).await.unwrap().len(),
            10 * BLOCK_BYTES
        );
        cut_from_outside(&dir, 20 * BLOCK);
        let again = file.read_at(9 * BLOCK, 2 * BLOCK_BYTES).await.unwrap();
        assert_eq!(again, [[1; BLOCK_BYTES], [0; BLOCK_BYTES]].concat());
    });
}

#[test]
fn a_slice_that_goes_bad_under_its_reader_is_zeros_and_the_next_read_is_not_fooled() {
    on_dax(|system, dir| async move {
        let file = create(&system, &dir).await;
        file.write_at(0, vec![blocks(32, 1)]).await.unwrap();
        let held = file.read_at(BLOCK, 20 * BLOCK_BYTES).await.unwrap();
        cut_from_outside(&dir, 4 * BLOCK);
        assert!(held[..3 * BLOCK_BYTES].iter().all(|byte| *byte == 1));
        assert!(held[3 * BLOCK_BYTES..].iter().all(|byte| *byte == 0));
        cut_from_outside(&dir, 32 * BLOCK);
        std::fs::write(log(&dir), vec![2; 32 * BLOCK_BYTES]).unwrap();
        let read = file.read_at(0, 20 * BLOCK_BYTES).await.unwrap();
        assert!(
            read.iter().all(|byte| *byte == 2),
            "read what took the bad page's place"
        );
        // And a write is not lost in it either.
        file.write_at(6 * BLOCK, vec![blocks(1, 3)]).await.unwrap();
        assert_eq!(std::fs::read(log(&dir)).unwrap()[6 * BLOCK_BYTES], 3);
    });
}

#[test]
fn a_socket_that_is_given_a_bad_slice_fails_alone() {
    on_dax(|system, dir| async move {
        let file = create(&system, &dir).await;
        file.write_at(0, vec![blocks(8, 1)]).await.unwrap();
        let slice = file.read_at(0, 4 * BLOCK_BYTES).await.unwrap();
        cut_from_outside(&dir, 0);
        let (mut ours, _theirs) = UnixStream::pair().unwrap();
        let failed = ours.write(&slice).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(EFAULT), "{failed}");
    });
}

/// Set in the process that is to die.
const CHILD_VARIABLE: &str = "FOREBAY_TEST_FOREIGN_FAULT";

#[test]
fn a_fault_in_somebody_elses_mapping_still_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        on_dax(|_system, dir| async move {
            std::fs::write(log(&dir), [1; 2 * BLOCK_BYTES]).unwrap();
            let file = std::fs::File::open(log(&dir)).unwrap();
            let byte = foreign_byte(&file);
            cut_from_outside(&dir, 0);
            eprintln!("survived: {}", foreign_byte(&file).wrapping_add(byte));
        });
        return;
    }
    let name = "a_fault_in_somebody_elses_mapping_still_ends_the_process";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD_VARIABLE, "1")
        .output()
        .unwrap();
    assert_eq!(child.status.signal(), Some(SIGBUS), "{child:?}");
}

/// The first byte of a file, through a mapping that is not of the disk's.
#[allow(unsafe_code, reason = "a mapping like somebody else's")]
fn foreign_byte(file: &std::fs::File) -> u8 {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    // SAFETY: a fresh mapping, read once, at its start.
    unsafe {
        let (prot, flags) = (ProtFlags::READ, MapFlags::SHARED);
        let start = mmap(std::ptr::null_mut(), BLOCK_BYTES, prot, flags, file, 0);
        start.unwrap().cast::<u8>().read_volatile()
    }
}
