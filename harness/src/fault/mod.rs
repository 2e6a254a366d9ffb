//! The means by which faults are injected: a process's wall clock (`clock`), a full disk (`disk`), a foreign lock on
//! the database (`lock`). None needs a privilege.

mod clock;
mod disk;
mod lock;

pub use clock::{WallClock, has_clock, sets_clocks, tidy_clock};
pub use disk::{Room, limit_files};
pub use lock::{DatabaseLock, LockError, hold_database};
