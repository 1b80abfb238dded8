//! From a destination to the MAC address of the next hop: the routes and neighbours of our
//! interface, as the kernel knew them lately. Hosts on our own link are learned from their frames.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ebb_wire::MacAddress;
use serde_json::Value;

use crate::machine::interface::Interface;
use crate::machine::ip_command::query;

/// How long the kernel gets to resolve an address that it does not know yet.
const ARP_PATIENCE: Duration = Duration::from_secs(2);
/// Age after which routes are read again before somebody sends: a gateway may have been replaced,
/// or the interface been down, which takes its routes away.
const FRESH: Duration = Duration::from_secs(5);
const DISCARD_PORT: u16 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    prefix: u32,
    prefix_bits: u8,
    /// `None`: the destination itself is on the link.
    gateway: Option<Ipv4Addr>,
}

/// The way to other hosts. A clone for another thread is of the same table: whoever wants to send
/// resolves the address in a thread that may wait, and then the engine knows it.
#[derive(Clone)]
pub struct NextHops {
    interface: Arc<str>,
    table: Arc<RwLock<Table>>,
}

struct Table {
    /// Routes through the interface, the longest prefix first.
    routes: Vec<Route>,
    neighbours: HashMap<Ipv4Addr, MacAddress>,
    read_at: Instant,
}

impl Table {
    fn read(interface: &str) -> anyhow::Result<Self> {
        let routes = query(&["-4", "route", "show", "dev", interface])?;
        Ok(Table::new(
            routes.iter().filter_map(Route::parse).collect(),
            read_neighbours(interface)?,
        ))
    }

    fn new(mut routes: Vec<Route>, neighbours: HashMap<Ipv4Addr, MacAddress>) -> Self {
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix_bits));
        Table {
            routes,
            neighbours,
            read_at: Instant::now(),
        }
    }

    /// The address on our link to which packets for `destination` go.
    fn next_hop(&self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        let route = self.routes.iter().find(|route| route.covers(destination))?;
        Some(route.gateway.unwrap_or(destination))
    }
}

impl Route {
    fn covers(&self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(self.prefix_bits))
            .unwrap_or(0);
        u32::from(address) & mask == self.prefix & mask
    }

    fn parse(route: &Value) -> Option<Self> {
        let (prefix, bits) = match route["dst"].as_str()? {
            "default" => ("0.0.0.0", "0"),
            dst => dst.split_once('/').unwrap_or((dst, "32")),
        };
        Some(Route {
            prefix: prefix.parse::<Ipv4Addr>().ok()?.into(),
            prefix_bits: bits.parse().ok().filter(|&bits| bits <= 32)?,
            gateway: route["gateway"]
                .as_str()
                .and_then(|gateway| gateway.parse().ok()),
        })
    }
}

impl NextHops {
    pub fn read(interface: &Interface) -> anyhow::Result<Self> {
        let name = interface.name.as_str();
        let table = Table::read(name)?;
        if table.routes.is_empty() {
            bail!(
                "there is no IPv4 route through `{name}`; ip route add default via .. dev {name}"
            );
        }
        Ok(NextHops {
            interface: name.into(),
            table: Arc::new(RwLock::new(table)),
        })
    }

    /// The MAC address for packets to `destination`, if it is known.
    pub fn mac(&self, destination: Ipv4Addr) -> Option<MacAddress> {
        if destination.is_multicast() {
            return Some(MacAddress::of_group(destination));
        }
        let table = self.table();
        let hop = table.next_hop(destination)?;
        table.neighbours.get(&hop).copied()
    }

