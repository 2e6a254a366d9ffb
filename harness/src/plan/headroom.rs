//! How many times this traffic still meets the objectives, what breaks first, and what would carry more.

use serde::Serialize;

use super::scale::{AS_IT_STANDS, Knob, alone, is_coarse, scaled};
use super::search::{Edge, edge};
use super::slo::Slo;
use super::{Asked, simulated};
use crate::scenario::Scenario;
use crate::sim::SimError;
use crate::sim::figures::Figures;
use crate::traffic::ScheduleError;

/// Subscribers for which changes are looked for; the others are only named.
const CHANGED_MAX: usize = 8;
/// The most that a limit is raised, in thousandths.
const RAISED_MAX: u64 = 64 * AS_IT_STANDS;

/// How far it stretches.
#[derive(Clone, Debug, Serialize)]
pub struct Headroom {
    /// In thousandths of this traffic: the most that was seen to hold; none if no part of it did.
    pub carries: Option<u64>,
    /// The least that was seen to fail; none if nothing that was tried did.
    pub fails: Option<u64>,
    /// Whether it was looked for in whole multiples only, because a recording is played whole.
    pub coarse: bool,
    /// Whether more was not tried, or not changed for, as it has more events than can be simulated.
    pub too_many: bool,
    /// What breaks first, the worst before the others.
    pub breaks: Vec<Breach>,
    /// What the changes are to carry, in thousandths of this traffic.
    pub carry: u64,
    /// What is to be changed for that, each subscriber's ways together, the smallest first.
    pub changes: Vec<Change>,
    /// Subscribers that no change of one limit lets carry that much.
    pub hopeless: Vec<String>,
    /// Subscribers that fail too, and for which no change was looked for.
    pub unexamined: Vec<String>,
}

/// An objective that a subscriber doesn't meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// Whose.
    pub subscriber: String,
    /// Which.
    pub objective: String,
    /// What it comes to.
    pub figure: String,
    /// How far beyond: in thousandths of what is allowed.
    pub excess: u64,
}

/// The least change of one limit that lets a subscriber carry it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Whose.
    pub subscriber: String,
    /// Which limit.
    pub knob: &'static str,
    /// What it is.
    pub from: String,
    /// What it has to be.
    pub to: String,
    /// In thousandths.
    pub factor: u64,
}

/// The objectives that are not met, the worst first.
#[must_use]
pub fn breaches(scenario: &Scenario, slos: &[Slo], figures: &Figures) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (subscriber, lane) in scenario.subscribers.iter().zip(&figures.lanes) {
        for slo in slos.iter().filter(|slo| slo.concerns(&subscriber.name, &subscriber.group)) {
            let figure = slo.measure.of(lane, figures);
            if figure > slo.most {
                breaches.push(Breach {
                    subscriber: subscriber.name.clone(),
                    objective: slo.to_string(),
                    figure: slo.show(figure),
                    excess: figure.saturating_mul(AS_IT_STANDS) / slo.most.max(1),
                });
            }
        }
    }
    breaches.sort_by(|one, other| other.excess.cmp(&one.excess).then(one.subscriber.cmp(&other.subscriber)));
    breaches
}

/// Looks for it; `present` is how it is with the traffic as it stands.
pub(super) fn search(
    scenario: &Scenario,
    slos: &[Slo],
    present: &Figures,
    asked: &Asked,
) -> Result<Headroom, SimError> {
    let found = stretch(scenario, slos, present, asked)?;
    let (carries, fails) = (found.edge.holds, found.edge.fails);
    let next = carries.map_or(AS_IT_STANDS, |held| (held / AS_IT_STANDS + 1) * AS_IT_STANDS);
    let mut headroom = Headroom {
        carries,
        fails,
        coarse: is_coarse(scenario),
        too_many: found.too_many,
        breaks: found.breaks,
        carry: asked.carry.unwrap_or(next),
        changes: Vec::new(),
        hopeless: Vec::new(),
        unexamined: Vec::new(),
    };
    if fails.is_some_and(|fails| fails <= headroom.carry) {
        match raise(scenario, slos, asked, &mut headroom) {
            // So much is not known to hold, and not known to be mended by anything.
            Err(SimError::Schedule(ScheduleError::TooMany)) => headroom.too_many = true,
            other => other?,
        }
    }
    Ok(headroom)
}

