//! The engine's side of the API: requests of clients go to the host, its notices to them. Runs
//! in the engine's thread, so nothing here waits for anybody.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;

use ebb_host::{ClientId, Error, ErrorCode, FlowFields, HostApplication, Limits, Notice, Output};
use ebb_transport::{Event, TransportKind};
use ebb_units::{Duration, Instant};
use serde_json::{Value, json};

use super::mailbox::{Command, Mailbox};
use super::outbox::Outbox;
use super::prepare::Source;
use super::storage::{Listening, Objects};
use crate::api::message::{
    self, Disposition, Ending, Generate, Operation, Outcome, Reply, Request,
};
use crate::api::{MAX_START_NS, VERSION};
use crate::engine::lateness::Lateness;
use crate::engine::pauses::Pauses;
use crate::engine::runtime::{Application, Site};
use crate::engine::transports::Transports;
use crate::machine::files::{Existing, is_directory};

/// The most commands that are handled before packets have their turn again.
const COMMANDS_PER_TURN: usize = 256;
/// The most flows in one answer to `flows`, which has to fit into a message.
const FLOWS_PER_MESSAGE: usize = 100;
/// Longest time that a fetch may wait for its first byte, in ms: a day.
const MAX_PATIENCE_MS: u64 = 86_400_000;

/// When the engine ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// When a client or a signal says so.
    Daemon,
    /// When its first client, which is in this process, has gone.
    Client,
}

/// How long an agent that ends waits for its disk.
const LAST_WRITES: std::time::Duration = std::time::Duration::from_millis(500);

/// The host of this process, and its clients.
pub struct Service {
    host: HostApplication<Objects>,
    inbox: mpsc::Receiver<Command>,
    mailbox: Mailbox,
    lifetime: Lifetime,
    lateness: Lateness,
    pauses: Pauses,
    interface: String,
    clients: BTreeMap<ClientId, Outbox>,
    /// Answers to requests, with client and number of the request. They are sent once the effects of the requests are
    /// in force, such as an open port.
    answers: Vec<(ClientId, u64, Result<Value, Error>)>,
    stopping: bool,
}

/// Where the content of an object comes from: the file of the application, or made here.
fn source(descriptor: Option<OwnedFd>, generate: Option<Generate>) -> Result<Source, Error> {
    match (descriptor, generate) {
        (Some(descriptor), None) => Ok(Source::Descriptor(descriptor)),
        (None, Some(generate)) => Ok(Source::Generated(generate)),
        _ => {
            let message = "nothing to send: a descriptor or `generate`, and not both";
            Err(Error::new(ErrorCode::BadRequest, message))
        }
    }
}

fn check_start(at_ns: Option<u64>) -> Result<(), Error> {
    match at_ns {
        Some(at_ns) if at_ns > MAX_START_NS => {
            let message = format!("start_at_ns is {at_ns}; expected at most {MAX_START_NS}");
            Err(Error::new(ErrorCode::BadRequest, message))
        }
        _ => Ok(()),
    }
}

impl Service {
    pub fn start(
        site: Site,
        transports: &mut Transports,
        lifetime: Lifetime,
    ) -> std::io::Result<Self> {
        let (mailbox, inbox) = Mailbox::new(site.waker);
        // A sender is notified of the end only when its object is stored at the receiver.
        transports.hold_confirmations();
        let address = site.address;
        let objects = Objects::start(address, &site.hops, &mailbox)?;
        Ok(Service {
            host: HostApplication::new(address, Limits::CAREFUL, rand::random(), objects),
            inbox,
            mailbox,
            lifetime,
            lateness: site.lateness,
            pauses: site.pauses,
            interface: site.interface,
            clients: BTreeMap::new(),
            answers: Vec::new(),
            stopping: false,
        })
    }

