//! The largest types, constants and programs, and what is left of them while one is compiled.

use std::cell::Cell;

/// The most parts of one type: fields, members and elements, at all levels. The largest public program (SAI, with all
/// its headers and metadata) has fewer than 2,000.
pub const MAX_TYPE_PARTS: usize = 1 << 16;
/// The most levels of one type: a struct in a struct has two.
pub const MAX_TYPE_DEPTH: usize = 128;
/// The most statements, states, instances, variables and parts of expressions, all together, that calls, loops and
/// generics make of one program.
pub const MAX_PARTS: usize = 1 << 18;
/// The most bits of an integer known at compile time: `1 << 65535`, the largest shift, squared.
pub const MAX_INT_BITS: u64 = 1 << 17;
/// The most bytes of a string known at compile time.
pub const MAX_STRING_BYTES: usize = 1 << 16;
/// The most tokens that macros and files included again bring into the text of one program, where
/// 16 bytes count as one token too. Whatever is copied on the way counts. All samples of p4c stay
/// below.
pub const MAX_TEXT_TOKENS: usize = if cfg!(test) { 1 << 18 } else { 1 << 20 };
/// The most entries of all tables of a program, those of each instance of a table counted. Each takes 4 KB until it is
/// written out.
pub const MAX_ENTRIES: usize = 200_000;

/// Parts and tokens that one compilation may still make; none: more was asked for than there was.
#[derive(Debug)]
pub struct Budget {
    /// Parts left, of [`MAX_PARTS`].
    pub(crate) parts: Cell<Option<usize>>,
    /// Tokens that macros and repeated includes may still bring, of [`MAX_TEXT_TOKENS`].
    pub(crate) text: Cell<Option<usize>>,
    /// Entries of tables left, of [`MAX_ENTRIES`].
    pub(crate) entries: Cell<Option<usize>>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            parts: Cell::new(Some(MAX_PARTS)),
            text: Cell::new(Some(MAX_TEXT_TOKENS)),
            entries: Cell::new(Some(MAX_ENTRIES)),
        }
    }
}

/// The initial amount, and the rest after payments.
pub(crate) fn take(left: &Cell<Option<usize>>, price: usize) -> (Option<usize>, Option<usize>) {
    let before = left.get();
    let after = before.and_then(|before| before.checked_sub(price));
    left.set(after);
    (before, after)
}
