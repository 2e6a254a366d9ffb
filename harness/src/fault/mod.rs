//! What is done to the sender under test while it works: as steps in time, and the means that need no privilege.
//!
//! - `timeline`: the scenario's faults as steps, each at its moment.
//! - `clock`: a wall clock that is wrong for one process.
//! - `disk`: a disk that takes no more, by a limit on what a process may write.
//! - `lock`: somebody else who holds the database.

mod clock;
mod disk;
mod lock;
mod timeline;

pub use clock::{WallClock, has_clock, sets_clocks, tidy_clock};
pub use disk::{Room, limit_files};
pub use lock::{Held, LockError, hold_database};
pub(crate) use timeline::ends;
pub use timeline::{Step, timeline};
