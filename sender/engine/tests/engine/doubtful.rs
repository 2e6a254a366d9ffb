//! A small sender that charges attempts on completion. Its process remembers everything, so only the rule of doubt is
//! judged.

use std::collections::BTreeMap;

use hookproof_engine::engine::contract::Contract;
use hookproof_engine::engine::{Lateness, Nanos, Outcome, StoreTime};

use crate::senders::{HandOver, Sender, Terms};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoubtFlaw {
    None,
    /// Forgets an attempt after its doubt instead of charging it.
    NotCharged,
    /// Even if its attempt began before the silent one ended.
    EarlierAnswersCount,
}

/// Its end, and the end of its doubt.
struct Doubt {
    ended: StoreTime,
    over: StoreTime,
    quarantine: Nanos,
}

pub(crate) struct Doubtful {
    contract: Contract,
    lateness: Lateness,
    flaw: DoubtFlaw,
    charged: Vec<StoreTime>,
    open: BTreeMap<u64, (StoreTime, Lateness)>,
    doubts: Vec<Doubt>,
    waiting: u64,
    held: bool,
    made: u64,
    now: StoreTime,
}

impl Doubtful {
    pub(crate) fn new(terms: Terms, flaw: DoubtFlaw) -> Self {
        let Terms { contract, lateness } = terms;
        let (charged, open, doubts) = (vec![], BTreeMap::new(), vec![]);
        Self {
            contract,
            lateness,
            flaw,
            charged,
            open,
            doubts,
            waiting: 0,
            held: false,
            made: 0,
            now: StoreTime::START,
        }
    }

    fn advance(&mut self, now: StoreTime) {
        self.now = now;
        let (over, left) = std::mem::take(&mut self.doubts).into_iter().partition(|doubt| doubt.over <= now);
        self.doubts = left;
        let over: Vec<Doubt> = over;
        if self.flaw != DoubtFlaw::NotCharged {
            self.charged.extend(over.iter().map(|doubt| doubt.over));
        }
        self.charged.sort_unstable();
    }

    /// The charges drain one after another.
    fn level(&self, now: StoreTime) -> usize {
        let gap = self.contract.bucket().rate().gap();
        let mut empty = StoreTime::START;
        for charged in &self.charged {
            empty = empty.max(*charged) + gap;
        }
        usize::try_from(empty.since(now).0.div_ceil(gap.0)).unwrap()
    }

    fn in_flight(&self) -> usize {
        self.open.len() + self.doubts.len()
    }

    fn may_start(&self, now: StoreTime) -> bool {
        let bucket = self.level(now) + self.in_flight() < self.contract.bucket().burst() as usize;
        let cap = self.open.len() < self.contract.in_flight() as usize;
        let windows = self.contract.windows().iter().all(|window| {
            let held = self.charged.iter().filter(|at| **at + window.length() > now).count();
            held + self.in_flight() < window.limit() as usize
        });
        self.waiting > 0 && !self.held && bucket && cap && windows
    }
}

impl Sender for Doubtful {
    fn offer(&mut self, _: StoreTime, count: u64) {
        self.waiting += count;
    }

    fn start(&mut self, now: StoreTime) -> Option<u64> {
        self.advance(now);
        if !self.may_start(now) {
            return None;
        }
        self.waiting -= 1;
        self.made += 1;
        self.open.insert(self.made, (now, self.lateness));
        Some(self.made)
    }

    fn ended(&mut self, now: StoreTime, request: u64, outcome: Outcome) {
        self.advance(now);
        let Some((started, lateness)) = self.open.remove(&request) else { return };
        let lateness = lateness.longer(self.lateness);
        if outcome == Outcome::Silent {
            let over = now + lateness.doubt();
            return self.doubts.push(Doubt { ended: now, over, quarantine: lateness.quarantine() });
        }
        self.charged.push(now);
        if matches!(outcome, Outcome::Answered(_)) {
            let all = self.flaw == DoubtFlaw::EarlierAnswersCount;
            for doubt in self.doubts.iter_mut().filter(|doubt| all || doubt.ended < started) {
                doubt.over = doubt.over.min(now + doubt.quarantine);
            }
        }
    }

    /// Keeps the first contract: used with scripts without changes.
    fn change(&mut self, _: StoreTime, _: &Terms) {}

    fn set_paused(&mut self, _: StoreTime, paused: bool) {
        self.held = paused;
    }

    fn stop(&mut self, _: StoreTime) {
        self.held = true;
    }

    fn hand_over(&mut self, now: StoreTime, how: HandOver, _: &Terms) {
        self.held = false;
        if !matches!(how, HandOver::Lost { .. }) {
            for (_, (_, lateness)) in std::mem::take(&mut self.open) {
                let over = now + lateness.doubt();
                self.doubts.push(Doubt { ended: now, over, quarantine: lateness.quarantine() });
            }
        }
    }

    fn next_wake(&self) -> Option<StoreTime> {
        (self.waiting > 0 && !self.held).then(|| self.now + Nanos::from_millis(20))
    }
}
