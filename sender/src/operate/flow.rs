//! How a lane flows: one word, and the reason and the remedy if something holds its deliveries up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::sync::Arc;

use serde_json::{Value, json};

use super::backlog::Clearing;
use super::health::Health;
use super::json_forms::moment;
use super::pause::in_words;
use crate::dispatch::handover;
use crate::engine::breaker::{Opened, Standing};
use crate::engine::contract::Contract;
use crate::engine::{Holds, LaneId, LaneView, Nanos, Shift, StoreTime, Unpermitted, Why};
use crate::event::timestamp::parse_time;
use crate::permission::Permission;
use crate::roster::Roster;
use crate::runtime::Sender;
use crate::store::StoreError;
use crate::store::lane::{LaneState, OwnerId, Pause};
use crate::store::latency::{Histogram, Measured};
use crate::store::read::{LaneStatus, Over, ReadError, Reader};
use crate::units::rough;

/// A backlog that takes less counts as none.
const BACKLOG_MIN: Nanos = Nanos::MINUTE;
const PAGE_ROWS: u32 = 500;
/// The most that one answer names.
pub(crate) const HELD_UP_MAX: usize = 100;

/// In a list the most urgent comes first. The words are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Broken,
    Disabled,
    BreakerOpen,
    Unpermitted,
    InDoubt,
    NoProcess,
    AskedToWait,
    Throttled,
    RateLimited,
    Paused,
    Active,
}

impl State {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Disabled => "disabled",
            Self::BreakerOpen => "breaker_open",
            Self::Unpermitted => "unpermitted",
            Self::InDoubt => "in_doubt",
            Self::NoProcess => "no_process",
            Self::AskedToWait => "asked_to_wait",
            Self::Throttled => "throttled",
            Self::RateLimited => "rate_limited",
            Self::Paused => "paused",
            Self::Active => "active",
        }
    }
}

impl State {
    /// Neither a wait nor an operator's own pause.
    pub(crate) const fn is_a_fault(self) -> bool {
        matches!(
            self,
            Self::Broken | Self::Disabled | Self::BreakerOpen | Self::Unpermitted | Self::NoProcess
        )
    }
}

impl Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word().replace('_', " "))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) state: State,
    pub(crate) health: Health,
    /// When the state began, where it is known.
    since: Option<StoreTime>,
    /// When the lane may send again by itself, where it is known.
    until: Option<StoreTime>,
    /// Empty if the lane flows, as is the remedy.
    reason: String,
    remedy: String,
}

impl Flow {
    fn new(state: State, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        // [`LaneFacts::flow`] sets the health.
        Self {
            state,
            health: Health::Healthy,
            since: None,
            until: None,
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
        json!({
            "state": self.state.word(),
            "health": self.health.word(),
            "since": self.since.map(moment),
            "until": self.until.map(moment),
            "reason": text(&self.reason),
            "remedy": text(&self.remedy),
        })
    }
}

impl Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.state == State::Active {
            return self.state.fmt(f);
        }
        let Self { state, reason, remedy, .. } = self;
        write!(f, "{state}: {reason}; {remedy}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldUp {
    id: Arc<str>,
    pub(crate) name: Arc<str>,
    here: bool,
    pub(crate) flow: Flow,
}

impl HeldUp {
    pub(crate) fn to_json(&self) -> Value {
        let mut value = self.flow.to_json();
        value["subscriber"] = json!(&*self.id);
        value["name"] = json!(&*self.name);
        value["here"] = json!(self.here);
        value
    }
}

impl Display for HeldUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.flow)
    }
}

#[derive(Clone)]
pub(crate) struct Present {
    pub(crate) roster: Arc<Roster>,
    pub(crate) views: Vec<LaneView>,
    pub(crate) now: StoreTime,
}

impl Present {
    pub(crate) async fn of(sender: &Sender) -> Self {
        Self { roster: sender.roster(), views: sender.views().await, now: sender.clock().now() }
    }

    pub(crate) fn flows(
        self,
        reader: &dyn Reader,
        lanes: &[LaneId],
    ) -> Result<BTreeMap<LaneId, Flow>, StoreError> {
        let flows = Flows::read(reader, self.roster, self.views, self.now)?;
        let lanes = lanes.iter().filter_map(|lane| reader.lane(*lane).transpose());
        let lanes = lanes.collect::<Result<Vec<_>, _>>()?;
        let found = flows.of(reader, &lanes)?;
        Ok(lanes.iter().map(|lane| lane.lane).zip(found).collect())
    }
}

