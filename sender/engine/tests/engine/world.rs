use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hookproof_engine::engine::{
    Answer, AttemptId, Engine, Input, LaneId, Limits, Nanos, Origin, Outcome, Settings, StoreTime,
};

use crate::shell::{Sent, Shell};

pub(crate) struct Reply {
    pub(crate) after: Nanos,
    pub(crate) outcome: Outcome,
}

pub(crate) fn status(after: Nanos, status: u16) -> Reply {
    Reply { after, outcome: Outcome::Answered(answer(status, None)) }
}

pub(crate) fn busy(after: Nanos, status: u16, retry_after: &str) -> Reply {
    Reply { after, outcome: Outcome::Answered(answer(status, Some(retry_after))) }
}

pub(crate) fn silent(after: Nanos) -> Reply {
    Reply { after, outcome: Outcome::Silent }
}

pub(crate) fn answer(status: u16, retry_after: Option<&str>) -> Answer {
    let retry_after = retry_after.map(|value| value.as_bytes().into());
    Answer { status, retry_after, date: None, at: StoreTime::from_secs(1_800_000_000) }
}

pub(crate) struct World<F> {
    pub(crate) shell: Shell,
    pub(crate) now: StoreTime,
    pub(crate) sent: Vec<Sent>,
    endpoint: F,
    /// Attempts in flight: their end, and their index in `outcomes`.
    under_way: BinaryHeap<Reverse<(StoreTime, usize)>>,
    outcomes: Vec<Option<(AttemptId, Outcome)>>,
}

impl<F: FnMut(&Sent) -> Reply> World<F> {
    pub(crate) fn new(endpoint: F) -> Self {
        Self::with_engine(Engine::new(1, Limits::default()), endpoint)
    }

    pub(crate) fn with_engine(engine: Engine, endpoint: F) -> Self {
        Self {
            shell: Shell::new(engine),
            now: StoreTime(1),
            sent: vec![],
            endpoint,
            under_way: BinaryHeap::new(),
            outcomes: vec![],
        }
    }

    pub(crate) fn lane(&mut self, lane: u64, settings: &Arc<Settings>, backlog: u64) -> LaneId {
        let id = LaneId(lane);
        self.shell.take(self.now, id, 1, settings, Origin::Fresh);
        self.offer(id, backlog);
        id
    }

    pub(crate) fn offer(&mut self, lane: LaneId, count: u64) {
        self.shell.offer(self.now, lane, count, Nanos(u64::MAX));
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.shell.engine.handle(self.now, input);
    }

    pub(crate) fn run(&mut self, length: Nanos) {
        let until = self.now + length;
        self.pump();
        while let Some(next) = self.next_event().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.shell.engine.handle(self.now, Input::Tick);
            while let Some(&Reverse((at, index))) = self.under_way.peek()
                && at <= self.now
            {
                self.under_way.pop();
                let (attempt, outcome) = self.outcomes[index].take().unwrap();
                self.shell.engine.handle(self.now, Input::Ended { attempt, outcome });
            }
            self.pump();
        }
        self.now = until;
    }

    pub(crate) fn pump(&mut self) {
        while let Some(sent) = self.shell.next_send(self.now) {
            let Reply { after, outcome } = (self.endpoint)(&sent);
            self.under_way.push(Reverse((self.now + after, self.sent.len())));
            self.outcomes.push(Some((sent.attempt, outcome)));
            self.sent.push(sent);
        }
    }

    pub(crate) fn answer_settled(&mut self) {
        for batch in std::mem::take(&mut self.shell.unanswered) {
            self.handle(Input::Settled { batch });
        }
    }

    pub(crate) fn sent_to(&self, lane: LaneId) -> Vec<Sent> {
        self.sent.iter().filter(|sent| sent.lane == lane).copied().collect()
    }

    fn next_event(&self) -> Option<StoreTime> {
        let ends = self.under_way.peek().map(|Reverse((at, _))| *at);
        ends.into_iter().chain(self.shell.engine.next_wake()).min()
    }
}
