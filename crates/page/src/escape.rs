//! Escapes text for HTML, so that a name, a command or an error message is never taken as markup.
//!
//! Invariant: the result is valid between tags and inside double-quoted attributes.

/// Escapes text for HTML and SVG.
///
/// Control characters, which no document may contain, become spaces.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(letter),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            html("</script><b a=\"x\" c='y'>&\u{0}"),
            "&lt;/script&gt;&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp; "
        );
    }
}