    pub fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    fn reply(&self, client: ClientId, id: u64, result: Result<Value, Error>) {
        if let Some(outbox) = self.clients.get(&client) {
            let result = match result {
                Ok(value) => Outcome::Ok(value),
                Err(error) => Outcome::Error(error),
            };
            outbox.send(&Reply { id, result });
        }
    }

    /// Handles a command of another thread. Break: the engine is to end.
    fn handle_command(
        &mut self,
        now: Instant,
        command: Command,
        transports: &mut Transports,
    ) -> ControlFlow<()> {
        match command {
            Command::Connected { client, outbox } => {
                self.clients.insert(client, outbox);
            }
            Command::Gone { client } => {
                self.clients.remove(&client);
                self.host.storage.client_gone(client);
                self.host.client_gone(now, client, transports);
                if self.lifetime == Lifetime::Client {
                    return ControlFlow::Break(());
                }
            }
            Command::Request {
                client,
                request: Request { id, operation },
                descriptor,
                seen,
            } => {
                let _ = seen.try_send(());
                let shutdown = matches!(operation, Operation::Shutdown {});
                let result = self.request(now, (client, id), operation, descriptor, transports);
                self.answers
                    .extend(result.transpose().map(|result| (client, id, result)));
                if shutdown {
                    self.stop(now, transports);
                    return ControlFlow::Break(());
                }
            }
            Command::Prepared { ticket, result } => {
                self.host.storage.prepared(ticket);
                self.host.handle_prepared(now, ticket, result, transports);
            }
            Command::Sink { sink, update } => {
                self.host.handle_sink(now, sink, update, transports);
            }
        }
        ControlFlow::Continue(())
    }

    /// Does what a client asks for. `Ok(None)`: the answer comes later.
    fn request(
        &mut self,
        now: Instant,
        from: (ClientId, u64),
        operation: Operation,
        descriptor: Option<OwnedFd>,
        transports: &mut Transports,
    ) -> Result<Option<Value>, Error> {
        let client = from.0;
        let done = Ok(Some(json!({})));
        match operation {
            Operation::Hello { version } => self.hello(version).map(Some),
            Operation::Send(send) => self.send(now, from, send, descriptor, transports),
            Operation::Offer { name, generate } => {
                let source = source(descriptor, generate)?;
                self.host.offer(now, from, name, source, transports)?;
                Ok(None)
            }
            Operation::Withdraw { name } => {
                self.host.withdraw(client, &name)?;
                done
            }
            Operation::Serve {} => match descriptor {
                Some(directory) if is_directory(&directory) => {
                    self.host.storage.serve(client, directory)?;
                    done
                }
                _ => {
                    let message = "to serve a directory, send its descriptor with the message";
                    Err(Error::new(ErrorCode::BadRequest, message))
                }
            },
            Operation::Fetch(fetch) => self.fetch(now, from, fetch, descriptor, transports),
            Operation::Listen(listen) => self
                .listen(client, &listen, descriptor, transports)
                .map(Some),
            Operation::Unlisten { listener } => {
                self.host.unlisten(now, client, listener, transports)?;
                done
            }
            Operation::Accept {
                transfer,
                overwrite,
                durable,
            } => {
                let existing = match durable {
                    true => Existing::ReplaceForGood,
                    false => Existing::of(overwrite),
                };
                let target = self.host.storage.target_of(descriptor, existing)?;
                self.host.accept(client, transfer, target)?;
                done
            }
            Operation::Refuse { transfer, reason } => {
                self.host
                    .refuse_object(now, client, transfer, &reason, transports)?;
                done
            }
            Operation::Cancel { transfer } => {
                self.host.cancel(now, client, transfer, transports)?;
                done
            }
            Operation::Flows { after } => Ok(Some(self.list_flows(after, transports))),
            Operation::Statistics {} => Ok(Some(self.statistics())),
            Operation::Shutdown {} => match self.lifetime {
                Lifetime::Daemon => done,
                Lifetime::Client => Ok(None),
            },
        }
    }

