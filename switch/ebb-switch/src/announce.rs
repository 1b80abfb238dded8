//! Log lines at the start: programs and ports, and who may connect.

use std::net::SocketAddr;
use std::path::Path;

use ebb_p4runtime::Arbitration;

use crate::settings::{Settings, SwitchSettings};

/// Most switches that get a line each; more than that share one line.
const MAX_SWITCH_LINES: usize = 4;

/// Writes the lines: as a warning if anybody on another machine has full control (docs/security.md).
pub fn log(settings: &Settings) {
    for line in programs_and_ports(settings) {
        tracing::info!("{line}");
    }
    let addresses: Vec<_> = settings
        .switches
        .iter()
        .map(|switch| switch.grpc_server_addr)
        .collect();
    let line = line(&addresses, settings);
    match is_open(&addresses, settings) {
        false => tracing::info!("{line}"),
        true => tracing::warn!("{line}"),
    }
    if let Some(socket) = &settings.fabric_socket {
        let socket = socket.display();
        tracing::info!("fabric service on {socket}: root and the user of this process");
    }
    if let Some(rings) = &settings.rings {
        let rings = rings.display();
        tracing::info!("shared rings for hosts in {rings}: root and the user of this process");
    }
}

/// Programs and ports: a line for each switch, or one for all of a fabric.
fn programs_and_ports(settings: &Settings) -> Vec<String> {
    let switches = &settings.switches;
    let common = settings.program.as_ref().map(|files| &*files.json);
    if switches.len() <= MAX_SWITCH_LINES {
        return switches.iter().map(|s| of_switch(s, common)).collect();
    }
    let ports: usize = switches.iter().map(|s| s.interfaces.len()).sum();
    let links = settings.links.len();
    let without = switches.iter().filter(|s| s.program.is_none()).count();
    let waiting = match (without, common) {
        (0, _) => String::new(),
        (n, Some(file)) => format!("; {n} with program {}", file.display()),
        (n, None) => format!("; {n} wait for a program"),
    };
    let number = switches.len();
    vec![format!(
        "{number} switches, {links} links, {ports} ports on interfaces{waiting}"
    )]
}

/// Program and ports of a switch. `common`: the program of switches that name none.
fn of_switch(switch: &SwitchSettings, common: Option<&Path>) -> String {
    let program = match switch.program.as_deref().or(common) {
        Some(file) => format!("program {}", file.display()),
        None => "no program yet, a controller installs one".to_owned(),
    };
    let ports = switch.interfaces.iter();
    let mut ports: Vec<String> = ports
        .map(|(port, name)| format!("port {port} on {name}"))
        .collect();
    ports.extend(switch.cpu_port.map(|port| format!("CPU port {port}")));
    let ports = match ports.is_empty() {
        true => "no ports on interfaces".to_owned(),
        false => ports.join(", "),
    };
    format!("{}: {program}; {ports}", switch.name)
}

/// Whether anybody on another machine has full control.
fn is_open(addresses: &[SocketAddr], settings: &Settings) -> bool {
    let proven = settings
        .tls
        .as_ref()
        .is_some_and(|tls| tls.client_authority.is_some());
    !proven && addresses.iter().any(|address| !address.ip().is_loopback())
}

/// Addresses of P4Runtime, and who may connect.
fn line(addresses: &[SocketAddr], settings: &Settings) -> String {
    let places = match addresses {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] => format!("{} addresses from {first} to {last}", addresses.len()),
    };
    let anybody = match addresses.iter().all(|address| address.ip().is_loopback()) {
        true => "any user of this machine",
        false => "anybody who reaches this machine",
    };
    let who = match &settings.tls {
        None => format!("{anybody}; no TLS"),
        Some(tls) => match &tls.client_authority {
            None => format!("{anybody}, over TLS"),
            Some(file) => format!("clients with a certificate of {}", file.display()),
        },
    };
    let unasked = match settings.arbitration {
        Arbitration::Required => "",
        Arbitration::Optional => "; without arbitration while no controller is connected",
    };
    format!("P4Runtime on {places}: {who}{unasked}")
}

#[cfg(test)]
mod tests {
    use ebb_p4runtime::TlsFiles;

    use super::*;

    #[test]
    fn it_is_said_who_may_connect() {
        let (local, open) = ("127.0.0.1:9559", "0.0.0.0:9559");
        let tls = |authority: Option<&str>| {
            Some(TlsFiles {
                client_authority: authority.map(Into::into),
                ..TlsFiles::default()
            })
        };
        for (address, tls, expected, warned) in [
            (
                local,
                None,
                "127.0.0.1:9559: any user of this machine; no TLS",
                false,
            ),
            (
                open,
                None,
                "0.0.0.0:9559: anybody who reaches this machine; no TLS",
                true,
            ),
            (
                open,
                tls(None),
                "0.0.0.0:9559: anybody who reaches this machine, over TLS",
                true,
            ),
            (
                open,
                tls(Some("ca.pem")),
                "0.0.0.0:9559: clients with a certificate of ca.pem",
                false,
            ),
        ] {
            let settings = Settings {
                tls,
                ..Settings::default()
            };
            let addresses = [address.parse().expect("an address")];
            assert_eq!(
                line(&addresses, &settings),
                format!("P4Runtime on {expected}")
            );
            assert_eq!(is_open(&addresses, &settings), warned);
        }
        let free = Settings {
            arbitration: Arbitration::Optional,
            ..Settings::default()
        };
        let told = line(&[([127, 0, 0, 1], 9559).into()], &free);
        assert!(told.ends_with("no TLS; without arbitration while no controller is connected"));
        let many = [9559, 9560].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        assert!(
            line(&many, &Settings::default()).contains("2 addresses from 127.0.0.1:9559 to 127")
        );
    }
}
