//! A password from a file or from standard input; a terminal does not show what is typed.
//!
//! Not here: passwords in arguments, which other users of the machine see.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use wire::sasl::Secret;

/// The longest password.
const BYTES_MAX: u64 = 4096;

/// Reads a password: the first line of a file, or of standard input.
pub(crate) fn read(file: Option<&Path>, user: &str) -> anyhow::Result<Secret<String>> {
    match file {
        Some(path) => {
            let named = || path.display().to_string();
            let file = File::open(path).with_context(named)?;
            first_line(file).with_context(named)
        }
        None if io::stdin().is_terminal() => {
            // The answer alone goes to standard output.
            drop(write!(io::stderr(), "password of {user}: "));
            let _silence = Silence::begin()?;
            let read = first_line(io::stdin());
            drop(writeln!(io::stderr()));
            read
        }
        None => first_line(io::stdin()).context("the password on standard input"),
    }
}

fn first_line(from: impl Read) -> anyhow::Result<Secret<String>> {
    let mut bytes = Vec::new();
    BufReader::new(from.take(BYTES_MAX + 1)).read_until(b'\n', &mut bytes)?;
    let line = Secret::new(String::from_utf8(bytes).context("it is not UTF-8")?);
    let password = line.expose().trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        bail!("the password is empty");
    }
    if password.len() as u64 >= BYTES_MAX {
        bail!("a password of more than {BYTES_MAX} bytes");
    }
    Ok(Secret::new(password.to_owned()))
}

/// A terminal that does not show what is typed, until this is dropped.
struct Silence(Termios);

impl Silence {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A terminal that has gone shows nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_as_it_is() {
        let read = |text: &[u8]| first_line(text).map(|secret| secret.expose().clone());
        assert_eq!(read(b" pen cil \r\nmore").unwrap(), " pen cil ");
        assert_eq!(read(b"pencil").unwrap(), "pencil");
        assert!(read(b"\n").is_err() && read(b"").is_err() && read(b"\xff\n").is_err());
        assert!(read(&[b'x'; 5000]).is_err());
    }
}
