//! The means by which faults are injected. None needs a privilege.

mod clock;
mod disk;
mod lock;

pub use clock::{WallClock, has_clock, sets_clocks, tidy_clock};
pub use disk::{Room, limit_files};
pub use lock::{DatabaseLock, LockError, hold_database};