/// How far it was followed.
struct Stretch {
    edge: Edge,
    /// What was not met at the least load that failed.
    breaks: Vec<Breach>,
    /// The search ended at a load that can't be simulated.
    too_many: bool,
}

fn stretch(scenario: &Scenario, slos: &[Slo], present: &Figures, asked: &Asked) -> Result<Stretch, SimError> {
    // Less than a recording, or a part of one more, can't be played.
    let unit = if is_coarse(scenario) { AS_IT_STANDS } else { 1 };
    let mut seen = Edge { holds: None, fails: None };
    let mut breaks = Vec::new();
    let found = edge(AS_IT_STANDS / unit, |units| {
        let thousandths = units * unit;
        let broken = if thousandths == AS_IT_STANDS {
            breaches(scenario, slos, present)
        } else {
            let scaled = scaled(scenario, thousandths);
            breaches(&scaled, slos, &simulated(&scaled, &asked.options)?.figures)
        };
        let holds = broken.is_empty();
        if holds {
            seen.holds = seen.holds.max(Some(thousandths));
        } else if seen.fails.is_none_or(|fails| thousandths < fails) {
            (seen.fails, breaks) = (Some(thousandths), broken);
        }
        Ok::<bool, SimError>(holds)
    });
    match found {
        Ok(_) => Ok(Stretch { edge: seen, breaks, too_many: false }),
        // Only more than this traffic can be too much: that much was simulated before.
        Err(SimError::Schedule(ScheduleError::TooMany)) => Ok(Stretch { edge: seen, breaks, too_many: true }),
        Err(error) => Err(error),
    }
}

/// Looks for the changes, one subscriber at a time: lanes share nothing but the machine.
fn raise(scenario: &Scenario, slos: &[Slo], asked: &Asked, headroom: &mut Headroom) -> Result<(), SimError> {
    let wanted = scaled(scenario, headroom.carry);
    let broken = breaches(&wanted, slos, &simulated(&wanted, &asked.options)?.figures);
    let concerned = |name: &str| broken.iter().any(|breach| breach.subscriber == name);
    let places = wanted.subscribers.iter().enumerate().filter(|(_, one)| concerned(&one.name));
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    let (examined, others) = places.split_at(places.len().min(CHANGED_MAX));
    headroom.unexamined = others.iter().map(|place| wanted.subscribers[*place].name.clone()).collect();
    for place in examined.iter().copied() {
        let lane = alone(&wanted, place);
        // What it meets by itself is none of its limits' fault.
        if breaches(&lane, slos, &simulated(&lane, &asked.options)?.figures).is_empty() {
            continue;
        }
        let mut ways = Vec::new();
        for knob in Knob::ALL {
            ways.extend(least(&lane, knob, slos, asked)?);
        }
        ways.sort_by_key(|way| way.factor);
        if ways.is_empty() {
            headroom.hopeless.push(lane.subscribers[0].name.clone());
        }
        headroom.changes.append(&mut ways);
    }
    Ok(())
}

/// The least raise of one knob that mends a subscriber, if there is one.
fn least(lane: &Scenario, knob: Knob, slos: &[Slo], asked: &Asked) -> Result<Option<Change>, SimError> {
    let raised = |thousandths: u64| {
        let mut raised = lane.clone();
        raised.subscribers.first_mut().is_some_and(|one| knob.raise(one, thousandths)).then_some(raised)
    };
    let mends = |thousandths: u64| -> Result<bool, SimError> {
        let Some(raised) = raised(thousandths) else { return Ok(false) };
        Ok(breaches(&raised, slos, &simulated(&raised, &asked.options)?.figures).is_empty())
    };
    // The furthest first: most knobs that don't help at all are known by that alone.
    if !mends(RAISED_MAX)? {
        return Ok(None);
    }
    let (mut low, mut high) = (AS_IT_STANDS, RAISED_MAX);
    while high > low * 2 {
        let middle = low * 2;
        if mends(middle)? { high = middle } else { low = middle }
    }
    while (high - low) * 20 > low {
        let middle = low + (high - low) / 2;
        if mends(middle)? { high = middle } else { low = middle }
    }
    let told = |scenario: &Scenario| scenario.subscribers.first().map(|one| (one.name.clone(), knob.of(one)));
    let (Some((subscriber, from)), Some((_, to))) = (told(lane), raised(high).as_ref().and_then(told)) else {
        return Ok(None);
    };
    Ok(Some(Change { subscriber, knob: knob.name(), from, to, factor: high }))
}
