//! Settings of switches and links, from the command line or from a fabric file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ebb_p4runtime::{Arbitration, ProgramFiles, TlsFiles};
use ebb_traffic_manager::TrafficManagerConfig;
use serde::Deserialize;

use crate::config_file::{FileError, read_config, read_traffic_manager_config};
use crate::options::{Options, TracePoint};

/// One switch of the process.
#[derive(Debug)]
pub struct SwitchSettings {
    pub name: String,
    pub device_id: u64,
    pub grpc_server_addr: SocketAddr,
    pub program: Option<PathBuf>,
    /// P4Info of the program. With it, controllers find the program installed.
    pub p4info: Option<PathBuf>,
    pub traffic_manager: TrafficManagerConfig,
    pub interfaces: Vec<(u16, String)>,
    pub cpu_port: Option<u16>,
    pub drop_port: u16,
}

/// Index of a switch, and a port of it.
pub type PortAt = (usize, u16);

pub type Link = [PortAt; 2];

/// A host outside: its name, and the external port that leads to it.
pub type HostAt = (String, PortAt);

#[derive(Debug, Default)]
pub struct Settings {
    pub switches: Vec<SwitchSettings>,
    pub links: Vec<Link>,
    pub hosts: Vec<HostAt>,
    /// The Unix socket of the fabric service; without one it is not served.
    pub fabric_socket: Option<PathBuf>,
    /// Program of switches that have none of their own, as if a controller had installed it.
    pub program: Option<ProgramFiles>,
    /// Folder of captures that are requested over the fabric service.
    pub captures: PathBuf,
    /// Folder of the sockets where processes of hosts get rings; without one there are none.
    pub rings: Option<PathBuf>,
    /// Programs are interpreted instead of compiled to native code.
    pub interpreted: bool,
    /// For all gRPC servers; `None`: without TLS.
    pub tls: Option<TlsFiles>,
    /// Schema of BF Runtime. None: that is not served.
    pub bf_rt_schema: Option<PathBuf>,
    /// Whether clients have to win the arbitration before they change a switch.
    pub arbitration: Arbitration,
    /// Ports whose arriving packets are printed.
    pub trace: Vec<TracePoint>,
    /// Most packets that each switch prints.
    pub trace_packets: u64,
    /// How many bytes of each packet are logged. 0: packets are not logged.
    pub dump_packet_data: usize,
    /// Length of the longest request that is accepted.
    pub max_message_bytes: usize,
}

impl Settings {
    pub fn from_options(options: &Options) -> Result<Self, FileError> {
        let settings = match &options.fabric {
            Some(file) => Self::from_fabric_file(file)?,
            None => Self {
                switches: vec![SwitchSettings::from_options(options)?],
                ..Self::default()
            },
        };
        Ok(Self {
            interpreted: options.no_native,
            tls: tls_files(options),
            bf_rt_schema: options.bf_rt_schema.clone(),
            arbitration: match options.p4runtime_without_arbitration {
                true => Arbitration::Optional,
                false => Arbitration::Required,
            },
            trace: options.trace.clone().unwrap_or_default(),
            trace_packets: options.trace_packets.unwrap_or(u64::MAX),
            dump_packet_data: options.dump_packet_data,
            max_message_bytes: options.grpc_max_message_bytes as usize,
            ..settings
        })
    }

