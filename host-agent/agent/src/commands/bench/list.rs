//! `ebb-agent workload`: the transfers as JSON lines.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::Args;

use super::file::WorkloadFile;

#[derive(Args, Debug)]
pub struct ListArgs {
    /// Workload (TOML or JSON by its extension)
    #[arg(value_name = "FILE")]
    pub workload: PathBuf,
    #[command(flatten)]
    pub file: WorkloadFile,
    /// Print this many from the first
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
}

pub fn list(args: &ListArgs) -> anyhow::Result<bool> {
    let (_, mut schedule) = args.file.open(&args.workload)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut left = args.limit.unwrap_or(u64::MAX);
    let result = loop {
        if left == 0 {
            break out.flush();
        }
        left -= 1;
        let Some(transfer) = schedule.next() else {
            break out.flush();
        };
        let line = serde_json::to_string(&transfer.line(schedule.hosts()))?;
        if let Err(error) = writeln!(out, "{line}") {
            break Err(error);
        }
    };
    match result {
        // The reader has closed the pipe: it has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(true),
    }
}
