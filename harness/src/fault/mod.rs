//! The means by which faults are injected, none of which needs a privilege.
//!
//! - `clock`: a wall clock that is wrong for one process.
//! - `disk`: a disk that takes no more, by a limit on what a process may write.
//! - `lock`: somebody else who holds the database.

mod clock;
mod disk;
mod lock;

pub use clock::{WallClock, has_clock, sets_clocks, tidy_clock};
pub use disk::{Room, limit_files};
pub use lock::{Held, LockError, hold_database};
