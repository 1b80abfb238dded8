//! Options of `simple_switch` and `simple_switch_grpc` that have no effect here. They are accepted, so that
//! scripts for BMv2 run unchanged, and reported in a line each.

use clap::{ArgAction, Args};

#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Options of simple_switch_grpc without effect")]
pub struct Bmv2Options {
    #[arg(long, value_name = "PORT")]
    pub thrift_port: Option<u16>,

    #[arg(long, value_name = "ADDRESS")]
    pub nanolog: Option<String>,

    #[arg(long, value_name = "ADDRESS")]
    pub notifications_addr: Option<String>,

    #[arg(long, value_name = "ADDRESS")]
    pub packet_in: Option<String>,

    #[arg(long)]
    pub debugger: bool,

    #[arg(long, value_name = "ADDRESS")]
    pub debugger_addr: Option<String>,

    /// The log goes to stderr anyway
    #[arg(long, conflicts_with = "log_file")]
    pub log_console: bool,

    /// Every line is written at once anyway
    #[arg(long)]
    pub log_flush: bool,

    #[arg(long, value_name = "BYTES")]
    pub log_file_max_size: Option<u64>,

    #[arg(long, value_name = "N")]
    pub log_file_max_files: Option<u64>,

    #[arg(long, value_name = "FILE")]
    pub restore_state: Option<String>,

    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub use_files: Option<i64>,

    #[arg(long, value_name = "N")]
    pub max_port_count: Option<u32>,

    #[arg(long, value_name = "ADDRESS")]
    pub dp_grpc_server_addr: Option<String>,

    #[arg(long, value_name = "N")]
    pub max_mc_groups: Option<u32>,

    #[arg(long, value_name = "N")]
    pub max_l1_entries: Option<u32>,

    #[arg(long, value_name = "N")]
    pub max_l2_entries: Option<u32>,

    #[arg(long, value_name = "FILES", action = ArgAction::Append)]
    pub load_modules: Vec<String>,

    #[arg(long)]
    pub disable_swap: bool,

    #[arg(long)]
    pub enable_swap: bool,
}

impl Bmv2Options {
    /// A line for each option that was given and that has an effect in BMv2.
    pub fn notes(&self) -> Vec<String> {
        let given = [
            (
                self.thrift_port.is_some(),
                "--thrift-port",
                "there is no Thrift server; use P4Runtime",
            ),
            (
                self.nanolog.is_some(),
                "--nanolog",
                "there is no nanomsg log of events; --trace tells what happens to packets",
            ),
            (
                self.notifications_addr.is_some(),
                "--notifications-addr",
                "digests and idle timeouts are told over P4Runtime only",
            ),
            (
                self.packet_in.is_some(),
                "--packet-in",
                "packets come from interfaces and over P4Runtime only",
            ),
            (
                self.debugger || self.debugger_addr.is_some(),
                "--debugger",
                "there is none; --trace tells what happens to packets",
            ),
            (
                self.log_file_max_size.is_some() || self.log_file_max_files.is_some(),
                "--log-file-max-size, --log-file-max-files",
                "the log is one file, whatever its size",
            ),
            (
                self.restore_state.is_some(),
                "--restore-state",
                "the switch starts with the entries of its program",
            ),
            (
                self.use_files.is_some(),
                "--use-files",
                "packets come from network interfaces; ebb-stf takes them from scripts",
            ),
            (
                self.max_port_count.is_some(),
                "--max-port-count",
                "there may be 512 ports",
            ),
            (
                self.dp_grpc_server_addr.is_some(),
                "--dp-grpc-server-addr",
                "packets come from interfaces and over P4Runtime only",
            ),
            (
                self.max_mc_groups.is_some()
                    || self.max_l1_entries.is_some()
                    || self.max_l2_entries.is_some(),
                "--max-mc-groups, --max-l1-entries, --max-l2-entries",
                "multicast groups and replicas have no limit of their own",
            ),
            (
                !self.load_modules.is_empty(),
                "--load-modules",
                "there are no externs beside those of v1model",
            ),
            (
                self.disable_swap,
                "--disable-swap",
                "a controller may always install another program",
            ),
        ];
        let given = given.into_iter().filter(|(given, ..)| *given);
        given
            .map(|(_, option, instead)| format!("{option} is ignored: {instead}"))
            .collect()
    }
}
