//! Coalescing: a subscriber that opts in receives only the newest event of a key within a window.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::event_type::EventType;
use super::event_type::Pattern;
use super::key::EventKey;
use crate::documented::documented;
use crate::engine::time::Nanos;

documented! {
    /// Which events are coalesced, and over how long a while.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct CoalescingRule {
        /// The types of events that it is for. Events of different types are never taken for each other.
        pub events: Pattern,
        /// How long the first event waits for newer ones. It must be shorter than `retry.ttl`.
        pub window: Nanos,
    }
}

/// The first matching rule counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<CoalescingRule>", into = "Vec<CoalescingRule>")]
pub struct Coalescing(Vec<CoalescingRule>);

impl Coalescing {
    pub const RULES_MAX: usize = 16;
    pub const WINDOW_MAX: Nanos = Nanos::HOUR;

    /// The slot in which the event replaces others, and the window. `None` without a key or a matching rule.
    #[must_use]
    pub fn slot(&self, event_type: &EventType, key: Option<&EventKey>) -> Option<(CoalescingKey, Nanos)> {
        let key = key?;
        let rule = self.0.iter().find(|rule| rule.events.matches(event_type))?;
        Some((CoalescingKey::of(event_type, key), rule.window))
    }
}

impl TryFrom<Vec<CoalescingRule>> for Coalescing {
    type Error = CoalescingError;

    fn try_from(rules: Vec<CoalescingRule>) -> Result<Self, CoalescingError> {
        if rules.len() > Self::RULES_MAX {
            return Err(CoalescingError::TooMany { count: rules.len() });
        }
        let possible = |window| window > Nanos::ZERO && window <= Self::WINDOW_MAX;
        match rules.iter().find(|rule| !possible(rule.window)) {
            Some(rule) => Err(CoalescingError::Window { window: rule.window }),
            None => Ok(Self(rules)),
        }
    }
}

impl From<Coalescing> for Vec<CoalescingRule> {
    fn from(coalescing: Coalescing) -> Self {
        coalescing.0
    }
}

/// A short digest for indexes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoalescingKey(pub [u8; 16]);

impl CoalescingKey {
    fn of(event_type: &EventType, key: &EventKey) -> Self {
        // No type contains NUL.
        let digest = Sha256::new()
            .chain_update(event_type.as_str())
            .chain_update([0])
            .chain_update(key.as_str())
            .finalize();
        Self(std::array::from_fn(|at| digest[at]))
    }
}

impl fmt::Debug for CoalescingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoalescingError {
    #[error("there are {count} coalescing rules; at most {} are accepted", Coalescing::RULES_MAX)]
    TooMany { count: usize },
    #[error("the coalescing window is {window}; expected more than 0 and at most {}", Coalescing::WINDOW_MAX)]
    Window { window: Nanos },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Coalescing, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    fn slot(coalescing: &Coalescing, event_type: &str, key: &str) -> Option<(CoalescingKey, Nanos)> {
        coalescing.slot(&event_type.parse().unwrap(), Some(&key.parse().unwrap()))
    }

    #[test]
    fn events_are_coalesced_by_type_and_key_where_a_rule_says_so() {
        let rules =
            read(r#"[{"events":"video.rank_updated","window":"5s"},{"events":"video.*","window":"250ms"}]"#)
                .unwrap();
        let (first, window) = slot(&rules, "video.rank_updated", "v1").unwrap();
        assert_eq!(window, Nanos::from_secs(5));
        assert_eq!(slot(&rules, "video.rank_updated", "v1"), Some((first, window)));
        assert_ne!(slot(&rules, "video.rank_updated", "v2").unwrap().0, first);
        let (other, window) = slot(&rules, "video.trending", "v1").unwrap();
        assert_eq!((other == first, window), (false, Nanos::from_millis(250)));
        assert_eq!(slot(&rules, "channel.new", "v1"), None);
        assert_eq!(rules.slot(&"video.trending".parse().unwrap(), None), None);
        assert_eq!(slot(&Coalescing::default(), "video.trending", "v1"), None);
    }

    #[test]
    fn a_key_is_the_hash_of_type_and_key() {
        let all = read(r#"[{"events":"*","window":"1s"}]"#).unwrap();
        // hashlib.sha256(b"a.b\0c").hexdigest()[:32]
        assert_eq!(format!("{:?}", slot(&all, "a.b", "c").unwrap().0), "8b745bb4ec41bcac3a1a6a1afcb9f7a3");
    }

    #[test]
    fn impossible_rules_are_refused() {
        let window = |window: &str| read(&format!(r#"[{{"events":"*","window":"{window}"}}]"#));
        assert!(window("1h").is_ok());
        assert!(window("0s").unwrap_err().contains("is 0ns; expected more than 0 and at most 1h"));
        assert!(window("61min").unwrap_err().contains("is 61min"));
        let many = vec![r#"{"events":"*","window":"1s"}"#; 17].join(",");
        assert!(read(&format!("[{many}]")).unwrap_err().contains("there are 17"));
        assert!(
            read(r#"[{"events":"*","window":5}]"#).unwrap_err().contains("expected a duration with its unit")
        );
    }
}
