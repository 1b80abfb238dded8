//! Periodic checks while the switches run: idle entries and the carriers of interfaces.

use std::time::Duration;

use ebb_engine::{ControlHandle, NodeId, Switch};

/// How often entries are looked at for their idle timeout, as often as BMv2 does.
const IDLE_CHECK: Duration = Duration::from_secs(1);

/// Keeps looking for idle entries until the switch stops.
pub async fn watch_idle_entries(handle: ControlHandle, switch: NodeId) {
    let mut ticks = tokio::time::interval(IDLE_CHECK);
    loop {
        ticks.tick().await;
        if handle.post(switch, Switch::check_idle_entries).is_err() {
            return;
        }
    }
}

/// How soon the members of groups that watch a port follow its interface.
const PORT_CHECK: Duration = Duration::from_millis(100);

/// Tells switches which of their interfaces have no carrier, until they stop.
pub async fn watch_ports(handle: ControlHandle, interfaces: Vec<(NodeId, u16, String)>) {
    let mut ticks = tokio::time::interval(PORT_CHECK);
    let mut up = vec![true; interfaces.len()];
    loop {
        ticks.tick().await;
        for ((switch, port, name), was_up) in interfaces.iter().zip(&mut up) {
            let (port, is_up) = (*port, has_carrier(name));
            if is_up == *was_up {
                continue;
            }
            *was_up = is_up;
            tracing::info!(
                "port {port} ({name}) is {}",
                if is_up { "up" } else { "down" }
            );
            let set = move |switch: &mut Switch| switch.set_port_up(port, is_up);
            if handle.post(*switch, set).is_err() {
                return;
            }
        }
    }
}

/// An interface that sysfs does not show, as in a namespace without its own, counts as up.
fn has_carrier(interface: &str) -> bool {
    match std::fs::read_to_string(format!("/sys/class/net/{interface}/carrier")) {
        Ok(carrier) => carrier.trim() == "1",
        // The kernel says so of an interface that is set down.
        Err(error) => error.kind() != std::io::ErrorKind::InvalidInput,
    }
}
