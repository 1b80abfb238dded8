//! Asking for memory before it is needed.
//!
//! The headers of a frame were last touched by the switch before, thousands of events ago. In a large
//! network, waiting for them took longer than all that is done to a frame outside the pipeline.

/// Has the processor fetch a slice, `lines` cache lines of it at most, while it goes on.
#[inline]
pub(crate) fn prefetch<T>(slice: &[T], lines: usize) {
    const LINE_BYTES: usize = 64;
    let lines = size_of_val(slice).div_ceil(LINE_BYTES).min(lines);
    for line in 0..lines {
        prefetch_line(slice.as_ptr().cast::<i8>().wrapping_add(line * LINE_BYTES));
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch_line(address: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; no address makes it fault or changes what the program does.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch_line(_: *const i8) {}
