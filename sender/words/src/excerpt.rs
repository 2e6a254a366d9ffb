//! Untrusted text in messages.

use std::fmt;

/// Invisible characters, line breaks and changes of direction, by which two names could look the same. Not the joiners
/// and variation selectors, which scripts and emoji need.
#[must_use]
pub const fn is_hidden(letter: char) -> bool {
    matches!(letter,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

/// Prints shortened, quoted and escaped, so that untrusted text can neither flood nor forge log lines.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt {
    text: Box<str>,
    cut: bool,
}

impl Excerpt {
    const BYTES_MAX: usize = 48;

    #[must_use]
    pub fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(Self::BYTES_MAX);
        Self { text: text[..end].into(), cut: end < text.len() }
    }

    /// The kept part, unescaped.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.text, if self.cut { "…" } else { "" })
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(Excerpt::of("short").to_string(), r#""short""#);
        let long = "ü".repeat(30);
        assert_eq!(Excerpt::of(&long).to_string(), format!("\"{}\"…", "ü".repeat(24)));
        assert_eq!(Excerpt::of(&format!("x{long}")).as_str(), format!("x{}", "ü".repeat(23)));
    }

    #[test]
    fn it_cannot_forge_a_line_of_a_log() {
        assert_eq!(Excerpt::of("a\nERROR b\u{1b}[31m").to_string(), r#""a\nERROR b\u{1b}[31m""#);
    }
}
