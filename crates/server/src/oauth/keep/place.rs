//! Where the keys of an identity provider are: a file or a URL.

use std::fmt;
use std::path::PathBuf;

use client::http::{HttpUrl, file_of_url};

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
        let Some(path) = file_of_url(text) else {
            let url = HttpUrl::parse(text)
                .map_err(|problem| format!("{problem}, or be a file (file:///path)"))?;
            return Ok(Self::Url(url));
        };
        Ok(Self::File(path?))
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
