//! A client of the local API.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, bail};
use ebb_packet_io::{PollFd, wait};
use ebb_units::Duration;
use serde_json::Value;

use super::VERSION;
use super::message::{Event, Operation, Outcome, Request, ToClient};
use super::socket::{Connection, Received};
use crate::machine::clock;
use crate::machine::signals::Signals;
use crate::machine::waker::Waker;

/// Result of [`Client::wait`].
pub enum Waited {
    Message(ToClient),
    TimedOut,
    /// The daemon has ended, or a signal asks this process to.
    Ended,
}

pub struct Client {
    connection: Connection,
    /// Self-description of the daemon: the answer to `hello`.
    pub greeting: Value,
    /// The number of the last request.
    last_id: u64,
    /// Events that came while an answer was waited for, oldest first.
    events: VecDeque<Event>,
    /// `None` in a process with an engine, which handles signals itself.
    signals: Option<(Signals, Waker)>,
    /// The message that was read last.
    buffer: Vec<u8>,
}

impl Client {
    /// Greets the daemon.
    pub fn open(connection: Connection) -> anyhow::Result<Self> {
        let mut client = Client {
            connection,
            greeting: Value::Null,
            last_id: 0,
            events: VecDeque::new(),
            signals: None,
            buffer: Vec::new(),
        };
        client.greeting = client
            .call(Operation::Hello { version: VERSION }, None)
            .context("the daemon does not greet; only its own user and root may use it")?;
        Ok(client)
    }

    /// From now on SIGINT and SIGTERM end whatever this client waits for.
    pub fn end_on_signals(&mut self) -> anyhow::Result<()> {
        let waker = Waker::new().context("cannot create a pipe")?;
        let signals = Signals::install(&waker).context("cannot handle signals")?;
        self.signals = Some((signals, waker));
        Ok(())
    }

    /// Asks for something and waits for the answer.
    pub fn call(
        &mut self,
        operation: Operation,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> anyhow::Result<Value> {
        self.request(operation, descriptor)?;
        loop {
            match self.receive()? {
                Some(ToClient::Event(event)) => self.events.push_back(event),
                Some(ToClient::Reply(reply)) if reply.id == self.last_id => {
                    return match reply.result {
                        Outcome::Ok(value) => Ok(value),
                        Outcome::Error(error) => Err(anyhow::Error::from(error)),
                    };
                }
                Some(ToClient::Reply(_)) => {}
                None => bail!("stopped before the answer came"),
            }
        }
    }

    /// Asks for something that needs no descriptor; [`wait`](Self::wait) brings the answer, which has
    /// the number that is returned.
    pub fn submit(&mut self, operation: Operation) -> anyhow::Result<u64> {
        self.request(operation, None)?;
        Ok(self.last_id)
    }

    fn request(
        &mut self,
        operation: Operation,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> anyhow::Result<()> {
        self.last_id += 1;
        let request = Request {
            id: self.last_id,
            operation,
        };
        let text = serde_json::to_vec(&request)?;
        self.connection
            .send(&text, descriptor)
            .context("the daemon has gone")
    }

    /// The next event or answer, unless `patience` ends before.
    pub fn wait(&mut self, patience: Option<Duration>) -> anyhow::Result<Waited> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Waited::Message(ToClient::Event(event)));
        }
        if !self.poll(patience)? {
            return Ok(match self.asked_to_end() {
                true => Waited::Ended,
                false => Waited::TimedOut,
            });
        }
        Ok(match self.read()? {
            Some(message) => Waited::Message(message),
            None => Waited::Ended,
        })
    }

    fn asked_to_end(&self) -> bool {
        let signals = self.signals.as_ref();
        signals.is_some_and(|(signals, _)| signals.asked_to_end())
    }

    /// Waits until there is something to read. False: the time is over, or a signal came.
    fn poll(&self, patience: Option<Duration>) -> anyhow::Result<bool> {
        let end = patience.map(|patience| clock::now() + patience);
        let connection = PollFd::readable(self.connection.as_fd());
        let signal = self.signals.as_ref();
        let signal = signal.map(|(_, waker)| PollFd::readable(waker.as_fd()));
        let mut polled: Vec<PollFd<'_>> = std::iter::once(connection).chain(signal).collect();
        while !self.asked_to_end() {
            let left = end.map(|end| end.since(clock::now()));
            wait(&mut polled, left.map(Into::into)).context("cannot wait for the daemon")?;
            if polled[0].is_readable() {
                return Ok(true);
            }
            if left.is_some_and(Duration::is_zero) {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The next event. `None`: the daemon has ended, or a signal asks this process to.
    pub fn next_event(&mut self) -> anyhow::Result<Option<Event>> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        loop {
            match self.receive()? {
                Some(ToClient::Event(event)) => return Ok(Some(event)),
                Some(ToClient::Reply(_)) => {}
                None => return Ok(None),
            }
        }
    }

    fn receive(&mut self) -> anyhow::Result<Option<ToClient>> {
        // Without signals of its own the read itself waits.
        if self.signals.is_some() && !self.poll(None)? {
            return Ok(None);
        }
        self.read()
    }

    fn read(&mut self) -> anyhow::Result<Option<ToClient>> {
        let mut descriptor = None;
        match self.connection.receive(&mut self.buffer, &mut descriptor) {
            Ok(Received::Message | Received::WithoutDescriptor) => {}
            Ok(Received::Closed) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error).context("cannot read from the daemon"),
        }
        let message = serde_json::from_slice(&self.buffer).with_context(|| {
            let text = String::from_utf8_lossy(&self.buffer);
            format!("the daemon says what this client does not understand: {text}")
        })?;
        Ok(Some(message))
    }
}
