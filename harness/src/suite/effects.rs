//! The receiver's effects: its own list of processed ids.
//!
//! The list is JSON (an array of ids, of objects with an `id`, or an object with such an array), JSON Lines
//! of the same, or an id in each line. An id counts once for each occurrence, also with a colon and more behind it.

use std::time::Duration;

use serde_json::Value;

use super::bench::{Bench, Delivery};
use super::want::Want;
use crate::wire::clock::{Watch, pass};
use crate::wire::exchange::{Feed, Outcome, exchange};
use crate::wire::request::{Framing, Request, Target};

/// How long a worker may need for a backlog.
const BACKLOG_MAX: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

impl Bench<'_> {
    /// Tests the list: an accepted delivery must appear in it.
    pub(super) async fn try_effects(&self, accepted: &str) {
        let Some(target) = &self.settings.hooks.effects else { return };
        let works = match self.wait_for(target, accepted).await {
            Ok(0) => Err(format!("{} does not list a delivery that was accepted", target.url)),
            Ok(_) => Ok(()),
            Err(why) => Err(format!("{}: {why}", target.url)),
        };
        *self.effects.borrow_mut() = works;
        self.first_listed.replace(accepted.to_owned());
    }

    /// Counts the accepted deliveries that never appeared. Waits as long as their number falls, since a worker may be
    /// slow.
    pub(super) async fn lost(&self, mut ids: Vec<String>) -> Result<usize, String> {
        self.effects.borrow().as_ref().map_err(Clone::clone)?;
        let target = self.settings.hooks.effects.as_ref().ok_or("needs --effects-url")?;
        let (watch, mut moved) = (Watch::start(), Duration::ZERO);
        loop {
            let list = parsed(&self.list(target).await?);
            let before = ids.len();
            ids.retain(|id| in_value(&list, id) == 0);
            if ids.is_empty() {
                return Ok(0);
            }
            if ids.len() < before {
                moved = watch.passed();
            }
            if watch.passed().saturating_sub(moved) >= self.settings.timeout {
                // A list that keeps only the newest ids proves nothing about older ones.
                let whole = in_value(&list, &self.first_listed.borrow()) > 0;
                return if whole {
                    Ok(ids.len())
                } else {
                    Err("the list of effects lacks ids that it had before; expected all ids".to_owned())
                };
            }
            if watch.passed() >= BACKLOG_MAX {
                return Err(format!(
                    "accepted deliveries not processed: {} within {} s",
                    ids.len(),
                    BACKLOG_MAX.as_secs()
                ));
            }
            pass(PAUSE).await;
        }
    }

    /// How often a delivery was processed, once everything accepted earlier was.
    pub(super) async fn effects_of(&self, id: &str) -> Result<usize, String> {
        self.effects.borrow().as_ref().map_err(Clone::clone)?;
        let target = self.settings.hooks.effects.as_ref().ok_or("needs --effects-url")?;
        if self.wait_for(target, id).await? == 0 {
            return Ok(0);
        }
        // A second effect comes after the first: once a later delivery was processed, all copies were.
        self.fence(target).await?;
        self.count(target, id).await
    }

    /// Whether a forgery was processed, once a later delivery was. The id of `known`, a delivery, shows nothing.
    pub(super) async fn have_effects(
        &self,
        forged: &[&Request],
        known: Option<&Delivery>,
    ) -> Result<bool, String> {
        self.effects.borrow().as_ref().map_err(Clone::clone)?;
        let target = self.settings.hooks.effects.as_ref().ok_or("needs --effects-url")?;
        let id = |request: &&Request| {
            let id = self.id_in(request).filter(|id| known.is_none_or(|known| known.id != *id));
            id.ok_or("a forgery has no id of its own")
        };
        let ids = forged.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        if !self.fence(target).await? {
            return Err("a correct delivery afterwards was not accepted".to_owned());
        }
        Ok(self.most_effects(&ids).await? > 0)
    }

    /// Returns whether a further delivery was accepted, once it was processed.
    async fn fence(&self, target: &Target) -> Result<bool, String> {
        let fence = self.delivery();
        let exchange = self.send("a delivery to wait for", &self.signed(&fence), Want::Accept).await;
        let is_accepted = Want::Accept.is_met(&exchange.outcome);
        if is_accepted && self.wait_for(target, &fence.id).await? == 0 {
            return Err("a delivery accepted afterwards never appeared".to_owned());
        }
        Ok(is_accepted)
    }

    fn id_in(&self, request: &Request) -> Option<String> {
        let id = match self.settings.profile.id_header() {
            Some(header) => request.header(header).map(|id| String::from_utf8_lossy(id).into_owned()),
            None if self.settings.profile.has_own_bodies() => self.id_in_body(&request.body),
            None => {
                let body: Value = serde_json::from_slice(&request.body).ok()?;
                body.get("id").and_then(Value::as_str).map(str::to_owned)
            }
        };
        id.filter(|id| !id.is_empty())
    }

    /// The most effects that one of these has now.
    pub(super) async fn most_effects(&self, ids: &[String]) -> Result<usize, String> {
        let target = self.settings.hooks.effects.as_ref().ok_or("needs --effects-url")?;
        let list = parsed(&self.list(target).await?);
        Ok(ids.iter().map(|id| in_value(&list, id)).max().unwrap_or(0))
    }

    async fn wait_for(&self, target: &Target, id: &str) -> Result<usize, String> {
        let watch = Watch::start();
        loop {
            let count = self.count(target, id).await?;
            if count > 0 || watch.passed() >= self.settings.timeout {
                return Ok(count);
            }
            pass(PAUSE).await;
        }
    }

    async fn count(&self, target: &Target, id: &str) -> Result<usize, String> {
        Ok(in_value(&parsed(&self.list(target).await?), id))
    }

    async fn list(&self, target: &Target) -> Result<String, String> {
        let addresses = target.resolve().await.map_err(|error| error.to_string())?;
        let headers = vec![
            ("Host".to_owned(), target.host_header.clone().into_bytes()),
            ("Accept".to_owned(), b"application/json".to_vec()),
        ];
        let path = target.path.clone();
        let request = Request { method: "GET", path, headers, body: Vec::new(), framing: Framing::Length };
        let feed = Feed::Whole(request.bytes());
        match exchange(target, &addresses, &feed, self.settings.timeout).await.outcome {
            Outcome::Answer(answer) if answer.status == 200 => {
                Ok(String::from_utf8_lossy(&answer.body).into_owned())
            }
            other => Err(format!("expected 200 and a list of ids, got {}", super::want::words(&other))),
        }
    }
}

