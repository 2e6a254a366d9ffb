//! What happens in a simulated world.

use hookproof_sender::dispatch::Event;

use super::exchange::{Final, Heard};

/// Something that happens.
pub(super) enum SimEvent {
    Emit,
    Arrive {
        exchange: u64,
        stalled: bool,
    },
    Finish(u64, Final),
    Heard(u64, Heard),
    /// The lease of a request's lane would be over.
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

/// Something that one process of the sender notices.
pub(super) enum ProcessEvent {
    /// Its timer fires.
    Wake,
    /// The commit that began is over.
    Committed,
    /// Events for its dispatcher.
    Dispatch(Vec<Event>),
    /// It looks at what others did to the database.
    Look,
    /// It looks whether other processes are dead.
    Evict,
    /// A request of it is over.
    Heard(u64, Heard),
    /// The lease of a request's lane would be over.
    LeaseOver(u64),
    /// Events are offered to it: their places in the schedule.
    Offered(Vec<usize>),
    /// It was asked to stop, and has had its time.
    Late,
}
