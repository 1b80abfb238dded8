//! One agent per port and host. A lock is a Unix socket in the abstract namespace, which belongs
//! to the network namespace, that is to the emulated host; the kernel frees it with the process.
//!
//! Service ports are locked one by one, source ports in blocks: a process takes as many blocks in a
//! row as the ports it wants need.

use std::fmt;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::{Context, bail};
use ebb_wire::Protocol;
use rand::Rng;

/// Source ports in a block.
const BLOCK_PORTS: u16 = 64;

/// The source ports of a protocol, in blocks.
#[derive(Clone, Copy)]
struct Pool {
    first: u16,
    blocks: u16,
}

/// Above the kernel's own ephemeral ports (32768..60999 unless changed), so that hiding ours from
/// the kernel hides nothing of its. Port 65535, for which Linux takes no policy rule
/// (`kernel_rules`), is beyond the last block.
const TCP: Pool = Pool {
    first: 61_000,
    blocks: (u16::MAX - 61_000) / BLOCK_PORTS,
};
/// The kernel has no ports of this protocol: from the first ephemeral port of RFC 6335 on.
const RECEIVER_DRIVEN: Pool = Pool {
    first: 49_152,
    blocks: (TCP.first - 49_152) / BLOCK_PORTS,
};

impl Pool {
    fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::EBB => RECEIVER_DRIVEN,
            _ => TCP,
        }
    }

    fn range(self, block: u16, blocks: u16) -> PortRange {
        PortRange {
            first: self.first + block * BLOCK_PORTS,
            last: self.first + (block + blocks) * BLOCK_PORTS - 1,
        }
    }
}

/// First and last port of a range that is ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

