//! The command line: the options of `simple_switch_grpc` that matter, and our own.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;
use tracing_subscriber::filter::LevelFilter;

use clap::{ArgAction, Parser, ValueEnum};
use ebb_driver::DriverOptions;
use ebb_p4runtime::MAX_MESSAGE_BYTES;
use ebb_units::Duration;

use crate::bmv2_options::Bmv2Options;

/// Least value of `--grpc-max-message-bytes`: an update of an entry with a long key, and some.
const LEAST_MESSAGE_BYTES: i64 = 4096;

/// A P4 switch for v1model programs: a drop-in for simple_switch_grpc with a real traffic manager.
///
/// Options of simple_switch_grpc that stand after `--` there may stand there here too.
#[derive(Parser, Debug)]
#[command(
    name = "ebb-switch",
    version = ebb_version::text(),
    disable_version_flag = true,
    infer_long_args = true
)]
pub struct Options {
    /// The program as BMv2 JSON (from ebb-p4c or p4c-bm2-ss); --no-p4 goes before it
    #[arg(value_name = "JSON", conflicts_with = "fabric")]
    pub program: Option<PathBuf>,

    /// The program's P4Info, text or binary. Controllers then find the program as if one of them had
    /// installed it
    #[arg(long, value_name = "FILE", requires = "program")]
    pub p4info: Option<PathBuf>,

    /// Start without a program; a controller installs one over P4Runtime
    #[arg(long)]
    pub no_p4: bool,

    /// Interpret programs instead of compiling them to native code: slower, the same results
    #[arg(long)]
    pub no_native: bool,

