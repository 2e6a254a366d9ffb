pub(super) mod after;
pub(super) mod after_endpoint;
pub(super) mod after_hostile;
pub(super) mod after_zero;
pub(super) mod attempts;
pub(super) mod backoff_bounds;
pub(super) mod backoff_jitter;
pub(super) mod gone;
pub(super) mod hidden;
pub(super) mod status;

use crate::check::evidence::{Delivery, Evidence, Exchange, Lane};
use crate::scenario::quantity::{Day, MONTHS};
use crate::scenario::{Answer, Behaviour, RetryAfter, SECOND};

// `Retry-After` as RFC 9110, section 10.2.3, defines it: digits, or a date. All other values are nonsense.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedPause {
    Seconds(u64),
    /// In Unix seconds.
    Date(u64),
    Nonsense,
}

/// A longer pause is an attack or a mistake: 31 days.
const SECONDS_MAX: u64 = 31 * 86_400;

impl RequestedPause {
    #[must_use]
    pub fn read(text: &str) -> Self {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let seconds = text.parse().ok().filter(|seconds| *seconds <= SECONDS_MAX);
            return seconds.map_or(Self::Nonsense, Self::Seconds);
        }
        date(text).map_or(Self::Nonsense, Self::Date)
    }

    /// The first moment at which the sender may return, on the run's clock; at most `cap` after the answer.
    ///
    /// It counts from the answer's first byte: `Retry-After` is in the head, and a sender may begin to wait
    /// before it has read a long body.
    pub(in crate::check) fn until(
        self,
        evidence: &Evidence<'_>,
        exchange: &Exchange,
        cap: u64,
    ) -> Option<u64> {
        let latest = exchange.begun.saturating_add(cap);
        match self {
            Self::Seconds(0) | Self::Nonsense => None,
            Self::Seconds(seconds) => Some(exchange.begun.saturating_add(seconds * SECOND).min(latest)),
            Self::Date(date) => {
                let date = date.saturating_mul(SECOND).saturating_sub(evidence.trace.header.began_unix_ns);
                // A clock that is ahead, or may be, gets there sooner; a clock that is behind does not excuse
                // an early return.
                Some(date.saturating_sub(evidence.ahead.most).min(latest))
            }
        }
    }
}

impl Evidence<'_> {
    /// Only 429 and 503 request a pause.
    pub(in crate::check) fn requested_pause(&self, n: u32) -> Option<RequestedPause> {
        let asks = matches!(self.exchange(n).status(), Some(429 | 503));
        self.retry_after(n)
            .filter(|_| asks)
            .map(RequestedPause::read)
            .filter(|asked| *asked != RequestedPause::Nonsense)
    }
}

/// Every status counts, as a sender may follow the header there too.
pub(in crate::check) fn pause_until(evidence: &Evidence<'_>, lane: &Lane<'_>, before: u64) -> u64 {
    let cap = lane.subscriber.retry.retry_after_cap.0;
    let asked = lane.arrivals.iter().filter_map(|n| {
        let exchange = evidence.exchange(*n);
        let asked = RequestedPause::read(evidence.retry_after(*n)?);
        (exchange.begun < before).then(|| asked.until(evidence, exchange, cap)).flatten()
    });
    asked.max().unwrap_or(0)
}

/// An IMF-fixdate (`Sun, 06 Nov 1994 08:49:37 GMT`), in Unix seconds.
fn date(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(", ")?;
    let parts: Vec<&str> = rest.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let days = format!("{year}-{month:02}-{day:0>2}").parse::<Day>().ok()?.0;
    let clock: Vec<u64> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hours, minutes, seconds] = clock[..] else { return None };
    (hours < 24 && minutes < 60 && seconds <= 60)
        .then_some(days * 86_400 + hours * 3_600 + minutes * 60 + seconds)
}

pub(in crate::check) fn has(evidence: &Evidence<'_>, wanted: fn(u16, Option<&RetryAfter>) -> bool) -> bool {
    let mut behaviours = evidence.scenario.subscribers.iter().flat_map(|subscriber| &subscriber.behaviours);
    behaviours.any(|behaviour: &Behaviour| match &behaviour.answer {
        Answer::Status(reply) => wanted(reply.status, reply.retry_after.as_ref()),
        Answer::Enforce { .. } => wanted(429, Some(&RetryAfter::Seconds(1))),
        _ => false,
    })
}

pub(in crate::check) fn expects_retries(evidence: &Evidence<'_>, lane: u32) -> bool {
    let fails = |behaviour: &Behaviour| match &behaviour.answer {
        Answer::Status(reply) => {
            let finals = &evidence.trace.declared.final_statuses;
            !matches!(reply.status, 200..=299 | 410) && !finals.contains(&reply.status)
        }
        Answer::Reset => behaviour.attempts.is_some(),
        Answer::HugeAnswer { .. }
        | Answer::Stall
        | Answer::Refuse
        | Answer::NoAccept
        | Answer::WrongCertificate(_) => false,
        _ => true,
    };
    let tried_again = |delivery: &Delivery| evidence.attempts(delivery).len() > 1;
    evidence.lanes[lane as usize].subscriber.behaviours.iter().any(fails)
        || evidence.deliveries_of(lane).iter().any(tried_again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_dates_and_nonsense_are_told_apart() {
        let rows = [
            ("3", RequestedPause::Seconds(3)),
            ("0", RequestedPause::Seconds(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", RequestedPause::Date(784_111_777)),
            ("", RequestedPause::Nonsense),
            ("-5", RequestedPause::Nonsense),
            ("inf", RequestedPause::Nonsense),
            ("1e300", RequestedPause::Nonsense),
            ("100000000000000000000", RequestedPause::Nonsense),
            ("1.5", RequestedPause::Nonsense),
            ("Sun, 06 Nov 1994 08:49:37", RequestedPause::Nonsense),
        ];
        for (text, expected) in rows {
            assert_eq!(RequestedPause::read(text), expected, "{text:?}");
        }
    }
}
