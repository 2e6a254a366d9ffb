//! The part of the traffic that is retries, and how many the breaker and `Retry-After` save: the same subscribers, simulated
//! without the one and with the other.

use hookproof_judge::scenario::{Answer, Breaker, Duration, RetryAfter, SECOND, Scenario, Subscriber};
use serde::Serialize;

use super::judge::in_parallel;
use super::simulated;
use crate::sim::figures::{Figures, LaneFigures};
use crate::sim::{Options, SimError};

const PAUSE_SECONDS: u64 = 60;
/// The sender's own, for subscribers without one.
const DEFAULT: Breaker =
    Breaker { failures: 10, cooldown: Duration(300 * SECOND), cooldown_max: Duration(3_600 * SECOND) };
/// A breaker that opens for no longer than this has no effect.
const OFF: Breaker =
    Breaker { failures: 1_000_000, cooldown: Duration(1_000_000), cooldown_max: Duration(1_000_000) };

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retries {
    pub requests: u64,
    /// Those beyond the first of each delivery.
    pub retries: u64,
    /// Requests of the peak second, and the retries among them.
    pub peak: (u64, u64),
    /// Breakers of the failing subscribers.
    pub breakers: Vec<String>,
    /// The retries if no breaker paused a failing endpoint.
    pub without_breaker: u64,
    /// The retries if each 429 and 5xx were a 503 that asks for a pause; none if no endpoint answers so.
    pub with_retry_after: Option<u64>,
}

impl Retries {
    /// None without retries.
    pub(super) fn of(
        scenario: &Scenario,
        figures: &Figures,
        options: &Options,
    ) -> Result<Option<Self>, SimError> {
        let retries = retries(&figures.lanes);
        if retries == 0 {
            return Ok(None);
        }
        // Lanes share only the machine, so those without retries would have none here.
        let both = scenario.subscribers.iter().zip(&figures.lanes);
        let retried: Vec<Subscriber> =
            both.filter(|(_, lane)| lane.retries > 0).map(|(one, _)| one.clone()).collect();
        let mut breakers: Vec<String> = Vec::new();
        for text in retried.iter().map(|one| phrase(one.breaker.as_ref().unwrap_or(&DEFAULT))) {
            if !breakers.contains(&text) {
                breakers.push(text);
            }
        }
        let with = |change: fn(&mut Subscriber)| {
            let mut changed = Scenario { subscribers: retried.clone(), ..scenario.clone() };
            changed.subscribers.iter_mut().for_each(change);
            changed
        };
        let closed = with(|one| one.breaker = Some(OFF));
        let asking = with(ask);
        let is_asking = asking.subscribers != retried;
        let variants: Vec<&Scenario> = std::iter::once(&closed).chain(is_asking.then_some(&asking)).collect();
        let played = in_parallel(variants, |variant| {
            simulated(variant, options).map(|figures| self::retries(&figures.lanes))
        });
        let played = played.into_iter().collect::<Result<Vec<u64>, _>>()?;
        Ok(Some(Self {
            requests: figures.lanes.iter().map(|lane| lane.arrivals).sum(),
            retries,
            peak: (figures.busiest.count, figures.busiest.retries),
            breakers,
            without_breaker: played.first().copied().unwrap_or(retries),
            with_retry_after: played.get(1).copied(),
        }))
    }

    /// A sentence without its end.
    #[must_use]
    pub(super) fn told(&self) -> String {
        let percent = self.retries.saturating_mul(100) / self.requests.max(1);
        let (requests, retries) = self.peak;
        let asking = self.with_retry_after.map_or(String::new(), |retries| {
            format!(", and {retries} if each 429 and 5xx were a 503 with Retry-After: {PAUSE_SECONDS}")
        });
        format!(
            "retries: {} of {} requests ({percent} %), {retries} of {requests} in the peak second; they would be {} \
             without the breaker ({}){asking}",
            self.retries,
            self.requests,
            self.without_breaker,
            self.breakers.join("; ")
        )
    }
}

fn retries(lanes: &[LaneFigures]) -> u64 {
    lanes.iter().map(|lane| lane.retries).sum()
}

fn phrase(breaker: &Breaker) -> String {
    let Breaker { failures, cooldown, cooldown_max } = breaker;
    format!("opens after {failures} failures in a row for {cooldown}, up to {cooldown_max}")
}

/// Lets the endpoint ask for a pause where it answers that it cannot serve.
fn ask(subscriber: &mut Subscriber) {
    for behaviour in &mut subscriber.behaviours {
        if let Answer::Status(reply) = &mut behaviour.answer
            && (reply.status == 429 || reply.status >= 500)
            && reply.retry_after.is_none()
        {
            (reply.status, reply.retry_after) = (503, Some(RetryAfter::Seconds(PAUSE_SECONDS)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(behaviour: &str) -> Option<Retries> {
        let text = format!(
            "name = \"r\"\ndrain = \"5min\"\n[[traffic]]\nshape = \"steady\"\nrate = \"10/s\"\nlasts = \"30s\"\n\
             [[subscriber]]\nname = \"well\"\n[[subscriber]]\nname = \"ill\"\n{behaviour}"
        );
        let scenario = Scenario::from_text(&text, "r.toml").unwrap();
        let figures = simulated(&scenario, &Options::default()).unwrap();
        Retries::of(&scenario, &figures, &Options::default()).unwrap()
    }

    #[test]
    fn without_failures_there_are_no_retries() {
        assert_eq!(found(""), None);
    }

    #[test]
    fn a_breaker_and_a_pause_save_retries() {
        let found = found("[[subscriber.behaviour]]\nanswer = 504\n").unwrap();
        assert!(found.retries > 0 && found.retries < found.without_breaker, "{found:?}");
        assert!(found.with_retry_after.is_some_and(|retries| retries < found.without_breaker), "{found:?}");
        assert!(found.peak.1 <= found.peak.0 && found.requests > 300 + found.retries, "{found:?}");
        let told = found.told();
        assert!(
            told.starts_with(&format!("retries: {} of {} requests (", found.retries, found.requests)),
            "{told}"
        );
        assert!(told.contains(" with Retry-After: 60"), "{told}");
        assert!(told.contains(" (opens after 10 failures in a row for 5min, up to 1h)"), "{told}");
    }

    #[test]
    fn a_cut_connection_asks_for_nothing() {
        assert_eq!(
            found("[[subscriber.behaviour]]\nanswer = \"reset-after-read\"\n").unwrap().with_retry_after,
            None
        );
    }
}