    /// Sends an object of a client. The answer comes later.
    fn send(
        &mut self,
        now: Instant,
        from: (ClientId, u64),
        send: message::SendObject,
        descriptor: Option<OwnedFd>,
        transports: &mut Transports,
    ) -> Result<Option<Value>, Error> {
        check_start(send.start_at_ns)?;
        let source = source(descriptor, send.generate)?;
        let send = ebb_host::SendObject {
            transport: send.transport,
            to: send.to,
            name: send.name,
            priority: send.priority,
            connection: send.connection,
            group: send.group,
            unicast: send.unicast,
            start_at: send.start_at_ns.map(Instant::from_nanos),
            progress: send.progress,
        };
        self.host.send(now, from, send, source, transports)?;
        Ok(None)
    }

    /// Fetches an object for a client. The answer comes later.
    fn fetch(
        &mut self,
        now: Instant,
        from: (ClientId, u64),
        fetch: message::FetchObject,
        descriptor: Option<OwnedFd>,
        transports: &mut Transports,
    ) -> Result<Option<Value>, Error> {
        let existing = Existing::of(fetch.overwrite);
        let target = self.host.storage.target_of(descriptor, existing)?;
        let patience = fetch.timeout_ms.map(|ms| ms.min(MAX_PATIENCE_MS));
        let fetch = ebb_host::FetchObject {
            transport: fetch.transport,
            name: fetch.name,
            from: fetch.from,
            priority: fetch.priority,
            connection: fetch.connection,
            patience: patience.map(Duration::from_millis),
            progress: fetch.progress,
        };
        self.host.fetch(now, from, fetch, target, transports)?;
        Ok(None)
    }

    fn hello(&self, version: u32) -> Result<Value, Error> {
        if version != VERSION {
            let message = format!(
                "this daemon speaks version {VERSION} of its API, the client {version}; use a client \
                 of the same release"
            );
            return Err(Error::new(ErrorCode::BadVersion, message));
        }
        let ports = TransportKind::ALL
            .map(|transport| (transport.name().to_owned(), transport.service_port()));
        Ok(json!({
            "version": VERSION,
            "pid": std::process::id(),
            "interface": self.interface,
            "address": self.host.address(),
            "ports": ports.into_iter().collect::<BTreeMap<_, _>>(),
        }))
    }

    fn listen(
        &mut self,
        client: ClientId,
        listen: &message::Listen,
        descriptor: Option<OwnedFd>,
        transports: &mut Transports,
    ) -> Result<Value, Error> {
        let port = listen.port.unwrap_or(listen.transport.service_port());
        let directory = match (listen.into, descriptor) {
            (Disposition::Directory, Some(directory)) if is_directory(&directory) => {
                Some(Arc::new(directory))
            }
            (Disposition::Directory, _) => {
                let message = "to listen into a directory, send its descriptor with the message";
                return Err(Error::new(ErrorCode::BadRequest, message));
            }
            _ => None,
        };
        let listening = Listening {
            into: listen.into,
            directory,
            existing: Existing::of(listen.overwrite),
        };
        let listen = ebb_host::Listen {
            transport: listen.transport,
            port,
            listening,
            announce: listen.announce,
            progress: listen.progress,
        };
        let listener = self.host.listen(client, listen, transports)?;
        Ok(json!({"listener": listener, "local": format!("{}:{port}", self.host.address())}))
    }

    fn list_flows(&self, after: u64, transports: &mut Transports) -> Value {
        let mut listed = Vec::new();
        let mut last = after;
        let mut more = false;
        for (id, flows) in self.host.transfers_after(after) {
            // All flows of a transfer are in the same message.
            if listed.len() + flows > FLOWS_PER_MESSAGE && !listed.is_empty() {
                more = true;
                break;
            }
            last = id;
            for flow in self.host.flows_of(id, FLOWS_PER_MESSAGE, transports) {
                listed.push(json!({
                    "transfer": id, "role": flow.role, "scheme": flow.transport, "peer": flow.peer,
                    "name": flow.name, "done_bytes": flow.done_bytes,
                    "total_bytes": flow.total_bytes,
                }));
            }
        }
        json!({"flows": listed, "last": last, "more": more})
    }

