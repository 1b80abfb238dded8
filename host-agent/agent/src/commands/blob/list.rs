//! `ebb-agent blob list`.

use clap::Args;
use ebb_blob::{Action, List, ListOutcome};
use ebb_printable::printable;
use serde_json::json;

use super::link::{self, Address, Link};
use crate::commands::output::Output;
use crate::machine::clock;

#[derive(Args, Debug)]
pub struct ListArgs {
    /// Address of the locator: IP:PORT, or the path of a socket
    #[arg(long, value_name = "ADDRESS", default_value = link::DEFAULT)]
    pub locator: Address,
    /// One JSON object per line, also on a terminal
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &ListArgs) -> anyhow::Result<bool> {
    let mut link = Link::new(&args.locator);
    let mut list = List::new(clock::now());
    while list.outcome().is_none() {
        let now = clock::now();
        if let Some(Action::Ask(ask)) = list.poll(now) {
            let id = ask.id;
            if let Some(reply) = link.ask(ask) {
                list.handle_reply(clock::now(), id, reply);
            }
        } else if let Some(deadline) = list.next_deadline() {
            std::thread::sleep(deadline.since(clock::now()).into());
        }
    }
    let output = Output::new(args.json);
    match list.outcome() {
        Some(ListOutcome::Blobs(blobs)) => {
            for blob in blobs {
                let line = json!({"did": "list", "name": blob.name, "bytes": blob.bytes, "version": blob.version});
                let name = printable(&blob.name);
                output.report("blob", [line], || {
                    format!("{:>14} version {:<6} {name}", blob.bytes, blob.version)
                });
            }
            Ok(true)
        }
        Some(ListOutcome::Failed(reason)) => anyhow::bail!("{reason} (at {})", args.locator),
        None => Ok(false),
    }
}
