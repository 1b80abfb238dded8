//! Asks the processor for memory before it is needed.
//!
//! The headers of a frame were last touched by the previous switch, thousands of events ago. In a
//! large network, waiting for them took longer than everything that is done to a frame outside the
//! pipeline.

/// Length of a cache line in bytes.
const LINE_BYTES: usize = 64;

/// Cache lines that the headers of a frame take.
pub(crate) const HEADER_LINES: usize = 2;

/// Starts to fetch the first `lines` cache lines of a slice, or all of it if it is shorter.
#[inline]
pub(crate) fn prefetch<T>(slice: &[T], lines: usize) {
    let bytes = size_of_val(slice).min(lines * LINE_BYTES);
    prefetch_at(Some((slice.as_ptr().cast(), bytes)));
}

/// Starts to fetch memory given as address and length in bytes, if any.
#[inline]
pub(crate) fn prefetch_at(memory: Option<(*const u8, usize)>) {
    let Some((start, bytes)) = memory else { return };
    for line in 0..bytes.div_ceil(LINE_BYTES) {
        prefetch_line(start.wrapping_add(line * LINE_BYTES).cast());
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(address: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; no address makes it fault or changes what the program does.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch_line(_: *const i8) {}