/// The state of a lane comes from this process if it owns the lane, or else from the checkpoint that its owner writes
/// at each change.
pub(crate) struct Flows {
    views: BTreeMap<LaneId, LaneView>,
    roster: Arc<Roster>,
    living: BTreeSet<OwnerId>,
    now: StoreTime,
}

impl Flows {
    pub(crate) fn read(
        reader: &dyn Reader,
        roster: Arc<Roster>,
        views: Vec<LaneView>,
        now: StoreTime,
    ) -> Result<Self, StoreError> {
        let leases_over = reader.nodes()?.lease_time(now);
        let living = reader.owners()?.into_iter().filter(|owner| owner.until > leases_over);
        let living = living.map(|owner| owner.owner).collect();
        let views = views.into_iter().map(|view| (view.lane, view)).collect();
        Ok(Self { views, roster, living, now })
    }

    pub(crate) fn is_here(&self, lane: &LaneStatus) -> bool {
        self.views.contains_key(&lane.lane)
    }

    pub(crate) fn is_elsewhere(&self, lane: &LaneStatus) -> bool {
        !self.is_here(lane) && lane.owner.is_some_and(|(owner, _)| self.living.contains(&owner))
    }

    pub(crate) const fn now(&self) -> StoreTime {
        self.now
    }

    /// In the order of the lanes.
    pub(crate) fn of(&self, reader: &dyn Reader, lanes: &[LaneStatus]) -> Result<Vec<Flow>, StoreError> {
        let elsewhere = lanes.iter().filter(|lane| !self.views.contains_key(&lane.lane));
        let elsewhere: Vec<LaneId> = elsewhere.map(|lane| lane.lane).collect();
        let kept = if elsewhere.is_empty() { Vec::new() } else { reader.checkpoints(&elsewhere)? };
        let kept: BTreeMap<LaneId, Holds> =
            kept.into_iter().filter_map(|(lane, record)| Some((lane, handover::holds(&record)?))).collect();
        let due = lanes.iter().filter(|lane| self.is_due(lane) && self.has_backlog(lane));
        let due: Vec<LaneId> = due.map(|lane| lane.lane).collect();
        let until = self.now;
        let measured =
            if due.is_empty() { Vec::new() } else { reader.latencies(&due, Over::Day { until })? };
        let measured: BTreeMap<LaneId, Measured> = measured.into_iter().collect();
        let flow = |lane: &LaneStatus| self.flow(lane, kept.get(&lane.lane), measured.get(&lane.lane));
        Ok(lanes.iter().map(flow).collect())
    }

    fn is_due(&self, lane: &LaneStatus) -> bool {
        lane.next.is_some_and(|next| next <= self.now)
    }

    /// More waits than may be in flight.
    fn has_backlog(&self, lane: &LaneStatus) -> bool {
        let contract = self.roster.get(lane.lane).map(|known| known.settings().contract());
        contract.is_some_and(|contract| lane.counts.waiting > contract.in_flight().into())
    }

    pub(crate) fn held_up(&self, reader: &dyn Reader) -> Result<Vec<HeldUp>, ReadError> {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let mut page = reader.lanes(from, PAGE_ROWS)?;
            page.items.retain(|lane| lane.state != LaneState::Removed);
            let flows = self.of(reader, &page.items)?;
            let held_up = page.items.into_iter().zip(flows).filter(|(_, flow)| flow.state != State::Active);
            found.extend(held_up.map(|(lane, flow)| {
                let here = self.is_here(&lane);
                HeldUp { id: lane.id, name: lane.name, here, flow }
            }));
            from = page.next;
            if from.is_none() {
                // Stable: the oldest of a state first.
                found.sort_by_key(|held_up| held_up.flow.state);
                return Ok(found);
            }
        }
    }

    fn flow(&self, lane: &LaneStatus, kept: Option<&Holds>, measured: Option<&Measured>) -> Flow {
        let (known, view) = (self.roster.get(lane.lane), self.views.get(&lane.lane));
        let holds = view.map(|view| &view.holds).or(kept).map(|holds| {
            let asks = known.and_then(|known| known.settings().permission());
            let refused = holds.refused.filter(|refused| asks == refused.permission);
            Holds { refused, ..*holds }
        });
        let fault = known.and_then(|known| known.ready().err()).map(ToString::to_string);
        LaneFacts {
            name: &lane.name,
            state: lane.state,
            pause: &lane.pause,
            fault: fault.as_deref(),
            holds: holds.as_ref(),
            waiting: lane.counts.waiting,
            is_due: self.is_due(lane),
            answers: measured.map(|measured| &measured.answer),
            is_owned: view.is_some() || lane.owner.is_some_and(|(owner, _)| self.living.contains(&owner)),
            contract: known.map(|known| known.settings().contract()),
            permission: known.and_then(|known| known.ready().ok()?.agreement().permission.as_deref()),
            now: self.now,
        }
        .flow()
    }
}

