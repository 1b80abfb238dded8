//! Reno with ECN: a mark halves the window as a loss does, once per window (RFC 3168 6.1.2).

use super::reno::RenoControl;
use super::{Algorithm, CongestionControl, EcnMode, Window};

#[derive(Clone, Copy, Debug)]
pub struct RenoEcn;

impl Algorithm for RenoEcn {
    fn ecn(&self) -> EcnMode {
        EcnMode::Classic
    }

    fn start(&self, window: Window) -> Box<dyn CongestionControl> {
        Box::new(RenoControl::new(window))
    }
}
