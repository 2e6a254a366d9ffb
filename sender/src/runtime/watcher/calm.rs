//! How long to wait between two glances. Each one costs a server some of its processor's time, which nodes without work should not
//! use up.

use std::time::Duration;

use crate::runtime::lookout::LOOK_EVERY;
use crate::store::Database;
use crate::store::read::Glance;

/// So many glances in a row that show nothing new: about a second.
const CALM_AFTER: u32 = 250;
/// How often to glance from then on: what is emitted elsewhere after a pause waits up to this long.
const CALM_EVERY: Duration = Duration::from_millis(30);

/// What was seen lately.
pub(super) struct Calm {
    is_server: bool,
    last: Option<Glance>,
    unchanged: u32,
}

impl Calm {
    pub(super) const fn of(database: &Database) -> Self {
        Self { is_server: database.file().is_none(), last: None, unchanged: 0 }
    }

    /// This was seen.
    pub(super) fn note(&mut self, glance: Glance) {
        // A row of the outbox is looked at again and again.
        let is_new = |last: Glance| glance != last || glance.outbox.is_some();
        self.unchanged = if self.last.is_none_or(is_new) { 0 } else { self.unchanged.saturating_add(1) };
        self.last = Some(glance);
    }

    /// How long to wait for the next glance.
    pub(super) const fn pause(&self) -> Duration {
        if self.is_server && self.unchanged >= CALM_AFTER { CALM_EVERY } else { LOOK_EVERY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DeliveryId;
    use crate::store::command::OutboxId;

    const SEEN: Glance = Glance {
        identity: 1,
        roster: 1,
        last: DeliveryId(1),
        settled: DeliveryId(1),
        late: 0,
        stirred: 0,
        nodes: 1,
        outbox: None,
    };

    fn calm(is_server: bool) -> Calm {
        let mut calm = Calm { is_server, last: None, unchanged: 0 };
        for _ in 0..=CALM_AFTER {
            assert_eq!(calm.pause(), LOOK_EVERY);
            calm.note(SEEN);
        }
        calm
    }

    #[test]
    fn a_server_is_left_alone_once_nothing_has_changed_for_a_while() {
        assert_eq!(calm(true).pause(), CALM_EVERY);
        assert_eq!(calm(false).pause(), LOOK_EVERY, "a file costs nobody anything");
        let news = [
            Glance { last: DeliveryId(2), ..SEEN },
            Glance { stirred: 1, ..SEEN },
            Glance { outbox: Some(OutboxId(1)), ..SEEN },
        ];
        for seen in news {
            let mut calm = calm(true);
            calm.note(seen);
            assert_eq!(calm.pause(), LOOK_EVERY, "{seen:?}");
        }
    }
}
