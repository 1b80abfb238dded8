//! `ebb-agent blob repair`.

use std::time::Duration;

use anyhow::{bail, ensure};
use clap::Args;
use ebb_blob::{Ask, Progress, Reply, Request, Stamp, Status};
use serde_json::json;

use super::link::{self, Address, Link};
use crate::commands::output::Output;

/// How often the locator is asked how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// How often in a row it may be silent.
const ATTEMPTS: u32 = 10;

#[derive(Args, Debug)]
pub struct RepairArgs {
    /// Address of the locator: IP:PORT, or the path of a socket
    #[arg(long, value_name = "ADDRESS", default_value = link::DEFAULT)]
    pub locator: Address,
    /// Change nothing: print the state of the store
    #[arg(long)]
    pub status: bool,
    /// One JSON object per line, also on a terminal
    #[arg(long)]
    pub json: bool,
}

/// Whether in the end every tract is on all replicas of its row, and all servers are alive.
pub fn run(args: &RepairArgs) -> anyhow::Result<bool> {
    let mut link = Link::new(&args.locator);
    let output = Output::new(args.json);
    if args.status {
        let status = ask_status(&mut link, &args.locator)?;
        return Ok(report(&output, &status));
    }
    let before = ask_status(&mut link, &args.locator)?;
    ensure!(
        before.servers.iter().any(|server| server.alive),
        "no server is alive, so that there is nothing to copy from or to; start replicas: \
         ebb-agent blob replica"
    );
    let repair = match ask(&mut link, &args.locator, &Request::Repair {})? {
        Reply::Repairing { repair } => repair,
        other => bail!("the locator answers another question: {other:?}"),
    };
    loop {
        std::thread::sleep(LOOK);
        let status = ask_status(&mut link, &args.locator)?;
        let alive = || status.servers.iter().filter(|server| server.alive);
        let done = |progress: &Progress| progress.repair == repair && progress.done;
        let finished = alive()
            .filter(|server| server.repair.as_ref().is_some_and(done))
            .count();
        let checked: u64 = alive().map(|server| checked(server.repair, repair)).sum();
        output.progress(
            &format!("{checked} tracts checked"),
            finished as u64,
            Some(alive().count() as u64),
        );
        if args.json {
            let line = json!({"did": "repair", "checked": checked, "servers_done": finished});
            output.report("progress", [line], String::new);
        }
        if finished == alive().count() {
            output.end();
            return Ok(report(&output, &status));
        }
    }
}

fn checked(progress: Option<Progress>, repair: Stamp) -> u64 {
    let progress = progress.filter(|progress| progress.repair == repair);
    progress.map_or(0, |progress| progress.checked)
}

fn ask(link: &mut Link, address: &Address, request: &Request) -> anyhow::Result<Reply> {
    for id in 1..=u64::from(ATTEMPTS) {
        let request = request.clone();
        if let Some(reply) = link.ask(Ask { id, request }) {
            return Ok(reply);
        }
        std::thread::sleep(LOOK);
    }
    bail!("no locator answers at {address}; start one: ebb-agent blob locator")
}

fn ask_status(link: &mut Link, address: &Address) -> anyhow::Result<Status> {
    match ask(link, address, &Request::Status {})? {
        Reply::Status(status) => Ok(status),
        other => bail!("the locator answers another question: {other:?}"),
    }
}

/// Prints the state. True: every tract is on all replicas of its row, and all servers are alive.
fn report(output: &Output, status: &Status) -> bool {
    let Status {
        blobs,
        tracts,
        short,
        lost,
        ..
    } = *status;
    let rows = status.table.rows.iter();
    let rows: Vec<_> = rows
        .map(|row| json!({"version": row.version, "replicas": row.replicas, "group": row.group()}))
        .collect();
    let line = json!({
        "did": "repair", "blobs": blobs, "tracts": tracts, "short": short, "lost": lost,
        "servers": status.servers, "rows": rows,
    });
    let mut text = format!("{blobs} blobs, {tracts} tracts");
    text += &match (short, lost) {
        (0, 0) => ", each on all its replicas".to_owned(),
        _ => format!(": {short} with too few copies, {lost} without any"),
    };
    for server in &status.servers {
        let state = if server.alive { "alive" } else { "SILENT" };
        text += &format!("\n  {} {state}, in {} rows", server.address, server.rows);
        if let Some(progress) = server.repair {
            let Progress {
                checked,
                damaged,
                copied,
                copied_bytes,
                failed,
                deleted,
                ..
            } = progress;
            text += &format!(
                ": {checked} tracts checked, {damaged} damaged, {copied} copied ({copied_bytes} bytes), \
                 {failed} not to be had, {deleted} files deleted"
            );
        }
    }
    output.report("blob", [line], || text);
    short == 0 && status.servers.iter().all(|server| server.alive)
}
