//! Asking for memory before it is needed.
//!
//! The headers of a frame were last touched by the switch before, thousands of events ago. In a large
//! network, waiting for them took longer than all that is done to a frame outside the pipeline.

const LINE_BYTES: usize = 64;

/// Cache lines that the headers of a frame take.
pub(crate) const HEADER_LINES: usize = 2;

/// Has the processor fetch a slice, `lines` cache lines of it at most, while it goes on.
#[inline]
pub(crate) fn prefetch<T>(slice: &[T], lines: usize) {
    let bytes = size_of_val(slice).min(lines * LINE_BYTES);
    prefetch_at(Some((slice.as_ptr().cast(), bytes)));
}

/// So many bytes from an address on, if there is one.
#[inline]
pub(crate) fn prefetch_at(memory: Option<(*const u8, usize)>) {
    let Some((start, bytes)) = memory else { return };
    for at in (0..bytes).step_by(LINE_BYTES) {
        prefetch_line(start.wrapping_add(at).cast());
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
