//! What would carry more: the least raise of one limit of a subscriber, or of several together where no single one does;
//! what that costs the other side; and whether all of it together holds, in every seed that was tried.

use serde::Serialize;

use super::judge::{Judge, breaches, in_parallel};
use super::machine::{Load, Need};
use super::patch::patch;
use super::scale::{AS_IT_STANDS, Knob, alone, scaled};
use super::slo::Breach;
use crate::scenario::{Scenario, Subscriber};
use crate::sim::SimError;

/// Groups for which changes are looked for; the others are only named.
const CHANGED_MAX: usize = 8;
/// The most that a limit is raised, in thousandths.
const RAISED_MAX: u64 = 64 * AS_IT_STANDS;
/// How often the changes are raised further, where some seed asks for more than the one by which they were found.
const FURTHER_MAX: usize = 8;

/// What would carry a load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What the machine would have to carry for that, if that is too much for it.
    pub need: Option<Need>,
    /// What is to be changed for that, each subscriber's ways together, the smallest first.
    pub changes: Vec<Change>,
    /// The first way of each subscriber, tried together; none where there is nothing to change.
    pub trial: Option<Trial>,
    /// Subscribers that no change of their limits lets carry that much.
    pub hopeless: Vec<String>,
    /// Subscribers that fail too, and for which no change was looked for.
    pub unexamined: Vec<String>,
}

/// What lets a subscriber, or all of a group, carry it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Whose, by the name in the file.
    pub subscriber: String,
    /// What is raised; several limits where no single one is enough.
    pub raises: Vec<Raise>,
    /// What that asks of whom.
    pub cost: String,
    #[serde(skip)]
    settings: Settings,
}

/// One limit raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Raise {
    /// Which limit.
    pub knob: &'static str,
    /// What it is.
    pub from: String,
    /// What it has to be.
    pub to: String,
    /// That over this, in thousandths.
    pub factor: u64,
}

/// The changes, tried all together on the whole scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// The first change of each subscriber, as TOML for the scenario.
    pub patch: String,
    /// In how many seeds every subscriber with a change meets its objectives with it.
    pub held: u64,
    /// Of so many.
    pub seeds: u64,
}

/// Limits, and to how many thousandths each is raised.
type Settings = Vec<(Knob, u64)>;

/// Looks for the changes, one subscriber of each group at a time, the worst: lanes share nothing but the machine. Then
/// tries them together.
pub(super) fn raise(
    scenario: &Scenario,
    judge: &Judge<'_>,
    seeds: &[u64],
    carry: u64,
) -> Result<Advice, SimError> {
    let wanted = scaled(scenario, carry);
    let figures = judge.figures(&wanted, None)?;
    let load = Load::of(&wanted, &figures, judge.body_bytes);
    let need = judge.machine.need(&wanted, load.per_second());
    let broken = breaches(&wanted, judge.slos, &figures);
    let groups = worst_of_each(&broken);
    let (examined, others) = groups.split_at(groups.len().min(CHANGED_MAX));
    let unexamined = others.iter().map(|breach| breach.group.clone()).collect();
    let mut advice = Advice { need, unexamined, ..Advice::default() };
    for breach in examined {
        let Some(place) = wanted.subscribers.iter().position(|one| one.name == breach.subscriber) else {
            continue;
        };
        let lane = alone(&wanted, place);
        // What it meets by itself is none of its limits' fault.
        if judge.lane_holds(&lane)? {
            continue;
        }
        let ways = ways(&lane, judge)?;
        if ways.is_empty() {
            advice.hopeless.push(breach.group.clone());
        }
        advice.changes.extend(ways.iter().map(|way| change(&lane.subscribers[0], way)));
    }
    advice.trial = try_together(&wanted, judge, seeds, &mut advice.changes)?;
    Ok(advice)
}

/// The worst breach of each group, the worst first.
fn worst_of_each(broken: &[Breach]) -> Vec<&Breach> {
    let mut groups: Vec<&Breach> = Vec::new();
    for breach in broken {
        if groups.iter().all(|one| one.group != breach.group) {
            groups.push(breach);
        }
    }
    groups
}

