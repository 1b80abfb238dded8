//! Guarantees of a tenant, enforced at the hosts of its virtual machines (Moncaster,
//! UCAM-CL-TR-921, sections 5.4.3 and 5.5; Silo, SIGCOMM 2015, section 4.3).
//!
//! ```text
//!  packets of a VM ──► bucket of the destination ──► bucket of the VM ──► peak ──► batch ──► NIC
//!                      rate by the receiver (hose)    B, depth S           Bmax     void frames
//! ```
//!
//! No bucket needs a timer: each knows how much it lacks at a time, so a packet gets the time of
//! its departure ([`VmPacer`]). A NIC that sends back to back keeps these times when the gaps
//! between frames are frames as well, which the first switch drops ([`Batcher`]). All sizes are
//! bytes on the wire: frame, FCS, preamble and gap between frames.

mod batch;
mod bucket;
mod coordination;
mod entries;
mod frames;
mod guarantee;
mod hose;
mod hypervisor;
#[cfg(test)]
mod hypervisor_tests;
mod pacer;
mod peers;

pub use batch::{Batcher, MIN_VOID_BYTES, Slot};
pub use bucket::VirtualBucket;
pub use coordination::{Coordination, CoordinationParams};
pub use entries::{HypervisorEntry, VmEntry};
pub use frames::{GuaranteeCounters, GuaranteedFrames, Outcome};
pub use guarantee::{Guarantee, WIRE_OVERHEAD_BYTES};
pub use hose::{Grant, HoseReceiver, HoseSender};
pub use hypervisor::{Delays, Departures, Guest, Hypervisor, HypervisorCounters, HypervisorParams};
pub use pacer::{Departure, VmPacer};
pub use peers::Peers;
