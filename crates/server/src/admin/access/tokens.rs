//! Tokens in a file, each with the principal that has it (RFC 6750).
//!
//! ```text
//! # who               token, or its hash
//! User:prometheus     v4Yp0cX2nF8sQm7L
//! User:deploy         sha256:6b3a55e0261b0304143f805a24924d0c1c44524821305f31d9277843b8a10f4e
//! ```
//!
//! What is kept of a token is its SHA-256: tokens are long and random, so no salt is needed. The
//! file is read again when it changes and when the operator asks (SIGHUP); one that cannot be read,
//! or has a wrong line, leaves the tokens before in force, which is logged and counted. To take
//! back all tokens, empty the file. Invariant: no message has a token, or a part of one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use platform::bounded;
use tls::watch::{FileStamp, StoreWatch};
use tokio::sync::mpsc;
use tokio::time::Instant;
use wire::acl::Principal;
use wire::sasl::Secret;

use crate::metrics::AdminMetrics;
use crate::wall::{milliseconds, wall_ms};

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most tokens.
const TOKENS_MAX: usize = 1000;
/// Shortest and longest token.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 4096;
/// Bits of a file's mode that let others than its owner read it.
const READ_BY_OTHERS: u32 = 0o044;
/// What stands before a hash.
const HASHED: &str = "sha256:";

type Hash = [u8; 32];
/// Tokens that never change: those of one reading.
type TokenList = Arc<Vec<(Hash, Principal)>>;

/// The tokens in force; clones share them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tokens {
    // Bounded: `TOKENS_MAX`.
    all: Arc<RwLock<TokenList>>,
}

/// The file of tokens, and how often it is looked at.
#[derive(Clone, Debug)]
pub(crate) struct TokenFile {
    pub(crate) path: PathBuf,
    /// True if a file that others may read is refused.
    pub(crate) is_strict: bool,
    /// Time between two looks.
    pub(crate) interval: Duration,
}

impl Tokens {
    /// Reads the file, and logs what there is to say about it. Blocks.
    pub(crate) fn open(file: &TokenFile) -> anyhow::Result<Self> {
        let read = file.read().map_err(|why| {
            let path = file.path.display();
            anyhow::anyhow!("admin.bearer.tokens.file={path}: {why}")
        })?;
        if read.is_empty() {
            let path = file.path.display();
            tracing::warn!(%path, "the file of tokens is empty: no client of the admin endpoint \
                has one");
        }
        let tokens = Self::default();
        tokens.take(read);
        Ok(tokens)
    }

    /// Returns the principal of a token. It takes as long for every token of its length.
    pub(super) fn find(&self, given: &str) -> Option<Principal> {
        let given = hash(given.as_bytes());
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let all = Arc::clone(&all);
        let mut found = None;
        for (expected, principal) in all.iter() {
            if verify_slices_are_equal(&given, expected).is_ok() {
                found = Some(principal);
            }
        }
        found.cloned()
    }

