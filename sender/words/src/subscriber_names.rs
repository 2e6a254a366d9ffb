//! Names of subscribers, for tokens that reach only these.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Names, and prefixes with a star.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct SubscriberNames(Arc<[String]>);

impl SubscriberNames {
    pub const COUNT_MAX: usize = 64;

    #[must_use]
    pub fn include(&self, name: &str) -> bool {
        self.0.iter().any(|one| match one.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == one,
        })
    }

    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for SubscriberNames {
    type Error = SubscriberNamesError;

    fn try_from(names: Vec<String>) -> Result<Self, SubscriberNamesError> {
        if !(1..=Self::COUNT_MAX).contains(&names.len()) {
            return Err(SubscriberNamesError::Count(names.len()));
        }
        let is_odd = |name: &&String| {
            let fixed = name.strip_suffix('*').unwrap_or(name);
            fixed.is_empty() || fixed.contains('*')
        };
        match names.iter().find(is_odd) {
            Some(name) => Err(SubscriberNamesError::Star(name.clone())),
            None => Ok(Self(names.into())),
        }
    }
}

impl From<SubscriberNames> for Vec<String> {
    fn from(names: SubscriberNames) -> Self {
        names.0.to_vec()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriberNamesError {
    #[error("{0:?} is neither a name nor a prefix with a star, such as acme-*")]
    Star(String),
    #[error("there are {0} names; expected 1 to {max}", max = SubscriberNames::COUNT_MAX)]
    Count(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Result<SubscriberNames, SubscriberNamesError> {
        names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>().try_into()
    }

    #[test]
    fn a_name_is_included_whole_or_by_a_prefix_with_a_star() {
        let some = names(&["shop", "acme-*"]).unwrap();
        for (name, expected) in [
            ("shop", true),
            ("shops", false),
            ("Shop", false),
            ("acme-", true),
            ("acme-one", true),
            ("acme", false),
            ("acmes-one", false),
            ("other-acme-one", false),
        ] {
            assert_eq!(some.include(name), expected, "{name}");
        }
        let text = serde_json::to_string(&some).unwrap();
        assert_eq!(text, r#"["shop","acme-*"]"#);
        assert_eq!(serde_json::from_str::<SubscriberNames>(&text).unwrap(), some);
    }

    #[test]
    fn other_stars_and_no_or_too_many_names_are_refused() {
        for name in ["", "*", "a*b", "*a", "a**"] {
            assert_eq!(names(&["b", name]), Err(SubscriberNamesError::Star(name.to_owned())));
        }
        assert_eq!(names(&[]), Err(SubscriberNamesError::Count(0)));
        assert_eq!(names(&["a"; 65]), Err(SubscriberNamesError::Count(65)));
        assert!(serde_json::from_str::<SubscriberNames>("[]").is_err());
    }
}
