//! Finds the highest rate that meets an objective: doubles until it breaks, bisects, and confirms the result.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::scenario::quantity;

use super::trial::{Load, REQUESTS_MAX, Trial, run};

/// The final width of the bracket: 5 % of its lower end.
const NARROW: u64 = 20;
/// How often the lower end must hold.
const CONFIRMATIONS: u32 = 3;
/// Each is lower than the last by the bracket's width.
const CONFIRMED_RATES_MAX: u32 = 4;
const RATE_MAX: u64 = 1_000_000;

/// An objective: a latency percentile below a limit, and only 2xx answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    quantile: f64,
    below: Duration,
}

impl Slo {
    #[must_use]
    pub fn holds(&self, trial: &Trial) -> bool {
        trial.accepted() > 0 && trial.failed() == 0 && trial.missed == 0 && self.latency_holds(trial)
    }

    #[must_use]
    pub fn latency_holds(&self, trial: &Trial) -> bool {
        Duration::from_micros(self.latency_us(trial)) < self.below
    }

    pub(super) fn latency_us(&self, trial: &Trial) -> u64 {
        trial.latency.value_at_quantile(self.quantile)
    }

    /// Such as `p99.9`.
    pub(super) fn percentile(&self) -> String {
        // Rounded to a thousandth of a percent, since binary fractions have more digits.
        format!("p{}", (self.quantile * 100_000.0).round() / 1000.0)
    }

    pub(super) fn below_us(&self) -> u64 {
        u64::try_from(self.below.as_micros()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let wrong = || SloError { given: text.chars().take(64).collect() };
        let (percentile, below) = text.split_once('<').ok_or_else(wrong)?;
        let percentile: f64 =
            percentile.trim().strip_prefix('p').and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        let below: quantity::Duration = below.trim().parse().map_err(|_| wrong())?;
        if !(percentile > 0.0 && percentile <= 100.0) || below.nanos() == 0 {
            return Err(wrong());
        }
        Ok(Self { quantile: percentile / 100.0, below: Duration::from_nanos(below.nanos()) })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<{:?} and every answer 2xx", self.percentile(), self.below)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not an objective; expected a percentile and a duration, such as \"p99<250ms\"")]
pub struct SloError {
    given: String,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In requests per second.
    pub first: u64,
}

/// The objective held at the lower rate, repeatedly, and broke at the higher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bracket {
    /// In requests per second; 0 if none held.
    pub holds: u64,
    /// None if all held.
    pub breaks: Option<u64>,
    pub generator_limited: bool,
    /// The lower rate held often enough.
    pub confirmed: bool,
}

/// The state of a search. The caller owns it, so that an early end keeps it.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub bracket: Bracket,
    /// The last trial that held, or the first if nothing was accepted.
    pub best: Option<Trial>,
    pub trials: u32,
}

impl Found {
    /// The verdict of a search that ended by itself, with its reason.
    #[must_use]
    pub fn verdict(&self, slo: &Slo) -> (Verdict, String) {
        let Bracket { holds, breaks, generator_limited, confirmed } = self.bracket;
        let upper = match breaks {
            Some(breaks) => format!("fails at {breaks}/s"),
            None if confirmed => "no higher rate was tried".to_owned(),
            None => "higher rates are unknown".to_owned(),
        };
        let sentence = match &self.best {
            Some(trial) if trial.accepted() == 0 => {
                format!("{slo}: no request was accepted at {:.0}/s", trial.per_second)
            }
            _ if holds == 0 && breaks.is_none() => format!("{slo}: inconclusive, no trial was completed"),
            _ if holds == 0 => format!("{slo}: {upper}"),
            // An unconfirmed lower end may be untried.
            Some(trial) if !confirmed => {
                format!("{slo}: held, but not three times in a row, at {:.0}/s; {upper}", trial.per_second)
            }
            _ => format!("Holds up to {holds}/s: {slo}, three times in a row; {upper}"),
        };
        let status = match () {
            () if generator_limited => Verdict::Inconclusive,
            () if holds == 0 => Verdict::Fail,
            () if !confirmed => Verdict::Inconclusive,
            () => Verdict::Pass,
        };
        let limited = "; generator-limited: the load generator was too slow, so the receiver may carry more";
        (status, sentence + if generator_limited { limited } else { "" })
    }
}

/// Searches. `told` receives every trial.
pub async fn find_max(
    load: &Load,
    slo: &Slo,
    limits: Limits,
    found: &mut Found,
    mut told: impl FnMut(&Trial, bool),
) -> std::io::Result<()> {
    let rate_max = rate_max(load.lasts);
    let mut rate = limits.first.clamp(1, rate_max);
    loop {
        let tried = try_at(rate, load).await;
        if tried.is_err() && found.trials > 0 {
            // The receiver was reachable before, so this rate ended it.
            found.bracket.breaks = Some(rate);
        }
        let trial = tried?;
        let holds = slo.holds(&trial);
        told(&trial, holds);
        found.trials += 1;
        let bracket = &mut found.bracket;
        if holds {
            bracket.holds = rate;
            found.best = Some(trial);
        } else {
            bracket.breaks = Some(rate);
            bracket.generator_limited = is_ours(slo, &trial);
            if trial.accepted() == 0 && bracket.holds == 0 {
                found.best = Some(trial);
                return Ok(());
            }
        }
        match next(&found.bracket, rate_max) {
            Some(other) => rate = other,
            None => return confirm(load, slo, found, told).await,
        }
    }
}