    fn from_fabric_file(path: &Path) -> Result<Self, FileError> {
        let file: FabricFile = read_config(path)?;
        let fail = |problem: String| FileError::new(path, problem);
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut names = BTreeMap::new();
        let mut switches: Vec<SwitchSettings> = Vec::new();
        for entry in file.switch {
            if let Some(other) = switches
                .iter()
                .find(|s| s.grpc_server_addr == entry.grpc_server_addr)
            {
                return Err(fail(format!(
                    "switches \"{}\" and \"{}\" have the same grpc_server_addr {}",
                    other.name, entry.name, entry.grpc_server_addr
                )));
            }
            if names.insert(entry.name.clone(), switches.len()).is_some() {
                return Err(fail(format!("switch \"{}\" is defined twice", entry.name)));
            }
            switches.push(entry.resolve(path, directory)?);
        }
        if switches.is_empty() {
            return Err(fail("no switch; add a [[switch]]".into()));
        }
        interfaces_are_of_one_switch(&switches).map_err(&fail)?;
        let end = |what: &str, text: &str| -> Result<PortAt, FileError> {
            let (name, port) = text
                .rsplit_once(':')
                .and_then(|(name, port)| Some((name, port.parse().ok()?)))
                .ok_or_else(|| fail(format!("{what} \"{text}\": expected \"SWITCH:PORT\"")))?;
            let switch = names.get(name).ok_or_else(|| {
                let known: Vec<_> = names.keys().map(String::as_str).collect();
                let known = known.join(", ");
                fail(format!(
                    "{what} \"{text}\": no such switch; defined: {known}"
                ))
            })?;
            Ok((*switch, port))
        };
        let link = |l: &LinkEntry| Ok([end("link end", &l.a)?, end("link end", &l.b)?]);
        let links = file
            .link
            .iter()
            .map(link)
            .collect::<Result<_, FileError>>()?;
        let mut hosts: Vec<HostAt> = Vec::new();
        for HostEntry { name, at } in file.host {
            let (switch, port) = end(&format!("host \"{name}\": at"), &at)?;
            if names.contains_key(&name) || hosts.iter().any(|(other, _)| *other == name) {
                return Err(fail(format!("two nodes have the name \"{name}\"")));
            }
            let interfaces = &switches[switch].interfaces;
            if !interfaces.iter().any(|(external, _)| *external == port) {
                return Err(fail(format!(
                    "host \"{name}\": at \"{at}\": that port is not among the `interfaces` of the switch"
                )));
            }
            hosts.push((name, (switch, port)));
        }
        Ok(Self {
            program: file.program.map(|files| files.within(directory)),
            links,
            switches,
            hosts,
            fabric_socket: file.fabric_socket.map(|socket| directory.join(socket)),
            captures: directory.join(file.captures),
            rings: file.rings.map(|folder| directory.join(folder)),
            ..Self::default()
        })
    }
}

fn interfaces_are_of_one_switch(switches: &[SwitchSettings]) -> Result<(), String> {
    let mut owners = BTreeMap::new();
    for switch in switches {
        for (_, interface) in &switch.interfaces {
            if let Some(other) = owners
                .insert(interface, &switch.name)
                .filter(|name| **name != switch.name)
            {
                return Err(format!(
                    "switches \"{other}\" and \"{}\" have the same interface, \"{interface}\"",
                    switch.name
                ));
            }
        }
    }
    Ok(())
}

impl SwitchSettings {
    /// Reports settings that are possible each, and not together.
    pub fn check(&self) -> Result<(), String> {
        if self.cpu_port == Some(self.drop_port) {
            return Err(format!(
                "{}: port {} is both the CPU port and the drop port; choose another --cpu-port or --drop-port \
                 (cpu_port, drop_port of a fabric file)",
                self.name, self.drop_port
            ));
        }
        for (at, (port, interface)) in self.interfaces.iter().enumerate() {
            if let Some((other, _)) = self.interfaces[..at].iter().find(|(_, i)| i == interface) {
                return Err(format!(
                    "{}: ports {other} and {port} are on one interface, \"{interface}\"; each has one of its own",
                    self.name
                ));
            }
        }
        Ok(())
    }

    fn from_options(options: &Options) -> Result<Self, FileError> {
        Ok(Self {
            name: format!("device {}", options.device_id),
            device_id: options.device_id,
            grpc_server_addr: options.grpc_server_addr,
            program: options.program.clone().filter(|_| !options.no_p4),
            p4info: options.p4info.clone(),
            traffic_manager: match &options.tm {
                Some(path) => read_traffic_manager_config(path)?,
                None => TrafficManagerConfig::like_bmv2(options.priority_queues),
            },
            interfaces: options
                .interfaces
                .iter()
                .map(|i| (i.port, i.interface.clone()))
                .collect(),
            cpu_port: options.cpu_port,
            drop_port: options.drop_port,
        })
    }
}

/// The files of TLS, if it is asked for: the options want all of them or none.
fn tls_files(options: &Options) -> Option<TlsFiles> {
    Some(TlsFiles {
        certificate: options.grpc_server_cert.clone()?,
        key: options.grpc_server_key.clone()?,
        client_authority: options.grpc_server_cacert.clone(),
    })
}

