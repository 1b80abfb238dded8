//! A client of the local API.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

use super::VERSION;
use super::message::{Event, Hello, Operation, Outcome, Request, ToClient};
use super::socket::Connection;
use crate::signals::Signals;
use crate::waker::Waker;

pub struct Client {
    connection: Connection,
    last_id: u64,
    /// Came while an answer was waited for.
    events: VecDeque<Event>,
    /// In a process without an engine, which would handle them.
    signals: Option<(Signals, Waker)>,
    buffer: Vec<u8>,
}

impl Client {
    /// Greets the daemon; returns what it says of itself.
    pub fn open(
        connection: Connection,
        signals: Option<(Signals, Waker)>,
    ) -> anyhow::Result<(Self, Value)> {
        let mut client = Client {
            connection,
            last_id: 0,
            events: VecDeque::new(),
            signals,
            buffer: Vec::new(),
        };
        let greeting = client.call(Operation::Hello(Hello { version: VERSION }), None)?;
        Ok((client, greeting))
    }

    /// Asks for something and waits for the answer.
    pub fn call(
        &mut self,
        operation: Operation,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> anyhow::Result<Value> {
        self.last_id += 1;
        let request = Request {
            id: self.last_id,
            operation,
        };
        let text = serde_json::to_vec(&request)?;
        self.connection
            .send(&text, descriptor)
            .context("the daemon has gone")?;
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
        if let Some((signals, waker)) = &self.signals {
            let connection = self.connection.as_fd();
            let mut polled = [
                PollFd::from_borrowed_fd(connection, PollFlags::IN),
                PollFd::new(waker, PollFlags::IN),
            ];
            while !signals.asked_to_end() {
                match rustix::event::poll(&mut polled, None) {
                    Ok(_) if !polled[0].revents().is_empty() => break,
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error).context("cannot wait for the daemon"),
                }
            }
            if signals.asked_to_end() {
                return Ok(None);
            }
        }
        let mut descriptor = None;
        match self.connection.receive(&mut self.buffer, &mut descriptor) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
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
