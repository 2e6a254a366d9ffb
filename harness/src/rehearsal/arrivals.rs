//! The arrivals of the offered events.

use std::collections::BTreeSet;

use super::step::Outcome;
use hookproof_judge::trace::{Arrival, Record, Records, Stray, StrayKind, Verified};

pub(super) struct Arrivals {
    records: Records,
    all: Vec<Arrival>,
    /// The latest unrouted request or handshake.
    stray: Option<Stray>,
    wanted: BTreeSet<u64>,
}

impl Arrivals {
    pub(super) const fn new(records: Records) -> Self {
        Self { records, all: Vec::new(), stray: None, wanted: BTreeSet::new() }
    }

    pub(super) fn expect(&mut self, tokens: impl Iterator<Item = u64>) {
        self.wanted = tokens.collect();
    }

    fn look(&mut self) {
        for record in self.records.take() {
            match record {
                Record::Arrival(arrival) => self.all.push(arrival),
                Record::Stray(stray) => self.stray = Some(stray),
                _ => {}
            }
        }
    }

    /// Its description.
    pub(super) fn stray(&self) -> Option<String> {
        let stray = self.stray.as_ref()?;
        Some(match stray.kind {
            StrayKind::Handshake => format!("a handshake of TLS came to nothing: {}", stray.said),
            StrayKind::Request => format!("a request named no endpoint: {}", stray.said),
        })
    }

    fn came(&self) -> BTreeSet<u64> {
        let tokens = self.all.iter().flat_map(|arrival| arrival.token.iter().chain(&arrival.more).copied());
        tokens.filter(|token| self.wanted.contains(token)).collect()
    }

    pub(super) fn are_all_there(&mut self) -> bool {
        self.look();
        self.came().len() == self.wanted.len()
    }

    /// The number of events that arrived, and of all.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.came().len(), self.wanted.len())
    }

    /// A request without a token.
    pub(super) fn stranger(&self) -> Option<String> {
        self.all.iter().find(|arrival| arrival.token.is_none()).map(shape)
    }

    /// The form of the first request.
    pub(super) fn shape(&self) -> String {
        self.all.iter().find(|arrival| arrival.token.is_some()).map(shape).unwrap_or_default()
    }

    /// The verdict on the signatures.
    pub(super) fn signatures(&self) -> Result<String, Outcome> {
        for arrival in self.all.iter().filter(|arrival| arrival.token.is_some()) {
            match &arrival.signed.verified {
                Verified::Keys(keys) if !keys.is_empty() => {}
                Verified::Keys(_) => return Err(Outcome::Failed("no known key made it".to_owned())),
                Verified::Unchecked(why) => return Err(Outcome::Skipped(why.to_string())),
                Verified::No(why) => {
                    let header = arrival.signed.signature.as_deref().unwrap_or("none");
                    let stamp = arrival.signed.timestamp.as_deref().unwrap_or("none");
                    let id = arrival.id.as_deref().unwrap_or("none");
                    return Err(Outcome::Failed(format!(
                        "{why}; the signature's header: {header}; timestamp: {stamp}; id: {id}"
                    )));
                }
            }
        }
        match self.came().len() {
            0 => Err(Outcome::Skipped("nothing arrived".to_owned())),
            count => Ok(format!("{count} signatures are right")),
        }
    }
}

fn shape(arrival: &Arrival) -> String {
    let content = arrival.head.content_type.as_deref().unwrap_or("no content type");
    format!("{} {}, {content}, {} bytes", arrival.head.method, arrival.head.path, arrival.bytes)
}
