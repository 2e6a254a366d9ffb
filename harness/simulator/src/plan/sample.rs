//! Simulates some of many like subscribers, which stand for the others.

use std::collections::BTreeMap;

use hookproof_judge::scenario::{FaultPlan, FaultTarget, Scenario, Subscriber};
use serde::Serialize;

use crate::sim::figures::{Figures, LaneFigures};
use crate::sim::{Keep, Options, SimError, simulate};

/// A kind of subscribers of which some stand for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sampled {
    pub group: String,
    pub simulated: u64,
    pub of: u64,
}

impl Sampled {
    /// Of subscribers that draw alike, each is equally likely to be the slowest.
    pub(super) fn told(&self) -> String {
        let Self { group, simulated, of } = self;
        format!(
            "{simulated} of {of} like {group} were simulated and stand for the others, of which about 1 in {} has greater \
             figures; --sample 0 simulates all",
            simulated + 1
        )
    }
}

pub(super) struct Sample {
    scenario: Scenario,
    /// By subscriber of the whole scenario, the place of the simulated one.
    stands: Vec<usize>,
    pub(super) sampled: Vec<Sampled>,
}

impl Sample {
    /// At most `each` subscribers of a kind, all if that is 0. Like subscribers differ in their names alone, and no fault
    /// names one of them.
    pub(super) fn of(scenario: &Scenario, each: usize) -> Self {
        let each = if each == 0 { usize::MAX } else { each };
        let mut kinds: BTreeMap<&str, Vec<Vec<usize>>> = BTreeMap::new();
        for (place, one) in scenario.subscribers.iter().enumerate() {
            let group = kinds.entry(&one.group).or_default();
            let like = group.iter_mut().find(|kind| {
                let first = &scenario.subscribers[kind[0]];
                is_like(one, first) && !is_named(scenario, one) && !is_named(scenario, first)
            });
            match like {
                Some(kind) => kind.push(place),
                None => group.push(vec![place]),
            }
        }
        let mut stands = vec![0; scenario.subscribers.len()];
        let mut sampled = Vec::new();
        for (group, kind) in kinds.iter().flat_map(|(group, all)| all.iter().map(move |kind| (group, kind))) {
            kind.iter()
                .enumerate()
                .for_each(|(number, place)| stands[*place] = kind[number % each.min(kind.len())]);
            if kind.len() > each {
                sampled.push(Sampled {
                    group: (*group).to_owned(),
                    simulated: each as u64,
                    of: kind.len() as u64,
                });
            }
        }
        // Places among the simulated ones in place of those in the scenario.
        let kept: Vec<usize> = (0..stands.len()).filter(|place| stands[*place] == *place).collect();
        let subscribers = kept.iter().map(|place| scenario.subscribers[*place].clone()).collect();
        let stands = stands.iter().map(|place| kept.partition_point(|one| one < place)).collect();
        Self { scenario: Scenario { subscribers, ..scenario.clone() }, stands, sampled }
    }

    pub(super) const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Fills in each subscriber of the whole scenario.
    pub(super) fn simulate(&self, whole: &Scenario, options: &Options) -> Result<Figures, SimError> {
        let mut weights = vec![0; self.scenario.subscribers.len()];
        self.stands.iter().for_each(|place| weights[*place] += 1);
        let options = Options { keep: Keep::Figures, weights, ..options.clone() };
        let mut figures = simulate(&self.scenario, &options)?.figures;
        let lanes = whole.subscribers.iter().zip(&self.stands);
        let lanes: Vec<LaneFigures> = lanes
            .map(|(one, place)| LaneFigures { name: one.name.clone(), ..figures.lanes[*place].clone() })
            .collect();
        let owed = |lanes: &[LaneFigures]| lanes.iter().map(|lane| lane.owed).sum::<u64>();
        let more = owed(&lanes).saturating_sub(owed(&figures.lanes));
        figures.database_bytes = figures.database_bytes.saturating_add(more.saturating_mul(DELIVERY_BYTES));
        figures.lanes = lanes;
        Ok(figures)
    }
}

