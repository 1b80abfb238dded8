//! Limits of one store.

/// Most tracts of a blob: what a request to the locator has room for.
pub const MAX_TRACTS: usize = 4096;
/// Longest tract.
pub const MAX_TRACT_BYTES: u64 = 64 << 20;
/// Longest name of a blob, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 255;
/// Most rows of a table.
pub const MAX_ROWS: usize = 1024;
/// Most replicas of a row.
pub const MAX_COPIES: usize = 15;
