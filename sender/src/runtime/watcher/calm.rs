//! The pause between polls. Where a poll loads other processes, an idle process polls less often.

use std::time::Duration;

use crate::runtime::lookout::LOOK_EVERY;
use crate::store::read::Glance;

/// About a second.
const CALM_AFTER: u32 = 250;

pub(super) struct Calm {
    /// The pause when idle, if it differs from the usual one.
    pause: Option<Duration>,
    last: Option<Glance>,
    unchanged: u32,
}

impl Calm {
    pub(super) const fn of(pause: Option<Duration>) -> Self {
        Self { pause, last: None, unchanged: 0 }
    }

    pub(super) fn note(&mut self, glance: Glance) {
        // A row that stays in the outbox has to be polled again.
        let is_new = |last: Glance| glance != last || glance.outbox.is_some();
        self.unchanged = if self.last.is_none_or(is_new) { 0 } else { self.unchanged.saturating_add(1) };
        self.last = Some(glance);
    }

    pub(super) fn pause(&self) -> Duration {
        self.pause.filter(|_| self.unchanged >= CALM_AFTER).unwrap_or(LOOK_EVERY)
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
    const LONGER: Duration = Duration::from_millis(30);

    fn calm(pause: Option<Duration>) -> Calm {
        let mut calm = Calm::of(pause);
        for _ in 0..=CALM_AFTER {
            assert_eq!(calm.pause(), LOOK_EVERY);
            calm.note(SEEN);
        }
        calm
    }

    #[test]
    fn a_store_that_glances_cost_is_left_alone_once_nothing_has_changed_for_a_while() {
        assert_eq!(calm(Some(LONGER)).pause(), LONGER);
        assert_eq!(calm(None).pause(), LOOK_EVERY, "they cost nobody anything");
        let news = [
            Glance { last: DeliveryId(2), ..SEEN },
            Glance { stirred: 1, ..SEEN },
            Glance { outbox: Some(OutboxId(1)), ..SEEN },
        ];
        for seen in news {
            let mut calm = calm(Some(LONGER));
            calm.note(seen);
            assert_eq!(calm.pause(), LOOK_EVERY, "{seen:?}");
        }
    }
}
