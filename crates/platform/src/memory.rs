//! How the kernel gives memory to a broker: never for long while a shard waits.
//!
//! A shard can cut its work into pieces, but not a page fault. The first touch of a huge page
//! clears 2 MB: 0.2 ms, and 5 ms on a virtual machine whose host has to find the memory first. Not
//! here: the allocator, which the binary names, and which asks for huge pages of its own accord
//! unless it is built without them.

use std::io;

/// Lets the kernel give this process small pages only, whatever the system's setting is.
///
/// # Errors
/// Kernels before 3.15 know no such wish.
pub fn use_small_pages() -> io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_huge_pages_are_given() {
        use_small_pages().unwrap();
        assert!(rustix::thread::transparent_huge_pages_are_disabled().unwrap());
    }
}