struct LaneFacts<'a> {
    name: &'a str,
    state: LaneState,
    pause: &'a Pause,
    fault: Option<&'a str>,
    holds: Option<&'a Holds>,
    waiting: u64,
    is_due: bool,
    /// Of a day.
    answers: Option<&'a Histogram>,
    is_owned: bool,
    contract: Option<&'a Contract>,
    permission: Option<&'a Permission>,
    now: StoreTime,
}

impl LaneFacts<'_> {
    fn flow(&self) -> Flow {
        let flow = self
            .by_state()
            .or_else(|| self.by_breaker())
            .or_else(|| self.by_permission())
            .or_else(|| self.by_pause())
            .or_else(|| self.by_doubt())
            .or_else(|| self.by_owner())
            .or_else(|| self.by_throttle())
            .or_else(|| self.by_contract())
            .unwrap_or_else(|| Flow::new(State::Active, "", ""));
        Flow { health: Health::of(self.state, self.holds.map(|holds| holds.breaker)), ..flow }
    }

    fn by_state(&self) -> Option<Flow> {
        let Self { name, .. } = self;
        if let Some(fault) = self.fault {
            let remedy = "mend its settings, start with its region's secret (--region), or remove it";
            return Some(Flow::new(State::Broken, fault, remedy));
        }
        match self.state {
            LaneState::Active | LaneState::Removed => None,
            LaneState::Paused => {
                let sooner = if self.pause.until.is_some() { " sooner" } else { "" };
                let reason = format!("an operator paused it{}", in_words(self.pause));
                let remedy = format!("`subscriber resume {name}` continues{sooner}");
                Some(Flow { until: self.pause.until, ..Flow::new(State::Paused, reason, remedy) })
            }
            LaneState::Disabled => {
                let why = self.pause.why_disabled();
                let since = why.rsplit_once(" at ").and_then(|(_, since)| parse_time(since));
                let reason = format!("{why}; new events are not recorded for it");
                let remedy = format!(
                    "`subscriber resume {name}` once the endpoint takes events again, then emit those since then \
                     again, with the same ids; or remove it"
                );
                Some(Flow { since, ..Flow::new(State::Disabled, reason, remedy) })
            }
        }
    }

    fn by_breaker(&self) -> Option<Flow> {
        let (opened, until, probe) = match self.holds?.breaker {
            Standing::Closed => return None,
            Standing::Open { opened, until } if until > self.now => (
                opened,
                Some(until),
                format!("no attempt starts before {}; the next one is the probe", moment(until)),
            ),
            // Nobody probes.
            _ if self.is_due && !self.is_owned => return None,
            Standing::Open { opened, .. } => (opened, None, "the next attempt is the probe".to_owned()),
            Standing::Probing { opened } => (opened, None, "a probe is under way".to_owned()),
        };
        let Opened { since, cause } = opened;
        let reason = format!(
            "its endpoint failed again and again (last: {cause}), so its circuit breaker is open since {}; {probe}",
            moment(since)
        );
        let remedy = format!(
            "mend the endpoint; `subscriber retry {}` then probes it at once, and a success closes the breaker",
            self.name
        );
        Some(Flow { since: Some(since), until, ..Flow::new(State::BreakerOpen, reason, remedy) })
    }

    fn by_permission(&self) -> Option<Flow> {
        let (Unpermitted { refusal, until, .. }, permission) = (self.holds?.refused?, self.permission?);
        let contract = self.contract?;
        let until = Some(until).filter(|until| *until > self.now);
        let again = until
            .map_or_else(|| "before the next request".to_owned(), |until| format!("at {}", moment(until)));
        let reason = format!("{}, and is asked again {again}", permission.reason(refusal));
        Some(Flow {
            until,
            ..Flow::new(State::Unpermitted, reason, permission.remedy(refusal, self.name, contract))
        })
    }

    fn by_pause(&self) -> Option<Flow> {
        let until = Some(self.holds?.paused_until).filter(|until| *until > self.now)?;
        let reason = format!("its endpoint asked by Retry-After to wait until {}", moment(until));
        let remedy = format!(
            "wait, or `subscriber retry {} --ignore-retry-after`; `retry.retry_after_cap` bounds such a pause",
            self.name
        );
        Some(Flow { until: Some(until), ..Flow::new(State::AskedToWait, reason, remedy) })
    }

    /// Nothing starts while all attempts that a limit allows are in doubt.
    fn by_doubt(&self) -> Option<Flow> {
        let (holds, contract) = (self.holds.filter(|_| self.is_due)?, self.contract?);
        let until = holds.in_doubt_until.filter(|until| *until > self.now)?;
        let windows = contract.windows().iter().map(|window| window.limit());
        let most = windows.fold(contract.bucket().burst(), u32::min);
        if holds.in_doubt < most {
            return None;
        }
        let reason = format!(
            "requests without an answer, which may still arrive until {1} at the latest: {0}",
            holds.in_doubt,
            moment(until)
        );
        let remedy = "wait; a `limit.burst` and `limit.windows` above `limit.in_flight` leave room for more";
        Some(Flow { until: Some(until), ..Flow::new(State::InDoubt, reason, remedy) })
    }

    fn by_owner(&self) -> Option<Flow> {
        let reason = "deliveries are due and no process delivers to it";
        (self.is_due && !self.is_owned)
            .then(|| Flow::new(State::NoProcess, reason, "start `serve` or `drain` on this database"))
    }

    fn by_throttle(&self) -> Option<Flow> {
        let Shift { at, to, why, .. } = self.holds.filter(|_| self.is_owned)?.throttle?;
        let reason = format!("it sends at {to} % of its contract since {}: {why}", moment(at));
        let remedy = match why {
            Why::Recovered | Why::Asked => "nothing to do: further good answers raise the share".to_owned(),
            _ => format!(
                "mend the endpoint: its good answers raise the share again, and `subscriber retry {}` at once",
                self.name
            ),
        };
        Some(Flow { since: Some(at), ..Flow::new(State::Throttled, reason, remedy) })
    }

    fn by_contract(&self) -> Option<Flow> {
        let contract = self.contract.filter(|_| self.is_due)?;
        let clearing = Clearing::of(self.waiting, contract, self.answers);
        if clearing.length() < BACKLOG_MIN {
            return None;
        }
        let (waiting, bound) = (self.waiting, clearing.bound());
        let reason =
            format!("deliveries waiting: {waiting}, about {} by its {bound}", rough(clearing.length()));
        let remedy = format!("wait, or raise `{bound}` if the endpoint takes more");
        Some(Flow {
            until: Some(self.now + clearing.length()),
            ..Flow::new(State::RateLimited, reason, remedy)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Refusal;
    use crate::engine::breaker::Cause;
    use crate::engine::contract::{Bucket, Rate, Window};

    const NOW: StoreTime = StoreTime::from_secs(1_800_000_000);
    const OPENED: Opened = Opened { since: StoreTime::from_secs(1_799_999_000), cause: Cause::Answered(503) };
    const OPEN: Standing = Standing::Open { opened: OPENED, until: StoreTime::from_secs(1_800_000_100) };

    fn holds() -> Holds {
        Holds {
            breaker: Standing::Closed,
            throttle: None,
            paused_until: NOW,
            refused: None,
            in_doubt: 0,
            in_doubt_until: None,
        }
    }

    fn refused() -> Option<Unpermitted> {
        Some(Unpermitted { refusal: Refusal::Slower(60), until: NOW + Nanos::SECOND, permission: None })
    }

    fn contract() -> Contract {
        let bucket = Bucket::new(Rate::per_second(5).unwrap(), 4).unwrap();
        Contract::new(Some(bucket), vec![Window::new(3, Nanos::SECOND).unwrap()], 9).unwrap()
    }

    fn facts<'a>(holds: &'a Holds, contract: &'a Contract) -> LaneFacts<'a> {
        LaneFacts {
            name: "shop",
            state: LaneState::Active,
            pause: &Pause { reason: None, until: None },
            fault: None,
            holds: Some(holds),
            waiting: 10,
            is_due: true,
            answers: None,
            is_owned: true,
            contract: Some(contract),
            permission: None,
            now: NOW,
        }
    }

    #[test]
    fn the_first_cause_that_holds_names_the_state() {
        let contract = contract();
        let open = Holds { breaker: OPEN, ..holds() };
        let pausing = Holds { paused_until: NOW + Nanos::SECOND, ..holds() };
        let in_doubt = |in_doubt| Holds { in_doubt, in_doubt_until: Some(NOW + Nanos::MINUTE), ..holds() };
        let over = Holds { breaker: Standing::Open { opened: OPENED, until: NOW }, ..holds() };
        let (three, two, well) = (in_doubt(3), in_doubt(2), holds());
        let throttle = Some(Shift { at: NOW, from: 100, to: 40, why: Why::Failures { percent: 60 } });
        let refused = Holds { refused: refused(), ..pausing };
        let permission = Permission::new("events.example", 180).unwrap();
        let throttled = Holds { throttle, ..holds() };
        let of = |holds| facts(holds, &contract);
        let rows = [
            (LaneFacts { fault: Some("no secret"), state: LaneState::Disabled, ..of(&open) }, "broken"),
            (LaneFacts { state: LaneState::Disabled, ..of(&open) }, "disabled"),
            (LaneFacts { state: LaneState::Paused, ..of(&open) }, "paused"),
            (LaneFacts { is_due: false, is_owned: false, ..of(&open) }, "breaker_open"),
            (LaneFacts { is_owned: false, ..of(&open) }, "breaker_open"),
            (LaneFacts { is_owned: false, ..of(&over) }, "no_process"),
            (of(&over), "breaker_open"),
            (LaneFacts { permission: Some(&permission), ..of(&refused) }, "unpermitted"),
            (of(&refused), "asked_to_wait"),
            (of(&pausing), "asked_to_wait"),
            (of(&three), "in_doubt"),
            (of(&two), "active"),
            (LaneFacts { is_due: false, ..of(&three) }, "active"),
            (LaneFacts { is_owned: false, ..of(&well) }, "no_process"),
            (LaneFacts { is_owned: false, is_due: false, ..of(&well) }, "active"),
            (of(&throttled), "throttled"),
            (LaneFacts { waiting: 180, ..of(&throttled) }, "throttled"),
            (LaneFacts { is_owned: false, is_due: false, ..of(&throttled) }, "active"),
            (LaneFacts { waiting: 180, ..of(&well) }, "rate_limited"),
            (LaneFacts { waiting: 179, ..of(&well) }, "active"),
            (LaneFacts { waiting: 180, is_due: false, ..of(&well) }, "active"),
            (of(&well), "active"),
        ];
        for (facts, word) in rows {
            let flow = facts.flow();
            assert_eq!(flow.state.word(), word, "{flow}");
            assert_eq!(flow.reason.is_empty() && flow.remedy.is_empty(), word == "active", "{flow}");
        }
    }

    #[test]
    fn a_refusal_names_both_rates_and_the_setting() {
        let (contract, permission) = (contract(), Permission::new("events.example", 180).unwrap());
        let refused = Holds { refused: refused(), ..holds() };
        let text =
            LaneFacts { permission: Some(&permission), ..facts(&refused, &contract) }.flow().to_string();
        let expected = "unpermitted: its endpoint allows 60 requests a minute, and limit allows up to 180 in one minute, and is \
                        asked again at 2027-01-15T08:00:01";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("'limit.windows=[\"3 per 1s\", \"60 per 1min\"]'`"), "{text}");
    }

    #[test]
    fn an_open_breaker_says_since_when_and_until_when() {
        let (contract, open) = (contract(), Holds { breaker: OPEN, ..holds() });
        let text = facts(&open, &contract).flow().to_string();
        assert!(
            text.starts_with("breaker open: ")
                && text.contains(
                    "(last: it answered 503), so its circuit breaker is open since 2027-01-15T07:43:20"
                ),
            "{text}"
        );
        assert!(text.contains("no attempt starts before 2027-01-15T08:01:40"), "{text}");
        let probing = Holds { breaker: Standing::Probing { opened: OPENED }, ..open };
        let text = facts(&probing, &contract).flow().to_string();
        assert!(text.contains("; a probe is under way; mend"), "{text}");
    }

    #[test]
    fn a_backlog_says_how_long_it_takes_and_which_limit_makes_it_so() {
        let (contract, well) = (contract(), holds());
        let text = LaneFacts { waiting: 3_600, ..facts(&well, &contract) }.flow().to_string();
        assert!(text.contains("deliveries waiting: 3600, about 20min by its limit.windows"), "{text}");
        let mut slow = Histogram::default();
        slow.count(Nanos::from_secs(9));
        let text =
            LaneFacts { waiting: 3_600, answers: Some(&slow), ..facts(&well, &contract) }.flow().to_string();
        assert!(text.contains("deliveries waiting: 3600, about 1h by its limit.in_flight"), "{text}");
    }
}
