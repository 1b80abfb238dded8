//! One of the two interfaces of a bridge.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, bail};
use ebb_packet_io::{
    Batch, OutgoingFrame, PacketSocket, ReceiveBuffers, ReceiveMode, SendError, SocketOptions,
};
use rustix::io::Errno;
use serde::Serialize;

/// Counters of the frames of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SideCounters {
    pub received_frames: u64,
    pub received_bytes: u64,
    /// Frames as they were handed to the interface: outside one that the host left to hardware to cut counts as its
    /// segments, inside one that the kernel had joined counts once.
    pub sent_frames: u64,
    pub sent_bytes: u64,
    /// The interface did not take them: its queue was full, it was down, or its MTU is too small.
    pub dropped_not_sent: u64,
    /// Frames that are too long, or have contradictory offload information.
    pub dropped_malformed: u64,
    /// The kernel had no room for them in our socket.
    pub dropped_by_kernel: u64,
}

/// An interface with its counters.
pub struct Side {
    name: String,
    socket: PacketSocket,
    pub counters: SideCounters,
}

impl Side {
    pub fn open(name: &str) -> anyhow::Result<Self> {
        let options = SocketOptions {
            receive_mode: ReceiveMode::Promiscuous,
            offloads: true,
            ..SocketOptions::default()
        };
        let socket = PacketSocket::open(name, &options).map_err(|error| {
            let hint = match Errno::from_io_error(&error) {
                Some(Errno::PERM) => "; run as root or with CAP_NET_RAW",
                Some(Errno::NODEV) => "; `ip link` lists those of this network namespace",
                _ => "",
            };
            anyhow::Error::new(error).context(format!("cannot open interface `{name}`{hint}"))
        })?;
        Ok(Side {
            name: name.to_owned(),
            socket,
            counters: SideCounters::default(),
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The frames that are there; `None`: the interface is down.
    pub fn receive<'a>(
        &mut self,
        buffers: &'a mut ReceiveBuffers,
    ) -> anyhow::Result<Option<Batch<'a>>> {
        match self.socket.receive_batch(buffers) {
            Ok(batch) => {
                self.counters.dropped_malformed += batch.too_long as u64;
                for frame in batch.iter() {
                    self.counters.received_frames += 1;
                    self.counters.received_bytes += frame.bytes.len() as u64;
                }
                Ok(Some(batch))
            }
            Err(error) => {
                if !self.socket.interface_exists() {
                    bail!("interface `{}` has vanished", self.name);
                }
                if error.kind() == ErrorKind::NetworkDown {
                    return Ok(None);
                }
                Err(error).with_context(|| format!("cannot receive on `{}`", self.name))
            }
        }
    }

    /// Sends in order. What the interface does not take is dropped, as on any wire.
    pub fn send<'a, I: Iterator<Item = OutgoingFrame<'a>> + Clone>(&mut self, mut frames: I) {
        while frames.clone().next().is_some() {
            match self.socket.send_batch(frames.clone()) {
                Ok(sent) => {
                    for frame in frames.by_ref().take(sent) {
                        self.counters.sent_frames += 1;
                        self.counters.sent_bytes += frame.bytes.len() as u64;
                    }
                }
                Err(error) => {
                    frames.next();
                    self.counters.dropped_not_sent += 1;
                    if !matches!(error, SendError::Full | SendError::QueueFull) {
                        tracing::debug!("`{}`: a frame was dropped: {error}", self.name);
                    }
                }
            }
        }
    }

    /// Brings the counters up to date.
    pub fn count_kernel_drops(&mut self) {
        // An interface that is down has none.
        self.counters.dropped_by_kernel += self.socket.take_kernel_drops().unwrap_or(0);
    }
}
