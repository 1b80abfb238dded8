//! How other threads reach the switches while the driver runs them: they send a closure, the driver
//! runs it between two packets. Nothing is shared and nothing is locked.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::fabric::SwitchId;
use crate::switch::Switch;

/// The driver has ended; so have the switches.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the switch has stopped")]
pub struct Stopped;

/// What other threads ask for.
pub enum Command {
    With(SwitchId, Box<dyn FnOnce(&mut Switch) + Send>),
    Stop,
}

/// Reaches the switches of a running driver. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControlHandle {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
}

/// The end of whoever has the switches: a driver, or a simulation between two stretches of time.
pub struct ControlReceiver {
    commands: Receiver<Command>,
    wake: Arc<OwnedFd>,
}

pub fn control_channel() -> std::io::Result<(ControlHandle, ControlReceiver)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
    let (sender, receiver) = channel();
    let handle = ControlHandle {
        commands: sender,
        wake: wake.clone(),
    };
    let receiver = ControlReceiver {
        commands: receiver,
        wake,
    };
    Ok((handle, receiver))
}

impl ControlHandle {
    /// Runs a closure on a switch and awaits its result.
    pub async fn with<R: Send + 'static>(
        &self,
        switch: SwitchId,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.submit(switch, f)?.await.map_err(|_| Stopped)
    }

    /// The same for a thread without an async runtime.
    pub fn with_blocking<R: Send + 'static>(
        &self,
        switch: SwitchId,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.submit(switch, f)?.blocking_recv().map_err(|_| Stopped)
    }

    /// Runs a closure on a switch soon. If the driver has ended, the closure is dropped.
    pub fn post(
        &self,
        switch: SwitchId,
        f: impl FnOnce(&mut Switch) + Send + 'static,
    ) -> Result<(), Stopped> {
        self.send(Command::With(switch, Box::new(f)))
    }

    /// Ends the driver after what it is doing.
    pub fn stop(&self) {
        // If the driver is gone already, there is nothing to stop.
        let _ = self.send(Command::Stop);
    }

    fn submit<R: Send + 'static>(
        &self,
        switch: SwitchId,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<oneshot::Receiver<R>, Stopped> {
        let (reply, result) = oneshot::channel();
        let run = move |switch: &mut Switch| {
            // The caller may have given up waiting.
            let _ = reply.send(f(switch));
        };
        self.post(switch, run)?;
        Ok(result)
    }

    fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).map_err(|_| Stopped)?;
        // Fails only if the counter is full, and then the driver is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        Ok(())
    }
}

impl ControlReceiver {
    /// Becomes readable when a command is there.
    pub(crate) fn wake_fd(&self) -> &OwnedFd {
        &self.wake
    }

    /// Call before [`next`](Self::next), so that no command is overlooked.
    pub(crate) fn acknowledge(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    pub(crate) fn next(&self) -> Option<Command> {
        self.commands.try_recv().ok()
    }

    /// Waits for the next command. `None`: nobody is left to send one.
    pub fn wait(&self) -> Option<Command> {
        self.commands.recv().ok()
    }
}