/// Repeats the lower end, and a lower rate if it fails.
async fn confirm(
    load: &Load,
    slo: &Slo,
    found: &mut Found,
    mut told: impl FnMut(&Trial, bool),
) -> std::io::Result<()> {
    for _ in 0..CONFIRMED_RATES_MAX {
        let mut held = 0;
        while held < CONFIRMATIONS && found.bracket.holds > 0 {
            let trial = try_at(found.bracket.holds, load).await?;
            let holds = slo.holds(&trial);
            told(&trial, holds);
            found.trials += 1;
            if !holds {
                // This rate becomes the upper end.
                found.bracket.generator_limited = is_ours(slo, &trial);
                break;
            }
            held += 1;
            found.best = Some(trial);
        }
        found.bracket.confirmed = held == CONFIRMATIONS;
        if found.bracket.confirmed || found.bracket.holds == 0 {
            break;
        }
        found.bracket.step_down();
    }
    Ok(())
}

/// Whether the generator broke a trial: it was late, or its limit of open requests was reached while answers
/// were in time.
fn is_ours(slo: &Slo, trial: &Trial) -> bool {
    trial.is_generator_limited() || (trial.is_open_limited() && slo.latency_holds(trial))
}

async fn try_at(rate: u64, load: &Load) -> std::io::Result<Trial> {
    let load = Load { count: rate, per: Duration::from_secs(1), ..load.clone() };
    run(&load, std::future::pending()).await
}

fn rate_max(lasts: Duration) -> u64 {
    (REQUESTS_MAX / lasts.as_secs().max(1)).clamp(1, RATE_MAX)
}

impl Bracket {
    /// The lower end failed again, and becomes the upper one.
    fn step_down(&mut self) {
        self.breaks = Some(self.holds);
        self.holds -= (self.holds / NARROW).max(1);
    }
}

fn next(bracket: &Bracket, rate_max: u64) -> Option<u64> {
    let Some(breaks) = bracket.breaks else {
        return (bracket.holds < rate_max).then(|| (bracket.holds * 2).min(rate_max));
    };
    let gap = breaks - bracket.holds;
    let wide = gap > 1 && gap > bracket.holds / NARROW;
    wide.then(|| bracket.holds + gap / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(limit: u64, first: u64) -> (u64, Option<u64>) {
        let mut bracket = Bracket::default();
        let mut rate = first;
        loop {
            if rate <= limit {
                bracket.holds = rate;
            } else {
                bracket.breaks = Some(rate);
            }
            match next(&bracket, RATE_MAX) {
                Some(other) => rate = other,
                None => return (bracket.holds, bracket.breaks),
            }
        }
    }

    #[test]
    fn the_bracket_holds_the_limit_and_is_narrow() {
        for limit in [1, 7, 50, 333, 5_000, 99_999] {
            let (holds, breaks) = found(limit, 50);
            let breaks = breaks.unwrap();
            assert!(holds <= limit && limit < breaks, "{limit}: {holds} to {breaks}");
            assert!(breaks - holds <= (holds / NARROW).max(1), "{limit}: {holds} to {breaks}");
        }
        assert_eq!(found(0, 50).0, 0);
        assert_eq!(found(u64::MAX, 50), (RATE_MAX, None));
    }

    #[test]
    fn a_rate_that_fails_confirmation_becomes_the_upper_end() {
        let mut bracket =
            Bracket { holds: 1_000, breaks: Some(1_040), generator_limited: false, confirmed: false };
        bracket.step_down();
        assert_eq!((bracket.holds, bracket.breaks), (950, Some(1_000)));
        bracket.holds = 1;
        bracket.step_down();
        assert_eq!((bracket.holds, bracket.breaks), (0, Some(1)));
    }

    #[test]
    fn an_objective_is_a_percentile_and_a_time() {
        assert_eq!("p99<250ms".parse::<Slo>().unwrap().below, Duration::from_millis(250));
        assert_eq!("p99.9 < 1s".parse::<Slo>().unwrap().below, Duration::from_secs(1));
        for percentile in ["p55", "p99.9", "p99.999", "p7"] {
            let slo: Slo = format!("{percentile}<1s").parse().unwrap();
            assert!(slo.to_string().starts_with(&format!("{percentile}<")), "{slo}");
        }
        for wrong in ["", "p99", "99<250ms", "p0<1s", "p101<1s", "p99<250", "p99<0s"] {
            assert!(wrong.parse::<Slo>().is_err(), "{wrong:?}");
        }
    }
}
