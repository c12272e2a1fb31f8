//! A file that a setting names as an address, `file:///path`, as Java reads one.

use std::path::PathBuf;

/// Returns the file of an address that begins with `file:`, or what the address must be; `None` for
/// one that begins otherwise.
pub fn file_of_url(text: &str) -> Option<Result<PathBuf, &'static str>> {
    let rest = text.strip_prefix("file:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if !path.starts_with('/') {
        return Some(Err("must have an absolute path (file:///path)"));
    }
    let path = decoded(path).ok_or("has a percent sign that begins no letter (%20)");
    Some(path.map(PathBuf::from))
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
    fn a_file_has_an_absolute_path_with_its_letters_as_they_are() {
        let read = |text| file_of_url(text).map(Result::ok);
        assert_eq!(read("file:///a/b"), Some(Some("/a/b".into())));
        assert_eq!(read("file:/a%20b"), Some(Some("/a b".into())));
        for wrong in [
            "file:a",
            "file:",
            "file://host/a",
            "file:///%",
            "file:///%+1",
            "file:///%ff",
        ] {
            assert_eq!(read(wrong), Some(None), "{wrong}");
        }
        assert_eq!(read("https://a/"), None);
    }
}
