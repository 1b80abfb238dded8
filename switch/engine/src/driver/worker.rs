//! One thread of the driver: one partition of the network, with its interfaces.

use std::io;
use std::os::fd::AsFd;

use ebb_packet_io::{MAX_FRAME_BYTES, PollFd, ReceiveBuffers, wait};
use ebb_units::{Duration, Instant};

use super::clock::Clock;
use super::interface::Interface;
use crate::control::{Command, ControlReceiver, Request};
use crate::network::Partition;

/// Frames per system call.
const BATCH: usize = 32;
/// The longest sleep; kernel drops are read at least this often.
const MAX_SLEEP: Duration = Duration::from_secs(1);

pub(super) struct Worker<'a> {
    partition: &'a mut Partition<Interface>,
    clock: Clock,
    commands: ControlReceiver,
    /// Places of the interfaces.
    interfaces: Vec<u32>,
    buffers: ReceiveBuffers,
    /// Read and not yet injected.
    frames: Vec<(Instant, Vec<u8>)>,
    statistics_due: Instant,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        partition: &'a mut Partition<Interface>,
        clock: Clock,
        commands: ControlReceiver,
    ) -> Self {
        let interfaces = partition.hosts().map(|(index, _)| index).collect();
        Self {
            partition,
            clock,
            commands,
            interfaces,
            buffers: ReceiveBuffers::new(BATCH, MAX_FRAME_BYTES),
            frames: Vec::new(),
            statistics_due: Instant::ZERO,
        }
    }

    /// Runs until it is told to stop.
    pub(super) fn run(&mut self) -> io::Result<()> {
        ebb_packet_io::wake_up_on_time();
        loop {
            self.sleep()?;
            let read_until = self.read();
            self.partition.run(read_until);
            let stop = self.obey();
            self.send();
            self.count_drops(stop);
            if stop {
                return Ok(());
            }
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let deadline = self.partition.next_event();
        let sleep = deadline.unwrap_or(Instant::FAR_FUTURE).since(now);
        if !sleep.is_zero() {
            self.partition.flush_captures();
        }
        let mut polled = vec![PollFd::readable(self.commands.wake_fd().as_fd())];
        let mut present = Vec::new();
        for (index, interface) in self.partition.hosts() {
            if interface.is_present() {
                present.push(index);
                polled.push(PollFd::readable(interface.socket().as_fd()));
            }
        }
        wait(&mut polled, Some(sleep.min(MAX_SLEEP).into()), None)?;
        let seen = polled[1..].iter();
        let seen: Vec<_> = seen.map(|fd| (fd.is_readable(), fd.has_failed())).collect();
        for (index, (readable, failed)) in present.into_iter().zip(seen) {
            if let Some(interface) = self.partition.host_mut(index) {
                interface.note_events(readable, failed);
            }
        }
        Ok(())
    }

    /// Reads what has arrived and says until when everything has been read.
    fn read(&mut self) -> Instant {
        let now = self.clock.now();
        let realtime = self.clock.realtime();
        let mut read_until = now;
        for index in &self.interfaces {
            let Some(interface) = self.partition.host_mut(*index) else {
                continue;
            };
            let until = interface.read(&mut self.buffers, now, realtime, &mut self.frames);
            read_until = read_until.min(until);
            for (at, frame) in self.frames.drain(..) {
                self.partition.inject(*index, at, frame);
            }
        }
        read_until
    }

    /// Does what other threads ask for; true if one of them stops the driver.
    fn obey(&mut self) -> bool {
        self.commands.acknowledge();
        let mut stop = false;
        while let Some(Command(request)) = self.commands.next() {
            let now = self.partition.ran_until();
            match request {
                Request::At(id, work) => {
                    // A command for a node that is not here is dropped, which tells its sender.
                    if let Some(index) = self.partition.index_of(id) {
                        self.partition.with_node(index, now, |access| work(access));
                    }
                }
                Request::Everywhere(mut work) => self.partition.with_all_nodes(now, &mut *work),
                Request::Stop => stop = true,
            }
        }
        if self.partition.take_delays_changed() {
            self.partition.measure();
        }
        stop
    }

    fn send(&mut self) {
        for index in &self.interfaces {
            if let Some(interface) = self.partition.host_mut(*index) {
                interface.send();
            }
        }
    }

    /// Has the switches count what their interfaces dropped.
    fn count_drops(&mut self, force: bool) {
        let now = self.partition.ran_until();
        let statistics = now >= self.statistics_due || force;
        if statistics {
            self.statistics_due = now + MAX_SLEEP;
        }
        for index in &self.interfaces {
            let Some(interface) = self.partition.host_mut(*index) else {
                continue;
            };
            if statistics {
                interface.read_kernel_drops();
            }
            for dropped in interface.take_drops() {
                self.partition
                    .count_drop(*index, dropped.reason, dropped.packets, dropped.bytes);
            }
        }
    }
}
