//! Writes the most frequent records without a general JSON escaper, which would dominate the time of a line.
//! The records' own serialization defines the format; a test compares both.

use std::cell::RefCell;

use serde_json::Result;

use super::record::{Accepted, Answer, Arrival, Offer, Record};
use super::{Shared, Text};

type Owed = Shared<[Text]>;

thread_local! {
    static LAST_OWED: RefCell<(Owed, Vec<u8>)> = RefCell::default();
}

pub(super) fn write(text: &mut Vec<u8>, record: &Record) -> Option<Result<()>> {
    let line = Line(text);
    match record {
        Record::Arrival(arrival) => Some(line.arrival(arrival)),
        Record::Answer(answer) => Some(line.answer(answer)),
        Record::Offer(offer) => Some(line.offer(offer)),
        Record::Accepted(accepted) => Some(line.accepted(accepted)),
        _ => None,
    }
}

struct Line<'a>(&'a mut Vec<u8>);

impl Line<'_> {
    fn arrival(mut self, arrival: &Arrival) -> Result<()> {
        self.put(r#"{"k":"arrival","t":"#).number(arrival.t)?;
        self.put(r#","read":"#).number(arrival.read)?;
        self.put(r#","n":"#).number(arrival.n)?;
        self.put(r#","endpoint":"#).text(&arrival.endpoint)?;
        self.put(r#","connection":"#).number(arrival.connection)?;
        if let Some(token) = arrival.token {
            self.put(r#","token":"#).number(token)?;
        }
        if !arrival.more.is_empty() {
            self.put(r#","more":"#).value(&arrival.more)?;
        }
        self.text_of(r#","id":"#, arrival.id.as_deref())?;
        self.text_of(r#","attempt":"#, arrival.attempt.as_deref())?;
        self.put(r#","method":"#).text(&arrival.head.method)?;
        self.put(r#","path":"#).text(&arrival.head.path)?;
        self.text_of(r#","content_type":"#, arrival.head.content_type.as_deref())?;
        self.put(r#","bytes":"#).number(arrival.bytes)?;
        self.put(r#","sha256":"#).text(&arrival.sha256)?;
        self.text_of(r#","signature":"#, arrival.signed.signature.as_deref())?;
        self.put(r#","verified":"#).value(&arrival.signed.verified)?;
        self.text_of(r#","timestamp":"#, arrival.signed.timestamp.as_deref())?;
        self.end()
    }

    fn answer(mut self, answer: &Answer) -> Result<()> {
        self.put(r#"{"k":"answer","t":"#).number(answer.t)?;
        self.put(r#","end":"#).number(answer.end)?;
        self.put(r#","n":"#).number(answer.n)?;
        self.put(r#","status":"#).number(answer.status.into())?;
        self.text_of(r#","retry_after":"#, answer.retry_after.as_deref())?;
        if !answer.whole {
            self.put(r#","whole":false"#);
        }
        self.end()
    }

    fn offer(mut self, offer: &Offer) -> Result<()> {
        self.put(r#"{"k":"offer","t":"#).number(offer.t)?;
        self.put(r#","intended":"#).number(offer.intended)?;
        if offer.held > 0 {
            self.put(r#","held":"#).number(offer.held)?;
        }
        self.put(r#","token":"#).number(offer.token)?;
        self.put(r#","type":"#).text(&offer.kind)?;
        self.put(r#","key":"#).text(&offer.key)?;
        self.put(r#","owed":"#).owed(&offer.owed)?;
        self.end()
    }

    /// Caches the serialized list: it may hold thousands of names, and consecutive offers often share it.
    fn owed(&mut self, owed: &Owed) -> Result<()> {
        LAST_OWED.with_borrow_mut(|last| {
            if last.1.is_empty() || !last.0.is_same(owed) {
                *last = (owed.clone(), serde_json::to_vec(owed)?);
            }
            self.0.extend_from_slice(&last.1);
            Ok(())
        })
    }

    fn accepted(mut self, accepted: &Accepted) -> Result<()> {
        self.put(r#"{"k":"accepted","t":"#).number(accepted.t)?;
        self.put(r#","token":"#).number(accepted.token)?;
        self.put(r#","status":"#).number(accepted.status.into())?;
        if let Some(matched) = accepted.matched {
            self.put(r#","matched":"#).number(matched.into())?;
        }
        self.end()
    }

    fn put(&mut self, own: &str) -> &mut Self {
        self.0.extend_from_slice(own.as_bytes());
        self
    }

    fn end(mut self) -> Result<()> {
        self.put("}");
        Ok(())
    }

    fn value(&mut self, value: &impl serde::Serialize) -> Result<()> {
        serde_json::to_writer(&mut *self.0, value)
    }

    fn number(&mut self, number: u64) -> Result<()> {
        self.value(&number)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        // Without an early exit the compiler vectorises the loop.
        let escaped = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
        if text.bytes().fold(false, |any, byte| any | escaped(byte)) {
            return self.value(&text);
        }
        self.put("\"").put(text).put("\"");
        Ok(())
    }

    fn text_of(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        match text {
            Some(text) => self.put(name).text(text),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Head, Signed, Verified};

    #[track_caller]
    fn check(record: &Record) {
        let mut text = Vec::new();
        write(&mut text, record).expect("it is of such a kind").unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), serde_json::to_string(record).unwrap());
    }

    fn arrival(text: &str, verified: Verified) -> Arrival {
        let text = Text::from(text);
        let head = Head { method: text.clone(), path: text.clone(), content_type: Some(text.clone()) };
        let signature = Some(text.as_str().into());
        Arrival {
            t: 1,
            read: u64::MAX,
            n: 3,
            endpoint: text.clone(),
            connection: 4,
            token: Some(5),
            more: [6, 7].into(),
            id: Some(text.clone()),
            attempt: Some(text.clone()),
            head: head.into(),
            bytes: 8,
            sha256: text.clone(),
            signed: Signed { signature, verified, timestamp: Some(text) },
        }
    }

    #[test]
    fn a_line_is_what_its_record_is_written_as() {
        for text in ["", "plain", "a \"quoted\" \\ one", "line\nand \u{1} and \u{7f}", "größer 🙂"] {
            for verified in [
                Verified::Keys(vec![0, 12].into()),
                Verified::No(text.into()),
                Verified::Unchecked(text.into()),
            ] {
                let whole = arrival(text, verified);
                let head = Head { content_type: None, ..(*whole.head).clone() };
                let signed = Signed { signature: None, timestamp: None, ..whole.signed.clone() };
                let (token, more, id, attempt) = (None, [].into(), None, None);
                let bare = Arrival { token, more, id, attempt, head: head.into(), signed, ..whole.clone() };
                check(&Record::Arrival(whole));
                check(&Record::Arrival(bare));
            }
            for (retry_after, whole) in [(None, true), (Some(text.into()), false)] {
                check(&Record::Answer(Answer { t: 1, end: 2, n: 3, status: 204, retry_after, whole }));
            }
            for (held, owed) in [(0, vec![]), (9, vec![text.into(), "b".into()])] {
                let (kind, key) = (text.into(), text.into());
                check(&Record::Offer(Offer {
                    t: 1,
                    intended: 2,
                    held,
                    token: 3,
                    kind,
                    key,
                    owed: owed.into(),
                }));
            }
        }
        // The same list, an equal list, another list.
        let owed = |names: &[&str]| names.iter().map(|name| Text::from(*name)).collect::<Owed>();
        let (same, alike, others) = (owed(&["a"]), owed(&["a"]), owed(&["b", "c"]));
        for owed in [&same, &same, &alike, &others, &same] {
            let (kind, key, owed) = ("k".into(), "y".into(), owed.clone());
            check(&Record::Offer(Offer { t: 1, intended: 2, held: 0, token: 3, kind, key, owed }));
        }
        for matched in [None, Some(7)] {
            check(&Record::Accepted(Accepted { t: 1, token: 2, status: 202, matched }));
        }
    }
}
