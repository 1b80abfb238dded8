//! From a destination to the MAC address of the next hop: the routes and neighbours of our
//! interface, read once. Hosts on our own link are learned from their frames.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ebb_wire::MacAddress;
use serde_json::Value;

use crate::interface::Interface;
use crate::ip_command::query;

/// How long the kernel gets to resolve an address that it does not know yet.
const ARP_PATIENCE: Duration = Duration::from_secs(2);
const DISCARD_PORT: u16 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    prefix: u32,
    prefix_bits: u8,
    /// `None`: the destination itself is on the link.
    gateway: Option<Ipv4Addr>,
}

/// Cloned for other threads, it stays the same table: whoever wants to send resolves the address
/// in a thread of its own, which may wait, and then the engine knows it.
#[derive(Clone)]
pub struct NextHops {
    interface: Arc<str>,
    /// Longest prefix first.
    routes: Arc<[Route]>,
    neighbours: Arc<RwLock<HashMap<Ipv4Addr, MacAddress>>>,
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
        let mut routes: Vec<Route> = query(&["-4", "route", "show", "dev", name])?
            .iter()
            .filter_map(Route::parse)
            .collect();
        if routes.is_empty() {
            bail!(
                "there is no IPv4 route through `{name}`; ip route add default via .. dev {name}"
            );
        }
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix_bits));
        let neighbours = read_neighbours(name)?;
        Ok(NextHops {
            interface: name.into(),
            routes: routes.into(),
            neighbours: Arc::new(RwLock::new(neighbours)),
        })
    }

    /// The address on our link to which packets for `destination` go.
    fn next_hop(&self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        let route = self.routes.iter().find(|route| route.covers(destination))?;
        Some(route.gateway.unwrap_or(destination))
    }

    /// The MAC address for packets to `destination`, if it is known.
    pub fn mac(&self, destination: Ipv4Addr) -> Option<MacAddress> {
        if destination.is_multicast() {
            return Some(MacAddress::of_group(destination));
        }
        self.neighbour(self.next_hop(destination)?)
    }

    /// A frame from `source` arrived: if that is on our link, its MAC address is `mac`.
    pub fn learn(&self, source: Ipv4Addr, mac: MacAddress) {
        if self.next_hop(source) == Some(source) && self.neighbour(source).is_none() {
            self.extend([(source, mac)]);
        }
    }

    fn neighbour(&self, hop: Ipv4Addr) -> Option<MacAddress> {
        let neighbours = self.neighbours.read();
        let neighbours = neighbours.unwrap_or_else(PoisonError::into_inner);
        neighbours.get(&hop).copied()
    }

    fn extend(&self, more: impl IntoIterator<Item = (Ipv4Addr, MacAddress)>) {
        let neighbours = self.neighbours.write();
        let mut neighbours = neighbours.unwrap_or_else(PoisonError::into_inner);
        neighbours.extend(more);
    }

    /// Makes sure that all gateways can be reached.
    pub fn resolve_gateways(&self) -> anyhow::Result<()> {
        let gateways: Vec<Ipv4Addr> = self
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
        let name = &*self.interface;
        let hop = self
            .next_hop(destination)
            .with_context(|| format!("no route through `{name}` leads to {destination}"))?;
        if self.neighbour(hop).is_some() {
            return Ok(());
        }
        let deadline = Instant::now() + ARP_PATIENCE;
        while Instant::now() < deadline {
            // A datagram to nobody makes the kernel ask for the address.
            if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
                let _ = socket.send_to(&[], SocketAddrV4::new(hop, DISCARD_PORT));
            }
            std::thread::sleep(Duration::from_millis(50));
            self.extend(read_neighbours(name)?);
            if self.neighbour(hop).is_some() {
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
        let mut routes: Vec<Route> = routes
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Route::parse)
            .collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix_bits));
        NextHops {
            interface: "h1-eth1".into(),
            routes: routes.into(),
            neighbours: Arc::default(),
        }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let hops = hops(json!([
            {"dst": "default", "gateway": "10.0.0.1"},
            {"dst": "10.0.0.0/24"},
            {"dst": "10.0.0.1"},
        ]));
        let to = |text: &str| hops.next_hop(text.parse().unwrap()).unwrap().to_string();
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
        assert_eq!(hops.next_hop("10.1.0.1".parse().unwrap()), None);
    }
}
