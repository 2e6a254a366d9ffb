//! Records an endpoint's exchanges, for HTTP/1.1 and HTTP/2.

use std::sync::PoisonError;

use super::Endpoint;
use super::request::{Request, Wire};
use hookproof_judge::signature::digest::sha256_hex;
use hookproof_judge::trace::{Answer, Arrival, Cut, CutKind, Head, Record, Shared, Signed, Text, Verified};
use hookproof_play::endpoint::answer::Rendered;

impl Endpoint {
    /// Records an answer, by the times of its first byte, if there was one, and its last. A broken one ends
    /// now.
    pub(super) fn answered(
        &self,
        n: u64,
        rendered: Rendered,
        (first, last): (Option<u64>, u64),
        whole: bool,
    ) {
        let Rendered { status, retry_after, .. } = rendered;
        let now = self.stage.clock.now();
        let (t, end) = (first.unwrap_or(now), if whole { last } else { now });
        let retry_after = retry_after.map(Text::from);
        self.stage.recorder.keep(Record::Answer(Answer { t, end, n, status, retry_after, whole }));
    }

    /// Records the end of an arrival's exchange without an answer.
    pub(super) fn cut(&self, n: u64, how: CutKind) {
        self.keep_cut(Some(n), how, None, None);
    }

    /// Records that a connection ended before a request was read from it.
    pub(super) fn unread(&self, wire: &Wire, how: CutKind) {
        self.keep_cut(None, how, wire.first_byte(), self.stage.tokens.find(wire.rest()));
    }

    /// Records an incomplete request.
    pub(super) fn broken_off(&self, wire: &mut Wire, began: u64, how: CutKind) {
        self.keep_cut(None, how, Some(began), self.stage.tokens.find(wire.rest()));
        // After an invalid request the next one's beginning is unknown.
        wire.forget();
    }

    /// Records an exchange without an answer, for an arrival or an incomplete request.
    pub(super) fn keep_cut(&self, n: Option<u64>, how: CutKind, began: Option<u64>, token: Option<u64>) {
        let (t, endpoint) = (self.stage.clock.now(), self.text.clone());
        self.stage.recorder.keep(Record::Cut(Cut { t, endpoint, n, how, began, token }));
    }

    /// The record of a request, without its number.
    pub(super) fn arrival(&self, request: &Request, t: u64, read: u64, connection: u64) -> Arrival {
        let fields: Vec<_> = request.fields.iter().collect();
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        let seen = self.scheme.verify(&secrets, &fields, &request.body);
        let verified = match seen.verdict {
            _ if !self.scheme.is_signed() => Verified::Unchecked("the sender does not sign".into()),
            _ if secrets.is_empty() => Verified::Unchecked("the subscriber's secret is not known".into()),
            Ok(keys) => Verified::Keys(keys.into()),
            Err(wrong) => Verified::No(wrong.to_string().into()),
        };
        let mut tokens = self.stage.tokens.find_all(&request.body).into_iter();
        Arrival {
            t,
            read,
            n: 0,
            endpoint: self.text.clone(),
            connection,
            token: tokens.next(),
            more: tokens.collect(),
            id: seen.id.map(Text::from),
            attempt: seen.attempt.map(Text::from),
            head: self.head(request),
            bytes: u64::try_from(request.body.len()).unwrap_or(u64::MAX),
            sha256: sha256_hex(&request.body).into(),
            signed: Signed {
                signature: seen.signature.map(Box::from),
                verified,
                timestamp: seen.timestamp.map(Text::from),
            },
        }
    }
    /// The shared head of a request; reuses the previous one if it is equal.
    fn head(&self, request: &Request) -> Shared<Head> {
        let content_type = request.field("content-type");
        let mut last = self.last_head.lock().unwrap_or_else(PoisonError::into_inner);
        let same = last.as_ref().filter(|head| {
            let own = (head.method.as_str(), head.path.as_str(), head.content_type.as_deref());
            own == (request.method.as_str(), request.path.as_str(), content_type)
        });
        if let Some(same) = same {
            return same.clone();
        }
        let (method, path) = (request.method.as_str().into(), request.path.as_str().into());
        let head = Shared::from(Head { method, path, content_type: content_type.map(Text::from) });
        *last = Some(head.clone());
        head
    }
}
