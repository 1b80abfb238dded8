//! The interfaces of a switch as openconfig-interfaces has them: a leaf for each value.

use ebb_traffic_manager::Count;

use super::path::{Elem, Path};
use crate::device::PortState;

/// What a leaf holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
}

/// A value and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub path: Path,
    pub value: Value,
}

/// A port with the name by which people know it.
#[derive(Clone, Debug)]
pub struct Interface {
    pub name: String,
    pub state: PortState,
}

/// All leaves of all interfaces, in the order of these.
pub fn leaves(interfaces: &[Interface]) -> Vec<Leaf> {
    interfaces.iter().flat_map(of_interface).collect()
}

fn of_interface(interface: &Interface) -> Vec<Leaf> {
    let Interface { name, state } = interface;
    let text = |text: &str| Value::Text(text.to_owned());
    let up = |is_up| text(if is_up { "UP" } else { "DOWN" });
    let port = Value::Number(state.port.into());
    let mut leaves = vec![
        (vec!["name"], text(name)),
        (vec!["config", "name"], text(name)),
        (vec!["config", "enabled"], Value::Flag(true)),
        // openconfig-p4rt: the port of P4Runtime.
        (vec!["config", "id"], port.clone()),
        (vec!["state", "name"], text(name)),
        (vec!["state", "enabled"], Value::Flag(true)),
        (vec!["state", "id"], port.clone()),
        (vec!["state", "ifindex"], port),
        (vec!["state", "admin-status"], up(true)),
        (vec!["state", "oper-status"], up(state.is_up)),
    ];
    leaves.extend(
        counters(state)
            .into_iter()
            .map(|(name, number)| (vec!["state", "counters", name], Value::Number(number))),
    );
    let leaf = |(names, value): (Vec<&str>, Value)| Leaf {
        path: path_of(name, &names),
        value,
    };
    leaves.into_iter().map(leaf).collect()
}

fn counters(state: &PortState) -> [(&'static str, u64); 5] {
    let Count { packets, bytes } = state.received;
    [
        ("in-pkts", packets),
        ("in-octets", bytes),
        ("out-pkts", state.sent.packets),
        ("out-octets", state.sent.bytes),
        ("out-discards", state.refused.packets),
    ]
}

/// `/interfaces/interface[name=..]/..`
fn path_of(interface: &str, names: &[&str]) -> Path {
    let mut elems = vec![
        Elem::named("interfaces"),
        Elem::keyed("interface", interface),
    ];
    elems.extend(names.iter().map(|name| Elem::named(name)));
    Path(elems)
}

/// Whether a leaf changes with every packet, so that a client that leaves it to us gets samples.
pub fn is_counter(path: &Path) -> bool {
    path.0.iter().any(|elem| elem.name == "counters")
}
