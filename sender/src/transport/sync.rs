//! Locking.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that outlives a panic: what it guards is left whole by every line that holds it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