    /// Put a port on a network interface; repeat for each port
    #[arg(
        short,
        long = "interface",
        value_name = "PORT@INTERFACE",
        conflicts_with = "fabric"
    )]
    pub interfaces: Vec<PortOnInterface>,

    /// By which controllers call the switch; a whole number
    #[arg(
        long,
        value_name = "ID",
        default_value_t = 0,
        conflicts_with = "fabric"
    )]
    pub device_id: u64,

    /// Where P4Runtime, the traffic manager and the trace are served. 0.0.0.0:PORT: for every machine that
    /// reaches this one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559", value_parser = address)]
    pub grpc_server_addr: SocketAddr,

    /// Let clients of P4Runtime change the switch that open no stream and send no election id, as BMv2 does, while no
    /// controller is connected; a stream without an election id has 0
    #[arg(long)]
    pub p4runtime_without_arbitration: bool,

    /// Also serve BF Runtime, for a program of this schema (bf-rt.json), to any client; its name is that of the
    /// program's file
    #[arg(
        long,
        value_name = "FILE",
        requires = "program",
        conflicts_with = "fabric"
    )]
    pub bf_rt_schema: Option<PathBuf>,

    /// The longest request that is taken
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = MAX_MESSAGE_BYTES as u32,
        value_parser = clap::value_parser!(u32).range(LEAST_MESSAGE_BYTES..)
    )]
    pub grpc_max_message_bytes: u32,

    /// Serve gRPC over TLS
    #[arg(long, requires_all = ["grpc_server_cert", "grpc_server_key"])]
    pub grpc_server_ssl: bool,

    /// The server's certificate, PEM, with its chain
    #[arg(long, value_name = "FILE", requires = "grpc_server_ssl")]
    pub grpc_server_cert: Option<PathBuf>,

    /// The private key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "grpc_server_ssl")]
    pub grpc_server_key: Option<PathBuf>,

    /// The authority that signs the certificates of clients, PEM
    #[arg(long, value_name = "FILE", requires = "grpc_server_with_client_auth")]
    pub grpc_server_cacert: Option<PathBuf>,

    /// Only clients with a certificate of that authority may connect (mutual TLS)
    #[arg(long, requires_all = ["grpc_server_ssl", "grpc_server_cacert"])]
    pub grpc_server_with_client_auth: bool,

    /// The port whose packets are packet-ins and packet-outs
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=511))]
    pub cpu_port: Option<u16>,

    /// The egress_spec that drops
    #[arg(long, value_name = "PORT", default_value_t = 511, value_parser = clap::value_parser!(u16).range(0..=511))]
    pub drop_port: u16,

    /// Queues per port where no traffic manager configuration says otherwise; 1 with a program for Tofino: all 32
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub priority_queues: u8,

    /// Traffic manager configuration, .toml or .json
    #[arg(long, value_name = "FILE", conflicts_with = "fabric")]
    pub tm: Option<PathBuf>,

    /// Several switches and the links between them in this process, .toml or .json
    #[arg(long, value_name = "FILE")]
    pub fabric: Option<PathBuf>,

    /// Threads that the switches of a fabric are spread over, neighbours together; links without
    /// delay keep switches in one. 0: one for each processor
    #[arg(long, value_name = "N", default_value_t = 1, requires = "fabric")]
    pub threads: usize,

    /// How long frames that arrive or are due to leave may wait for more of them, in microseconds.
    /// Saves processor time; queues and rates stay the same
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub coalesce_us: u32,

    /// Whether packets are handled before all else that the machine has to do, where that is
    /// permitted. Otherwise a busy machine makes a slow switch
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub realtime: Realtime,

    /// Whether frames are sent by threads of their own, one for each that handles packets
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub senders: Senders,

    /// How frames come from the interfaces; where that is not possible, a line says so and sockets are used
    #[arg(long, value_name = "HOW", default_value = "ring")]
    pub io: FrameIo,

    /// Capture each interface to INTERFACE_in.pcap and INTERFACE_out.pcap in DIR, and ports inside
    /// a fabric to SWITCH-ethPORT_in.pcap and _out.pcap
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub pcap: Option<PathBuf>,

    /// Print to stdout what happens to packets, step by step: those that come in at these ports, written
    /// PORT, or SWITCH or SWITCH:PORT in a fabric; without any, all packets. They are interpreted,
    /// others are as fast as ever
    #[arg(long, value_name = "PORT,..", num_args = 0..=1, value_delimiter = ',', default_missing_value = "")]
    pub trace: Option<Vec<TracePoint>>,

    /// End --trace after this many packets
    #[arg(long, value_name = "N", requires = "trace")]
    pub trace_packets: Option<u64>,

    /// Format of the statistics on stderr at the end: the drops as a table, or all statistics as JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub report: ReportFormat,

    /// Write the log to FILE.txt instead of stderr
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,

    /// Detail of the log: at level debug also where packets come in, wait, leave or are dropped, at level trace every
    /// step of them. Packets are then interpreted, which is slower
    #[arg(short = 'L', long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogLevel,

    /// Log this many bytes of each packet that comes in and that leaves, at level info. Packets are then
    /// interpreted, which is slower
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub dump_packet_data: usize,

    /// The version of the BMv2 JSON format that is understood
    #[arg(long)]
    pub json_version: bool,

    /// Print version
    #[arg(short = 'v', short_alias = 'V', long, action = ArgAction::Version)]
    pub version: Option<bool>,

    #[command(flatten)]
    pub bmv2: Bmv2Options,
}

/// An address, or the name of a host with a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().or_else(|_| {
        let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
        found.ok_or_else(|| "expected a socket address, as in 127.0.0.1:9559".to_owned())
    })
}

impl Options {
    pub fn driver(&self) -> DriverOptions {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = match self.threads {
            0 => processors,
            threads => threads,
        };
        DriverOptions {
            threads,
            coalesce: Duration::from_micros(self.coalesce_us.into()),
            senders: match self.senders {
                Senders::Auto => self.fabric.is_some() && 2 * threads <= processors,
                Senders::On => true,
                Senders::Off => false,
            },
            realtime: match self.realtime {
                Realtime::Auto => self.fabric.is_some() && threads < processors,
                Realtime::On => true,
                Realtime::Off => false,
            },
        }
    }

