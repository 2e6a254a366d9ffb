//! Counts the open deliveries of a sender that reports no queue, as its endpoints see them; a run ends at 0.
//!
//! A delivery opens when its event is written to the sender. It closes when an endpoint takes it, when the
//! event is refused, when its endpoint answers 410, or after its last attempt. Events that coalesce or are
//! shed stay open, and such a run ends with its `drain`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Arrival, Offer, Record};
use crate::scenario::Scenario;

#[derive(Debug, Default)]
pub struct Ledger {
    /// Number and attempts in total.
    lanes: BTreeMap<String, (u32, u32)>,
    /// By event and lane.
    open: BTreeMap<(u64, u32), u32>,
    under_way: BTreeMap<u64, Carried>,
    gone: BTreeSet<u32>,
}

#[derive(Debug)]
struct Carried {
    lane: u32,
    attempts: u32,
    tokens: Vec<u64>,
}

impl Ledger {
    pub fn new(scenario: &Scenario) -> Self {
        let lanes = (0..).zip(&scenario.subscribers);
        let lanes = lanes.map(|(at, one)| (one.name.clone(), (at, one.retry.attempts))).collect();
        Self { lanes, ..Self::default() }
    }

    pub fn open(&self) -> usize {
        self.open.len()
    }

    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Offer(offer) => self.offered(offer),
            Record::Refused(refused) if !refused.unknown => self.settle(refused.token),
            Record::Unoffered(one) => self.settle(one.token),
            Record::Arrival(arrival) => self.arrived(arrival),
            Record::Answer(answer) => {
                let status = if answer.whole { answer.status } else { 0 };
                self.ended(answer.n, status);
            }
            Record::Cut(cut) => cut.n.into_iter().for_each(|n| self.ended(n, 0)),
            _ => {}
        }
    }

    fn offered(&mut self, offer: &Offer) {
        let lanes = offer.owed.iter().filter_map(|name| self.lanes.get(&**name)).map(|(lane, _)| *lane);
        let owed = lanes.filter(|lane| !self.gone.contains(lane));
        self.open.extend(owed.map(|lane| ((offer.token, lane), 0)));
    }

    fn settle(&mut self, token: u64) {
        let settled: Vec<(u64, u32)> =
            self.open.range((token, 0)..=(token, u32::MAX)).map(|(key, _)| *key).collect();
        for key in settled {
            self.open.remove(&key);
        }
    }

    fn arrived(&mut self, arrival: &Arrival) {
        let Some((lane, attempts)) = self.lanes.get(&*arrival.endpoint).copied() else { return };
        let tokens = arrival.token.iter().chain(&arrival.more).copied().collect();
        self.under_way.insert(arrival.n, Carried { lane, attempts, tokens });
    }

    fn ended(&mut self, n: u64, status: u16) {
        let Some(Carried { lane, attempts, tokens }) = self.under_way.remove(&n) else { return };
        if status == 410 {
            self.gone.insert(lane);
            self.open.retain(|(_, other), _| *other != lane);
        }
        for token in tokens {
            let Some(failed) = self.open.get_mut(&(token, lane)) else { continue };
            *failed += 1;
            if (200..300).contains(&status) || *failed >= attempts {
                self.open.remove(&(token, lane));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Answer, Head, Signed, Text, Verified};

    fn ledger() -> Ledger {
        let text = "name = \"l\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"a\"\n\
                    retry = { attempts = 2 }\n[[subscriber]]\nname = \"b\"\n";
        let mut ledger = Ledger::new(&Scenario::from_text(text, "l.toml").unwrap());
        for token in [1, 2] {
            let owed = ["a", "b"].map(Text::from).into_iter().collect();
            let (kind, key) = (Text::default(), Text::default());
            ledger.apply(&Record::Offer(Offer { t: 0, intended: 0, held: 0, token, kind, key, owed }));
        }
        ledger
    }

    fn exchange(ledger: &mut Ledger, endpoint: &str, (n, token, more): (u64, u64, Vec<u64>), status: u16) {
        ledger.apply(&Record::Arrival(Arrival {
            t: 0,
            read: 0,
            n,
            endpoint: endpoint.into(),
            connection: 0,
            token: Some(token),
            more: more.into(),
            id: None,
            attempt: None,
            head: Head::default().into(),
            bytes: 0,
            sha256: Text::default(),
            payload: None,
            signed: Signed {
                signature: None,
                verified: Verified::Unchecked(Text::default()),
                surplus: 0,
                disclosed: None,
                timestamp: None,
            },
        }));
        let (retry_after, whole) = (None, true);
        ledger.apply(&Record::Answer(Answer { t: 0, end: 0, n, status, retry_after, whole }));
    }

    #[test]
    fn a_delivery_is_open_until_it_was_taken_or_tried_as_often_as_it_may_be() {
        let mut ledger = ledger();
        assert_eq!(ledger.open(), 4);
        exchange(&mut ledger, "a", (0, 1, vec![]), 204);
        assert_eq!(ledger.open(), 3);
        exchange(&mut ledger, "a", (1, 2, vec![]), 500);
        assert_eq!(ledger.open(), 3);
        exchange(&mut ledger, "a", (2, 2, vec![]), 500);
        assert_eq!(ledger.open(), 2);
        exchange(&mut ledger, "b", (3, 1, vec![2]), 200);
        assert_eq!(ledger.open(), 0);
    }

    #[test]
    fn deliveries_to_a_gone_endpoint_are_not_open() {
        let mut ledger = ledger();
        exchange(&mut ledger, "b", (0, 1, vec![]), 410);
        assert_eq!(ledger.open(), 2);
    }
}