    /// Looks at the file each time it is due, and on each message of `asked`, until all senders of
    /// that are gone.
    pub(crate) async fn keep(
        self,
        file: TokenFile,
        mut asked: mpsc::Receiver<()>,
        metrics: AdminMetrics,
    ) {
        let since = Instant::now();
        let now = || milliseconds(since.elapsed());
        let interval = Some(file.interval).filter(|interval| !interval.is_zero());
        let every_ms = interval.map_or(0, milliseconds);
        // What changed before this look is read once more.
        let mut watch = StoreWatch::new(every_ms, Vec::new(), now(), wall_ms());
        let mut failed: Option<String> = None;
        loop {
            let due = async {
                match interval {
                    Some(interval) => tokio::time::sleep(interval).await,
                    None => std::future::pending().await,
                }
            };
            let is_asked = tokio::select! {
                () = due => false,
                asked = asked.recv() => match asked {
                    Some(()) => true,
                    None => return,
                },
            };
            let looked_at = file.clone();
            let stamp = tokio::task::spawn_blocking(move || FileStamp::of(&looked_at.path));
            let Ok(stamp) = stamp.await else { return };
            if !watch.look(vec![stamp], now(), wall_ms()) && !is_asked {
                continue;
            }
            let read_again = file.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || read_again.read()).await else {
                return;
            };
            match read {
                Ok(read) => {
                    failed = None;
                    let count = read.len();
                    if self.take(read) {
                        metrics.tokens_read(true);
                        tracing::info!(count, "new tokens of the admin endpoint are in force");
                    }
                }
                Err(why) => {
                    watch.note_failure();
                    metrics.tokens_read(false);
                    if is_asked || failed.as_ref() != Some(&why) {
                        let path = file.path.display();
                        tracing::error!(%path, reason = %why, "the file of tokens is not taken: \
                            the tokens before stay in force");
                    }
                    failed = Some(why);
                }
            }
        }
    }

    /// Puts these in force; returns true if they are others than before.
    fn take(&self, read: Vec<(Hash, Principal)>) -> bool {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = **all != read;
        *all = Arc::new(read);
        is_new
    }
}

impl TokenFile {
    /// Reads the file, or returns why it is not taken.
    fn read(&self) -> Result<Vec<(Hash, Principal)>, String> {
        let bytes = bounded::file(&self.path, FILE_BYTES_MAX);
        let bytes = Secret::new(bytes.map_err(|error| format!("it cannot be read: {error}"))?);
        self.check_mode(&self.path)?;
        let text = std::str::from_utf8(bytes.expose()).map_err(|_| "it is not UTF-8")?;
        parse(text)
    }

    fn check_mode(&self, path: &Path) -> Result<(), String> {
        let Ok(metadata) = std::fs::metadata(path) else {
            return Ok(());
        };
        let mode = metadata.permissions().mode() & 0o777;
        if mode & READ_BY_OTHERS == 0 {
            return Ok(());
        }
        let path = path.display();
        let why = format!("others than its owner may read it (mode {mode:04o}): chmod 600 {path}");
        if self.is_strict {
            return Err(why);
        }
        tracing::warn!("the file of tokens of the admin endpoint: {why}");
        Ok(())
    }
}

fn parse(text: &str) -> Result<Vec<(Hash, Principal)>, String> {
    let mut all = Vec::new();
    for (line, number) in text.lines().zip(1_usize..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("line {number}: {why}");
        // A principal may have spaces, a token has none.
        let (principal, token) = line
            .rsplit_once([' ', '\t'])
            .ok_or_else(|| wrong("must be a principal, a space, and a token"))?;
        let principal = Principal::parse(principal.trim())
            .map_err(|_| wrong("must begin with a principal such as User:prometheus"))?;
        let hash = hash_of(token).ok_or_else(|| {
            let why = format!(
                "the token must be {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} letters, digits and \
                 -._~+/=, or {HASHED} and 64 hex digits"
            );
            wrong(&why)
        })?;
        if all.len() == TOKENS_MAX {
            return Err(wrong(&format!("there are more than {TOKENS_MAX} tokens")));
        }
        if all
            .iter()
            .any(|(known, other)| *known == hash && *other != principal)
        {
            return Err(wrong("another principal has the same token"));
        }
        all.push((hash, principal));
    }
    Ok(all)
}

fn hash_of(token: &str) -> Option<Hash> {
    if let Some(digits) = token.strip_prefix(HASHED) {
        let mut hash = Hash::default();
        let is_whole = digits.len() == 2 * hash.len() && digits.is_ascii();
        for (to, at) in hash.iter_mut().zip((0..).step_by(2)) {
            *to = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
        }
        return is_whole.then_some(hash);
    }
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len());
    (fits && token.bytes().all(is_of_token)).then(|| hash(token.as_bytes()))
}

