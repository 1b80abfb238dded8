//! Signals that ask the agent for something: whatever thread the kernel interrupts, the signal is
//! noted and the engine woken.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};

use crate::machine::waker::Waker;

/// Signals are noted, and have no other effect, as long as this lives.
pub struct Signals {
    end: Arc<AtomicBool>,
    report: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

impl Signals {
    /// Has SIGINT and SIGTERM ask the agent to end.
    pub fn install(waker: &Waker) -> io::Result<Self> {
        let mut signals = Signals {
            end: Arc::default(),
            report: Arc::default(),
            handlers: Vec::new(),
        };
        for signal in [SIGINT, SIGTERM] {
            signals.note(signal, signals.end.clone(), waker)?;
        }
        Ok(signals)
    }

    /// Has SIGUSR1 ask for a report, too.
    pub fn install_with_reports(waker: &Waker) -> io::Result<Self> {
        let mut signals = Self::install(waker)?;
        signals.note(SIGUSR1, signals.report.clone(), waker)?;
        Ok(signals)
    }

    /// The flag is set before the engine is woken, which then sees it.
    fn note(&mut self, signal: i32, flag: Arc<AtomicBool>, waker: &Waker) -> io::Result<()> {
        self.handlers.push(flag::register(signal, flag)?);
        let woken = pipe::register(signal, waker.for_signals()?)?;
        self.handlers.push(woken);
        Ok(())
    }

    pub fn asked_to_end(&self) -> bool {
        self.end.load(Ordering::SeqCst)
    }

    /// Whether a report was asked for since the last call.
    pub fn take_report(&self) -> bool {
        self.report.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            unregister(handler);
        }
    }
}
