//! The fields of structures and variants in masked code, each with its line and its type.
//!
//! It does not parse macros, or generics beyond their brackets.

/// A field of a structure or a tuple.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    /// The line of the field, counted from 0, without its attributes.
    pub(crate) line: usize,
    /// Its name; empty for a field of a tuple.
    pub(crate) name: &'a str,
    /// Its type as written.
    pub(crate) of: &'a str,
}

/// Returns all fields of the structures and enumerations in `code`, in which comments and literals
/// are blank.
pub(crate) fn fields(code: &str) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    for keyword in ["struct ", "enum "] {
        for (at, _) in code.match_indices(keyword) {
            let is_word = code[..at].chars().next_back().is_none_or(|before| {
                before.is_whitespace() || before == ')' // `pub(crate)struct` is not how we write.
            });
            if is_word && let Some(body) = body_of(code, at) {
                members(code, body, keyword == "enum ", &mut found);
            }
        }
    }
    found.sort_by_key(|field| field.line);
    found
}

/// Returns the place between the brackets of the item that begins at `at`.
fn body_of(code: &str, at: usize) -> Option<(usize, usize)> {
    let mut angles = 0_usize;
    for (offset, letter) in code[at..].char_indices() {
        match letter {
            '<' => angles += 1,
            '>' => angles = angles.saturating_sub(1),
            ';' if angles == 0 => return None,
            '{' | '(' if angles == 0 => {
                let open = at + offset;
                return closing(code, open).map(|close| (open + 1, close));
            }
            _ => {}
        }
    }
    None
}

/// Returns the place of the bracket that closes the one at `open`.
fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, letter) in code[open..].char_indices() {
        match letter {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(open + offset);
                }
            }
            _ => {}
        }
    }
    None
}

fn members<'a>(
    code: &'a str,
    (from, to): (usize, usize),
    variants: bool,
    found: &mut Vec<Field<'a>>,
) {
    let (mut start, mut depth) = (from, 0_usize);
    let mut previous = ' ';
    for (offset, letter) in code[from..to].char_indices() {
        let at = from + offset;
        match letter {
            '{' | '(' | '[' | '<' => depth += 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            '>' if previous != '-' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                member(code, (start, at), variants, found);
                start = at + 1;
            }
            _ => {}
        }
        previous = letter;
    }
    member(code, (start, to), variants, found);
}

fn member<'a>(
    code: &'a str,
    (from, to): (usize, usize),
    variants: bool,
    found: &mut Vec<Field<'a>>,
) {
    let mut text = &code[from..to];
    let mut start = from;
    loop {
        let trimmed = text.trim_start();
        start += text.len() - trimmed.len();
        text = trimmed;
        if !text.starts_with('#') {
            break;
        }
        let Some(end) = text.find('[').and_then(|open| closing(text, open)) else {
            return;
        };
        start += end + 1;
        text = &text[end + 1..];
    }
    if text.trim().is_empty() {
        return;
    }
    if variants {
        if let Some(body) = body_of(code, start).filter(|(_, close)| *close < to) {
            members(code, body, false, found);
        }
        return;
    }
    let line = code[..start].matches('\n').count();
    let colon = text
        .match_indices(':')
        .find(|(at, _)| !text[at + 1..].starts_with(':') && !text[..*at].ends_with(':'));
    let (name, of) = match colon {
        Some((at, _)) => (text[..at].trim(), text[at + 1..].trim()),
        None => ("", text.trim()),
    };
    let name = name.rsplit(' ').next().unwrap_or_default();
    found.push(Field { line, name, of });
}

#[cfg(test)]
mod tests {
    use super::{Field, fields};

    #[test]
    fn finds_the_fields_of_structures_tuples_and_variants() {
        let code = "pub struct A<'a> {\n    pub(crate) one: RefCell<BTreeMap<u8, fn(u8) -> u8>>,\n\n    #[a(b)]\n    two: &'a std::Vec<u8>,\n}\n\
                    struct B(HashMap<u8, u8>);\nstruct C;\nenum D {\n    One { a: u8 },\n    Two(u16),\n    Three,\n}\nfn f(a: u8) {}\n";
        let field = |line, name, of| Field { line, name, of };
        assert_eq!(
            fields(code),
            [
                field(1, "one", "RefCell<BTreeMap<u8, fn(u8) -> u8>>"),
                field(4, "two", "&'a std::Vec<u8>"),
                field(6, "", "HashMap<u8, u8>"),
                field(9, "a", "u8"),
                field(10, "", "u16"),
            ]
        );
    }
}
