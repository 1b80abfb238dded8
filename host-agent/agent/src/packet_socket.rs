//! The packet socket of the runtime: the IPv4 packets to our ports, one at a time.

use std::io;
use std::os::fd::AsFd;

use anyhow::Context;
pub use ebb_packet_io::wake_up_on_time;
use ebb_packet_io::{Filter, MAX_FRAME_BYTES, PollFd, PortOffset, ReceiveBuffers, SendError};
use ebb_packet_io::{SocketOptions, wait};
use ebb_units::Duration;

use crate::interface::Interface;
use crate::transports::{Selector, destination_port_at};
use crate::waker::Waker;

pub struct PacketSocket {
    socket: ebb_packet_io::PacketSocket,
    buffers: ReceiveBuffers,
}

impl PacketSocket {
    /// Opens the socket. It hears nothing until [`filter`](Self::filter) says what: agents on one
    /// host must not wake, or reset, each other.
    pub fn open(interface: &Interface) -> anyhow::Result<Self> {
        let options = SocketOptions {
            filter: Some(Filter::new()),
            ..SocketOptions::default()
        };
        let socket = ebb_packet_io::PacketSocket::open(&interface.name, &options).map_err(|e| {
            let hint = match e.raw_os_error() {
                Some(libc::EPERM) => "; run as root or with CAP_NET_RAW",
                _ => "",
            };
            let name = &interface.name;
            anyhow::Error::new(e).context(format!("cannot open a packet socket on `{name}`{hint}"))
        })?;
        Ok(PacketSocket {
            socket,
            buffers: ReceiveBuffers::new(1, MAX_FRAME_BYTES),
        })
    }

    /// Lets only these packets through from now on.
    pub fn filter(&self, selectors: &[Selector]) -> anyhow::Result<()> {
        let filter = selectors.iter().fold(Filter::new(), |filter, selector| {
            let Selector { protocol, ports } = *selector;
            let port_at = PortOffset(destination_port_at(protocol) as u8);
            filter.or(protocol.0, port_at, ports.first..=ports.last)
        });
        self.socket
            .set_filter(&filter)
            .context("cannot filter what arrives at the packet socket")
    }

    /// The next frame, if one is there. One that is too long for any wire is not shown.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        match self.socket.receive_batch(&mut self.buffers) {
            Ok(batch) => Ok(batch.iter().next().map(|frame| frame.bytes)),
            // It may come up again; until then flows time out. One that was deleted will not.
            Err(e)
                if e.raw_os_error() == Some(libc::ENETDOWN) && self.socket.interface_exists() =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// False: the socket's buffer is full; try again when it is writable. While the interface is
    /// down a frame is lost, as on a cable that is not plugged in.
    pub fn send(&self, frame: &[u8]) -> anyhow::Result<bool> {
        match self.socket.send_batch([frame]) {
            Ok(_) | Err(SendError::Down) => Ok(true),
            Err(SendError::Full | SendError::QueueFull) => Ok(false),
            Err(error) => Err(error).context("the kernel does not take the frame"),
        }
    }

    /// Sleeps until a frame arrives, somebody wakes us or `patience` is over (`None`: no limit);
    /// with `for_room` also until there is room to send.
    pub fn wait(
        &self,
        patience: Option<Duration>,
        for_room: bool,
        waker: &Waker,
    ) -> io::Result<()> {
        let mut polled = [
            PollFd::readable(self.socket.as_fd()).or_writable(for_room),
            PollFd::readable(waker.as_fd()),
        ];
        wait(&mut polled, patience.map(Into::into), None)
    }
}