fn hash(bytes: &[u8]) -> Hash {
    let mut hash = Hash::default();
    for (to, from) in hash.iter_mut().zip(digest(&SHA256, bytes).as_ref()) {
        *to = *from;
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const TOKEN: &str = "v4Yp0cX2nF8sQm7L";

    fn file(text: &str, mode: u32, is_strict: bool) -> (tempfile::TempDir, TokenFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let interval = Duration::from_millis(10);
        let file = TokenFile {
            path,
            is_strict,
            interval,
        };
        (dir, file)
    }

    #[test]
    fn a_token_is_that_of_its_principal() {
        let hashed = hash(b"another-token-0123");
        let hex = hashed.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let text =
            format!("# comment\n\nUser:prometheus {TOKEN}\n User:CN=a b,O=x\t{HASHED}{hex}\n");
        let (_dir, file) = file(&text, 0o600, true);
        let tokens = Tokens::open(&file).unwrap();
        let found = |token: &str| tokens.find(token).map(|it| it.as_str().to_owned());
        assert_eq!(found(TOKEN).as_deref(), Some("User:prometheus"));
        assert_eq!(
            found("another-token-0123").as_deref(),
            Some("User:CN=a b,O=x")
        );
        for wrong in ["", "x", &hex, &format!("{HASHED}{hex}"), &TOKEN[1..]] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
        assert!(Tokens::default().find("").is_none());
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number_and_not_shown() {
        let other = format!("User:a {TOKEN}\nUser:b {TOKEN}");
        for (text, expected) in [
            ("hunter2-hunter2-hunter2", "line 1: must be a principal"),
            (
                "\nada hunter2-hunter2-hunter2",
                "line 2: must begin with a principal",
            ),
            ("User:ada hunter2", "line 1: the token must be"),
            ("User:ada sha256:hunter2", "line 1: the token must be"),
            (
                "User:ada hunter2-hunter2-hunter\u{e9}",
                "line 1: the token must be",
            ),
            (&*other, "line 2: another principal has the same token"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(
                said.starts_with(expected) && !said.contains("hunter"),
                "{said}"
            );
        }
        let many = (0..=TOKENS_MAX).fold(String::new(), |mut many, at| {
            let _ = writeln!(many, "User:a {TOKEN}{at}");
            many
        });
        assert!(parse(&many).unwrap_err().contains("more than 1000"));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_where_that_is_wanted() {
        let text = format!("User:a {TOKEN}");
        let (_dir, lax) = file(&text, 0o644, false);
        assert!(Tokens::open(&lax).is_ok());
        let (_dir, strict) = file(&text, 0o640, true);
        let said = Tokens::open(&strict).unwrap_err().to_string();
        assert!(said.contains("chmod 600"), "{said}");
    }

    #[tokio::test]
    async fn tokens_change_with_the_file_and_stay_when_it_is_broken() {
        let (_dir, file) = file(&format!("User:a {TOKEN}"), 0o600, true);
        let tokens = Tokens::open(&file).unwrap();
        let (_ask, asked) = mpsc::channel(1);
        let (path, metrics) = (file.path.clone(), AdminMetrics::default());
        let keeping = tokio::spawn(tokens.clone().keep(file, asked, metrics.clone()));
        let until = |done: Box<dyn Fn() -> bool>| async move {
            for _ in 0..1000 {
                if done() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            panic!("it does not come");
        };
        let other = "another-token-0123";
        std::fs::write(&path, format!("User:b {other}")).unwrap();
        let seen = tokens.clone();
        until(Box::new(move || seen.find(other).is_some())).await;
        assert!(tokens.find(TOKEN).is_none());
        std::fs::write(&path, "nonsense").unwrap();
        until(Box::new(move || metrics.token_failures() > 0)).await;
        assert!(tokens.find(other).is_some());
        std::fs::write(&path, "").unwrap();
        let seen = tokens.clone();
        until(Box::new(move || seen.find(other).is_none())).await;
        keeping.abort();
    }
}