/// The room of a delivery in the store with its indexes, without the body that the deliveries of an event share: about the
/// middle of what was measured.
const DELIVERY_BYTES: u64 = 256;

fn is_like(one: &Subscriber, other: &Subscriber) -> bool {
    Subscriber { name: other.name.clone(), ..one.clone() } == *other
}

fn is_named(scenario: &Scenario, one: &Subscriber) -> bool {
    let named = |fault: &FaultPlan| {
        let owner = fault.worker.as_ref().and_then(FaultTarget::owner_of);
        [fault.action.subscriber(), owner].contains(&Some(&one.name))
    };
    one.name != one.group && scenario.faults.iter().any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(more: &str) -> Scenario {
        let text = format!(
            "name = \"like\"\ndrain = \"10s\"\n[[traffic]]\nshape = \"steady\"\nrate = \"5/s\"\nlasts = \"4s\"\n\
             [[subscriber]]\nname = \"partner\"\ncount = 7\nevents = [\"*\"]\nlimit = {{ rate = \"20/s\", burst = 5 }}\n\
             answers = \"10ms..10ms\"\n[[subscriber]]\nname = \"other\"\nevents = [\"*\"]\n{more}"
        );
        Scenario::from_text(&text, "like.toml").unwrap()
    }

    fn kept(sample: &Sample) -> Vec<&str> {
        sample.scenario.subscribers.iter().map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn subscribers_that_differ_are_each_simulated() {
        let sample = Sample::of(&scenario(""), 2);
        assert_eq!(kept(&sample), ["partner-1", "partner-2", "other"]);
        assert_eq!(sample.stands, [0, 1, 0, 1, 0, 1, 0, 2]);
        assert_eq!(sample.sampled, [Sampled { group: "partner".to_owned(), simulated: 2, of: 7 }]);
        assert_eq!(kept(&Sample::of(&scenario(""), 0)).len(), 8);
        // One of them has another latency.
        let mut slower = scenario("");
        slower.subscribers[5].answers.most.0 *= 2;
        assert_eq!(kept(&Sample::of(&slower, 2)), ["partner-1", "partner-2", "partner-6", "other"]);
        // A fault concerns one of them, or all.
        let fault = |whom| {
            scenario(&format!(
                "[[fault]]\nat = \"1s\"\ndo = \"limit\"\nsubscriber = \"{whom}\"\nlimit = {{ rate = \"2/s\", burst = 2 }}\n"
            ))
        };
        assert_eq!(
            kept(&Sample::of(&fault("partner-4"), 2)),
            ["partner-1", "partner-2", "partner-4", "other"]
        );
        assert_eq!(kept(&Sample::of(&fault("partner"), 2)), ["partner-1", "partner-2", "other"]);
        let kill = scenario(
            "[[fault]]\nat = \"1s\"\ndo = \"kill\"\nlasts = \"1s\"\nworker = \"owner of partner-4\"\n",
        );
        assert_eq!(kept(&Sample::of(&kill, 2)), ["partner-1", "partner-2", "partner-4", "other"]);
    }

    #[test]
    fn a_sample_has_the_figures_of_all_where_all_are_equal() {
        let scenario = scenario("");
        let simulated = |each| {
            let options = Options { sample: each, ..Options::default() };
            let figures = Sample::of(&scenario, each).simulate(&scenario, &options).unwrap();
            let lane = |lane: &LaneFigures| (lane.name.clone(), lane.owed, lane.arrivals, lane.delivered);
            (figures.lanes.iter().map(lane).collect::<Vec<_>>(), figures.busiest.count, figures.offered)
        };
        let all = simulated(0);
        assert!(all.1 >= 8 * 5, "the peak second has the requests of all: {all:?}");
        assert_eq!(simulated(2), all);
    }
}
