//! Limits that queues, ports and packets have in common.

/// Queues a port can have: `qid` of Tofino has five bits.
pub const MAX_QUEUES: usize = 32;

/// Queues that v1model's `standard_metadata.priority` can name, which has three bits, and classes of
/// priority flow control. They are the first ones of a port.
pub const CLASSES: usize = 8;

/// How often one packet can be handed back for deflection: a data queue refuses it and it is
/// trimmed, the control queue refuses its header and that is returned to the sender. A packet that
/// still does not fit is dropped.
pub const MAX_DEFLECTIONS: u8 = 2;
