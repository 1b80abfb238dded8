//! Locks of values that are whole after every update.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the value, even if a thread has panicked while holding the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
