//! An endpoint's permission (CloudEvents HTTP WebHook 1.0.2, section 4).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::RangeInclusive;

use crate::engine::Nanos;
use crate::engine::Refusal;
use crate::engine::contract::{Contract, WINDOW_LIMIT_MAX, WINDOWS_MAX, Window};
use crate::guard::Target;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permission {
    pub origin: Box<str>,
    /// A minute.
    pub rate: u64,
}

const ANY: &[u8] = b"*";

impl Permission {
    pub const ORIGIN_BYTES: RangeInclusive<usize> = 1..=253;

    #[must_use]
    pub fn new(origin: &str, rate: u64) -> Option<Self> {
        let is_name = origin.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        is_name.then(|| Self { origin: origin.into(), rate })
    }

    pub fn judge(&self, origin: Option<&[u8]>, rate: Option<&[u8]>) -> Result<(), Refusal> {
        let origin = origin.ok_or(Refusal::NoOrigin)?.trim_ascii();
        if origin != ANY && !origin.eq_ignore_ascii_case(self.origin.as_bytes()) {
            return Err(Refusal::OtherOrigin);
        }
        let rate = rate.ok_or(Refusal::NoRate)?.trim_ascii();
        if rate == ANY {
            return Ok(());
        }
        let is_number = !rate.is_empty() && rate.iter().all(u8::is_ascii_digit);
        let digits = str::from_utf8(rate).ok().filter(|_| is_number).ok_or(Refusal::NoRate)?;
        match digits.parse().unwrap_or(u64::MAX) {
            0 => Err(Refusal::NoRate),
            allowed if allowed < self.rate => Err(Refusal::Slower(allowed)),
            _ => Ok(()),
        }
    }

    /// Differs for another endpoint, origin or rate.
    #[must_use]
    pub fn key(&self, target: &Target) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self, target).hash(&mut hasher);
        hasher.finish()
    }

    #[must_use]
    pub fn reason(&self, refusal: Refusal) -> String {
        let Self { origin, rate } = self;
        match refusal {
            Refusal::NoAnswer => "its endpoint gave no whole answer to OPTIONS over HTTP/1.1".to_owned(),
            Refusal::NoOrigin => "its endpoint answered OPTIONS without WebHook-Allowed-Origin".to_owned(),
            Refusal::OtherOrigin => {
                format!(
                    "its endpoint answered OPTIONS with another WebHook-Allowed-Origin than {origin} and *"
                )
            }
            Refusal::NoRate => {
                "its endpoint answered OPTIONS without a WebHook-Allowed-Rate above 0".to_owned()
            }
            Refusal::Slower(allowed) => format!(
                "its endpoint allows {allowed} requests a minute, and limit allows up to {rate} in one minute"
            ),
        }
    }

    #[must_use]
    pub fn remedy(&self, refusal: Refusal, subscriber: &str, contract: &Contract) -> String {
        match refusal {
            Refusal::Slower(allowed) => {
                let instead = format!("have the endpoint allow {}", self.rate);
                match windows_within(allowed, contract) {
                    Some(windows) => {
                        format!("`subscriber set {subscriber} 'limit.windows={windows}'`, or {instead}")
                    }
                    None => instead,
                }
            }
            _ => format!(
                "have the endpoint permit {}, then `subscriber retry {subscriber}`; or unset permission.origin if the endpoint knows no such handshake",
                self.origin
            ),
        }
    }
}

/// The windows of the contract with one of `allowed` a minute, as JSON; none if they would be too many.
fn windows_within(allowed: u64, contract: &Contract) -> Option<String> {
    let allowed = allowed.min(WINDOW_LIMIT_MAX.into());
    let is_of_use = |cap: &&Window| cap.length() > Nanos::MINUTE || u64::from(cap.limit()) < allowed;
    let kept = contract.windows().iter().filter(is_of_use);
    let mut windows: Vec<String> = kept.map(|cap| format!("{} per {}", cap.limit(), cap.length())).collect();
    windows.push(format!("{allowed} per 1min"));
    (windows.len() <= WINDOWS_MAX).then(|| format!("{windows:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_for_a_lower_rate_keeps_the_other_windows() {
        let permission = Permission::new("events.example", 310).unwrap();
        let check = |windows: &[(u32, Nanos)], allowed: u64, expected: &str| {
            let windows = windows.iter().map(|(limit, length)| Window::new(*limit, *length).unwrap());
            let contract = Contract::new(None, windows.collect(), 1).unwrap();
            let remedy = permission.remedy(Refusal::Slower(allowed), "shop", &contract);
            assert!(remedy.starts_with(expected), "{remedy}");
        };
        check(&[], 60, "`subscriber set shop 'limit.windows=[\"60 per 1min\"]'`, or have");
        let two = [(100, Nanos::HOUR), (2, Nanos::SECOND), (90, Nanos::MINUTE)];
        check(
            &two,
            60,
            "`subscriber set shop 'limit.windows=[\"100 per 1h\", \"2 per 1s\", \"60 per 1min\"]'`",
        );
        check(&[], 2_000_000, "`subscriber set shop 'limit.windows=[\"1000000 per 1min\"]'`");
        check(&[(100, Nanos::HOUR); 8], 60, "have the endpoint allow 310");
    }

    #[test]
    fn permission_is_granted_for_the_origin_and_the_whole_rate() {
        let permission = Permission::new("events.example", 310).unwrap();
        let check = |origin: Option<&str>, rate: Option<&str>, expected: Result<(), Refusal>| {
            let judged = permission.judge(origin.map(str::as_bytes), rate.map(str::as_bytes));
            assert_eq!(judged, expected, "{origin:?} {rate:?}");
        };
        for origin in ["*", "events.example", "Events.Example"] {
            for rate in ["*", "310", "0310", "99999999999999999999"] {
                check(Some(origin), Some(rate), Ok(()));
            }
        }
        check(None, Some("*"), Err(Refusal::NoOrigin));
        for origin in ["", "example", "events.example, *", "https://events.example"] {
            check(Some(origin), Some("*"), Err(Refusal::OtherOrigin));
        }
        for rate in [None, Some(""), Some("0"), Some("-1"), Some("1e9"), Some("310/min")] {
            check(Some("*"), rate, Err(Refusal::NoRate));
        }
        check(Some("*"), Some("309"), Err(Refusal::Slower(309)));
        assert_eq!(Permission::new("https://events.example", 1), None);
    }
}
