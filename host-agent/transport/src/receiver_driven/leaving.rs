//! A host that is about to go: it asks the senders of sessions that have ended here whether they know,
//! so that it need not stay for those that do. One that does not know hears the end again; one that has
//! ended answers that there is no such session.

use std::net::Ipv4Addr;

use ebb_units::Instant;
use ebb_wire::{EbbHeader, PacketType};

use super::ResetReason;
use super::inbound::is_answered_without_session;
use super::params::Section;
use super::path::Leaving;
use super::session::ReceiverDriven;
use super::session_table::SessionTable;
use super::tombstones::Epitaph;

/// Questions in a row that a sender has to leave unanswered to count as gone: one that waits for its end
/// would have asked itself meanwhile, since it does so every `max_rto`.
const MAX_QUESTIONS: u32 = 4;

impl<S: ReceiverDriven> SessionTable<S> {
    /// Begins to ask.
    pub(super) fn begin_to_leave(&mut self, now: Instant) {
        let interval = self.params.session().retry().rto;
        self.leaving.get_or_insert(Leaving { at: now, interval });
        self.ask_if_due(now);
    }

    pub(super) fn ask_if_due(&mut self, now: Instant) {
        let Some(leaving) = self.leaving.filter(|leaving| leaving.at <= now) else {
            return;
        };
        let longest = self.params.session().retry().max_rto;
        self.leaving = Some(Leaving {
            at: now + leaving.interval,
            interval: (leaving.interval * 2).min(longest),
        });
        // A sender that was never heard of has nothing to wait for.
        self.tombstones
            .retain(|stone| stone.asked < MAX_QUESTIONS && stone.path.peer.port() != 0);
        for stone in self.tombstones.iter_mut() {
            stone.asked += 1;
            let end = match stone.epitaph {
                Epitaph::Finished(closing) => closing,
                Epitaph::Reset(reason) => reason.header(),
            };
            self.control.push_back((stone.flow, stone.path, end));
            if !is_answered_without_session(end.packet_type) {
                let question = EbbHeader::new(PacketType::Pull, 0, 0);
                self.control.push_back((stone.flow, stone.path, question));
            }
        }
    }

    /// A sender says that it knows nothing of a session. If it was asked about it, that is all there is to remember.
    pub(super) fn forget_answered(&mut self, src: Ipv4Addr, header: &EbbHeader) {
        let key = (src, header.session);
        let found = self.tombstones.get(&key);
        if self.leaving.is_some()
            && header.symbol == ResetReason::UnknownSession.code()
            && found.is_some_and(|stone| stone.path.is_from(src, header))
        {
            self.tombstones.remove(&key);
        }
    }
}
