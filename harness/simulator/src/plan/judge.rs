//! Judges a load by the objectives and the machine, on a simulation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hookproof_judge::scenario::Scenario;

use super::machine::{Load, Machine};
use super::scale::AS_IT_STANDS;
use super::simulated;
use super::slo::{Breach, Slo};
use crate::sim::figures::Figures;
use crate::sim::{Options, SimError};

#[must_use]
pub fn breaches(scenario: &Scenario, slos: &[Slo], figures: &Figures) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (subscriber, lane) in scenario.subscribers.iter().zip(&figures.lanes) {
        for slo in slos.iter().filter(|slo| slo.concerns(subscriber)) {
            let figure = slo.measure.of(lane, figures);
            if figure > slo.most {
                breaches.push(Breach {
                    subscriber: subscriber.name.clone(),
                    group: subscriber.group.clone(),
                    objective: slo.to_string(),
                    figure: slo.show(figure),
                    excess: figure.saturating_mul(AS_IT_STANDS) / slo.most.max(1),
                });
            }
        }
    }
    worst_first(&mut breaches);
    breaches
}

pub(super) fn worst_first(breaches: &mut [Breach]) {
    breaches.sort_by(|one, other| other.excess.cmp(&one.excess).then(one.subscriber.cmp(&other.subscriber)));
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    pub(super) slos: &'a [Slo],
    pub(super) machine: &'a Machine,
    pub(super) body_bytes: u64,
    pub(super) options: &'a Options,
}

impl Judge<'_> {
    /// The worst first.
    pub(super) fn breaches(&self, scenario: &Scenario, figures: &Figures) -> Vec<Breach> {
        let mut all = breaches(scenario, self.slos, figures);
        all.extend(self.machine.breaches(&Load::of(scenario, figures, self.body_bytes)));
        worst_first(&mut all);
        all
    }

    pub(super) fn seed(&self, scenario: &Scenario) -> u64 {
        self.options.seed.unwrap_or(scenario.seed)
    }

    pub(super) fn figures(&self, scenario: &Scenario, seed: Option<u64>) -> Result<Figures, SimError> {
        let options = Options { seed: seed.or(self.options.seed), ..self.options.clone() };
        simulated(scenario, &options)
    }

    /// The machine is not judged.
    pub(super) fn lane_holds(&self, lane: &Scenario, seed: u64) -> Result<bool, SimError> {
        Ok(breaches(lane, self.slos, &self.figures(lane, Some(seed))?).is_empty())
    }

    /// A breach that is certain without a simulation: far more events than the machine carries.
    pub(super) fn surely_breaks(&self, present: &Figures, thousandths: u64) -> Option<Breach> {
        let events = in_proportion(present.busiest_offered.count, thousandths);
        let clear = self.machine.capacity()?.saturating_mul(5) / 4;
        let load = Load { peak_events: events, ..Load::default() };
        (events > clear).then(|| self.machine.breaches(&load)).and_then(|all| all.into_iter().next())
    }
}

fn in_proportion(per_second: u64, thousandths: u64) -> u64 {
    per_second.saturating_mul(thousandths) / AS_IT_STANDS
}

/// In order, on all cores.
pub(super) fn in_parallel<T: Copy + Sync, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let worker = || {
        while let Some((place, item)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            items.get(place).map(|item| (place, *item))
        } {
            let result = work(item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    std::thread::scope(|scope| (0..cores.min(items.len())).for_each(|_| drop(scope.spawn(worker))));
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}
