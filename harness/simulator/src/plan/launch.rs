//! Launch questions: the sender is killed at the peak, a partner is away, a partner answers slowly. Each changes the
//! scenario before it is planned.

use std::str::FromStr;

use serde::Serialize;

use hookproof_judge::check::verdict::show;
use hookproof_judge::scenario::{
    Answer, Behaviour, Duration, FaultAction, FaultPlan, Millionths, Range, SECOND, Scenario, Subscriber,
    nearest,
};
use hookproof_play::traffic::Schedule;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct With {
    text: String,
    what: ConditionKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ConditionKind {
    /// `kill@peak`: a fault of the sender.
    Fault { action: FaultAction, when: FaultMoment, lasts: Duration },
    /// `partner-b down 10min`: an endpoint's port is closed.
    Down { whom: String, lasts: Duration, when: FaultMoment },
    /// `partner-a answers 2s`: the latency of an endpoint that behaves.
    Answers { whom: String, range: Range<Duration> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultMoment {
    Peak,
    /// After the beginning.
    At(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    pub asked: String,
    /// Its meaning, with its moment.
    pub means: String,
    /// None for all.
    pub whom: Option<String>,
}

impl Condition {
    #[must_use]
    pub fn of_all(asked: impl Into<String>, means: impl Into<String>) -> Self {
        Self { asked: asked.into(), means: means.into(), whom: None }
    }

    /// It does not reveal another partner.
    pub(super) fn meaning_for(&self, partner: &Subscriber) -> &str {
        match &self.whom {
            Some(whom) if *whom != partner.name && *whom != partner.group => {
                "another subscriber is down or slow meanwhile"
            }
            _ => &self.means,
        }
    }
}

/// The third is whether it needs a duration.
const FAULTS: [(&str, FaultAction, bool, &str); 5] = [
    ("kill", FaultAction::Kill, false, "the sender is killed"),
    ("restart", FaultAction::Restart, false, "the sender is restarted"),
    ("stop", FaultAction::Stop, true, "the sender is stopped"),
    ("disk-full", FaultAction::DiskFull, true, "the sender's disk is full"),
    ("lock-database", FaultAction::LockDatabase, true, "the sender's database is locked"),
];

const EXPECTED: &str =
    "expected one like kill@peak, stop@30s 10s, 'partner-b down 10min' or 'partner-a answers 2s'";

/// In nanoseconds since the beginning.
fn peak(schedule: &Schedule) -> u64 {
    let (mut best, mut second) = ((0, 0), (0, 0));
    for due in schedule.due() {
        let at = due.at / SECOND;
        second = if second.0 == at { (at, second.1 + 1) } else { (at, 1) };
        if second.1 > best.1 {
            best = second;
        }
    }
    best.0 * SECOND + SECOND / 2
}

impl With {
    /// # Errors When no subscriber matches, or the moment is after the end of the run.
    pub fn apply(&self, scenario: &mut Scenario, schedule: &Schedule) -> Result<Condition, String> {
        let at = |when: FaultMoment| self.moment(when, scenario, schedule);
        let (means, whom) = match &self.what {
            ConditionKind::Fault { action, when, lasts } => {
                let (at, lasts, action) = (at(*when)?, *lasts, action.clone());
                let told =
                    FAULTS.iter().find(|(_, known, ..)| *known == action).map_or("", |(.., told)| told);
                scenario.faults.push(FaultPlan { at, lasts, worker: None, action });
                scenario.faults.sort_by_key(|fault| fault.at);
                let length = if lasts.0 == 0 { String::new() } else { format!(", for {lasts}") };
                let peak = if *when == FaultMoment::Peak { "at the peak, " } else { "" };
                (format!("{told} {peak}{} after the traffic begins{length}", show(at.0)), None)
            }
            ConditionKind::Down { whom, lasts, when } => {
                let at = at(*when)?;
                let away = Behaviour {
                    at,
                    lasts: Some(*lasts),
                    answer: Answer::Refuse,
                    share: Millionths::ONE,
                    attempts: None,
                    latency: None,
                    serves: None,
                };
                self.each(scenario, whom, |one| one.behaviours.insert(0, away.clone()))?;
                let from = show(at.0);
                (
                    format!("{whom} is down from {from} after the traffic begins, for {lasts}"),
                    Some(whom.clone()),
                )
            }
            ConditionKind::Answers { whom, range } => {
                self.each(scenario, whom, |one| one.answers = *range)?;
                (format!("{whom} answers after {range}"), Some(whom.clone()))
            }
        };
        Ok(Condition { asked: self.text.clone(), means, whom })
    }

    fn moment(
        &self,
        when: FaultMoment,
        scenario: &Scenario,
        schedule: &Schedule,
    ) -> Result<Duration, String> {
        let FaultMoment::At(at) = when else { return Ok(Duration(peak(schedule))) };
        let end = schedule.lasts().saturating_add(scenario.drain.0);
        if at.0 < end {
            return Ok(at);
        }
        Err(format!(
            "--with '{}' comes {} after the traffic begins, past the end of the run: the traffic lasts {}, the \
             drain {}",
            self.text,
            show(end),
            show(schedule.lasts()),
            show(scenario.drain.0)
        ))
    }

    fn each(
        &self,
        scenario: &mut Scenario,
        whom: &str,
        change: impl Fn(&mut Subscriber),
    ) -> Result<(), String> {
        let concerned = |one: &Subscriber| one.name == whom || one.group == whom;
        if !scenario.subscribers.iter().any(concerned) {
            let names = scenario.subscribers.iter().map(|one| one.name.as_str());
            let hint = nearest(whom, names).map_or(String::new(), |meant| format!("; did you mean {meant}?"));
            return Err(format!("--with '{}' names an unknown subscriber {whom:?}{hint}", self.text));
        }
        scenario.subscribers.iter_mut().filter(|one| concerned(one)).for_each(change);
        Ok(())
    }
}

impl FromStr for With {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?} is not a launch question: {why}; {EXPECTED}");
        // The moment may be a separate word: `down 10min @ 30s`.
        let joined = text.replace(" @ ", "@").replace(" @", "@").replace("@ ", "@");
        let words: Vec<&str> = joined.split_whitespace().filter(|word| *word != "for").collect();
        let length = |word: &str| -> Result<Duration, String> {
            let read = word.parse::<Duration>().map_err(|why| wrong(&format!("{word:?}: {why}")))?;
            if read.0 == 0 { Err(wrong("its duration is 0")) } else { Ok(read) }
        };
        let what = match words[..] {
            [fault] => {
                let (action, when, needs) = parse_fault(fault).map_err(|why| wrong(&why))?;
                if needs {
                    return Err(wrong("it needs a duration after the moment"));
                }
                ConditionKind::Fault { action, when, lasts: Duration(0) }
            }
            [fault, lasts] if fault.contains('@') => {
                let (action, when, _) = parse_fault(fault).map_err(|why| wrong(&why))?;
                ConditionKind::Fault { action, when, lasts: length(lasts)? }
            }
            [whom, "down", lasts] => {
                let (lasts, when) = match lasts.split_once('@') {
                    Some((lasts, when)) => (lasts, moment(when).map_err(|why| wrong(&why))?),
                    None => (lasts, FaultMoment::Peak),
                };
                ConditionKind::Down { whom: whom.to_owned(), lasts: length(lasts)?, when }
            }
            [whom, "answers", range] => {
                let range = range.parse().map_err(|why: String| wrong(&format!("{range:?}: {why}")))?;
                ConditionKind::Answers { whom: whom.to_owned(), range }
            }
            [_, "down"] => return Err(wrong("it needs a duration")),
            [_, "answers"] => return Err(wrong("it needs a duration")),
            _ => {
                return Err(wrong("it names neither a fault of the sender nor a subscriber"));
            }
        };
        Ok(Self { text: text.to_owned(), what })
    }
}

/// Returns whether it needs a duration.
fn parse_fault(text: &str) -> Result<(FaultAction, FaultMoment, bool), String> {
    let (word, when) = text.split_once('@').ok_or_else(|| "it has no moment, such as @peak".to_owned())?;
    let known = FAULTS.iter().find(|(name, ..)| *name == word);
    let (_, action, needs, _) = known.ok_or_else(|| {
        let names: Vec<&str> = FAULTS.iter().map(|(name, ..)| *name).collect();
        format!("{word:?} is not one of {}", names.join(", "))
    })?;
    Ok((action.clone(), moment(when)?, *needs))
}

fn moment(text: &str) -> Result<FaultMoment, String> {
    if text == "peak" {
        return Ok(FaultMoment::Peak);
    }
    text.parse().map(FaultMoment::At).map_err(|why| format!("{text:?} is neither `peak` nor a moment: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "name = \"s\"\n[[traffic]]\nshape = \"pause\"\nlasts = \"3s\"\n[[traffic]]\nshape = \"burst\"\n\
                        events = 9\n[[subscriber]]\nname = \"partner-b\"\n[[subscriber]]\nname = \"p\"\ncount = 2\n";

    fn scenario_with(text: &str) -> Result<Scenario, String> {
        let mut scenario = Scenario::from_text(TEXT, "s.toml").unwrap();
        let folder = std::path::Path::new(".");
        let schedule = Schedule::compute(&scenario.traffic, &scenario.events, 1, folder).unwrap();
        text.parse::<With>()?.apply(&mut scenario, &schedule).map(|_| scenario)
    }

    #[test]
    fn questions_change_what_they_are_about_and_nothing_else() {
        let killed = scenario_with("kill@peak").unwrap();
        assert_eq!(
            (killed.faults[0].at, &killed.faults[0].action),
            (Duration::from_millis(3_500), &FaultAction::Kill)
        );
        let stopped = scenario_with("stop@2s 10s").unwrap();
        assert_eq!(
            (stopped.faults[0].at, stopped.faults[0].lasts),
            (Duration::from_secs(2), Duration::from_secs(10))
        );
        let down = scenario_with("partner-b down for 10min @ 1s").unwrap();
        let away = &down.subscribers[0].behaviours[0];
        assert_eq!(
            (away.at, away.until(), &away.answer),
            (Duration::from_secs(1), Some(601 * SECOND), &Answer::Refuse)
        );
        assert!(down.subscribers[1].behaviours.is_empty());
        let slow = scenario_with("p answers 1s..2s").unwrap();
        let answers: Vec<String> = slow.subscribers.iter().map(|one| one.answers.to_string()).collect();
        assert_eq!(answers, ["5ms", "1s..2s", "1s..2s"]);
    }

    #[test]
    fn an_invalid_condition_is_refused_with_the_valid_ones() {
        let rows = [
            ("kill", "no moment"),
            ("krill@peak", "not one of kill, restart"),
            ("kill@noon", "neither `peak` nor a moment"),
            ("stop@peak", "needs a duration"),
            ("partner-b down", "needs a duration"),
            ("partner-b down 10", "no unit"),
            ("partner-b down 0s", "its duration is 0"),
            ("partner-b answers fast", "\"fast\""),
            ("partner-d down 1s", "names an unknown subscriber \"partner-d\"; did you mean partner-b?"),
            ("", "neither a fault of the sender"),
            (
                "kill@63s",
                "63 s after the traffic begins, past the end of the run: the traffic lasts 3 s, the drain 60 s",
            ),
            ("partner-b down 1s@2h", "past the end of the run"),
        ];
        for (text, part) in rows {
            let why = scenario_with(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = text.parse::<With>();
        }

        #[test]
        fn words_of_questions_in_any_order_are_read_or_refused(
            words in prop::collection::vec(
                prop::sample::select(vec!["kill", "stop", "@", "peak", "down", "answers", "a", "for", "10s", "1s..", "..", "99999999999999h"]),
                0..6,
            ),
            gap in prop::sample::select(vec!["", " "]),
        ) {
            if words.join(gap).parse::<With>().is_ok() {
                let _ = scenario_with(&words.join(gap));
            }
        }
    }
}
