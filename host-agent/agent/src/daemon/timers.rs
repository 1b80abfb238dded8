//! Commands that the engine is to get later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use ebb_units::Instant;

use super::{Command, Mailbox};
use crate::clock;

/// What it is time for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// To start a transfer that was to start then.
    Start(u64),
    /// To give up a transfer that nobody has answered or decided on.
    Patience(u64),
    /// To tell how far the transfers are.
    Progress,
}

pub struct Timers(mpsc::Sender<(Instant, Timer)>);

impl Timers {
    pub fn start(mailbox: Mailbox) -> io::Result<Self> {
        let (sender, timers) = mpsc::channel();
        std::thread::Builder::new()
            .name("timers".to_owned())
            .spawn(move || run(&timers, &mailbox))?;
        Ok(Timers(sender))
    }

    pub fn set(&self, at: Instant, timer: Timer) {
        // Fails only if the thread is gone, and that ends with us.
        let _ = self.0.send((at, timer));
    }
}

fn run(new: &mpsc::Receiver<(Instant, Timer)>, mailbox: &Mailbox) {
    let mut waiting: BinaryHeap<Reverse<(Instant, Timer)>> = BinaryHeap::new();
    loop {
        let now = clock::now();
        while let Some(&Reverse((at, timer))) = waiting.peek()
            && at <= now
        {
            waiting.pop();
            mailbox.send(Command::Timer(timer));
        }
        let added = match waiting.peek() {
            Some(Reverse((at, _))) => {
                new.recv_timeout(Duration::from_nanos(at.since(now).as_nanos()))
            }
            None => new.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match added {
            Ok(timer) => waiting.push(Reverse(timer)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