/// `--fabric FILE`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricFile {
    #[serde(default)]
    switch: Vec<SwitchEntry>,
    /// The program of switches that name none. Controllers find it installed.
    program: Option<ProgramFiles>,
    #[serde(default)]
    link: Vec<LinkEntry>,
    /// Names for what is outside, so that the fabric service can speak of links to hosts.
    #[serde(default)]
    host: Vec<HostEntry>,
    /// The Unix socket where the fabric service is served, relative to this file.
    fabric_socket: Option<PathBuf>,
    /// The folder for its captures, relative to this file.
    #[serde(default = "pcaps")]
    captures: PathBuf,
    /// The folder where each interface has a Unix socket for processes that share rings with this one, relative to this
    /// file. It is there, and for this user alone.
    rings: Option<PathBuf>,
}

fn pcaps() -> PathBuf {
    "pcaps".into()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: String,
    at: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    name: String,
    device_id: u64,
    grpc_server_addr: SocketAddr,
    /// BMv2 JSON. Paths are relative to the fabric file.
    program: Option<PathBuf>,
    /// P4Info of the program: controllers then find it installed.
    p4info: Option<PathBuf>,
    /// Traffic manager configuration file.
    tm: Option<PathBuf>,
    #[serde(default = "one")]
    priority_queues: u8,
    cpu_port: Option<u16>,
    #[serde(default = "default_drop_port")]
    drop_port: u16,
    /// Port number to the name of a network interface.
    #[serde(default)]
    interfaces: BTreeMap<String, String>,
}

/// Rate and delay are in the profiles of the two ports.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    a: String,
    b: String,
}

fn one() -> u8 {
    1
}

fn default_drop_port() -> u16 {
    511
}

impl SwitchEntry {
    fn resolve(self, file: &Path, directory: &Path) -> Result<SwitchSettings, FileError> {
        let fail =
            |problem: &str| FileError::new(file, format!("switch \"{}\": {problem}", self.name));
        if !(1..=32).contains(&self.priority_queues) {
            return Err(fail("priority_queues must be 1 to 32"));
        }
        if self.p4info.is_some() && self.program.is_none() {
            return Err(fail("p4info needs a program"));
        }
        let mut interfaces = Vec::new();
        for (port, interface) in &self.interfaces {
            let port = port.parse().ok().filter(|port| *port < 512u16);
            let port = port.ok_or_else(|| fail("ports in `interfaces` must be 0 to 511"))?;
            interfaces.push((port, interface.clone()));
        }
        let traffic_manager = match &self.tm {
            Some(path) => read_traffic_manager_config(&directory.join(path))?,
            None => TrafficManagerConfig::like_bmv2(self.priority_queues),
        };
        Ok(SwitchSettings {
            name: self.name,
            device_id: self.device_id,
            grpc_server_addr: self.grpc_server_addr,
            program: self.program.map(|p| directory.join(p)),
            p4info: self.p4info.map(|p| directory.join(p)),
            traffic_manager,
            interfaces,
            cpu_port: self.cpu_port,
            drop_port: self.drop_port,
        })
    }
}

#[cfg(test)]
mod tests {
    use ebb_testkit::Folder;

    use super::*;

    const TWO: &str = r#"
        fabric_socket = "fabric.sock"
        rings = "rings"
        [[switch]]
        name = "s1"
        device_id = 1
        grpc_server_addr = "127.0.0.1:9501"
        interfaces = { 1 = "s1-eth1" }
        [[switch]]
        name = "s2"
        device_id = 2
        grpc_server_addr = "127.0.0.1:9502"
        program = "fabric.json"
        cpu_port = 510
    "#;

    fn read(folder: &Folder, name: &str, text: &str) -> Result<Settings, String> {
        let file = folder.write(name, text);
        Settings::from_fabric_file(&file).map_err(|e| e.to_string())
    }

