//! `ebb-agent blob get`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use ebb_blob::{Action, Digest, Get, GetOutcome};
use serde_json::json;

use super::args::{StoreArgs, TRACT_BYTES};
use super::link::Link;
use super::transfers::{Transfers, memory};
use crate::commands::output::Output;
use crate::commands::session::{self, Needs};
use crate::machine::clock;
use crate::machine::files::{Existing, Temporary, open_directory};
use crate::machine::folder::sha256;

#[derive(Args, Debug)]
pub struct GetArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Name of the blob
    pub name: String,
    /// File to write or replace
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Content that is on its way: which tract, and where it goes.
type Coming = BTreeMap<u64, (u32, File)>;

pub fn run(args: &GetArgs) -> anyhow::Result<bool> {
    let common = &args.store.common;
    let shown = args.output.display();
    let file_name = args
        .output
        .file_name()
        .with_context(|| format!("{shown} names no file"))?;
    let parent = args
        .output
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = Arc::new(open_directory(parent.unwrap_or(std::path::Path::new(".")))?);
    let mut temporary = Temporary::create(directory, &format!("get-{}", std::process::id()))?;
    let output = Output::new(common.engine.json);
    let name = &args.name;
    let needs = Needs {
        linger: true,
        ..Needs::default()
    };
    let (shown, output) = (&shown, &output);
    session::run(&common.engine, needs, move |client| {
        let mut link = Link::new(&args.store.locator);
        let mut transfers = Transfers::new(client, common.transport);
        let mut get = Get::new(clock::now(), name, common.transport.entry().many_to_one);
        let mut coming = Coming::new();
        while get.outcome().is_none() {
            act(&mut get, &mut link, &mut transfers, &mut coming)?;
            if get.outcome().is_some() {
                break;
            }
            let (done, total) = get.progress();
            output.progress(name, done, Some(total));
            let patience = get
                .next_deadline()
                .map(|deadline| deadline.since(clock::now()));
            let Some(ended) = transfers.wait(patience)? else {
                continue;
            };
            let Some((index, mut content)) = coming.remove(&ended.transfer) else {
                continue;
            };
            let digest = ended.result.and_then(|()| digest(&mut content));
            if get.handle_fetched(ended.transfer, digest) {
                write(&mut content, temporary.file(), index)
                    .with_context(|| format!("cannot write {shown}"))?;
            }
        }
        output.end();
        let Some(outcome) = get.outcome() else {
            return Ok(false);
        };
        if let GetOutcome::Got(got) = outcome {
            // An earlier content, of which some had come, may have been longer.
            temporary.file().set_len(got.blob.bytes())?;
            // Before anybody reads that it is there, and before packets that come late are answered.
            temporary.keep(&file_name.to_string_lossy(), Existing::Replace)?;
        }
        Ok(report(output, name, outcome))
    })
}

/// Asks the locator and fetches tracts, until `get` waits for one that is on its way.
fn act(
    get: &mut Get,
    link: &mut Link,
    transfers: &mut Transfers,
    coming: &mut Coming,
) -> anyhow::Result<()> {
    while let Some(action) = get.poll(clock::now()) {
        match action {
            Action::Ask(ask) => {
                let id = ask.id;
                if let Some(reply) = link.ask(ask) {
                    get.handle_reply(id, reply);
                }
            }
            Action::Fetch(fetch) => {
                let content = memory()?;
                transfers.fetch(&fetch, &content)?;
                coming.insert(fetch.transfer, (fetch.tract.index, content));
            }
            Action::Store(_) => {}
        }
    }
    Ok(())
}

fn digest(content: &mut File) -> Result<Digest, String> {
    let mut read = || {
        content.seek(SeekFrom::Start(0))?;
        sha256(&mut *content)
    };
    read().map_err(|error| error.to_string())
}

fn write(content: &mut File, to: &File, index: u32) -> std::io::Result<()> {
    content.seek(SeekFrom::Start(0))?;
    let mut offset = u64::from(index) * TRACT_BYTES;
    let mut part = vec![0; 1 << 18];
    loop {
        let n = content.read(&mut part)?;
        if n == 0 {
            return Ok(());
        }
        to.write_all_at(&part[..n], offset)?;
        offset += n as u64;
    }
}

/// Prints the outcome. False: there is no such blob, or not all of it.
fn report(output: &Output, name: &str, outcome: &GetOutcome) -> bool {
    let line = json!({"did": "get", "name": name});
    match outcome {
        GetOutcome::Got(got) => {
            let (bytes, version) = (got.blob.bytes(), got.blob.version);
            let mut fields = json!({"status": "got", "bytes": bytes, "version": version});
            let mut text = format!("{name}: {bytes} bytes, version {version}");
            if !got.complaints.is_empty() {
                fields["complaints"] = json!(got.complaints);
                for (server, why) in &got.complaints {
                    text += &format!("\n  {server} was of no use: {why}");
                }
            }
            output.report("blob", [line, fields], || text);
            true
        }
        GetOutcome::Missing => {
            let fields = json!({"status": "missing"});
            output.report("blob", [line, fields], || {
                format!("{name}: there is no such blob")
            });
            false
        }
        GetOutcome::Failed(reason) => {
            let fields = json!({"status": "failed", "reason": reason});
            output.report("blob", [line, fields], || {
                format!("{name}: NOT READ: {reason}")
            });
            false
        }
    }
}
