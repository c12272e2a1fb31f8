//! Access to mapped files that survives a fault: a bad block, or a missing page, is an error of the
//! copy that hit it, and does not end the process.
//!
//! Linux reports such a page by SIGBUS in the thread that touched it. The handler has two
//! responses:
//! - In the routines here, which are assembly with known instructions, it continues at their error
//!   exit. They do all stores to mappings, and check a range before it is handed out; no compiled
//!   code runs in between, so nothing is assumed about the bytes that were not read.
//! - Anywhere else, code reads a slice that was valid when it was handed out and has failed since.
//!   The handler replaces the bad page by a page of zeros and marks the mapping (see
//!   [`super::table`]); the reader's checksum detects it.
//!
//! A SIGBUS that does not concern one of our mappings goes to the previous handler. Invariant: the
//! handler allocates nothing, locks nothing and calls nothing but `mmap`.
#![allow(unsafe_code, reason = "a signal handler, and assembly")]

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;

use super::table;

/// Bytes of a cache line: the unit of a streaming store, and the largest unit that can tear.
pub(super) const LINE_BYTES: usize = 64;

std::arch::global_asm!(
    ".pushsection .text.forebay_guarded,\"ax\",@progbits",
    ".balign 64",
    ".hidden forebay_guarded_begin, forebay_guarded_end, forebay_guarded_fault",
    ".hidden forebay_guarded_store, forebay_guarded_load, forebay_guarded_probe",
    ".globl forebay_guarded_begin, forebay_guarded_end, forebay_guarded_fault",
    ".globl forebay_guarded_store, forebay_guarded_load, forebay_guarded_probe",
    "forebay_guarded_begin:",
    // (to, from, lines): stores around the cache, in whole lines, with a fence.
    "forebay_guarded_store:",
    "test rdx, rdx",
    "jz 3f",
    "2:",
    "movdqu xmm0, [rsi]",
    "movdqu xmm1, [rsi + 16]",
    "movdqu xmm2, [rsi + 32]",
    "movdqu xmm3, [rsi + 48]",
    "movntdq [rdi], xmm0",
    "movntdq [rdi + 16], xmm1",
    "movntdq [rdi + 32], xmm2",
    "movntdq [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "dec rdx",
    "jnz 2b",
    "3:",
    "sfence",
    "xor eax, eax",
    "ret",
    // (to, from, bytes)
    "forebay_guarded_load:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // (from, bytes): reads one byte of each line. The last one may be in a line already read.
    "forebay_guarded_probe:",
    "test rsi, rsi",
    "jz 5f",
    "lea rdx, [rdi + rsi - 1]",
    "4:",
    "mov al, [rdi]",
    "add rdi, 64",
    "cmp rdi, rdx",
    "jb 4b",
    "mov al, [rdx]",
    "5:",
    "xor eax, eax",
    "ret",
    "forebay_guarded_end:",
    // The handler continues here after a fault in the routines above, which keep nothing on the
    // stack.
    "forebay_guarded_fault:",
    "sfence",
    "mov eax, 1",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    safe static forebay_guarded_begin: u8;
    safe static forebay_guarded_end: u8;
    safe static forebay_guarded_fault: u8;
    fn forebay_guarded_store(to: *mut u8, from: *const u8, lines: usize) -> c_int;
    fn forebay_guarded_load(to: *mut u8, from: *const u8, bytes: usize) -> c_int;
    fn forebay_guarded_probe(from: *const u8, bytes: usize) -> c_int;
}

