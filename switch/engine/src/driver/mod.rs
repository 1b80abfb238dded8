//! Drives a fabric under the wall clock, its external ports on Linux interfaces.
//!
//! One thread does everything: it sleeps in `ppoll` until a frame, a command or the fabric's next
//! deadline, and then lets the fabric catch up with the time. Frames enter the fabric at the time
//! the kernel received them, so a process that gets the CPU late computes the queues that a punctual
//! one would have seen, and its frames leave late but at the right rate.

mod capture;
mod clock;
mod control;
mod port;

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ebb_packet_io::{
    Audience, MAX_FRAME_BYTES, PacketSocket, PollFd, ReceiveBuffers, SocketOptions, wait,
};
use ebb_units::{Duration, Instant};
use thiserror::Error;

pub use control::{Command, ControlHandle, ControlReceiver, Stopped, control_channel};

use crate::fabric::{Endpoint, Fabric, WiringError};
use capture::Capture;
use clock::Clock;
use port::InterfacePort;

/// Frames per system call.
const BATCH: usize = 32;
/// The longest sleep; kernel drops are read at least this often.
const MAX_SLEEP: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum DriverError {
    #[error(
        "switch \"{switch}\", port {port}: cannot open interface \"{interface}\": {reason}; {remedy}"
    )]
    Interface {
        switch: String,
        port: u16,
        interface: String,
        reason: io::Error,
        remedy: &'static str,
    },
    #[error(transparent)]
    Wiring(#[from] WiringError),
    #[error("cannot write the packet capture {path}: {reason}", path = path.display())]
    Capture { path: PathBuf, reason: String },
    #[error("the switch cannot wait for packets: {0}")]
    System(#[from] io::Error),
}

pub struct Driver {
    fabric: Fabric,
    clock: Clock,
    ports: Vec<InterfacePort>,
    commands: ControlReceiver,
    handle: ControlHandle,
    buffers: ReceiveBuffers,
    statistics_due: Instant,
}

impl Driver {
    pub fn new(fabric: Fabric) -> Result<Self, DriverError> {
        let (handle, commands) = control_channel()?;
        Ok(Self {
            fabric,
            clock: Clock::start(),
            ports: Vec::new(),
            commands,
            handle,
            buffers: ReceiveBuffers::new(BATCH, MAX_FRAME_BYTES),
            statistics_due: Instant::ZERO,
        })
    }

    /// How other threads reach the switches.
    pub fn handle(&self) -> ControlHandle {
        self.handle.clone()
    }

    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Puts a port on a Linux interface, with packet captures in the directory if one is given.
    pub fn attach(
        &mut self,
        at: Endpoint,
        interface: &str,
        captures: Option<&Path>,
    ) -> Result<(), DriverError> {
        self.fabric.attach(at)?;
        let switch = self.fabric.switch(at.switch).name();
        // Promiscuous; frames carry the time of their arrival, so that a process that gets the CPU
        // late still sees when they came.
        let options = SocketOptions {
            audience: Audience::Everyone,
            timestamps: true,
            ..SocketOptions::default()
        };
        let socket =
            PacketSocket::open(interface, &options).map_err(|reason| DriverError::Interface {
                switch: switch.into(),
                port: at.port,
                interface: interface.into(),
                remedy: remedy(&reason),
                reason,
            })?;
        let capture = captures.map(|directory| Capture::create(directory, interface));
        let label = format!("{switch}, port {}, interface {interface}", at.port);
        let port = InterfacePort::new(at, label, socket, capture.transpose()?);
        self.ports.push(port);
        Ok(())
    }

    /// Runs until [`ControlHandle::stop`].
    pub fn run(&mut self) -> Result<(), DriverError> {
        ebb_packet_io::wake_up_on_time();
        loop {
            self.wait()?;
            let horizon = self.receive();
            self.fabric.run_until(horizon);
            let stop = self.run_commands();
            self.send();
            self.read_kernel_drops(stop);
            if stop {
                return Ok(());
            }
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) -> Result<(), DriverError> {
        let now = self.clock.now();
        let deadline = self.fabric.next_deadline().unwrap_or(Instant::FAR_FUTURE);
        let sleep = deadline.since(now);
        if !sleep.is_zero() {
            self.ports.iter_mut().for_each(InterfacePort::flush_capture);
        }
        let mut polled = vec![PollFd::readable(self.commands.wake_fd().as_fd())];
        let present: Vec<usize> = (0..self.ports.len())
            .filter(|index| self.ports[*index].is_present())
            .collect();
        let sockets = present
            .iter()
            .map(|index| self.ports[*index].socket().as_fd());
        polled.extend(sockets.map(PollFd::readable));
        wait(&mut polled, Some(sleep.min(MAX_SLEEP).into()), None)?;
        let seen = polled[1..].iter();
        let seen: Vec<_> = seen.map(|fd| (fd.is_readable(), fd.has_failed())).collect();
        for (index, (readable, failed)) in present.into_iter().zip(seen) {
            self.ports[index].note_events(readable, failed);
        }
        Ok(())
    }

    /// Reads what has arrived and says until when the fabric can run: later frames may still be
    /// unread.
    fn receive(&mut self) -> Instant {
        let now = self.clock.now();
        let realtime = self.clock.realtime();
        let mut horizon = now;
        for port in &mut self.ports {
            let read_until = port.receive(&mut self.fabric, &mut self.buffers, now, realtime);
            horizon = horizon.min(read_until);
        }
        horizon.max(self.fabric.now())
    }

    /// Runs what other threads sent; true if one of them stops the driver.
    fn run_commands(&mut self) -> bool {
        self.commands.acknowledge();
        let mut stop = false;
        while let Some(command) = self.commands.next() {
            match command {
                Command::With(switch, run) => self.fabric.with_switch(switch, run),
                Command::Stop => stop = true,
            }
        }
        // What a command made due now shall not wait for the next round.
        self.fabric.run_until(self.fabric.now());
        stop
    }

    fn send(&mut self) {
        while let Some(output) = self.fabric.poll_output() {
            // External ports are few, and the fabric has no outputs of others.
            if let Some(port) = self.ports.iter_mut().find(|p| p.at() == output.from) {
                port.queue_frame(output.frame);
            }
        }
        let realtime = self.clock.realtime().to_realtime_ns(self.clock.now());
        for port in &mut self.ports {
            port.send(&mut self.fabric, realtime);
        }
    }

    fn read_kernel_drops(&mut self, force: bool) {
        let now = self.fabric.now();
        if now >= self.statistics_due || force {
            self.statistics_due = now + MAX_SLEEP;
            for port in &mut self.ports {
                port.read_kernel_drops(&mut self.fabric);
            }
        }
    }

    /// The fabric, for a last look at its statistics.
    pub fn into_fabric(self) -> Fabric {
        self.fabric
    }
}

fn remedy(reason: &io::Error) -> &'static str {
    match reason.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            "create it first (ip link), in the network namespace the switch runs in"
        }
        Some(libc::EPERM | libc::EACCES) => "run as root or with CAP_NET_RAW and CAP_NET_ADMIN",
        _ => "see `ip link` for its state",
    }
}
