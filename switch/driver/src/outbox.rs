//! Frames that a thread sends through its interfaces, either itself or with a thread that does nothing
//! else.

use std::io;
use std::sync::Arc;

use ebb_engine::drive::{Partition, Wake};
use ebb_pipeline::Frames;

use crate::clock::Clock;
use crate::interface::Interface;
use crate::sender::{Addressed, Parcel, Sender};
use crate::wake::Waker;

/// The interfaces of a thread, for the time of one call.
pub(crate) struct Interfaces<'a> {
    /// The partition whose hosts they are.
    pub partition: &'a mut Partition<Interface>,
    /// Indices of the interfaces in the partition.
    pub places: &'a [u32],
    /// Store to which the memory of sent frames returns.
    pub memory: &'a mut Frames,
    /// The time of the network.
    pub clock: Clock,
}

/// Sends what the interfaces of a thread have.
#[derive(Default)]
pub(crate) struct Outbox {
    /// The thread that sends; `None` if this one does.
    sender: Option<Sender>,
    /// Parcels that came back, whose memory is used again.
    empty: Vec<Parcel>,
}

impl Outbox {
    /// Starts a thread of this name to which larger numbers of frames are handed. It calls
    /// `prepare` first, and `waker` when an interface takes no more frames.
    pub fn send_apart(
        &mut self,
        name: String,
        clock: Clock,
        waker: Arc<Waker>,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let send = move |parcel: &mut Parcel| {
            let mut any_left = false;
            for Addressed { line, batch } in parcel {
                if let Some(line) = line {
                    line.send(batch, clock);
                }
                any_left |= batch.is_left();
            }
            if any_left {
                waker.wake();
            }
        };
        self.sender = Some(Sender::start(name, prepare, send)?);
        Ok(())
    }

    /// Sends what the interfaces have, or hands it to the sending thread. What is for rings costs only a copy, and is
    /// written here.
    pub fn send(&mut self, mut interfaces: Interfaces<'_>) {
        interfaces.for_each(Interface::send_to_rings);
        let Some(sender) = &mut self.sender else {
            return interfaces.for_each(Interface::send);
        };
        while let Some(parcel) = sender.poll() {
            self.empty.push(interfaces.unpack(parcel));
        }
        let mut frames = 0;
        interfaces.for_each(|interface, memory, clock| match interface.is_pressed() {
            true => interface.send(memory, clock),
            false => frames += interface.to_send(),
        });
        if frames == 0 {
            return;
        }
        if !sender.wants(frames) {
            return interfaces.for_each(Interface::send);
        }
        let parcel = interfaces.pack(self.empty.pop().unwrap_or_default());
        let healthy = sender.send(parcel, |parcel| self.empty.push(interfaces.unpack(parcel)));
        if !healthy {
            self.finish(interfaces);
        }
    }

    /// Ends the sending thread, once it has sent all that it has.
    pub fn finish(&mut self, mut interfaces: Interfaces<'_>) {
        if let Some(sender) = self.sender.take() {
            sender.finish(|parcel| {
                interfaces.unpack(parcel);
            });
        }
    }
}

impl Interfaces<'_> {
    /// Calls `f` for each interface.
    fn for_each(&mut self, mut f: impl FnMut(&mut Interface, &mut Frames, Clock)) {
        for place in self.places {
            if let Some(interface) = self.partition.host_mut(*place) {
                f(interface, self.memory, self.clock);
            }
        }
    }

    /// Moves all frames to be sent into a parcel.
    fn pack(&mut self, mut parcel: Parcel) -> Parcel {
        parcel.resize_with(self.places.len(), Default::default);
        for (place, part) in self.places.iter().zip(&mut parcel) {
            if let Some(interface) = self.partition.host_mut(*place) {
                interface.hand_over(part);
            }
        }
        parcel
    }

    /// Takes back a parcel that was sent, with the frames that the interfaces did not take.
    fn unpack(&mut self, mut parcel: Parcel) -> Parcel {
        for (place, part) in self.places.iter().zip(&mut parcel) {
            if let Some(interface) = self.partition.host_mut(*place) {
                interface.take_back(&mut part.batch, self.memory);
            }
        }
        parcel
    }
}
