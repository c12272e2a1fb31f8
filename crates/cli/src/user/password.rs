//! A password from a file or from standard input; a terminal does not show what is typed.
//!
//! Invariant: however the command ends, the terminal shows again what is typed: after an answer, an
//! error, and a signal. Not here: passwords in arguments, which other users of the machine see.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read, Write as _};
use std::path::Path;
use std::task::Poll;
use std::{process, thread};

use anyhow::{Context as _, bail};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::signal::unix::{SignalKind, signal};
use wire::sasl::Secret;
use wire::text::escaped;

use crate::secrecy::open_to_others;
use crate::show::say;

/// The longest password.
const BYTES_MAX: u64 = 4096;
/// A shell reports this and the number of a signal that has ended a command.
const ENDED_BY_SIGNAL: i32 = 128;
/// The key of a terminal for something that no key does.
const NO_KEY: u8 = 0;

/// Reads a password: the first line of a file, or of standard input. A terminal is asked twice, for
/// what is typed cannot be seen.
pub fn read(file: Option<&Path>, user: &str) -> anyhow::Result<Secret<String>> {
    match file {
        Some(path) => {
            let named = || path.display().to_string();
            let file = File::open(path).with_context(named)?;
            let metadata = file.metadata().with_context(named)?;
            if let Some(warning) = open_to_others(path, &metadata) {
                say(&warning);
            }
            first_line(file).with_context(named)
        }
        None if io::stdin().is_terminal() => {
            let before = tcgetattr(io::stdin())?;
            restore_at_signal(before.clone())?;
            let _silence = Silence::begin(before)?;
            twice(user, || first_line(io::stdin()))
        }
        None => first_line(io::stdin()).context("the password on standard input"),
    }
}

/// Asks for the password two times.
fn twice(
    user: &str,
    mut line: impl FnMut() -> anyhow::Result<Secret<String>>,
) -> anyhow::Result<Secret<String>> {
    let mut asked = |words: String| {
        // The answer alone goes to standard output.
        drop(write!(io::stderr(), "{words}: "));
        let read = line();
        drop(writeln!(io::stderr()));
        read
    };
    let user = escaped(user);
    let password = asked(format!("password of {user}"))?;
    if password != asked(format!("password of {user}, again"))? {
        bail!("these are two passwords; none was set");
    }
    Ok(password)
}

fn first_line(from: impl Read) -> anyhow::Result<Secret<String>> {
    let mut bytes = Vec::new();
    BufReader::new(from.take(BYTES_MAX + 1)).read_until(b'\n', &mut bytes)?;
    let line = Secret::new(String::from_utf8(bytes).context("it is not UTF-8")?);
    let password = line.expose().trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        bail!("the password is empty");
    }
    if password.len() as u64 > BYTES_MAX {
        bail!("a password of more than {BYTES_MAX} bytes");
    }
    Ok(Secret::new(password.to_owned()))
}

/// A terminal that does not show what is typed, until this is dropped.
struct Silence(Termios);

impl Silence {
    fn begin(before: Termios) -> io::Result<Self> {
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        // A command that is stopped (Ctrl-Z) would leave the terminal silent.
        silent.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        restore(&self.0);
    }
}

fn restore(before: &Termios) {
    // A terminal that has gone shows nothing.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

/// Lets a signal (Ctrl-C and others) end the command with the terminal as it was before.
fn restore_at_signal(before: Termios) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("listening for signals")?;
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let mut signals = Vec::with_capacity(kinds.len());
    {
        let _inside = runtime.enter();
        for kind in kinds {
            signals.push((kind.as_raw_value(), signal(kind)?));
        }
    }
    thread::spawn(move || {
        let number = runtime.block_on(poll_fn(|context| {
            let came = signals.iter_mut().find_map(|(number, signal)| {
                signal.poll_recv(context).is_ready().then_some(*number)
            });
            came.map_or(Poll::Pending, Poll::Ready)
        }));
        restore(&before);
        process::exit(ENDED_BY_SIGNAL.saturating_add(number));
    });
    Ok(())
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
        let longest = [b'x'; 4096];
        assert_eq!(read(&longest).unwrap().len(), 4096);
        assert!(read(&[&longest[..], b"x"].concat()).is_err());
    }

    #[test]
    fn what_is_typed_differently_sets_no_password() {
        let typed = |lines: [&str; 2]| {
            let mut lines = lines.into_iter();
            twice("ada", || Ok(Secret::new(lines.next().unwrap().to_owned())))
        };
        assert_eq!(typed(["pencil", "pencil"]).unwrap().expose(), "pencil");
        let told = typed(["pencil", "pencli"]).unwrap_err().to_string();
        assert!(
            told.contains("none was set") && !told.contains("penc"),
            "{told}"
        );
    }
}
