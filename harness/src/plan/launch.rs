//! Launch questions: what if the sender is killed at the peak, a partner is away for ten minutes, or answers slowly? Each
//! changes the scenario before it is planned. Pure.

use std::fmt;
use std::str::FromStr;

use crate::scenario::problem::nearest;
use crate::scenario::{
    Answer, Behaviour, Duration, FaultAction, FaultPlan, Millionths, Range, SECOND, Scenario, Subscriber,
};
use crate::traffic::Schedule;

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum With {
    /// `kill@peak`: something is done to the sender.
    Fault {
        /// What.
        action: FaultAction,
        /// When.
        when: When,
        /// For how long.
        lasts: Duration,
    },
    /// `partner-b down 10min`: an endpoint's port is closed.
    Down {
        /// Whose: a subscriber or a group.
        whom: String,
        /// For how long.
        lasts: Duration,
        /// From when.
        when: When,
    },
    /// `partner-a answers 2s`: an endpoint that behaves takes so long.
    Answers {
        /// Whose: a subscriber or a group.
        whom: String,
        /// How long.
        range: Range<Duration>,
    },
}

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In the middle of the second in which the most events are offered.
    Peak,
    /// So long after the beginning.
    At(Duration),
}

/// What can be done to the sender, and whether that needs its end.
const FAULTS: [(&str, FaultAction, bool); 5] = [
    ("kill", FaultAction::Kill, false),
    ("restart", FaultAction::Restart, false),
    ("stop", FaultAction::Stop, true),
    ("disk-full", FaultAction::DiskFull, true),
    ("lock-database", FaultAction::LockDatabase, true),
];

const EXPECTED: &str =
    "expected one like kill@peak, stop@30s 10s, 'partner-b down 10min' or 'partner-a answers 2s'";

/// The middle of the second in which the most events are offered, in nanoseconds since the beginning.
#[must_use]
pub fn peak(schedule: &Schedule) -> u64 {
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
    /// Changes a scenario whose traffic is at its highest at `peak`.
    ///
    /// # Errors
    /// When it is about nobody.
    pub fn apply(&self, scenario: &mut Scenario, peak: u64) -> Result<(), String> {
        let at = |when: When| match when {
            When::Peak => Duration(peak),
            When::At(at) => at,
        };
        match self {
            Self::Fault { action, when, lasts } => {
                let (at, lasts, action) = (at(*when), *lasts, action.clone());
                scenario.faults.push(FaultPlan { at, lasts, worker: None, action });
                scenario.faults.sort_by_key(|fault| fault.at);
            }
            Self::Down { whom, lasts, when } => {
                let away = Behaviour {
                    at: at(*when),
                    lasts: Some(*lasts),
                    answer: Answer::Refuse,
                    share: Millionths::ONE,
                    attempts: None,
                    latency: None,
                    serves: None,
                };
                self.each(scenario, whom, |one| one.behaviours.insert(0, away.clone()))?;
            }
            Self::Answers { whom, range } => self.each(scenario, whom, |one| one.answers = *range)?,
        }
        Ok(())
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
            return Err(format!("--with '{self}' is about nobody: there is no subscriber {whom:?}{hint}"));
        }
        scenario.subscribers.iter_mut().filter(|one| concerned(one)).for_each(change);
        Ok(())
    }
}

impl FromStr for With {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?} is no launch question: {why}; {EXPECTED}");
        // A moment may stand apart: `down 10min @ 30s`.
        let joined = text.replace(" @ ", "@").replace(" @", "@").replace("@ ", "@");
        let words: Vec<&str> = joined.split_whitespace().filter(|word| *word != "for").collect();
        let length = |word: &str| -> Result<Duration, String> {
            let read = word.parse::<Duration>().map_err(|why| wrong(&format!("{word:?}: {why}")))?;
            if read.0 == 0 { Err(wrong("it lasts no time at all")) } else { Ok(read) }
        };
        match words[..] {
            [fault] => {
                let (action, when, needs) = done(fault).map_err(|why| wrong(&why))?;
                if needs {
                    return Err(wrong("it needs its end, a length of time after the moment"));
                }
                Ok(Self::Fault { action, when, lasts: Duration(0) })
            }
            [fault, lasts] if fault.contains('@') => {
                let (action, when, _) = done(fault).map_err(|why| wrong(&why))?;
                Ok(Self::Fault { action, when, lasts: length(lasts)? })
            }
            [whom, "down", lasts] => {
                let (lasts, when) = match lasts.split_once('@') {
                    Some((lasts, when)) => (lasts, moment(when).map_err(|why| wrong(&why))?),
                    None => (lasts, When::Peak),
                };
                Ok(Self::Down { whom: whom.to_owned(), lasts: length(lasts)?, when })
            }
            [whom, "answers", range] => {
                let range = range.parse().map_err(|why: String| wrong(&format!("{range:?}: {why}")))?;
                Ok(Self::Answers { whom: whom.to_owned(), range })
            }
            [_, "down"] => Err(wrong("it needs its end, a length of time")),
            [_, "answers"] => Err(wrong("it needs a length of time")),
            _ => Err(wrong("it is neither something done to the sender nor something about a subscriber")),
        }
    }
}

