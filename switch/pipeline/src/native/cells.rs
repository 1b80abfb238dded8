//! Cells of counters and registers, which generated code reads and writes by itself.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// An array that does not move, so that generated code can load its start.
#[repr(C)]
pub(crate) struct Cells<T> {
    pub(super) start: *mut T,
    pub(super) len: usize,
}

// SAFETY: it owns the array.
unsafe impl<T: Send> Send for Cells<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Cells<T> {}

impl<T> From<Vec<T>> for Cells<T> {
    fn from(cells: Vec<T>) -> Cells<T> {
        let len = cells.len();
        let start = Box::into_raw(cells.into_boxed_slice()).cast();
        Cells { start, len }
    }
}

impl<T> Deref for Cells<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: start and length are those of the box.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl<T> DerefMut for Cells<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl<T> Drop for Cells<T> {
    fn drop(&mut self) {
        // SAFETY: it came from such a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.len)) });
    }
}

impl<T: fmt::Debug> fmt::Debug for Cells<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}
