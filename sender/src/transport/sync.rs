use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ignores poisoning: every holder leaves the data consistent, even if it panics.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