/// `kill@peak`: what is done, when, and whether it needs its end.
fn done(text: &str) -> Result<(FaultAction, When, bool), String> {
    let (word, when) = text.split_once('@').ok_or_else(|| "it has no moment, such as @peak".to_owned())?;
    let known = FAULTS.iter().find(|(name, ..)| *name == word);
    let (_, action, needs) = known.ok_or_else(|| {
        let names: Vec<&str> = FAULTS.iter().map(|(name, ..)| *name).collect();
        format!("{word:?} is none of {}", names.join(", "))
    })?;
    Ok((action.clone(), moment(when)?, *needs))
}

fn moment(text: &str) -> Result<When, String> {
    if text == "peak" {
        return Ok(When::Peak);
    }
    text.parse().map(When::At).map_err(|why| format!("{text:?} is neither peak nor a moment: {why}"))
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peak => f.write_str("peak"),
            Self::At(at) => write!(f, "{at}"),
        }
    }
}

impl fmt::Display for With {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault { action, when, lasts: Duration(0) } => write!(f, "{}@{when}", action.name()),
            Self::Fault { action, when, lasts } => write!(f, "{}@{when} {lasts}", action.name()),
            Self::Down { whom, lasts, when } => write!(f, "{whom} down {lasts}@{when}"),
            Self::Answers { whom, range } => write!(f, "{whom} answers {range}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "name = \"s\"\n[[traffic]]\nshape = \"pause\"\nlasts = \"3s\"\n[[traffic]]\nshape = \"burst\"\n\
                        events = 9\n[[subscriber]]\nname = \"partner-b\"\n[[subscriber]]\nname = \"p\"\ncount = 2\n";

    fn asked(text: &str) -> Result<Scenario, String> {
        let mut scenario = Scenario::from_text(TEXT, "s.toml").unwrap();
        let folder = std::path::Path::new(".");
        let schedule = Schedule::compute(&scenario.traffic, &scenario.events, 1, folder).unwrap();
        text.parse::<With>()?.apply(&mut scenario, peak(&schedule)).map(|()| scenario)
    }

    #[test]
    fn questions_change_what_they_are_about_and_nothing_else() {
        let killed = asked("kill@peak").unwrap();
        assert_eq!(
            (killed.faults[0].at, &killed.faults[0].action),
            (Duration::from_millis(3_500), &FaultAction::Kill)
        );
        let stopped = asked("stop@2s 10s").unwrap();
        assert_eq!(
            (stopped.faults[0].at, stopped.faults[0].lasts),
            (Duration::from_secs(2), Duration::from_secs(10))
        );
        let down = asked("partner-b down for 10min @ 1s").unwrap();
        let away = &down.subscribers[0].behaviours[0];
        assert_eq!(
            (away.at, away.until(), &away.answer),
            (Duration::from_secs(1), Some(601 * SECOND), &Answer::Refuse)
        );
        assert!(down.subscribers[1].behaviours.is_empty());
        let slow = asked("p answers 1s..2s").unwrap();
        let answers: Vec<String> = slow.subscribers.iter().map(|one| one.answers.to_string()).collect();
        assert_eq!(answers, ["5ms", "1s..2s", "1s..2s"]);
    }

    #[test]
    fn what_is_no_question_is_told_with_what_would_be_one() {
        let rows = [
            ("kill", "no moment"),
            ("krill@peak", "none of kill, restart"),
            ("kill@noon", "neither peak nor a moment"),
            ("stop@peak", "needs its end"),
            ("partner-b down", "needs its end"),
            ("partner-b down 10", "no unit"),
            ("partner-b down 0s", "no time at all"),
            ("partner-b answers fast", "\"fast\""),
            (
                "partner-d down 1s",
                "about nobody: there is no subscriber \"partner-d\"; did you mean partner-b?",
            ),
            ("", "neither something done"),
        ];
        for (text, part) in rows {
            let why = asked(text).unwrap_err();
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
            let mut scenario = Scenario::from_text(TEXT, "s.toml").unwrap();
            if let Ok(with) = words.join(gap).parse::<With>() {
                let _ = with.apply(&mut scenario, u64::MAX);
            }
        }

        #[test]
        fn what_is_told_reads_back(at in 0_u64..10_000, lasts in 1_u64..10_000, kind in 0_usize..8, is_peak: bool) {
            let when = if is_peak { When::Peak } else { When::At(Duration::from_millis(at)) };
            let lasts = Duration::from_millis(lasts);
            let whom = "partner-b".to_owned();
            let with = match FAULTS.get(kind) {
                Some((_, action, _)) => With::Fault { action: action.clone(), when, lasts },
                None if kind == 5 => With::Down { whom, lasts, when },
                None if kind == 6 => With::Answers { whom, range: Range::just(lasts) },
                None => With::Fault { action: FaultAction::Kill, when, lasts: Duration(0) },
            };
            prop_assert_eq!(with.to_string().parse(), Ok(with));
        }
    }
}
