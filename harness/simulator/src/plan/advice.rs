//! Finds the least raise of a subscriber's limits that carries a load: of several together only if no single one is
//! enough. Each result holds for every seed that was tried.

use std::collections::BTreeSet;

use hookproof_judge::scenario::{Scenario, Store, Subscriber};
use serde::Serialize;

use super::judge::{Judge, breaches, in_parallel, worst_first};
use super::machine::{Load, Need};
use super::patch::patch;
use super::scale::{AS_IT_STANDS, Knob, alone, scaled};
use super::slo::Breach;
use crate::sim::SimError;

/// Further groups are only named.
const CHANGED_MAX: usize = 8;
/// In thousandths.
const RAISED_MAX: u64 = 64 * AS_IT_STANDS;
/// How often the changes are raised further if they are not enough together.
const FURTHER_MAX: usize = 8;

const _: () = assert!(CHANGED_MAX == 8 && RAISED_MAX == 64 * AS_IT_STANDS);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// 0 if no advice was searched.
    pub tried: u64,
    /// Seeds that break something without changes.
    pub failing: u64,
    pub needs: Vec<Need>,
    /// The changes: each subscriber's alternatives together, the smallest first.
    pub changes: Vec<Change>,
    /// Tries each subscriber's first alternative.
    pub trial: Option<Trial>,
    pub unchanged: Vec<Unchanged>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unchanged {
    pub subscriber: String,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// No raise of its limits is enough.
    NothingHelps,
    /// It meets its objectives when alone, so its limits are not the cause.
    HoldsAlone,
    /// Too many others fail; no change was searched.
    NotExamined,
}

impl Why {
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::NothingHelps => {
                "no change of its limits is enough: each limit alone, and all together, were raised up to 64 \
                 times"
            }
            Self::HoldsAlone => {
                "it fails only together with other subscribers; alone it needs no change of its limits"
            }
            Self::NotExamined => "not examined, since more than 8 subscribers fail",
        }
    }
}

/// It carries the load for a subscriber, or for all of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub subscriber: String,
    /// Several where no single one is enough.
    pub raises: Vec<Raise>,
    /// The cost, and the side that bears it.
    pub cost: String,
    #[serde(skip)]
    settings: Settings,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Raise {
    pub knob: &'static str,
    pub from: String,
    pub to: String,
    /// `to` in the unit of `from`.
    #[serde(skip)]
    pub told: String,
    /// In thousandths.
    pub factor: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// As TOML for the scenario.
    pub patch: String,
    /// Seeds in which every changed subscriber meets its objectives.
    pub held: u64,
    pub seeds: u64,
}

/// In thousandths.
type Settings = Vec<(Knob, u64)>;

/// One subscriber of each group (the worst) at a time, since lanes share only the machine. Then tries them together.
pub(super) fn raise(
    scenario: &Scenario,
    judge: &Judge<'_>,
    seeds: &[u64],
    carry: u64,
) -> Result<Advice, SimError> {
    let wanted = scaled(scenario, carry);
    let all = in_parallel(seeds.to_vec(), |seed| -> Result<_, SimError> {
        let figures = judge.figures(&wanted, Some(seed))?;
        Ok((Load::of(&wanted, &figures, judge.body_bytes), breaches(&wanted, judge.slos, &figures)))
    });
    let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    let breaks = |(load, broken): &&(Load, Vec<Breach>)| {
        !broken.is_empty() || !judge.machine.breaches(load).is_empty()
    };
    let load = all.iter().map(|(load, _)| *load).reduce(Load::most).unwrap_or_default();
    let mut advice = Advice {
        tried: seeds.len() as u64,
        failing: all.iter().filter(breaks).count() as u64,
        needs: judge.machine.needs(&load, scenario.sender.store == Store::Postgres),
        ..Advice::default()
    };
    for (examined, breach) in worst_of_each(all.into_iter().flat_map(|(_, broken)| broken)).iter().enumerate()
    {
        let place = wanted.subscribers.iter().position(|one| one.name == breach.subscriber);
        let Some(place) = place.filter(|_| examined < CHANGED_MAX) else {
            advice.unchanged.push(Unchanged { subscriber: breach.group.clone(), why: Why::NotExamined });
            continue;
        };
        match ways(&alone(&wanted, place), judge, seeds)? {
            Ok(ways) => advice.changes.extend(ways),
            Err(why) => advice.unchanged.push(Unchanged { subscriber: breach.group.clone(), why }),
        }
    }
    advice.trial = try_together(&wanted, judge, seeds, &mut advice.changes)?;
    Ok(advice)
}

