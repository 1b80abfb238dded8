//! Counters of the pipeline about itself.

use std::collections::BTreeMap;

use crate::drop_reason::DropReason;

/// Counts of a pipeline since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineStats {
    /// Frames that entered ingress, for whatever reason.
    pub ingress_packets: u64,
    /// Packets that entered egress.
    pub egress_packets: u64,
    /// Clones that were asked for.
    pub clones: u64,
    /// Digests that were sent.
    pub digests: u64,
    /// Packets that were resubmitted.
    pub resubmits: u64,
    /// Packets that were recirculated.
    pub recirculates: u64,
    /// Frames with a wrong checksum, where the program verifies it.
    pub checksum_errors: u64,
    /// Dropped packets by reason.
    drops: [u64; DropReason::ALL.len()],
    /// How often the parser ended with each error, by code.
    parser_errors: BTreeMap<u32, u64>,
}

impl PipelineStats {
    /// How many packets were dropped for this reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// The codes of P4 errors and how often the parser ended with each.
    /// [`Pipeline::error_name`](crate::Pipeline::error_name) has the names.
    pub fn parser_errors(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.parser_errors.iter().map(|(code, n)| (*code, *n))
    }

    /// Counts a dropped packet.
    pub(crate) fn dropped(&mut self, reason: DropReason) -> DropReason {
        self.drops[reason as usize] += 1;
        reason
    }

    /// Counts a parser error.
    pub(crate) fn parser_error(&mut self, code: u32) {
        *self.parser_errors.entry(code).or_default() += 1;
    }
}
