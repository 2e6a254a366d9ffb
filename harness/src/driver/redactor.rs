//! What must not be told: values that a driver file takes from the environment, and what a sender's answers were saved of.
//! Traces and reports are passed on, and such values are keys to the sender.

use std::sync::{PoisonError, RwLock};

use super::template::encoded;

/// What is shorter is in many a text by chance, and no secret.
const BYTES_MIN: usize = 4;
/// What stands in its place.
const ELLIPSIS: &str = "…";

/// Values that are left out of all that is said.
#[derive(Debug, Default)]
pub(super) struct Redactor(RwLock<Vec<String>>);

impl Redactor {
    /// Hides these too.
    pub(super) fn learn(&self, values: impl IntoIterator<Item = String>) {
        let mut hidden = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for value in values.into_iter().filter(|value| value.len() >= BYTES_MIN) {
            // As it stands inside a JSON text, or in a form.
            let json = serde_json::Value::from(value.as_str()).to_string();
            hidden.push(json.trim_matches('"').to_owned());
            hidden.push(encoded(&value));
            hidden.push(value);
        }
        // The longest first: a value may be part of another one.
        hidden.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        hidden.dedup();
    }

    /// The text without them.
    pub(super) fn hide(&self, text: &str) -> String {
        let hidden = self.0.read().unwrap_or_else(PoisonError::into_inner);
        hidden.iter().fold(text.to_owned(), |text, value| text.replace(value, ELLIPSIS))
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
}
