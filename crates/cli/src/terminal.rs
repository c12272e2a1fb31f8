//! The terminal behind standard output: its size.
//!
//! A pipe or a file has none, and is written to without regard to columns and rows.

use std::io;

/// Columns and rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Returns the size of the terminal; `None` if standard output is no terminal, or one that does
/// not know its size.
pub(crate) fn size() -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    let size = Size {
        columns: usize::from(size.ws_col),
        rows: usize::from(size.ws_row),
    };
    (size.columns > 0 && size.rows > 0).then_some(size)
}
