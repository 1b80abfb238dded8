//! For a clock outside this crate: the partitions of a network, the frames between them, and the commands for
//! the threads that run them.
//!
//! [`Network::spread`](crate::Network::spread) cuts a network into partitions. Who runs one calls
//! [`Partition::run`], hands the frames of [`Partition::take_crossing`] to [`Partition::accept_late`] of the
//! others, and obeys what comes from [`control_channels`].

pub use crate::control::{Wake, control_channels};
pub use crate::lateness::Late;
pub use crate::network::{Crossing, Cut, Partition};
