//! The real time of scenarios, and the guard against long ones.

use std::path::Path;

use hookproof_judge::scenario::{Duration, Scenario};
use hookproof_play::traffic::Schedule;

/// The longest traffic without confirmation.
const UNASKED_MAX: Duration = Duration::from_secs(3_600);

/// Refuses a scenario whose traffic takes more than an hour, or than the confirmed time.
pub(super) fn allow(path: &Path, scenario: &Scenario, known: Option<Duration>) -> Result<(), String> {
    let lasts = lasts(path, scenario)?;
    if lasts <= known.unwrap_or(UNASKED_MAX).max(UNASKED_MAX) {
        return Ok(());
    }
    Err(format!(
        "{} takes {lasts} of real time; play it in virtual time (hookproof sim {}), leave it out, or say --yes-it-takes {lasts}",
        scenario.name,
        path.display()
    ))
}

/// The length of a scenario's traffic. A recording without a length has that of its events.
fn lasts(path: &Path, scenario: &Scenario) -> Result<Duration, String> {
    let known: Option<u64> = scenario
        .traffic
        .iter()
        .map(|phase| phase.lasts.map(|lasts| lasts.0))
        .try_fold(0_u64, |sum, lasts| Some(sum.saturating_add(lasts?)));
    if let Some(nanos) = known {
        return Ok(Duration(nanos));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, scenario.seed, folder);
    schedule.map(|schedule| Duration(schedule.lasts())).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(lasts: &str) -> Scenario {
        let text = format!(
            "name = \"long\"\ndrain = \"2h\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1/s\"\nlasts = \"{lasts}\"\n\
             [[traffic]]\nshape = \"pause\"\nlasts = \"30min\"\n[[subscriber]]\nname = \"one\"\n"
        );
        Scenario::from_text(&text, "long.toml").unwrap()
    }

    #[test]
    fn what_takes_longer_than_an_hour_is_played_only_by_someone_who_knows() {
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3_600));
        let rows = [
            ("30min", None, true),
            ("31min", None, false),
            ("30min", Some(Duration::from_secs(60)), true),
            ("23h", hours(23), false),
            ("23h", hours(24), true),
        ];
        for (lasts, known, played) in rows {
            let allowed = allow(Path::new("long.toml"), &scenario(lasts), known);
            assert_eq!(allowed.is_ok(), played, "{lasts}, {known:?}: {allowed:?}");
        }
        let said = allow(Path::new("long.toml"), &scenario("23h"), None).unwrap_err();
        assert!(
            said.contains("hookproof sim long.toml") && said.contains("--yes-it-takes 1410min"),
            "{said}"
        );
    }
}
