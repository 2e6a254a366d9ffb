//! Faults of the sender under test: their steps in time, and their means, none of which needs privilege.
//!
//! - `timeline`: the scenario's faults as timed steps.
//! - `clock`: a wrong wall clock for one process; `disk`: a full disk, by a limit on file sizes; `lock`: a
//!   foreign lock on the database.

mod clock;
mod disk;
mod lock;
mod timeline;

pub use clock::{WallClock, has_clock, sets_clocks, tidy_clock};
pub use disk::{Room, limit_files};
pub use lock::{Held, LockError, hold_database};
pub(crate) use timeline::ends;
pub use timeline::{Step, timeline};