    /// Parses arguments, with the `--` between BMv2's general and target options taken out.
    pub fn parse_arguments(arguments: impl IntoIterator<Item = OsString>) -> Self {
        Self::parse_from(without_separator(arguments))
    }
}

fn without_separator(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<_> = arguments.into_iter().collect();
    if let Some(separator) = arguments.iter().position(|a| a == "--") {
        arguments.remove(separator);
    }
    arguments
}

/// Ports at which traced packets come in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePoint {
    /// Name of the switch. None: any switch.
    pub switch: Option<String>,
    /// None: any port.
    pub port: Option<u16>,
}

impl FromStr for TracePoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.parse().ok();
        let (switch, port) = match text.rsplit_once(':') {
            _ if text.is_empty() => (None, None),
            None if port(text).is_some() => (None, port(text)),
            None => (Some(text.to_owned()), None),
            Some((switch, number)) => match port(number) {
                Some(number) => (Some(switch.to_owned()), Some(number)),
                None => {
                    return Err(format!(
                        "\"{number}\" is no port number; expected PORT, SWITCH or SWITCH:PORT"
                    ));
                }
            },
        };
        Ok(Self { switch, port })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Realtime {
    /// For a fabric whose threads leave a processor to others
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Senders {
    /// For a fabric, where there are twice as many processors as threads
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FrameIo {
    /// Mapped receive rings (TPACKET_V2): 128 MB for all ports together
    Ring,
    /// System calls: recvmmsg
    Sockets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Table,
    Json,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
    Off,
}

impl LogLevel {
    pub fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Trace => LevelFilter::TRACE,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Off => LevelFilter::OFF,
        }
    }
}

/// `PORT@INTERFACE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOnInterface {
    pub port: u16,
    pub interface: String,
}

