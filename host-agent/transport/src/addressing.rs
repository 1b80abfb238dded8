//! Source ports and destinations of the flows that a host opens.

use std::net::Ipv4Addr;

use crate::transport::SendError;

/// The source ports of a host, assigned round robin.
pub(crate) struct SourcePorts {
    /// First and last port.
    range: (u16, u16),
    /// The port that is tried next.
    next: u16,
}

impl SourcePorts {
    /// The ports of a range, from `next` on.
    pub(crate) fn new(range: (u16, u16), next: u16) -> Self {
        SourcePorts { range, next }
    }

    /// The ports of a range, from the one after `last` on.
    pub(crate) fn after(range: (u16, u16), last: u16) -> Self {
        let mut ports = SourcePorts::new(range, last);
        ports.take(|_| true);
        ports
    }

    /// The next free port; none if all are in use.
    pub(crate) fn take(&mut self, mut is_free: impl FnMut(u16) -> bool) -> Option<u16> {
        let (first, last) = self.range;
        (first..=last).find_map(|_| {
            let port = self.next;
            self.next = if port == last { first } else { port + 1 };
            is_free(port).then_some(port)
        })
    }
}

/// Refuses an address that is not that of one other host.
pub(crate) fn check_destination(own: Ipv4Addr, address: Ipv4Addr) -> Result<(), SendError> {
    let is_no_other_host = address == own
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_unspecified();
    match is_no_other_host {
        true => Err(SendError::BadDestination { address }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_take_turns_and_those_in_use_are_passed_over() {
        let mut ports = SourcePorts::new((10, 12), 12);
        let mut all: Vec<_> = (0..3).map(|_| ports.take(|_| true)).collect();
        all.push(ports.take(|port| port == 10));
        assert_eq!(all, [Some(12), Some(10), Some(11), Some(10)]);
        assert_eq!(ports.take(|_| false), None);
    }
}
