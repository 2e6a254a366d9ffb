use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ignores poisoning: holders leave the data consistent, even if they panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
