//! Parameters that the sections of all receiver-driven transports have.

use ebb_units::Duration;

use super::RetryParams;

/// Longest time that a parameter may be: a hundred days, for a minute at the largest dilation of 100,000. Sums of such
/// times cannot overflow.
const MAX_TIME_NS: u64 = 8_640_000_000_000_000;

/// The section of a transport.
pub trait Section {
    fn session(&self) -> SessionParams;
}

/// Implements [`Section`] for a struct whose fields have the names of those of [`SessionParams`].
macro_rules! session_section {
    ($section:ty) => {
        impl $crate::receiver_driven::Section for $section {
            fn session(&self) -> $crate::receiver_driven::SessionParams {
                $crate::receiver_driven::SessionParams {
                    rto_ns: self.rto_ns,
                    max_rto_ns: self.max_rto_ns,
                    max_retries: self.max_retries,
                    give_up_ns: self.give_up_ns,
                    linger_ns: self.linger_ns,
                    max_flows: self.max_flows,
                    max_flows_per_peer: self.max_flows_per_peer,
                }
            }
        }
    };
}
pub(crate) use session_section;

/// Timeouts and limits of sessions, named as in the sections.
#[derive(Clone, Copy, Debug)]
pub struct SessionParams {
    pub rto_ns: u64,
    pub max_rto_ns: u64,
    pub max_retries: u32,
    pub give_up_ns: u64,
    pub linger_ns: u64,
    pub max_flows: u32,
    pub max_flows_per_peer: u32,
}

impl SessionParams {
    /// Timeouts and limits of the retries with a silent peer.
    pub fn retry(&self) -> RetryParams {
        RetryParams {
            rto: Duration::from_nanos(self.rto_ns),
            max_rto: Duration::from_nanos(self.max_rto_ns),
            max_retries: self.max_retries,
            give_up: Duration::from_nanos(self.give_up_ns),
        }
    }

    /// Time for which an ended session still answers late packets.
    pub fn linger(&self) -> Duration {
        Duration::from_nanos(self.linger_ns)
    }

    /// Checks the times, and the `others_ns` of the section; the error names section and parameter.
    pub fn validate(&self, section: &str, others_ns: &[u64]) -> Result<(), String> {
        let SessionParams {
            rto_ns, max_rto_ns, ..
        } = *self;
        if rto_ns == 0 || rto_ns > max_rto_ns {
            return Err(format!(
                "{section}.rto_ns is {rto_ns}; it must be above 0 and not above max_rto_ns ({max_rto_ns})"
            ));
        }
        let own_ns = [max_rto_ns, self.give_up_ns, self.linger_ns];
        match own_ns.iter().chain(others_ns).find(|ns| **ns > MAX_TIME_NS) {
            Some(ns) => Err(format!(
                "section {section}: {ns} ns is longer than a hundred days"
            )),
            None => Ok(()),
        }
    }
}
