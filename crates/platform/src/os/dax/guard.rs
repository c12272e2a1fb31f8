//! Access to mapped files that survives a fault: a bad block, or a page that is not there, is an
//! error of the copy that met it and not the end of the process.
//!
//! Linux tells of such a page by SIGBUS in the thread that touched it. Two answers:
//! - In the routines here, which are written in assembly and consist of known instructions, the
//!   handler goes on at their error exit. All stores to mappings, and the look at a range before it
//!   is handed out, are done by them; no compiled code can be in between, so nothing is assumed of
//!   the bytes that did not come.
//! - Anywhere else, code reads a slice that was sound when it was handed out and went bad since. The
//!   handler puts a page of zeros in the place of the bad one and marks the mapping (see
//!   [`super::table`]); the checksum of whoever is reading finds it out.
//!
//! A SIGBUS that is not about one of our mappings goes to the handler that was there before.
//! Invariant: the handler allocates nothing, locks nothing and calls nothing but `mmap`.
#![allow(unsafe_code, reason = "a signal handler, and assembly")]

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;

use super::table;

/// Bytes of a cache line: what one store past the cache fills, and what tears at most.
pub(super) const LINE_BYTES: usize = 64;

std::arch::global_asm!(
    ".pushsection .text.forebay_guarded,\"ax\",@progbits",
    ".balign 64",
    ".hidden forebay_guarded_begin, forebay_guarded_end, forebay_guarded_fault",
    ".hidden forebay_guarded_store, forebay_guarded_load, forebay_guarded_probe",
    ".globl forebay_guarded_begin, forebay_guarded_end, forebay_guarded_fault",
    ".globl forebay_guarded_store, forebay_guarded_load, forebay_guarded_probe",
    "forebay_guarded_begin:",
    // (to, from, lines): past the cache, in whole lines, fenced.
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
    // (from, bytes): one byte of each line. The last one may be in a line that was looked at.
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
    // Where the handler sends a fault of the above; they keep nothing on the stack.
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

/// Copies `len` bytes into a mapping past the processor's cache; when it returns they are on the
/// medium, if that is persistent memory. After an error some of them may be.
///
/// # Safety
/// `from` is valid for reads of `len` bytes. `to` is the start of a cache line in a mapping of ours
/// that is not unmapped meanwhile, `len` whole cache lines fit into it, and nobody has a reference
/// to those bytes.
pub(super) unsafe fn store(to: *mut u8, from: *const u8, len: usize) -> io::Result<()> {
    debug_assert!(to.addr().is_multiple_of(LINE_BYTES) && len.is_multiple_of(LINE_BYTES));
    // SAFETY: it stores to these bytes and nowhere else; a fault makes it return 1.
    outcome(unsafe { forebay_guarded_store(to, from, len / LINE_BYTES) })
}

/// Copies `len` bytes out of a mapping.
///
/// # Safety
/// `to` is valid for writes of `len` bytes, `from` points to as many in a mapping of ours that is
/// not unmapped meanwhile.
pub(super) unsafe fn load(to: *mut u8, from: *const u8, len: usize) -> io::Result<()> {
    // SAFETY: as above; what was not copied after a fault is as it was.
    outcome(unsafe { forebay_guarded_load(to, from, len) })
}

/// Reads each cache line of a range of a mapping, and says whether all could be read.
///
/// # Safety
/// The range lies in a mapping of ours that is not unmapped meanwhile.
pub(super) unsafe fn probe(from: *const u8, len: usize) -> io::Result<()> {
    // SAFETY: it only reads, and forgets what it has read.
    outcome(unsafe { forebay_guarded_probe(from, len) })
}

fn outcome(returned: c_int) -> io::Result<()> {
    if returned == 0 {
        return Ok(());
    }
    Err(media_error())
}

/// What the kernel says of a bad block to who reads it through a descriptor.
pub(super) fn media_error() -> io::Error {
    io::Error::from(rustix::io::Errno::IO)
}

/// The handler that was there before ours.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once in the life of the process.
pub(super) fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: a `sigaction` is plain numbers, for which zeros are values.
        let (mut ours, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_sigbus;
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: reads the present action into a place of ours.
        if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        // Before ours can run.
        let _ = PREVIOUS.set(before);
        // SAFETY: the handler keeps to what is allowed in one (see there).
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        Ok(())
    });
    installed.map_err(io::Error::from_raw_os_error)
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands us both, valid until we return; `si_addr` is set for every SIGBUS
    // that has a code above 0, and read only then.
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
        // Bad memory that nobody has touched: told again to who does.
        return;
    }
    let context_of = context.cast::<libc::ucontext_t>();
    // SAFETY: the context of the interrupted thread, which is ours until we return. The register
    // is changed only when it points into the routines above, whose exit it then is.
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

/// Not ours: the handler that was there before, or the default, which ends the process.
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
            // SAFETY: allowed in handlers. The instruction is tried again and ends the process.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}
