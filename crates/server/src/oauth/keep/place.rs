//! Where the keys of an identity provider are: a file or a URL.

use std::fmt;
use std::path::PathBuf;

use client::http::HttpUrl;

/// A place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyPlace {
    /// A file of this machine.
    File(PathBuf),
    /// An address.
    Url(HttpUrl),
}

impl KeyPlace {
    /// Reads the value of the setting, or returns what it must be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("file:") else {
            let url = HttpUrl::parse(text)
                .map_err(|problem| format!("{problem}, or be a file (file:///path)"))?;
            return Ok(Self::Url(url));
        };
        let path = rest.strip_prefix("//").unwrap_or(rest);
        if !path.starts_with('/') {
            return Err("must have an absolute path (file:///path)".to_owned());
        }
        let path = decoded(path).ok_or("has a percent sign that begins no letter (%20)")?;
        Ok(Self::File(path.into()))
    }
}

impl fmt::Display for KeyPlace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(to, "file://{}", path.display()),
            // Not its path, in which a secret may be.
            Self::Url(url) => {
                let scheme = if url.is_tls() { "https" } else { "http" };
                write!(to, "{scheme}://{}", url.authority())
            }
        }
    }
}

/// Replaces letters that are written as `%20` (RFC 3986).
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = after.split_first_chunk::<2>()?;
        rest = after;
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_or_an_address() {
        let file = |path: &str| Ok(KeyPlace::File(path.into()));
        assert_eq!(KeyPlace::parse("file:///a/b"), file("/a/b"));
        assert_eq!(KeyPlace::parse("file:/a%20b"), file("/a b"));
        let url = KeyPlace::parse("https://a.b:1/keys?secret=x").unwrap();
        assert_eq!(url.to_string(), "https://a.b:1");
        for wrong in [
            "",
            "/a/b",
            "file:a",
            "file://host/a",
            "file:///%",
            "file:///%+1",
            "file:///%ff",
        ] {
            let said = KeyPlace::parse(wrong).unwrap_err();
            assert!(
                said.starts_with("must ") || said.starts_with("has "),
                "{said}"
            );
        }
        assert!(
            KeyPlace::parse("http://a/keys")
                .unwrap_err()
                .contains("https")
        );
    }
}
