//! Parts of a network that a clock outside this crate needs: the partitions, the frames between
//! them, and the commands for the threads that run them.
//!
//! [`Network::spread`](crate::Network::spread) cuts a network into partitions. A thread that runs
//! one calls [`Partition::run`], passes the frames of [`Partition::take_crossing`] to
//! [`Partition::accept_late`] of the other partitions, and obeys the commands from
//! [`control_channels`].

pub use crate::control::{Wake, control_channels};
pub use crate::lateness::Late;
pub use crate::network::{Crossing, Cut, Partition};
