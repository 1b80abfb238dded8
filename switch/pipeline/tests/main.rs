//! Small programs as control plane and packets see them. One executable: linking takes longer than most of the tests.

mod fixture;

mod absent_keys;
mod actions;
mod control;
mod deparser;
mod flow;
mod load_folder;

/// `h.value` of a frame.
fn value_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes([frame[1], frame[2], frame[3], frame[4]])
}
