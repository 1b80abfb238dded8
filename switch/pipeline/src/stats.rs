//! What the pipeline counts about itself.

use std::collections::BTreeMap;

use crate::outcome::DropReason;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineStats {
    /// Frames that entered ingress, for whatever reason.
    pub ingress_packets: u64,
    pub egress_packets: u64,
    pub clones: u64,
    pub digests: u64,
    pub resubmits: u64,
    pub recirculates: u64,
    /// Frames with a wrong checksum where the program verifies one.
    pub checksum_errors: u64,
    drops: [u64; DropReason::ALL.len()],
    parser_errors: BTreeMap<u32, u64>,
}

impl PipelineStats {
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// P4 error code and how often the parser ended with it. The codes' names:
    /// [`Pipeline::error_name`](crate::Pipeline::error_name).
    pub fn parser_errors(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.parser_errors.iter().map(|(code, n)| (*code, *n))
    }

    pub(crate) fn dropped(&mut self, reason: DropReason) -> DropReason {
        self.drops[reason as usize] += 1;
        reason
    }

    pub(crate) fn parser_error(&mut self, code: u32) {
        *self.parser_errors.entry(code).or_default() += 1;
    }
}
