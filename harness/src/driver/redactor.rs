//! Redacts secrets: values that a driver file takes from the environment or saves from answers. Traces and
//! reports are passed on, and such values open the sender.

use std::sync::{PoisonError, RwLock};

use super::template::encoded;

/// Shorter values occur in texts by chance.
const BYTES_MIN: usize = 4;
/// The replacement.
const ELLIPSIS: &str = "…";
/// How much of a long text is searched; far less is shown.
const SEARCHED_BYTES_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Redactor(RwLock<Vec<String>>);

impl Redactor {
    pub(super) fn learn(&self, values: impl IntoIterator<Item = String>) {
        let mut hidden = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for value in values.into_iter().filter(|value| value.len() >= BYTES_MIN) {
            // Also as it appears inside JSON, or in a form.
            let json = serde_json::Value::from(value.as_str()).to_string();
            hidden.push(json.trim_matches('"').to_owned());
            hidden.push(format!("{value:?}").trim_matches('"').to_owned());
            hidden.push(encoded(&value));
            hidden.push(value);
        }
        // The longest first: a value may be part of another.
        hidden.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        hidden.dedup();
    }

    pub(super) fn hide(&self, text: &str) -> String {
        let hidden = self.0.read().unwrap_or_else(PoisonError::into_inner);
        hidden.iter().fold(text.to_owned(), |text, value| text.replace(value, ELLIPSIS))
    }

    /// The redacted beginning of a text. It is redacted before it is cut, so that no part of a value remains
    /// at the cut.
    pub(super) fn beginning(&self, text: &[u8], chars_max: usize) -> String {
        let searched = &text[..text.len().min(SEARCHED_BYTES_MAX)];
        let mut shown = self.hide(&String::from_utf8_lossy(searched));
        if searched.len() < text.len() {
            self.drop_begun(&mut shown);
        }
        shown.chars().take(chars_max).collect()
    }

    /// Drops a prefix of a value at the end of a cut text.
    fn drop_begun(&self, text: &mut String) {
        let hidden = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // A character may be cut too.
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let begun = |value: &String| {
            let mut ends = value.char_indices().rev().map(|(at, _)| at);
            ends.find(|at| whole.ends_with(&value[..*at])).unwrap_or(0)
        };
        let dropped = hidden.iter().map(begun).max().unwrap_or(0);
        let kept = whole.len() - dropped;
        text.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_nowhere_in_what_is_said() {
        let hidden = Redactor::default();
        hidden.learn(["token".to_owned(), "token-and-more".to_owned(), "a".to_owned()]);
        assert_eq!(hidden.hide("a token, and token-and-more twice: token"), "a …, and … twice: …");
        hidden.learn(["a \"key\"=\n".to_owned()]);
        assert_eq!(hidden.hide(r#"{"k": "a \"key\"=\n"}"#), r#"{"k": "…"}"#);
        assert_eq!(hidden.hide("k=a+%22key%22%3D%0A&b=c"), "k=…&b=c");
    }

    #[test]
    fn no_part_of_what_is_hidden_is_left_where_a_text_is_cut() {
        let hidden = Redactor::default();
        hidden.learn(["tökens".to_owned()]);
        let text = "a tökens, and more";
        for chars in 0..text.len() {
            let shown = hidden.beginning(text.as_bytes(), chars);
            assert!("a …, and more".starts_with(&shown) && shown.chars().count() <= chars, "{shown}");
        }
        // All values are hidden but the one at the end of the searched part.
        let long = "tökens".repeat(SEARCHED_BYTES_MAX);
        let shown = hidden.beginning(long.as_bytes(), usize::MAX);
        assert!(shown.chars().all(|character| character == '…'), "{}", shown.len());
        let other = "ä".repeat(SEARCHED_BYTES_MAX);
        let shown = hidden.beginning(other.as_bytes(), usize::MAX);
        assert_eq!(shown.len(), SEARCHED_BYTES_MAX, "nothing else is dropped");
    }
}
