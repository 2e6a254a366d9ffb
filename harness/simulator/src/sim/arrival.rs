use hookproof_judge::signature::{Received, sha256_hex};
use hookproof_judge::trace::{Arrival, Head, Signed, Text, Verified};
use hookproof_sender::engine::{Answer, Outcome};
use hookproof_sender::fanout::sign_attempt;

use super::error::SimError;
use super::exchange::ExchangeEnd;
use super::world::World;

impl World<'_> {
    pub(super) fn arrival(&mut self, id: u64, n: u64, token: Option<u64>) -> Result<Arrival, SimError> {
        let exchange = &self.net.exchanges[&id];
        let endpoint = &self.net.endpoints[exchange.endpoint];
        let (lane, worker) = (endpoint.lane, exchange.worker);
        let roster = self.slots[worker].roster.clone();
        let subscriber =
            roster.get(lane).ok_or_else(|| SimError::Defect(format!("lane {} is unknown", lane.0)))?;
        let ready = subscriber.ready().map_err(|fault| SimError::Defect(fault.to_string()))?;
        let name = self.ids.name(exchange.row.received, exchange.row.delivery);
        let wall = self.wall_of(worker, exchange.began);
        let headers = sign_attempt(ready, &name, &exchange.row, exchange.number, wall)
            .map_err(|unusable| SimError::Defect(unusable.to_string()))?;
        let kind: (&str, &[u8]) = ("content-type", b"application/json");
        let fields = headers.iter().map(|(name, value)| (name, value.as_bytes()));
        let fields: Vec<_> = fields.chain([kind]).collect();
        let body = &exchange.row.body.bytes;
        let url = ready.target().url.as_str();
        let to = &self.given.scenario.subscribers[exchange.endpoint];
        let target = format!("{}{}", to.path(), headers.query());
        let received = Received { method: "POST", url, target: Some(&target), headers: &fields, body };
        let seen = endpoint.profile.verify(&endpoint.secrets, &received);
        let verified = match seen.verdict {
            Ok(keys) => Verified::Keys(keys.into()),
            Err(wrong) => Verified::No(wrong.to_string().into()),
        };
        let head = Head {
            method: "POST".into(),
            path: target.into(),
            content_type: Some("application/json".into()),
            origin: to.permission.as_ref().map(|permission| permission.origin.as_str().into()),
            ..Head::default()
        };
        Ok(Arrival {
            t: self.now,
            read: self.now,
            n,
            endpoint: to.name.as_str().into(),
            connection: id,
            token,
            more: Box::default(),
            id: seen.id.map(Text::from),
            attempt: seen.attempt.map(Text::from),
            head: head.into(),
            bytes: u64::try_from(body.len()).unwrap_or(u64::MAX),
            sha256: sha256_hex(body).into(),
            payload: token.and_then(|token| self.play.offered.compare(body, &[token])),
            signed: Signed {
                signature: seen.signature.map(Box::from),
                verified,
                surplus: u32::try_from(seen.surplus).unwrap_or(u32::MAX),
                disclosed: None,
                timestamp: seen.timestamp.map(Text::from),
            },
        })
    }
}

pub(super) fn translate(
    heard: ExchangeEnd,
    wall: hookproof_sender::engine::StoreTime,
) -> (Outcome, Option<&'static str>) {
    match heard {
        ExchangeEnd::Answered { status, retry_after, date } => {
            let bytes = |text: String| text.into_bytes().into_boxed_slice();
            let answer =
                Answer { status, retry_after: retry_after.map(bytes), date: Some(bytes(date)), at: wall };
            (Outcome::Answered(answer), None)
        }
        ExchangeEnd::Unsent(why) => (Outcome::Unsent, Some(why)),
        ExchangeEnd::Silent(why) => (Outcome::Silent, Some(why)),
        ExchangeEnd::CutOff => (Outcome::CutOff, None),
    }
}
