//! What a thread sends through its interfaces: by itself, or with a thread that does nothing else.

use std::io;

use ebb_pipeline::Frames;

use super::interface::Interface;
use super::sender::{Parcel, Sender};
use crate::network::Partition;

/// The interfaces of a thread.
pub(super) struct Interfaces<'a> {
    pub partition: &'a mut Partition<Interface>,
    /// Their places in it.
    pub places: &'a [u32],
    /// Where frames go that have been sent.
    pub memory: &'a mut Frames,
}

#[derive(Default)]
pub(super) struct Outbox {
    /// `None`: the thread sends itself.
    sender: Option<Sender>,
    /// To be used again.
    empty: Vec<Parcel>,
}

impl Outbox {
    /// Has what leaves in larger numbers sent by a thread of this name, which calls `prepare` first.
    pub fn send_apart(
        &mut self,
        partition: &Partition<Interface>,
        name: String,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let hosts = partition.hosts();
        let lines: Vec<_> = hosts.map(|(_, host)| host.line().clone()).collect();
        let send = move |parcel: &mut Parcel| {
            for (line, batch) in lines.iter().zip(parcel) {
                line.send(&batch.frames, &mut batch.drops);
            }
        };
        self.sender = Some(Sender::start(name, prepare, send)?);
        Ok(())
    }

    /// Sends what the interfaces have, or has it sent.
    pub fn send(&mut self, mut interfaces: Interfaces<'_>) {
        let Some(sender) = &mut self.sender else {
            return interfaces.for_each(Interface::send);
        };
        while let Some(parcel) = sender.poll() {
            self.empty.push(interfaces.unpack(parcel));
        }
        let mut frames = 0;
        interfaces.for_each(|interface, _| frames += interface.to_send());
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

    /// Returns when all has been sent.
    pub fn finish(&mut self, mut interfaces: Interfaces<'_>) {
        if let Some(sender) = self.sender.take() {
            sender.finish(|parcel| {
                interfaces.unpack(parcel);
            });
        }
    }
}

impl Interfaces<'_> {
    fn for_each(&mut self, mut f: impl FnMut(&mut Interface, &mut Frames)) {
        for place in self.places {
            if let Some(interface) = self.partition.host_mut(*place) {
                f(interface, self.memory);
            }
        }
    }

    /// All that is to be sent.
    fn pack(&mut self, mut parcel: Parcel) -> Parcel {
        parcel.resize_with(self.places.len(), Default::default);
        for (place, batch) in self.places.iter().zip(&mut parcel) {
            if let Some(interface) = self.partition.host_mut(*place) {
                interface.hand_over(batch);
            }
        }
        parcel
    }

    /// It has been sent.
    fn unpack(&mut self, mut parcel: Parcel) -> Parcel {
        for (place, batch) in self.places.iter().zip(&mut parcel) {
            if let Some(interface) = self.partition.host_mut(*place) {
                interface.take_back(batch, self.memory);
            }
        }
        parcel
    }
}