fn parsed(text: &str) -> Value {
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.to_owned()));
    serde_json::from_str(text).unwrap_or_else(|_| text.lines().map(str::trim).map(line).collect())
}

fn in_value(value: &Value, id: &str) -> usize {
    const NAMES: [&str; 5] = ["id", "delivery_id", "delivery", "webhook_id", "event_id"];
    let is_it =
        |text: &str| text.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    match value {
        Value::String(text) => usize::from(is_it(text)),
        Value::Array(items) => items.iter().map(|item| in_value(item, id)).sum(),
        Value::Object(fields) => {
            if NAMES.iter().any(|name| fields.get(*name).and_then(Value::as_str).is_some_and(is_it)) {
                return 1;
            }
            fields.values().filter(|value| value.is_array()).map(|value| in_value(value, id)).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_counted_in_every_form_of_a_list() {
        let rows = [
            (r#"["a","b","a"]"#, 2),
            (r#"[{"id":"a","at":1},{"id":"ab"}]"#, 1),
            (r#"{"effects":[{"id":"a","body":"a"},{"id":"a"}],"count":2}"#, 2),
            ("{\"id\":\"a\"}\n{\"id\":\"b\"}\n", 1),
            ("a\nb\n a \n", 2),
            (r#"["a:CAPTURE:true","ab:CAPTURE"]"#, 1),
            ("", 0),
            (r#"{"effects":[]}"#, 0),
        ];
        for (text, expected) in rows {
            assert_eq!(in_value(&parsed(text), "a"), expected, "{text}");
        }
    }
}