    #[test]
    fn a_fabric_file_names_switches_and_links() {
        let host = "[[host]]\nname = \"h1\"\nat = \"s1:1\"\n";
        let program = "[program]\njson = \"p.json\"\np4info = \"p.txtpb\"\ncookie = 7\n";
        let text = format!("{TWO}\n[[link]]\na = \"s1:2\"\nb = \"s2:1\"\n{host}{program}");
        let folder = Folder::new("settings");
        let settings = read(&folder, "good.toml", &text).expect("accepted");
        assert_eq!(settings.links, [[(0, 2), (1, 1)]]);
        assert_eq!(settings.hosts, [("h1".to_owned(), (0, 1))]);
        assert_eq!(settings.fabric_socket, Some(folder.join("fabric.sock")));
        assert_eq!(settings.captures, folder.join("pcaps"));
        assert_eq!(settings.rings, Some(folder.join("rings")));
        assert_eq!(settings.switches[0].interfaces, [(1, "s1-eth1".to_owned())]);
        let program = settings.switches[1].program.as_ref().expect("a program");
        assert_eq!(*program, folder.join("fabric.json"));
        let common = settings.program.expect("a program");
        assert_eq!(
            [common.json, common.p4info],
            ["p.json", "p.txtpb"].map(|name| folder.join(name))
        );
        assert_eq!(common.cookie, 7);
    }

    #[test]
    fn mistakes_name_their_place() {
        let folder = Folder::new("settings");
        let with = |rest: &str| format!("{TWO}\n{rest}");
        for (name, text, expected) in [
            (
                "link.toml",
                with("[[link]]\na = \"s1:2\"\nb = \"s3:1\""),
                "\"s3:1\": no such switch; defined: s1, s2",
            ),
            (
                "end.toml",
                with("[[link]]\na = \"s1\"\nb = \"s2:1\""),
                "\"s1\": expected \"SWITCH:PORT\"",
            ),
            (
                "host.toml",
                with("[[host]]\nname = \"h1\"\nat = \"s1:2\""),
                "at \"s1:2\": that port is not among the `interfaces`",
            ),
            (
                "name.toml",
                with("[[host]]\nname = \"s2\"\nat = \"s1:1\""),
                "two nodes have the name \"s2\"",
            ),
            (
                "twice.toml",
                TWO.replace("s2", "s1"),
                "\"s1\" is defined twice",
            ),
            (
                "addr.toml",
                TWO.replace("9502", "9501"),
                "the same grpc_server_addr",
            ),
            (
                "interface.toml",
                TWO.replace("cpu_port", "interfaces = { 4 = \"s1-eth1\" }\ncpu_port"),
                "switches \"s1\" and \"s2\" have the same interface, \"s1-eth1\"",
            ),
            (
                "key.toml",
                with("[[links]]"),
                "unknown field `links`, expected",
            ),
            (
                "program.toml",
                with("[program]\njson = \"p.json\""),
                "missing field `p4info`",
            ),
            ("none.toml", String::new(), "add a [[switch]]"),
            ("none.yaml", String::new(), "must end in .toml or .json"),
            (
                "port.toml",
                TWO.replace("1 = \"s1", "512 = \"s1"),
                "switch \"s1\": ports in `interfaces`",
            ),
        ] {
            let message = read(&folder, name, &text).expect_err(name);
            assert!(message.contains(expected), "{message}\nlacks {expected}");
        }
    }

    #[test]
    fn packets_for_the_controller_are_not_dropped() {
        let folder = Folder::new("settings");
        let with = |drop: &str| format!("{TWO}\ndrop_port = {drop}");
        for (drop, told) in [("510", Some("s2: port 510 is both")), ("511", None)] {
            let settings = read(&folder, "drop.toml", &with(drop)).expect("accepted");
            let checked = settings.switches[1].check();
            match told {
                Some(words) => assert!(checked.expect_err("refused").starts_with(words)),
                None => assert_eq!(checked, Ok(())),
            }
        }
    }

    #[test]
    fn an_interface_is_of_one_port() {
        let folder = Folder::new("settings");
        let text = TWO.replace("1 = \"s1-eth1\"", "1 = \"s1-eth1\", 7 = \"s1-eth1\"");
        let settings = read(&folder, "same.toml", &text).expect("accepted");
        let told = settings.switches[0].check().expect_err("refused");
        assert!(
            told.starts_with("s1: ports 1 and 7 are on one interface"),
            "{told}"
        );
    }

    #[test]
    fn a_device_is_no_fabric_file() {
        let folder = Folder::new("settings");
        let zeros = folder.join("zeros.toml");
        std::os::unix::fs::symlink("/dev/zero", &zeros).unwrap();
        let device = Path::new("/dev/zero");
        for (file, problem) in [(&*zeros, "not an ordinary file"), (device, "must end in")] {
            let told = Settings::from_fabric_file(file).expect_err("refused");
            assert!(told.to_string().contains(problem), "{told}");
        }
    }
}
