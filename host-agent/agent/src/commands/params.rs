//! `ebb-agent params`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::engine::params;

#[derive(Args, Debug)]
pub struct ParamsArgs {
    /// Parameters file; without it the defaults are printed
    #[arg(long)]
    pub params: Option<PathBuf>,
}

/// Prints what the runner slows down by the dilation before it gives it back to `send` and `recv`.
pub fn run(args: &ParamsArgs) -> anyhow::Result<bool> {
    let params = params::read(args.params.as_deref())?;
    let text = serde_json::to_string_pretty(&params)?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(true)
}
