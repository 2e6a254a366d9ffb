//! What the receiver did: the list of ids that it processed, as its owner shows it.
//!
//! The list is JSON (an array of ids, or of objects with an `id`, or an object that holds such an array), JSON Lines of
//! the same, or one id to a line. An id counts as often as it stands there.

use std::time::Duration;

use serde_json::Value;

use super::bench::Bench;
use super::want::Want;
use crate::wire::clock::{Watch, pass};
use crate::wire::exchange::{Feed, Outcome, exchange};
use crate::wire::request::{Framing, Request};
use crate::wire::target::Target;

/// How often the list is asked again while an id is waited for.
const PAUSE: Duration = Duration::from_millis(50);

impl Bench<'_> {
    /// Finds out whether the list can be trusted: a delivery that was just accepted has to show in it.
    pub(super) async fn try_effects(&self, accepted: &str) {
        let Some(target) = &self.settings.effects else { return };
        let works = match self.wait_for(target, accepted).await {
            Ok(0) => Err(format!("{} does not list a delivery that was accepted", target.url)),
            Ok(_) => Ok(()),
            Err(why) => Err(format!("{}: {why}", target.url)),
        };
        *self.effects.borrow_mut() = works;
    }

    /// How often a delivery was processed, after everything that was accepted before now had its turn.
    pub(super) async fn effects_of(&self, id: &str) -> Result<usize, String> {
        self.effects.borrow().as_ref().map_err(Clone::clone)?;
        let target = self.settings.effects.as_ref().ok_or("needs --effects-url")?;
        if self.wait_for(target, id).await? == 0 {
            return Ok(0);
        }
        // A second effect would come later than the first. Once a delivery sent after all copies has been processed, so
        // were they.
        let fence = self.delivery();
        let exchange = self.send("a delivery to wait for", &self.signed(&fence), Want::Accept).await;
        if Want::Accept.is_met(&exchange.outcome) && self.wait_for(target, &fence.id).await? == 0 {
            return Err("a delivery that was accepted afterwards never showed".to_owned());
        }
        self.count(target, id).await
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
                Ok(count(&String::from_utf8_lossy(&answer.body), id))
            }
            other => Err(format!("expected 200 and a list of ids, got {}", super::want::words(&other))),
        }
    }
}

/// How often an id stands in a list.
fn count(text: &str, id: &str) -> usize {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return in_value(&value, id);
    }
    let lines = text.lines().map(str::trim);
    lines
        .map(|line| serde_json::from_str(line).map_or(usize::from(line == id), |value| in_value(&value, id)))
        .sum()
}

fn in_value(value: &Value, id: &str) -> usize {
    /// What an id is called in lists.
    const NAMES: [&str; 5] = ["id", "delivery_id", "delivery", "webhook_id", "event_id"];
    match value {
        Value::String(text) => usize::from(text == id),
        Value::Array(items) => items.iter().map(|item| in_value(item, id)).sum(),
        Value::Object(fields) => {
            if NAMES.iter().any(|name| fields.get(*name).and_then(Value::as_str) == Some(id)) {
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
            ("", 0),
            (r#"{"effects":[]}"#, 0),
        ];
        for (text, expected) in rows {
            assert_eq!(count(text, "a"), expected, "{text}");
        }
    }
}
