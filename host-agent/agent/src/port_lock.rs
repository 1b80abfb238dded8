//! One agent per port and host. The lock is a Unix socket in the abstract namespace, which belongs
//! to the network namespace, that is to the emulated host; the kernel frees it with the process.

use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Context, bail};
use rand::Rng;

/// Above the kernel's own ephemeral ports (32768..60999 unless changed), so that hiding ours from
/// the kernel hides nothing of its. Without the last one, for which Linux takes no policy rule
/// (`kernel_rules`).
const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 61_000..=65_534;
const ATTEMPTS: u32 = 1000;

pub struct PortLock {
    pub port: u16,
    _socket: UnixDatagram,
}

impl PortLock {
    pub fn take(address: Ipv4Addr, port: u16) -> anyhow::Result<Self> {
        match Self::try_take(address, port)? {
            Some(lock) => Ok(lock),
            None => bail!(
                "port {port} of {address} is in use by another ebb-agent; \
                 stop that one or choose another port"
            ),
        }
    }

    /// A free port to send from.
    pub fn take_any(address: Ipv4Addr) -> anyhow::Result<Self> {
        let mut rng = rand::rng();
        for _ in 0..ATTEMPTS {
            if let Some(lock) = Self::try_take(address, rng.random_range(SOURCE_PORTS))? {
                return Ok(lock);
            }
        }
        bail!("no free source port of {address} found in {ATTEMPTS} attempts")
    }

    fn try_take(address: Ipv4Addr, port: u16) -> anyhow::Result<Option<Self>> {
        let name = SocketAddr::from_abstract_name(format!("ebb-agent/{address}/{port}"))
            .context("cannot form the name of the port lock")?;
        match UnixDatagram::bind_addr(&name) {
            Ok(socket) => Ok(Some(PortLock {
                port,
                _socket: socket,
            })),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Ok(None),
            Err(e) => Err(e).with_context(|| format!("cannot lock port {port}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sender_gets_the_port_that_cannot_be_hidden() {
        assert!(!SOURCE_PORTS.contains(&u16::MAX));
        assert!(SOURCE_PORTS.contains(&(u16::MAX - 1)));
    }
}