/// Each limit whose raise mends a subscriber; or the limits that do it together. What costs the other side nothing comes
/// first, then what is raised the least, then what raises no other limit with it.
fn ways(lane: &Scenario, judge: &Judge<'_>) -> Result<Vec<Settings>, SimError> {
    let mut ways = Vec::new();
    for knob in Knob::ALL {
        if let Some(least) = least(|thousandths| mends(lane, &[(knob, thousandths)], judge))? {
            ways.push(vec![(knob, least)]);
        }
    }
    if ways.is_empty() {
        ways.extend(together(lane, judge)?);
    }
    ways.sort_by_cached_key(|way| {
        let change = change(&lane.subscribers[0], way);
        let factor = change.raises.iter().map(|raise| raise.factor).max();
        let knobs = || way.iter().map(|(knob, _)| *knob);
        let takes_along = knobs().any(|knob| knob.takes_along(&lane.subscribers[0]));
        (knobs().any(|knob| knob != Knob::Queue), factor, takes_along)
    });
    Ok(ways)
}

/// The least raise of all limits alike that mends it, and of that each limit taken back as far as it goes.
fn together(lane: &Scenario, judge: &Judge<'_>) -> Result<Option<Settings>, SimError> {
    let subscriber = &lane.subscribers[0];
    let mut knobs = Knob::apart(subscriber).to_vec();
    knobs.retain(|knob| knob.raise(&mut subscriber.clone(), AS_IT_STANDS));
    let alike = |thousandths: u64| knobs.iter().map(|knob| (*knob, thousandths)).collect::<Settings>();
    let Some(most) = least(|thousandths| mends(lane, &alike(thousandths), judge))? else { return Ok(None) };
    let mut settings = alike(most);
    for place in 0..settings.len() {
        let with = |thousandths: u64| {
            let mut tried = settings.clone();
            tried[place].1 = thousandths;
            tried
        };
        let back = if mends(lane, &with(AS_IT_STANDS), judge)? {
            AS_IT_STANDS
        } else {
            closest(AS_IT_STANDS, most, |thousandths| mends(lane, &with(thousandths), judge))?
        };
        settings[place].1 = back;
    }
    settings.retain(|(_, thousandths)| *thousandths > AS_IT_STANDS);
    Ok(Some(settings))
}

fn mends(lane: &Scenario, settings: &[(Knob, u64)], judge: &Judge<'_>) -> Result<bool, SimError> {
    let mut raised = lane.clone();
    let is_there = raised.subscribers.first_mut().is_some_and(|one| apply(settings, one));
    Ok(is_there && judge.lane_holds(&raised)?)
}

/// Raises a subscriber's limits; false if it has none of one kind.
fn apply(settings: &[(Knob, u64)], subscriber: &mut Subscriber) -> bool {
    !settings.is_empty() && settings.iter().all(|(knob, thousandths)| knob.raise(subscriber, *thousandths))
}

/// The least raise with which something holds, if there is one.
fn least(mut holds: impl FnMut(u64) -> Result<bool, SimError>) -> Result<Option<u64>, SimError> {
    // The furthest first: most limits that don't help at all are known by that alone.
    if !holds(RAISED_MAX)? {
        return Ok(None);
    }
    closest(AS_IT_STANDS, RAISED_MAX, holds).map(Some)
}

/// The least that holds, to a twentieth, between what does not and what does.
fn closest(
    low: u64,
    high: u64,
    mut holds: impl FnMut(u64) -> Result<bool, SimError>,
) -> Result<u64, SimError> {
    let (mut low, mut high) = (low, high);
    while (high - low) * 20 > low {
        let middle = if high > low * 2 { low * 2 } else { low + (high - low) / 2 };
        if holds(middle)? { high = middle } else { low = middle }
    }
    Ok(high)
}

/// A change as it is told.
fn change(subscriber: &Subscriber, settings: &[(Knob, u64)]) -> Change {
    let mut raised = subscriber.clone();
    apply(settings, &mut raised);
    let one = |knob: Knob| Raise {
        knob: knob.name(),
        from: knob.of(subscriber),
        to: knob.of(&raised),
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

/// Tries the first change of each group on the whole scenario, with every seed; raises those further that are not enough
/// in all of them.
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

/// The first change of each group.
fn chosen(changes: &[Change]) -> Vec<Change> {
    let is_first = |place: usize, one: &Change| {
        changes[..place].iter().all(|before| before.subscriber != one.subscriber)
    };
    changes
        .iter()
        .enumerate()
        .filter(|(place, one)| is_first(*place, one))
        .map(|(_, one)| one.clone())
        .collect()
}

/// Raises the first change of a group by a tenth, and at least so far that it is another one.
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