/// The worst first.
fn worst_of_each(broken: impl Iterator<Item = Breach>) -> Vec<Breach> {
    let mut broken: Vec<Breach> = broken.collect();
    worst_first(&mut broken);
    let mut seen = BTreeSet::new();
    broken.retain(|breach| seen.insert(breach.group.clone()));
    broken
}

/// Each limit whose raise alone helps a subscriber, or else the limits that help together. Changes without
/// cost for the other side come first, then smaller raises, then raises of a single limit.
fn ways(lane: &Scenario, judge: &Judge<'_>, seeds: &[u64]) -> Result<Result<Vec<Change>, Why>, SimError> {
    let subscriber = &lane.subscribers[0];
    let (mut failing, mut holding) = (Vec::new(), Vec::new());
    for (seed, holds) in seeds.iter().zip(in_parallel(seeds.to_vec(), |seed| judge.lane_holds(lane, seed))) {
        if holds? { holding.push(*seed) } else { failing.push(*seed) }
    }
    if failing.is_empty() {
        return Ok(Err(Why::HoldsAlone));
    }
    let seeds = [failing, holding].concat();
    let raised = in_parallel(Knob::ALL.to_vec(), |knob| -> Result<_, SimError> {
        let raised = least(&seeds, |seed, thousandths| mends(lane, &[(knob, thousandths)], judge, &[seed]))?;
        Ok(raised.map(|thousandths| vec![(knob, thousandths)]))
    });
    let mut ways = raised.into_iter().filter_map(Result::transpose).collect::<Result<Vec<Settings>, _>>()?;
    if ways.is_empty() {
        ways.extend(together(lane, judge, &seeds)?);
    }
    let mut changes: Vec<Change> = ways.iter().map(|way| change(subscriber, way)).collect();
    changes.sort_by_key(|change| {
        let factor = change.raises.iter().map(|raise| raise.factor).max();
        let knobs = || change.settings.iter().map(|(knob, _)| *knob);
        let takes_along = knobs().any(|knob| knob.takes_along(subscriber));
        (knobs().any(|knob| knob != Knob::Queue), factor, takes_along)
    });
    Ok(if changes.is_empty() { Err(Why::NothingHelps) } else { Ok(changes) })
}

/// The least equal raise that helps, with each limit then lowered as far as possible.
fn together(lane: &Scenario, judge: &Judge<'_>, seeds: &[u64]) -> Result<Option<Settings>, SimError> {
    let subscriber = &lane.subscribers[0];
    let mut knobs = Knob::apart(subscriber).to_vec();
    knobs.retain(|knob| knob.raise(&mut subscriber.clone(), AS_IT_STANDS));
    let alike = |thousandths: u64| knobs.iter().map(|knob| (*knob, thousandths)).collect::<Settings>();
    let most = least(seeds, |seed, thousandths| mends(lane, &alike(thousandths), judge, &[seed]))?;
    let Some(most) = most else { return Ok(None) };
    let mut settings = alike(most);
    for place in 0..settings.len() {
        let with = |thousandths: u64| {
            let mut tried = settings.clone();
            tried[place].1 = thousandths;
            mends(lane, &tried, judge, seeds)
        };
        settings[place].1 =
            if with(AS_IT_STANDS)? { AS_IT_STANDS } else { closest(AS_IT_STANDS, most, with)? };
    }
    settings.retain(|(_, thousandths)| *thousandths > AS_IT_STANDS);
    Ok(Some(settings))
}

