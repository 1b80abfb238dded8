//! Reasons for which the pipeline itself drops packets.

/// Reason why the pipeline itself dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// Its `egress_spec` was the drop port after ingress.
    IngressMarkToDrop,
    /// Its `egress_spec` was the drop port after egress.
    EgressMarkToDrop,
    /// An `assert` was false.
    AssertFailed,
    /// An `assume` was false.
    AssumeFailed,
    /// The parser or the control flow did not end, or an action jumped without end.
    NoTermination,
    /// The pipeline panicked, which is a bug; the message is on stderr.
    InternalError,
    /// The parser of ingress of Tofino failed, and the program does not look at its errors.
    ParserError,
}

impl DropReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [DropReason; 7] = [
        DropReason::IngressMarkToDrop,
        DropReason::EgressMarkToDrop,
        DropReason::AssertFailed,
        DropReason::AssumeFailed,
        DropReason::NoTermination,
        DropReason::InternalError,
        DropReason::ParserError,
    ];

    /// The name of the reason in statistics and reports.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::IngressMarkToDrop => "ingress-mark-to-drop",
            DropReason::EgressMarkToDrop => "egress-mark-to-drop",
            DropReason::AssertFailed => "assert-failed",
            DropReason::AssumeFailed => "assume-failed",
            DropReason::NoTermination => "no-termination",
            DropReason::InternalError => "internal-error",
            DropReason::ParserError => "parser-error",
        }
    }
}