impl FromStr for PortOnInterface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('@').and_then(|(port, interface)| {
            let port = port.parse::<u16>().ok().filter(|port| *port < 512)?;
            (!interface.is_empty()).then(|| Self {
                port,
                interface: interface.to_owned(),
            })
        });
        parsed.ok_or_else(|| {
            "expected PORT@INTERFACE with a port from 0 to 511, as in 1@veth0".into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        let arguments = line.split_whitespace().map(OsString::from);
        Options::try_parse_from(without_separator(arguments))
    }

    #[test]
    fn the_command_line_of_simple_switch_grpc_is_understood() {
        let o = parse(
            "ebb-switch --device-id 3 -i 1@veth0 -i 2@veth2 --thrift-port 9090 --log-console \
             -L debug fabric.json -- --grpc-server-addr 127.0.0.1:50051 --cpu-port 510 \
             --drop-port 511 --priority-queues 8",
        )
        .expect("accepted");
        assert_eq!(o.device_id, 3);
        assert_eq!(o.interfaces[1].port, 2);
        assert_eq!(o.interfaces[1].interface, "veth2");
        assert_eq!(o.grpc_server_addr.port(), 50051);
        assert_eq!(o.program, Some(PathBuf::from("fabric.json")));
        assert_eq!(
            (o.cpu_port, o.drop_port, o.priority_queues),
            (Some(510), 511, 8)
        );
    }

    /// All options of both, as in scripts of others.
    #[test]
    fn every_option_of_bmv2_is_taken_and_told_if_it_does_nothing() {
        let o = parse(
            "simple_switch_grpc --no-p4 -i1@veth0 --pcap=pcaps --use-files 0 --packet-in ipc:///tmp/p \
             --thrift-port 9090 --device-id 0 --nanolog ipc:///tmp/bm-0-log.ipc --log-file logs/s1 \
             --log-level trace --log-flush --log-file-max-size 5242880 --log-file-max-files 3 \
             --notifications-addr ipc:///tmp/n --debugger --debugger-addr ipc:///tmp/d \
             --restore-state state --dump-packet-data 64 --max-port-count 8 a.json -- --disable-swap \
             --enable-swap --grpc-server-addr 0.0.0.0:50051 --dp-grpc-server-addr 0.0.0.0:50052 \
             --max-mc-groups 10 --max-l1-entries 20 --max-l2-entries 30 --load-modules=a.so,b.so \
             --priority-queues 8 --drop-port 511 --cpu-port 255",
        )
        .expect("accepted");
        assert_eq!(o.grpc_server_addr.to_string(), "0.0.0.0:50051");
        assert_eq!(o.log_file, Some(PathBuf::from("logs/s1")));
        assert_eq!(o.dump_packet_data, 64);
        let notes = o.bmv2.notes();
        assert_eq!(notes.len(), 13, "{notes:?}");
        assert!(notes.iter().all(|note| !note.contains('\n')));
        // Long options may be cut short there.
        let o = parse("simple_switch --log-con --thrift 9090 a.json").expect("accepted");
        assert!(o.bmv2.log_console);
        assert_eq!(o.bmv2.notes().len(), 1);
        for version in ["-v", "-V", "--version"] {
            let shown = parse(&format!("simple_switch {version}")).expect_err("ends");
            assert_eq!(shown.kind(), clap::error::ErrorKind::DisplayVersion);
        }
    }

    #[test]
    fn by_default_only_this_machine_connects() {
        let o = parse("ebb-switch --no-p4").expect("accepted");
        assert_eq!(o.grpc_server_addr.to_string(), "127.0.0.1:9559");
        let o = parse("ebb-switch --no-p4 --grpc-server-addr localhost:50051").expect("accepted");
        assert!(o.grpc_server_addr.ip().is_loopback());
        assert_eq!(o.grpc_max_message_bytes, 16 << 20);
    }

    #[test]
    fn pcap_without_a_directory_is_the_current_one() {
        let o = parse("ebb-switch --no-p4 --pcap").expect("accepted");
        assert_eq!(o.pcap, Some(PathBuf::from(".")));
        let o = parse("ebb-switch --no-p4 --pcap run/pcap -i 1@a").expect("accepted");
        assert_eq!(o.pcap, Some(PathBuf::from("run/pcap")));
    }

    #[test]
    fn a_fabric_that_leaves_a_processor_to_others_runs_in_real_time() {
        let realtime = |line| parse(line).expect("accepted").driver().realtime;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(realtime("ebb-switch --fabric f.toml"), processors > 1);
        assert!(!realtime("ebb-switch --fabric f.toml --threads 0"));
        assert!(!realtime("ebb-switch --no-p4 -i 1@a"));
        assert!(realtime("ebb-switch --no-p4 -i 1@a --realtime on"));
        assert!(!realtime("ebb-switch --fabric f.toml --realtime off"));
    }

    #[test]
    fn a_fabric_with_processors_to_spare_has_senders() {
        let senders = |line| parse(line).expect("accepted").driver().senders;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(senders("ebb-switch --fabric f.toml"), processors > 1);
        assert!(!senders("ebb-switch --fabric f.toml --threads 0"));
        assert!(!senders("ebb-switch --no-p4 -i 1@a"));
        assert!(senders("ebb-switch --no-p4 -i 1@a --senders on"));
        assert!(!senders("ebb-switch --fabric f.toml --senders off"));
    }

    #[test]
    fn wrong_values_are_explained() {
        for (line, expected) in [
            ("ebb-switch -i veth0", "expected PORT@INTERFACE"),
            ("ebb-switch -i 512@veth0", "from 0 to 511"),
            ("ebb-switch --priority-queues 33", "1..=32"),
            ("ebb-switch --grpc-server-addr 9559", "socket address"),
            (
                "ebb-switch --grpc-max-message-bytes 0",
                "0 is not in 4096..",
            ),
        ] {
            let message = parse(line).expect_err("refused").to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