/// Copies `len` bytes into a mapping, around the processor's cache.
///
/// When it returns, the bytes are on the medium, if that is persistent memory. After an error some
/// of them may be.
///
/// # Safety
/// `from` is valid for reads of `len` bytes. `to` is the start of a cache line in one of our
/// mappings that is not unmapped meanwhile, `len` is a multiple of the cache line and fits into it,
/// and there are no references to those bytes.
pub(super) unsafe fn store(to: *mut u8, from: *const u8, len: usize) -> io::Result<()> {
    debug_assert!(to.addr().is_multiple_of(LINE_BYTES) && len.is_multiple_of(LINE_BYTES));
    // SAFETY: it stores only to these bytes; a fault makes it return 1.
    outcome(unsafe { forebay_guarded_store(to, from, len / LINE_BYTES) })
}

/// Copies `len` bytes out of a mapping.
///
/// # Safety
/// `to` is valid for writes of `len` bytes, and `from` points to `len` bytes in one of our mappings
/// that is not unmapped meanwhile.
pub(super) unsafe fn load(to: *mut u8, from: *const u8, len: usize) -> io::Result<()> {
    // SAFETY: as above; bytes not copied after a fault are unchanged.
    outcome(unsafe { forebay_guarded_load(to, from, len) })
}

/// Reads each cache line of a range of a mapping; fails when one cannot be read.
///
/// # Safety
/// The range lies in one of our mappings that is not unmapped meanwhile.
pub(super) unsafe fn probe(from: *const u8, len: usize) -> io::Result<()> {
    // SAFETY: it only reads, and discards the result.
    outcome(unsafe { forebay_guarded_probe(from, len) })
}

fn outcome(returned: c_int) -> io::Result<()> {
    if returned == 0 {
        return Ok(());
    }
    Err(media_error())
}

/// Returns the kernel's error for reading a bad block through a descriptor.
pub(super) fn media_error() -> io::Error {
    io::Error::from(rustix::io::Errno::IO)
}

/// The handler that was installed before ours.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once per process.
pub(super) fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: a `sigaction` consists of plain numbers, for which zeros are valid.
        let (mut ours, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_sigbus;
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: reads the current action into a local variable.
        if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        // Set before our handler can run.
        let _ = PREVIOUS.set(before);
        // SAFETY: the handler does only what a signal handler may (see there).
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        Ok(())
    });
    installed.map_err(io::Error::from_raw_os_error)
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both pointers, valid until the return; `si_addr` is set for every
    // SIGBUS with a code above 0, and read only then.
    let (code, address) = unsafe {
        let code = (*info).si_code;
        let from_kernel = code > 0;
        let address = if from_kernel {
            (*info).si_addr()
        } else {
            std::ptr::null_mut()
        };
        (code, address.addr())
    };
    if code == libc::BUS_MCEERR_AO {
        // Bad memory that has not been accessed; an access reports it again.
        return;
    }
    let context_of = context.cast::<libc::ucontext_t>();
    // SAFETY: the context of the interrupted thread is exclusively ours until the return. The
    // register is changed only when it points into the routines above, whose exit it then gets.
    let recovered = code > 0
        && unsafe {
            let rip = &mut (*context_of).uc_mcontext.gregs[libc::REG_RIP as usize];
            let within = address_of(&forebay_guarded_begin)..address_of(&forebay_guarded_end);
            let in_routine = within.contains(&rip.cast_unsigned());
            if in_routine {
                *rip = address_of(&forebay_guarded_fault).cast_signed();
            }
            in_routine
        };
    if recovered || (code > 0 && table::replace_page(address)) {
        return;
    }
    pass_on(signal, info, context);
}

fn address_of(symbol: &'static u8) -> u64 {
    std::ptr::from_ref(symbol).addr() as u64
}

/// Passes a foreign signal to the previous handler, or to the default, which ends the process.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get();
    match previous.map(|previous| (previous.sa_sigaction, previous.sa_flags)) {
        Some((handler, flags)) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
            if flags & libc::SA_SIGINFO != 0 {
                // SAFETY: installed with this flag, so it is a function of this type.
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            } else {
                // SAFETY: installed without the flag, so it is a function of this type.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
        _ => {
            // SAFETY: allowed in handlers. The instruction then faults again and ends the process.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}
