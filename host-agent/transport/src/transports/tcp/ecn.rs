//! The receiver's side of ECN: when ACKs carry ECN-Echo (RFC 3168 6.1.3, RFC 8257 3.2).

use super::congestion::EcnMode;

/// Reaction of the receiver to a data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EchoAction {
    /// Delayed ACKs as usual.
    None,
    /// The CE state changed: ACK what is still unacknowledged with the old state, then this
    /// segment, at once, with the new one. RFC 8257 3.2 allows these two ACKs, and with them the
    /// sender's count of marked bytes is exact.
    AckOldStateThenNew,
}

/// The state that decides the ECE flag of the ACKs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EchoState {
    mode: EcnMode,
    /// ECE goes out on every ACK while this is set (DCTCP.CE in RFC 8257).
    echo: bool,
}

impl EchoState {
    pub(crate) fn new(mode: EcnMode) -> Self {
        EchoState { mode, echo: false }
    }

    /// The ECE flag of an ACK sent now.
    pub(crate) fn echo(&self) -> bool {
        self.echo
    }

    /// A data segment arrived with (`ce`) or without CE, with (`cwr`) or without CWR.
    pub(crate) fn on_data(&mut self, ce: bool, cwr: bool) -> EchoAction {
        match self.mode {
            EcnMode::Off => EchoAction::None,
            EcnMode::Classic => {
                // RFC 3168 errata 3639: CWR is processed first, then CE.
                if cwr {
                    self.echo = false;
                }
                self.echo |= ce;
                EchoAction::None
            }
            // CWR needs no processing: the echo already equals the CE state of the last segment.
            EcnMode::Accurate if ce == self.echo => EchoAction::None,
            EcnMode::Accurate => {
                self.echo = ce;
                EchoAction::AckOldStateThenNew
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EchoAction::{AckOldStateThenNew, None};
    use super::*;

    /// One row: CE and CWR of the segment, then the expected action and ECE afterwards.
    type Row = (bool, bool, EchoAction, bool);

    fn check(mode: EcnMode, rows: &[Row]) {
        let mut state = EchoState::new(mode);
        for (i, &(ce, cwr, action, echo)) in rows.iter().enumerate() {
            assert_eq!(state.on_data(ce, cwr), action, "{mode:?}, row {i}");
            assert_eq!(state.echo(), echo, "{mode:?}, row {i}");
        }
    }

    #[test]
    fn dctcp_echo_follows_the_marks() {
        check(
            EcnMode::Accurate,
            &[
                (false, false, None, false),
                (true, false, AckOldStateThenNew, true),
                (true, false, None, true),
                (true, true, None, true),
                (false, false, AckOldStateThenNew, false),
                (false, true, None, false),
                (true, true, AckOldStateThenNew, true),
                (false, true, AckOldStateThenNew, false),
            ],
        );
    }

    #[test]
    fn classic_echo_lasts_until_cwr() {
        check(
            EcnMode::Classic,
            &[
                (false, false, None, false),
                (true, false, None, true),
                (false, false, None, true),
                (false, true, None, false),
                (true, true, None, true),
                (false, true, None, false),
            ],
        );
    }

    #[test]
    fn without_ecn_nothing_is_echoed() {
        check(
            EcnMode::Off,
            &[(true, false, None, false), (true, true, None, false)],
        );
    }
}