    fn statistics(&self) -> Value {
        let (transfers, flows) = self.host.open_counts();
        let transports: serde_json::Map<String, Value> = self
            .host
            .counts()
            .iter()
            .filter_map(|(transport, counts)| {
                Some((transport.to_string(), serde_json::to_value(counts).ok()?))
            })
            .collect();
        let mut statistics = json!({
            "clients": self.clients.len(),
            "transfers": transfers,
            "flows": flows,
            "backlog_bytes": self.host.storage.sinks.backlog_bytes(),
            "lateness": self.lateness.to_json(),
            "schemes": transports,
        });
        if let Some(nic) = self.pauses.to_json() {
            statistics["nic"] = nic;
        }
        statistics
    }
}

fn notify(outbox: &Outbox, notice: Notice) {
    let event = match notice {
        Notice::Incoming {
            transfer,
            listener,
            transport,
            local,
            peer,
            header,
        } => {
            let sha256 = header.sha256.iter().map(|byte| format!("{byte:02x}"));
            message::Event::Incoming {
                transfer,
                listener,
                transport,
                local,
                peer,
                sha256: sha256.collect(),
                object_bytes: header.content_bytes,
                name: header.name,
            }
        }
        // A client that does not keep up gets no progress notices.
        Notice::Progress { .. } if outbox.is_busy() => return,
        Notice::Progress {
            transfer,
            done_bytes,
            total_bytes,
        } => message::Event::Progress {
            transfer,
            done_bytes,
            total_bytes,
        },
        Notice::Flow {
            transfer,
            header,
            sha256_ok,
            record,
            ..
        } => message::Event::Flow {
            transfer,
            record: json!(FlowFields::new(header.as_ref(), sha256_ok, &record)),
        },
        Notice::End { transfer, failure } => message::Event::End {
            transfer,
            ending: failure.map_or(Ending::Finished, Ending::Failed),
        },
    };
    outbox.send(&event);
}

impl Application for Service {
    fn handle_event(
        &mut self,
        now: Instant,
        transport: TransportKind,
        event: Event,
        transports: &mut Transports,
    ) {
        self.host.handle_event(now, transport, event, transports);
        self.tell_clients();
    }

    fn handle_wake(&mut self, now: Instant, transports: &mut Transports) -> ControlFlow<()> {
        for _ in 0..COMMANDS_PER_TURN {
            match self.inbox.try_recv() {
                Ok(command) => self.handle_command(now, command, transports)?,
                Err(_) => return ControlFlow::Continue(()),
            }
        }
        // The other commands have their turn after the packets.
        self.mailbox.wake();
        ControlFlow::Continue(())
    }

    fn handle_timeout(&mut self, now: Instant, transports: &mut Transports) {
        self.host.handle_timeout(now, transports);
    }

    fn tell_clients(&mut self) {
        while let Some(output) = self.host.poll_output() {
            match output {
                Output::Reply {
                    client,
                    request,
                    result,
                } => {
                    let result = result.map(|transfer| match transfer {
                        Some(transfer) => json!({"transfer": transfer}),
                        None => json!({}),
                    });
                    self.reply(client, request, result);
                }
                Output::Notice { client, notice } => {
                    if let Some(outbox) = self.clients.get(&client) {
                        notify(outbox, notice);
                    }
                }
            }
        }
        for (client, id, result) in std::mem::take(&mut self.answers) {
            self.reply(client, id, result);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.host.next_deadline()
    }

    fn stop(&mut self, now: Instant, transports: &mut Transports) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        self.host.storage.stop_serving();
        self.host.stop(now, "the agent was stopped", transports);
        self.tell_clients();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.host.storage.sinks.settle(LAST_WRITES);
        for outbox in self.clients.values() {
            outbox.finish();
        }
    }
}
