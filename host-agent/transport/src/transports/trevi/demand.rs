//! What a receiver wants of its sender, and what it does when that does not come.

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::blocks::MAX_OPEN;
use super::receiver::Receiver;
use super::tract::Tract;
use crate::receiver_driven::{Ending, Outbox};

impl Receiver {
    /// The first block that needs symbols. None: nothing is to be sent.
    pub(super) fn wanted(&self) -> Option<u32> {
        if self.paused || self.ending.is_some() {
            return None;
        }
        let at = self.open.iter().position(Tract::is_receiving);
        let offset = at.map_or(self.open.len() as u32, |at| at as u32);
        let block = self.next_delivered + offset;
        (block < self.blocks.count() && offset < MAX_OPEN).then_some(block)
    }

    /// A request that says how far we are. `label` 0: it asks for no symbol in particular.
    fn request(&self, block: u32, label: u32) -> EbbHeader {
        EbbHeader {
            block,
            pull: label,
            object_bytes: self.blocks.offset(self.next_delivered),
            ..EbbHeader::new(PacketType::Request, 0, 0)
        }
    }

    /// Tells the sender what is wanted.
    pub(super) fn tell(&mut self, now: Instant, flags: EbbFlags, out: &mut Outbox) {
        self.has_spoken = true;
        self.unwanted = 0;
        self.last_told = now;
        let fin = EbbFlags::FIN.when(self.ending == Some(Ending::Finished));
        out.control.push(match self.wanted() {
            Some(block) => EbbHeader {
                flags,
                ..self.request(block, 0)
            },
            None => self.blocks.stop(flags | fin),
        });
    }

    /// Asks for as many symbols as the window and what is missing allow.
    pub(super) fn ask(&mut self, now: Instant, out: &mut Outbox) {
        if self.wanted().is_none() {
            return;
        }
        let end = self.next_delivered.saturating_add(MAX_OPEN);
        let end = end.min(self.blocks.count());
        let mut block = self.next_delivered;
        while let Some(pull) = &mut self.pull
            && pull.has_room()
            && block < end.min(pull.until)
        {
            let pending = pull.requests.pending_of(block);
            let index = self.open_block(block);
            if self.open[index].missing() <= pending || !self.has_room(index, &out.buffers) {
                block += 1;
                continue;
            }
            if let Some(pull) = &mut self.pull {
                let label = pull.ask(now, block);
                self.counters.pulls_sent += 1;
                self.has_spoken = true;
                out.control.push(self.request(block, label));
            }
        }
    }

    /// When the sender is told once more: that it is to stop, or what is wanted of one that is silent.
    pub(super) fn told_again_at(&self) -> Instant {
        let since = self.retry.last_heard().max(self.last_told);
        match self.wanted() {
            None if self.ending.is_none() && self.retry.silent() == 0 => {
                since + self.retry.longest_interval()
            }
            _ => self.retry.deadline(since),
        }
    }
}
