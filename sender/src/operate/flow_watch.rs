//! Watches how lanes flow: logs lasting changes, and notifies operators. The runtime logs an open breaker, a pause, a 410
//! and a throttle as they happen.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::flow::{Flow, Present, State};
use super::notifier::Notifier;
use crate::engine::{LaneId, LaneView, Nanos};
use crate::runtime::Sender;
use crate::store::StoreError;

const EVERY: Duration = Duration::from_secs(5);
/// Of a round; the next goes on after them.
const LANES_MAX: usize = 100;
/// Of a round.
const LINES_MAX: usize = 20;

pub(crate) async fn watch_flow(sender: &Sender) -> Infallible {
    let (mut log, mut notifier) = (FlowLog::default(), Notifier::default());
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let present = Present::of(sender).await;
        log.round(sender, present.clone()).await;
        notifier.round(sender, present).await;
    }
}

#[derive(Debug, Default)]
struct FlowLog {
    waiting: BTreeMap<LaneId, State>,
    before: BTreeMap<LaneId, State>,
    last: Option<LaneId>,
}

impl FlowLog {
    /// Reads the store only while a lane has work, for [`LANES_MAX`] lanes in each round.
    async fn round(&mut self, sender: &Sender, present: Present) {
        let Self { waiting, before, last } = self;
        let roster = Arc::clone(&present.roster);
        let ours: BTreeSet<LaneId> = present.views.iter().map(|view| view.lane).collect();
        waiting.retain(|lane, _| ours.contains(lane));
        let may_wait = |view: &&LaneView| {
            view.has_work || view.paused_for > Nanos::ZERO || waiting.contains_key(&view.lane)
        };
        let mut lanes: Vec<LaneId> = present.views.iter().filter(may_wait).map(|view| view.lane).collect();
        if lanes.is_empty() {
            return;
        }
        lanes.sort_unstable();
        let start = lanes.partition_point(|lane| Some(*lane) <= *last);
        lanes.rotate_left(start);
        lanes.truncate(LANES_MAX);
        *last = lanes.last().copied();
        // A store that cannot be read is logged elsewhere.
        let found = sender.read(move |reader| present.flows(reader, &lanes)).await;
        let Ok(Ok::<_, StoreError>(flows)) = found else { return };
        let lasting =
            flows.iter().filter(|(lane, flow)| before.insert(**lane, flow.state) == Some(flow.state));
        let news = lasting.filter(|(lane, flow)| is_news(waiting, **lane, flow.state));
        for (lane, flow) in news.take(LINES_MAX) {
            let name = roster.get(*lane).map_or("a removed subscriber", |known| &**known.name());
            log_one(name, flow);
        }
        before.retain(|lane, _| ours.contains(lane));
    }
}

/// A lane that leaves this for a state that the runtime logs is no news.
fn is_news(waiting: &mut BTreeMap<LaneId, State>, lane: LaneId, state: State) -> bool {
    match state {
        State::Unpermitted | State::InDoubt | State::AskedToWait | State::RateLimited => {
            waiting.insert(lane, state) != Some(state)
        }
        State::Active => waiting.remove(&lane).is_some(),
        State::Broken
        | State::Disabled
        | State::BreakerOpen
        | State::NoProcess
        | State::Throttled
        | State::Paused => {
            waiting.remove(&lane);
            false
        }
    }
}

fn log_one(name: &str, flow: &Flow) {
    let state = flow.state.word();
    match flow.state {
        State::Active => info!(subscriber = name, state, "{name} flows again"),
        State::Unpermitted | State::InDoubt => warn!(subscriber = name, state, "{name}: {flow}"),
        _ => info!(subscriber = name, state, "{name}: {flow}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_news_once_when_it_waits_and_once_when_it_flows_again() {
        let mut waiting = BTreeMap::new();
        let mut told = |state| is_news(&mut waiting, LaneId(1), state);
        let rows = [
            (State::Active, false),
            (State::RateLimited, true),
            (State::RateLimited, false),
            (State::InDoubt, true),
            (State::Active, true),
            (State::Active, false),
            (State::AskedToWait, true),
            (State::BreakerOpen, false),
            (State::Active, false),
        ];
        for (state, expected) in rows {
            assert_eq!(told(state), expected, "{state}");
        }
    }
}