    /// A frame from `source` arrived: if that is on our link, its MAC address is `mac`.
    pub fn learn(&self, source: Ipv4Addr, mac: MacAddress) {
        let table = self.table();
        let news =
            table.next_hop(source) == Some(source) && !table.neighbours.contains_key(&source);
        drop(table);
        if news {
            self.table_mut().neighbours.insert(source, mac);
        }
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the kernel's tables again. What it has forgotten of the neighbours stays; so do the
    /// routes if there is none left, as while the interface is down.
    fn refresh(&self) -> anyhow::Result<()> {
        let read = Table::read(&self.interface)?;
        let mut table = self.table_mut();
        if !read.routes.is_empty() {
            table.routes = read.routes;
        }
        table.neighbours.extend(read.neighbours);
        table.read_at = read.read_at;
        Ok(())
    }

    /// The next hop to `destination` and whether its MAC address is known.
    fn known(&self, destination: Ipv4Addr) -> anyhow::Result<(Ipv4Addr, bool)> {
        let (table, name) = (self.table(), &self.interface);
        let hop = table
            .next_hop(destination)
            .with_context(|| format!("no route through `{name}` leads to {destination}"))?;
        Ok((hop, table.neighbours.contains_key(&hop)))
    }

    /// Makes sure that all gateways can be reached.
    pub fn resolve_gateways(&self) -> anyhow::Result<()> {
        let gateways: Vec<Ipv4Addr> = self
            .table()
            .routes
            .iter()
            .filter_map(|route| route.gateway)
            .collect();
        gateways
            .into_iter()
            .try_for_each(|gateway| self.resolve(gateway))
    }

    /// Makes sure that `destination` can be reached; waits for that, but not for long.
    pub fn resolve(&self, destination: Ipv4Addr) -> anyhow::Result<()> {
        let name = &self.interface;
        let age = self.table().read_at.elapsed();
        if age > FRESH {
            self.refresh()?;
        }
        let (hop, known) = self.known(destination)?;
        if known {
            return Ok(());
        }
        let deadline = Instant::now() + ARP_PATIENCE;
        while Instant::now() < deadline {
            // A datagram to nobody makes the kernel ask for the address.
            if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
                let _ = socket.send_to(&[], SocketAddrV4::new(hop, DISCARD_PORT));
            }
            std::thread::sleep(Duration::from_millis(50));
            self.refresh()?;
            if self.known(destination)?.1 {
                return Ok(());
            }
        }
        bail!(
            "nobody answers ARP for {hop}, the next hop to {destination}, on `{name}`; \
             is it up? Or set it: ip neigh replace {hop} lladdr MAC dev {name}"
        )
    }
}

fn read_neighbours(interface: &str) -> anyhow::Result<HashMap<Ipv4Addr, MacAddress>> {
    let entry = |neighbour: &Value| {
        let address = neighbour["dst"].as_str()?.parse().ok()?;
        let mac = neighbour["lladdr"].as_str()?.parse().ok()?;
        Some((address, mac))
    };
    Ok(query(&["-4", "neigh", "show", "dev", interface])?
        .iter()
        .filter_map(entry)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hops(routes: Value) -> NextHops {
        let routes = routes.as_array().unwrap().iter().filter_map(Route::parse);
        let table = Table::new(routes.collect(), HashMap::new());
        NextHops {
            interface: "h1-eth1".into(),
            table: Arc::new(RwLock::new(table)),
        }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let hops = hops(json!([
            {"dst": "default", "gateway": "10.0.0.1"},
            {"dst": "10.0.0.0/24"},
            {"dst": "10.0.0.1"},
        ]));
        let to = |text: &str| {
            hops.table()
                .next_hop(text.parse().unwrap())
                .unwrap()
                .to_string()
        };
        assert_eq!(to("10.3.1.2"), "10.0.0.1");
        assert_eq!(to("10.0.0.7"), "10.0.0.7");
        assert_eq!(to("10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn only_hosts_on_our_link_are_learned() {
        let hops = hops(json!([
            {"dst": "default", "gateway": "10.0.0.1"},
            {"dst": "10.0.0.0/24"},
        ]));
        let (far, near) = ("10.3.1.2".parse().unwrap(), "10.0.0.7".parse().unwrap());
        let mac = MacAddress([2, 0, 0, 0, 0, 9]);
        hops.learn(far, mac);
        hops.learn(near, mac);
        assert_eq!(hops.mac(far), None);
        assert_eq!(hops.mac(near), Some(mac));
    }

    #[test]
    fn a_group_needs_no_neighbour() {
        let hops = hops(json!([{"dst": "default", "gateway": "10.0.0.1"}]));
        let mac = hops.mac("239.0.0.1".parse().unwrap());
        assert_eq!(mac, Some("01:00:5e:00:00:01".parse().unwrap()));
    }

    #[test]
    fn no_route_is_no_next_hop() {
        let hops = hops(json!([{"dst": "10.0.0.0/24"}]));
        assert_eq!(hops.table().next_hop("10.1.0.1".parse().unwrap()), None);
    }
}
