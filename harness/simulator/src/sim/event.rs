use hookproof_sender::dispatch::Event;

use super::exchange::{ExchangeEnd, Final};

pub(super) enum SimEvent {
    Emit,
    Arrive {
        exchange: u64,
        stalled: bool,
    },
    Finish(u64, Final),
    Heard(u64, ExchangeEnd),
    /// The lease of the request's lane may have ended.
    LeaseOver(u64),
    Process {
        worker: usize,
        generation: u64,
        event: ProcessEvent,
    },
    Trouble(usize),
    Start(usize),
    StepClock(i64),
    Sample,
    Upkeep,
}

pub(super) enum ProcessEvent {
    Wake,
    Committed,
    Dispatch(Vec<Event>),
    Look,
    Evict,
    Heard(u64, ExchangeEnd),
    LeaseOver(u64),
    /// Events are offered to it, by their indexes in the schedule.
    Offered(Vec<usize>),
    Late,
}