/// Holds for each of these seeds.
fn mends(
    lane: &Scenario,
    settings: &[(Knob, u64)],
    judge: &Judge<'_>,
    seeds: &[u64],
) -> Result<bool, SimError> {
    let mut raised = lane.clone();
    if !raised.subscribers.first_mut().is_some_and(|one| apply(settings, one)) {
        return Ok(false);
    }
    for seed in seeds {
        if !judge.lane_holds(&raised, *seed)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn apply(settings: &[(Knob, u64)], subscriber: &mut Subscriber) -> bool {
    !settings.is_empty() && settings.iter().all(|(knob, thousandths)| knob.raise(subscriber, *thousandths))
}

/// It must fail unraised with the first seed.
fn least(
    seeds: &[u64],
    mut holds: impl FnMut(u64, u64) -> Result<bool, SimError>,
) -> Result<Option<u64>, SimError> {
    let mut raised = AS_IT_STANDS;
    for seed in seeds {
        if raised > AS_IT_STANDS && holds(*seed, raised)? {
            continue;
        }
        // The highest raise first: it excludes most limits at once.
        if !holds(*seed, RAISED_MAX)? {
            return Ok(None);
        }
        raised = closest(raised, RAISED_MAX, |thousandths| holds(*seed, thousandths))?;
    }
    Ok(Some(raised))
}

/// The least value that holds, to a fiftieth.
fn closest(
    low: u64,
    high: u64,
    mut holds: impl FnMut(u64) -> Result<bool, SimError>,
) -> Result<u64, SimError> {
    let (mut low, mut high) = (low, high);
    while (high - low) * 50 > low {
        let middle = if high > low * 2 { low * 2 } else { low + (high - low) / 2 };
        if holds(middle)? { high = middle } else { low = middle }
    }
    Ok(high)
}

fn change(subscriber: &Subscriber, settings: &[(Knob, u64)]) -> Change {
    let mut raised = subscriber.clone();
    apply(settings, &mut raised);
    let one = |knob: Knob| Raise {
        knob: knob.name(),
        from: knob.of(subscriber),
        to: knob.of(&raised),
        told: knob.told(&raised, subscriber),
        factor: knob.factor(subscriber, &raised),
    };
    let costs: Vec<String> = settings.iter().map(|(knob, _)| knob.cost(subscriber, &raised)).collect();
    Change {
        subscriber: subscriber.group.clone(),
        raises: settings.iter().map(|(knob, _)| one(*knob)).collect(),
        cost: costs.join("; "),
        settings: settings.to_vec(),
    }
}

/// Tries every seed, and raises insufficient changes further.
fn try_together(
    wanted: &Scenario,
    judge: &Judge<'_>,
    seeds: &[u64],
    changes: &mut [Change],
) -> Result<Option<Trial>, SimError> {
    let mut trial = Trial { seeds: seeds.len() as u64, ..Trial::default() };
    for further in 0..=FURTHER_MAX {
        let chosen = chosen(changes);
        if chosen.is_empty() {
            return Ok(None);
        }
        let mut raised = wanted.clone();
        for change in &chosen {
            let members = raised.subscribers.iter_mut().filter(|one| one.group == change.subscriber);
            members.for_each(|one| {
                apply(&change.settings, one);
            });
        }
        let ours = |breach: &Breach| chosen.iter().any(|change| change.subscriber == breach.group);
        let broken = in_parallel(seeds.to_vec(), |seed| -> Result<Vec<Breach>, SimError> {
            let all = breaches(&raised, judge.slos, &judge.figures(&raised, Some(seed))?);
            Ok(all.into_iter().filter(ours).collect())
        });
        let broken = broken.into_iter().collect::<Result<Vec<_>, _>>()?;
        trial.held = broken.iter().filter(|broken| broken.is_empty()).count() as u64;
        let told = chosen.iter().map(|change| (change.subscriber.as_str(), change.cost.as_str()));
        trial.patch = patch(wanted, &raised, told);
        let failing: Vec<String> = broken.into_iter().flatten().map(|breach| breach.group).collect();
        if failing.is_empty() || further == FURTHER_MAX {
            break;
        }
        for group in failing {
            raise_further(wanted, &group, changes);
        }
    }
    Ok(Some(trial))
}

fn chosen(changes: &[Change]) -> Vec<Change> {
    let mut chosen = changes.to_vec();
    chosen.dedup_by(|next, first| next.subscriber == first.subscriber);
    chosen
}

/// Raises the first change of a group by a tenth, or by more until a setting changes.
fn raise_further(wanted: &Scenario, group: &str, changes: &mut [Change]) {
    let subscriber = wanted.subscribers.iter().find(|one| one.group == group);
    let first = changes.iter_mut().find(|change| change.subscriber == group);
    let (Some(subscriber), Some(first)) = (subscriber, first) else { return };
    let mut settings = first.settings.clone();
    while settings.iter().all(|(_, thousandths)| *thousandths < RAISED_MAX) {
        settings.iter_mut().for_each(|(_, thousandths)| *thousandths += *thousandths / 10);
        let next = change(subscriber, &settings);
        if next.raises != first.raises {
            *first = next;
            return;
        }
    }
}
