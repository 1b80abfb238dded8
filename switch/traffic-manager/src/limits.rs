//! Limits that queues, ports and packets have in common.

/// Queues a port can have: v1model's `standard_metadata.priority` has three bits.
pub const MAX_QUEUES: usize = 8;

/// How often one packet can be handed back for deflection: a data queue refuses it and it is
/// trimmed, the control queue refuses its header and that is returned to the sender. A packet that
/// still does not fit is dropped.
pub const MAX_DEFLECTIONS: u8 = 2;