impl PortRange {
    pub fn one(port: u16) -> Self {
        PortRange {
            first: port,
            last: port,
        }
    }

    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    pub fn overlaps(self, other: PortRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for PortRange {
    /// The range as `ip rule` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortRange { first, last } if first == last => write!(f, "{first}"),
            PortRange { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

/// The ranges that agents of this host have locked, this one included: the abstract sockets of the
/// network namespace.
pub fn locked_ranges() -> anyhow::Result<Vec<PortRange>> {
    let sockets = "/proc/self/net/unix";
    let text = std::fs::read(sockets).with_context(|| format!("cannot read {sockets}"))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter_map(range_of_lock).collect())
}

/// The ports that a line about a socket names. `None`: the socket is no lock of [`try_lock`].
fn range_of_lock(line: &str) -> Option<PortRange> {
    let (_, name) = line.split_once(LOCK_PREFIX)?;
    let (_, ports) = name.split_once('/')?;
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    Some(PortRange {
        first: first.parse().ok()?,
        last: last.parse().ok()?,
    })
}

/// How the names of locks begin in the kernel's list: `@` is the zero byte of the abstract namespace.
const LOCK_PREFIX: &str = "@ebb-agent/";

/// Ports that no other agent of this host uses.
pub struct PortLock {
    pub range: PortRange,
    _sockets: Vec<UnixDatagram>,
}

impl PortLock {
    /// Takes a port that others send to.
    pub fn take(address: Ipv4Addr, port: u16) -> anyhow::Result<Self> {
        match try_lock(address, &port.to_string())? {
            Some(socket) => Ok(PortLock {
                range: PortRange::one(port),
                _sockets: vec![socket],
            }),
            None => bail!(
                "port {port} of {address} is in use by another ebb-agent; \
                 stop that one or choose another port"
            ),
        }
    }

    /// Takes at least `count` ports in a row to send from.
    pub fn take_sources(address: Ipv4Addr, protocol: Protocol, count: u16) -> anyhow::Result<Self> {
        let pool = Pool::of(protocol);
        let blocks = count.max(1).div_ceil(BLOCK_PORTS).min(pool.blocks);
        // From anywhere, so that a peer does not take the next process for the last one; but side by
        // side with others of the same size as long as there is room, so that no gaps are wasted.
        let places = pool.blocks - blocks + 1;
        let sides = pool.blocks / blocks;
        let (side, place) = {
            let mut rng = rand::rng();
            (rng.random_range(0..sides), rng.random_range(0..places))
        };
        let side_by_side = (side..sides).chain(0..side).map(|side| side * blocks);
        for place in side_by_side.chain(place..places).chain(0..place) {
            if let Some(lock) = Self::try_blocks(address, pool, place, blocks)? {
                return Ok(lock);
            }
        }
        bail!(
            "no {} free source ports in a row left on {address}; other ebb-agents hold them",
            blocks * BLOCK_PORTS
        )
    }

    /// As many ports in a row as each of this many transports can have of the protocol, with two blocks
    /// left for commands that have engines of their own.
    pub fn share(protocol: Protocol, transports: usize) -> u16 {
        let blocks = Pool::of(protocol).blocks - 2;
        blocks / u16::try_from(transports).unwrap_or(u16::MAX).max(1) * BLOCK_PORTS
    }

    /// For tests that take no ports from anybody.
    #[cfg(test)]
    pub fn unlocked(range: PortRange) -> Self {
        PortLock {
            range,
            _sockets: Vec::new(),
        }
    }

    fn try_blocks(
        address: Ipv4Addr,
        pool: Pool,
        first: u16,
        blocks: u16,
    ) -> anyhow::Result<Option<Self>> {
        let mut sockets = Vec::new();
        for block in first..first + blocks {
            let PortRange { first, last } = pool.range(block, 1);
            let Some(socket) = try_lock(address, &format!("{first}-{last}"))? else {
                return Ok(None);
            };
            sockets.push(socket);
        }
        Ok(Some(PortLock {
            range: pool.range(first, blocks),
            _sockets: sockets,
        }))
    }
}

fn try_lock(address: Ipv4Addr, ports: &str) -> anyhow::Result<Option<UnixDatagram>> {
    let name = SocketAddr::from_abstract_name(format!("ebb-agent/{address}/{ports}"))
        .context("cannot form the name of the port lock")?;
    match UnixDatagram::bind_addr(&name) {
        Ok(socket) => Ok(Some(socket)),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot lock port {ports}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any address will do: the locks are names.
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn take(count: u16) -> anyhow::Result<PortLock> {
        PortLock::take_sources(ADDRESS, Protocol::TCP, count)
    }

    #[test]
    fn no_sender_gets_the_port_that_cannot_be_hidden_or_one_of_the_kernel() {
        let PortRange { first, last } = TCP.range(0, TCP.blocks);
        assert!(last < u16::MAX && u16::MAX - last <= BLOCK_PORTS);
        assert!(first > 60_999);
        // The locks of the protocols are of one kind.
        assert!(RECEIVER_DRIVEN.range(0, RECEIVER_DRIVEN.blocks).last < first);
    }

    #[test]
    fn ranges_of_several_processes_do_not_overlap() {
        let mut locks = Vec::new();
        let mut free = TCP.blocks;
        while let Ok(lock) = take(500) {
            assert_eq!(lock.range.last - lock.range.first + 1, 512);
            locks.push(lock);
            free -= 8;
        }
        // Wherever the first ones fell: 8 free blocks in a row are no longer there.
        assert!(
            locks.len() >= usize::from(TCP.blocks / 15),
            "{}",
            locks.len()
        );
        for _ in 0..free {
            locks.push(take(1).unwrap());
        }
        let error = take(1).err().unwrap();
        assert!(error.to_string().contains("no 64 free source ports"));
        PortLock::take_sources(ADDRESS, Protocol::EBB, 1000).unwrap();
        let mut ranges: Vec<_> = locks
            .iter()
            .map(|lock| (lock.range.first, lock.range.last))
            .collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        drop(locks);
        take(512).unwrap();
    }

    #[test]
    fn ranges_of_one_size_leave_no_gaps() {
        let address = Ipv4Addr::new(192, 0, 2, 2);
        let take = || PortLock::take_sources(address, Protocol::TCP, 768);
        let locks: Vec<_> = (0..TCP.blocks / 12).map(|_| take().unwrap()).collect();
        assert_eq!(locks.len(), 5);
        assert!(take().is_err());
    }

    #[test]
    fn locks_are_seen_as_long_as_somebody_has_them() {
        let address = Ipv4Addr::new(192, 0, 2, 3);
        let seen = |range| locked_ranges().unwrap().contains(&range);
        let lock = PortLock::take(address, 7117).unwrap();
        assert!(seen(PortRange::one(7117)));
        drop(lock);
        assert!(!seen(PortRange::one(7117)));
        let lock = PortLock::take_sources(address, Protocol::TCP, 1).unwrap();
        assert!(seen(lock.range));
        for line in [
            "",
            "0: 1 @ebb-agent",
            "@ebb-agent/kernel-rules",
            "@ebb-agent/1.2.3.4/x",
        ] {
            assert_eq!(range_of_lock(line), None);
        }
    }

    #[test]
    fn a_service_port_has_one_owner() {
        let lock = PortLock::take(ADDRESS, 7000).unwrap();
        let error = PortLock::take(ADDRESS, 7000).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("port 7000 of 192.0.2.1 is in use")
        );
        drop(lock);
        PortLock::take(ADDRESS, 7000).unwrap();
    }
}
