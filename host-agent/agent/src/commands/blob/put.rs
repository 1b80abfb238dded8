//! `ebb-agent blob put`.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use ebb_blob::{Action, MAX_TRACTS, Piece, Put, PutOutcome};
use serde_json::json;

use super::args::{StoreArgs, TRACT_BYTES};
use super::link::Link;
use super::transfers::{Transfers, memory};
use crate::commands::output::Output;
use crate::commands::session::{self, Needs};
use crate::machine::clock;
use crate::machine::folder::sha256;

#[derive(Args, Debug)]
pub struct PutArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The file
    pub file: PathBuf,
    /// Name of the blob; by default that of the file
    #[arg(long)]
    pub name: Option<String>,
    /// Send each tract once, to the multicast group of its replicas (docs/blob-store.md)
    #[arg(long)]
    pub multicast: bool,
}

pub fn run(args: &PutArgs) -> anyhow::Result<bool> {
    let shown = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot open {shown}"))?;
    let metadata = file
        .metadata()
        .with_context(|| format!("cannot read {shown}"))?;
    ensure!(metadata.is_file(), "{shown} is not a regular file");
    let pieces = pieces(&file, metadata.len()).with_context(|| format!("cannot read {shown}"))?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => args
            .file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    };
    let common = &args.store.common;
    let transport = common.transport;
    ensure!(
        transport.entry().groups || !args.multicast,
        "{transport} cannot send to a group; leave out --multicast, or take another --transport"
    );
    let output = Output::new(common.engine.json);
    session::run(&common.engine, Needs::default(), |client| {
        let mut link = Link::new(&args.store.locator);
        let mut transfers = Transfers::new(client, transport);
        let mut put = Put::new(clock::now(), &name, pieces.clone(), args.multicast);
        while put.outcome().is_none() {
            while let Some(action) = put.poll(clock::now()) {
                match action {
                    Action::Ask(ask) => {
                        let id = ask.id;
                        if let Some(reply) = link.ask(ask) {
                            put.handle_reply(clock::now(), id, reply);
                        }
                    }
                    Action::Store(store) => {
                        let content = tract(&file, store.tract.index, &pieces)?;
                        transfers.store(&store, &content)?;
                    }
                    Action::Fetch(_) => {}
                }
            }
            if put.outcome().is_some() {
                break;
            }
            let (done, total) = put.progress();
            output.progress(&name, done, Some(total));
            let patience = put
                .next_deadline()
                .map(|deadline| deadline.since(clock::now()));
            if let Some(ended) = transfers.wait(patience)? {
                put.handle_stored(ended.transfer, ended.result);
            }
        }
        output.end();
        Ok(put
            .outcome()
            .is_some_and(|outcome| report(&output, &name, metadata.len(), outcome)))
    })
}

/// Prints the outcome. True: the blob is stored.
fn report(output: &Output, name: &str, bytes: u64, outcome: &PutOutcome) -> bool {
    let (status, version, reason) = match outcome {
        PutOutcome::Stored { version, .. } => ("stored", Some(*version), None),
        PutOutcome::Conflict { version } => {
            let reason =
                "somebody else has written this name meanwhile; nothing of this put is visible";
            ("conflict", Some(*version), Some(reason.to_owned()))
        }
        PutOutcome::Failed(reason) => ("failed", None, Some(reason.clone())),
        PutOutcome::Unknown(reason) => {
            let reason = format!("it is not known whether it is stored: {reason}");
            ("unknown", None, Some(reason))
        }
    };
    let mut line = json!({"did": "put", "name": name, "bytes": bytes, "status": status});
    if let Some(version) = version {
        line["version"] = version.into();
    }
    if let Some(reason) = &reason {
        line["reason"] = reason.as_str().into();
    }
    let mut text = match (&reason, version) {
        (Some(reason), _) => format!("{name}: NOT STORED ({status}): {reason}"),
        (None, version) => format!(
            "{name}: {bytes} bytes are stored, version {}",
            version.unwrap_or(0)
        ),
    };
    if let PutOutcome::Stored { lacking, .. } = outcome
        && !lacking.is_empty()
    {
        line["lacking"] = json!(lacking);
        for (server, why) in lacking {
            text += &format!("\n  {server} lacks tracts until the next repair: {why}");
        }
    }
    output.report("blob", [line], || text);
    matches!(outcome, PutOutcome::Stored { .. })
}

fn pieces(file: &File, bytes: u64) -> anyhow::Result<Vec<Piece>> {
    let tracts = bytes.div_ceil(TRACT_BYTES);
    ensure!(
        tracts <= MAX_TRACTS as u64,
        "it has {bytes} bytes; a blob has at most {}",
        MAX_TRACTS as u64 * TRACT_BYTES
    );
    let mut pieces = Vec::new();
    for index in 0..tracts {
        let start = index * TRACT_BYTES;
        let mut part = Part {
            file,
            offset: start,
            end: bytes.min(start + TRACT_BYTES),
        };
        let bytes = part.end - start;
        pieces.push(Piece {
            bytes,
            sha256: sha256(&mut part)?,
        });
    }
    Ok(pieces)
}

/// A part of a file, read without moving its offset.
struct Part<'a> {
    file: &'a File,
    offset: u64,
    end: u64,
}

impl std::io::Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min((self.end - self.offset) as usize);
        let n = self.file.read_at(&mut buffer[..most], self.offset)?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// A tract as a file of its own.
fn tract(file: &File, index: u32, pieces: &[Piece]) -> anyhow::Result<File> {
    let offset = u64::from(index) * TRACT_BYTES;
    let bytes = pieces[index as usize].bytes;
    let mut part = Part {
        file,
        offset,
        end: offset + bytes,
    };
    let mut content = memory()?;
    let copied = std::io::copy(&mut part, &mut content).context("cannot read the file")?;
    ensure!(
        copied == bytes,
        "the file has become shorter while it was being stored"
    );
    content.seek(SeekFrom::Start(0))?;
    Ok(content)
}
