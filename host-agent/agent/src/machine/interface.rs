//! The interface that the agent works on.

use std::net::Ipv4Addr;

use anyhow::{Context, bail};
use ebb_wire::MacAddress;
use serde_json::Value;

use crate::machine::ip_command::query;

/// Properties of the agent's interface.
#[derive(Clone, Debug)]
pub struct Interface {
    pub name: String,
    pub mac: MacAddress,
    pub address: Ipv4Addr,
    pub mtu_bytes: u16,
}

impl Interface {
    /// The name of the only interface with an IPv4 address that others can reach.
    pub fn only() -> anyhow::Result<String> {
        let links = query(&["address", "show"])?;
        let is_global = |info: &Value| info["family"] == "inet" && info["scope"] == "global";
        let names: Vec<&str> = links
            .iter()
            .filter(|link| {
                let addresses = link["addr_info"].as_array();
                addresses.is_some_and(|addresses| addresses.iter().any(is_global))
            })
            .filter_map(|link| link["ifname"].as_str())
            .collect();
        match names[..] {
            [name] => Ok(name.to_owned()),
            [] => bail!("no interface here has an IPv4 address; give one, or --interface"),
            _ => bail!(
                "choose the interface with --interface: {}",
                names.join(", ")
            ),
        }
    }

    /// The interface of this name, which is up and has an IPv4 address.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let links = query(&["address", "show"])?;
        let Some(link) = links.iter().find(|link| link["ifname"] == name) else {
            let names: Vec<&str> = links
                .iter()
                .filter_map(|link| link["ifname"].as_str())
                .collect();
            bail!(
                "there is no interface `{name}` in this network namespace; there are: {}",
                names.join(", ")
            );
        };
        let flags = link["flags"].as_array();
        if !flags.is_some_and(|flags| flags.iter().any(|flag| flag == "UP")) {
            bail!("interface `{name}` is down; bring it up: ip link set {name} up");
        }
        let address = link["addr_info"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|info| info["family"] == "inet")
            .and_then(|info| info["local"].as_str())
            .with_context(|| {
                format!("interface `{name}` has no IPv4 address; ip address add .. dev {name}")
            })?;
        let mac = link["address"].as_str().unwrap_or_default();
        Ok(Interface {
            name: name.to_owned(),
            mac: mac
                .parse()
                .with_context(|| format!("interface `{name}` is no Ethernet interface"))?,
            address: address
                .parse()
                .with_context(|| format!("`ip` prints `{address}` as an IPv4 address"))?,
            mtu_bytes: link["mtu"]
                .as_u64()
                .map_or(1500, |mtu| mtu.min(65_535) as u16),
        })
    }
}
