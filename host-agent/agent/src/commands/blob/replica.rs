//! `ebb-agent blob replica`: what a host stores of the blobs, as a client of its daemon.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use ebb_blob::{Fetch, Replica, ReplicaAction};
use serde_json::json;

use super::args::{REPLICA_PORT, StoreArgs};
use super::link::Link;
use super::transfers::Transfers;
use crate::api::client::Waited;
use crate::api::message::{Disposition, Event, Listen, Operation, ToClient};
use crate::commands::output::Output;
use crate::commands::session;
use crate::machine::clock;
use crate::machine::files::{open_directory, remove_leftovers};
use crate::machine::folder::Folder;

/// File of the folder with its number.
const STORE_FILE: &str = ".store";

#[derive(Args, Debug)]
pub struct ReplicaArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Folder for the tracts, which only its owner may change; made if it is not there
    #[arg(long)]
    pub dir: PathBuf,
}

pub fn run(args: &ReplicaArgs) -> anyhow::Result<bool> {
    let folder = open_folder(&args.dir)?;
    let store = store_number(&args.dir)?;
    let common = &args.store.common;
    let mut client = session::daemon(&common.engine)?;
    let address = client.greeting["address"].as_str();
    let address = address.and_then(|address| address.parse().ok());
    let address = address.context("the daemon does not say which address it has")?;
    client.call(Operation::Serve {}, Some(folder.as_fd()))?;
    let listen = Listen {
        transport: common.transport,
        port: Some(REPLICA_PORT),
        into: Disposition::Ask,
        overwrite: false,
        announce: true,
        progress: false,
    };
    client.call(Operation::Listen(listen), None)?;
    let output = Output::new(common.engine.json);
    let ready = json!({"replica": address, "dir": args.dir});
    output.report("ready", [ready], || {
        format!("{address} stores tracts in {}", args.dir.display())
    });
    let (start, disk) = (clock::realtime_ns(), Folder(folder.clone()));
    Server {
        replica: Replica::new(clock::now(), address, store, start, disk),
        link: Link::new(&args.store.locator),
        transfers: Transfers::new(client, common.transport),
        copies: BTreeMap::new(),
        folder,
    }
    .run()
}

struct Server {
    replica: Replica<Folder>,
    link: Link,
    transfers: Transfers,
    /// Files of tracts that are being copied, by transfer.
    copies: BTreeMap<u64, String>,
    folder: Arc<OwnedFd>,
}

impl Server {
    fn run(mut self) -> anyhow::Result<bool> {
        loop {
            self.replica.set_free_bytes(free_bytes(&self.folder));
            while let Some(action) = self.replica.poll(clock::now()) {
                match action {
                    ReplicaAction::Ask(ask) => {
                        let id = ask.id;
                        if let Some(reply) = self.link.ask(ask) {
                            self.replica.handle_reply(id, reply);
                        }
                    }
                    ReplicaAction::Fetch(fetch) => self.copy(&fetch)?,
                    // Tracts that arrive do not wait for a repair.
                    ReplicaAction::Worked => {
                        if !self.serve(Some(ebb_units::Duration::ZERO))? {
                            return Ok(true);
                        }
                    }
                }
            }
            if let Some(complaint) = self.replica.take_complaint() {
                tracing::warn!("the locator: {}", ebb_printable::printable(&complaint));
            }
            let deadline = self.replica.next_deadline();
            if !self.serve(deadline.map(|deadline| deadline.since(clock::now())))? {
                return Ok(true);
            }
        }
    }

    /// Handles an event of the daemon, if one comes in time. False: this process is to end.
    fn serve(&mut self, patience: Option<ebb_units::Duration>) -> anyhow::Result<bool> {
        match self.transfers.client.wait(patience)? {
            Waited::Message(ToClient::Event(event)) => self.happened(event)?,
            Waited::Message(ToClient::Reply(_)) | Waited::TimedOut => {}
            Waited::Ended => return Ok(false),
        }
        Ok(true)
    }

