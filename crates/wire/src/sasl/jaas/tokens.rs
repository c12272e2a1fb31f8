//! The tokens of a JAAS line, by the rules of Java's `StreamTokenizer` as Kafka sets it up:
//!
//! - Characters up to the space divide tokens.
//! - A word begins with a letter of ASCII, `_`, `$` or a character from U+00A0 on, and goes on with
//!   these, digits, `.` and `-`.
//! - A number is a `-` or nothing, and digits with a dot or none: a token that is no text, so a
//!   value that begins like one has to stand in quotes. Every other sign is such a token as well.
//! - `"` and `'` begin a text that ends with the same sign, or before the end of the line. In it
//!   a backslash makes control characters of `a b f n r t v`, a character of up to three octal
//!   digits (up to 377), and itself of any other character. A text ends a word and begins one.
//! - `/` outside of quotes ends a word and begins a comment: from `/*` to `*/`, from anything else
//!   to the end of the line; and, an oddity, to the end of the next if `/` is the last of its line.

use std::fmt;
use std::str::Chars;

use crate::sasl::Secret;

/// A place in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextPlace {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl TextPlace {
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for TextPlace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}, column {}", self.line, self.column)
    }
}

/// A token.
#[derive(Debug)]
pub(super) enum Token {
    /// A word, or a text in quotes. Any of them may be a secret, or a part of one.
    Text(Secret<String>),
    /// A sign, or the first character of a number.
    Sign(char),
    /// The end of the text.
    End,
}

enum Class {
    Space,
    Word,
    Number,
    Sign,
    Quote,
    Comment,
}

impl Class {
    fn of(character: char) -> Self {
        match character {
            '\0'..=' ' => Self::Space,
            'a'..='z' | 'A'..='Z' | '_' | '$' | '\u{a0}'.. => Self::Word,
            '0'..='9' | '.' | '-' => Self::Number,
            '"' | '\'' => Self::Quote,
            '/' => Self::Comment,
            _ => Self::Sign,
        }
    }

    /// Returns true for what goes on with a word.
    fn is_of_word(character: char) -> bool {
        matches!(Self::of(character), Self::Word | Self::Number)
    }
}

/// The tokens that are left of a text.
pub(super) struct Tokens<'a> {
    rest: Chars<'a>,
    place: TextPlace,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars(),
            place: TextPlace::START,
        }
    }

    /// Returns the next token and where it begins; at the end, again and again, [`Token::End`].
    pub(super) fn token(&mut self) -> (Token, TextPlace) {
        loop {
            let at = self.place;
            let Some(first) = self.take() else {
                return (Token::End, at);
            };
            let token = match Class::of(first) {
                Class::Space => continue,
                Class::Comment => {
                    self.comment();
                    continue;
                }
                Class::Sign => Token::Sign(first),
                Class::Quote => Token::Text(self.quoted(first)),
                Class::Word => Token::Text(self.word(first)),
                Class::Number => {
                    self.number(first);
                    Token::Sign(first)
                }
            };
            return (token, at);
        }
    }

    fn word(&mut self, first: char) -> Secret<String> {
        let rest = self.rest.as_str();
        let is_over = |next| !Class::is_of_word(next);
        let bytes = rest.find(is_over).unwrap_or(rest.len()); // Or to the end of the text.
        // With room for all of it, so that it leaves no copies behind.
        let mut word = String::with_capacity(first.len_utf8() + bytes);
        word.push(first);
        while let Some(next) = self.peek()
            && Class::is_of_word(next)
        {
            word.extend(self.take());
        }
        Secret::new(word)
    }

    /// Skips the rest of a number; of `-` alone there is none.
    fn number(&mut self, first: char) {
        let mut has_dot = first == '.';
        while let Some(next) = self.peek() {
            match next {
                '0'..='9' => {}
                '.' if !has_dot => has_dot = true,
                _ => break,
            }
            self.take();
        }
    }

    fn quoted(&mut self, quote: char) -> Secret<String> {
        // Room for all of it, as above: no escape is shorter than what it stands for.
        let mut is_escaped = false;
        let is_over = |next: char| {
            let is_over = !is_escaped && (next == quote || matches!(next, '\n' | '\r'));
            is_escaped = !is_escaped && next == '\\';
            is_over
        };
        let rest = self.rest.as_str();
        let bytes = rest.find(is_over).unwrap_or(rest.len()); // Likewise.
        let mut text = String::with_capacity(bytes);
        while let Some(next) = self.peek() {
            match next {
                '\n' | '\r' => break,
                _ if next == quote => {
                    self.take();
                    break;
                }
                '\\' => {
                    self.take();
                    text.extend(self.escaped());
                }
                _ => text.extend(self.take()),
            }
        }
        Secret::new(text)
    }

    /// Returns what a backslash and the characters after it stand for.
    fn escaped(&mut self) -> Option<char> {
        let first = self.take()?;
        Some(match first {
            '0'..='7' => {
                let digits_max = if first <= '3' { 3 } else { 2 };
                let mut value = first.to_digit(8)?;
                for _ in 1..digits_max {
                    let Some(digit) = self.peek().and_then(|next| next.to_digit(8)) else {
                        break;
                    };
                    self.take();
                    value = value * 8 + digit;
                }
                char::from_u32(value)?
            }
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            other => other,
        })
    }

    /// Skips a comment; its first slash is gone.
    fn comment(&mut self) {
        // Whatever the character after the slash is, the end of the line too.
        if self.take() != Some('*') {
            while self.peek().is_some_and(|next| !matches!(next, '\n' | '\r')) {
                self.take();
            }
            return;
        }
        let mut before = None;
        while let Some(next) = self.take() {
            if next == '/' && before == Some('*') {
                return;
            }
            before = Some(next);
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        let is_end_of_line = match next {
            '\n' => true,
            '\r' => self.peek() != Some('\n'),
            _ => false,
        };
        if is_end_of_line {
            self.place.line += 1;
            self.place.column = 1;
        } else {
            self.place.column += 1;
        }
        Some(next)
    }
}