    fn happened(&mut self, event: Event) -> anyhow::Result<()> {
        if let Event::Incoming {
            transfer,
            name,
            object_bytes,
            sha256,
            ..
        } = &event
        {
            let transfer = *transfer;
            let digest = sha256.parse();
            let checked = digest.and_then(|sha256| self.replica.check(name, *object_bytes, sha256));
            let (operation, directory) = match checked {
                Ok(_) => {
                    let operation = Operation::Accept {
                        transfer,
                        overwrite: true,
                        durable: true,
                    };
                    (operation, Some(self.folder.as_fd()))
                }
                Err(reason) => (Operation::Refuse { transfer, reason }, None),
            };
            // Its sender may have given up: then there is nothing to decide.
            if let Err(error) = self.transfers.client.call(operation, directory) {
                error.downcast::<crate::api::message::Error>()?;
            }
        } else if let Some(ended) = self.transfers.ended(event)
            && let Some(file) = self.copies.remove(&ended.transfer)
        {
            let result = ended.result.map(|()| file.clone());
            if result.is_err() {
                let _ = ebb_blob::Disk::remove(&mut self.replica.disk, &file);
            }
            self.replica.handle_fetched(ended.transfer, result);
        }
        Ok(())
    }

    fn copy(&mut self, fetch: &Fetch) -> anyhow::Result<()> {
        let name = format!(".ebb-copy-{}.part", fetch.transfer);
        let flags = rustix::fs::OFlags::RDWR
            | rustix::fs::OFlags::CREATE
            | rustix::fs::OFlags::TRUNC
            | rustix::fs::OFlags::NOFOLLOW
            | rustix::fs::OFlags::CLOEXEC;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        match rustix::fs::openat(&self.folder, &name, flags, mode) {
            Ok(file) => {
                self.transfers.fetch(fetch, &file.into())?;
                self.copies.insert(fetch.transfer, name);
            }
            Err(error) => self
                .replica
                .handle_fetched(fetch.transfer, Err(error.to_string())),
        }
        Ok(())
    }
}

/// Opens the folder, if nobody else can put tracts into it.
fn open_folder(path: &Path) -> anyhow::Result<Arc<OwnedFd>> {
    let shown = path.display();
    // Anything there that is no directory is refused by the next line.
    let _ = DirBuilder::new().mode(0o700).recursive(true).create(path);
    let folder = open_directory(path)?;
    let stat = rustix::fs::fstat(&folder).with_context(|| format!("cannot look at {shown}"))?;
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != user || stat.st_mode & 0o022 != 0 {
        bail!(
            "{shown} can be changed by others; it has to be of user {user} and of mode 700: chmod 700 {shown}"
        );
    }
    remove_leftovers(path).with_context(|| format!("cannot look through {shown}"))?;
    Ok(Arc::new(folder))
}

/// The number of the folder, drawn by chance when it is first used.
fn store_number(dir: &Path) -> anyhow::Result<u64> {
    let path = dir.join(STORE_FILE);
    let shown = path.display();
    if let Ok(text) = std::fs::read_to_string(&path) {
        let number = text.trim().parse();
        return number.with_context(|| format!("{shown} has no number; is it a folder of tracts?"));
    }
    let number: u64 = rand::random();
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| {
        std::io::Write::write_all(&mut file, format!("{number}\n").as_bytes())?;
        file.sync_all()
    });
    written.with_context(|| format!("cannot write {shown}"))?;
    ensure!(
        std::fs::metadata(&path)?.uid() == rustix::process::geteuid().as_raw(),
        "{shown} is of somebody else"
    );
    Ok(number)
}

fn free_bytes(folder: &OwnedFd) -> u64 {
    let free = rustix::fs::fstatvfs(folder);
    free.map_or(0, |free| free.f_bavail.saturating_mul(free.f_frsize))
}
