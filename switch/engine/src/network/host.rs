//! A host as the network sees it.

use ebb_pipeline::Frames;
use ebb_units::{BitRate, Instant};

/// Something at the end of a switch port. Sans-IO: it gets the time and says when it wants to be
/// woken.
pub trait Host: Send {
    fn name(&self) -> &str;
    /// The last bit of a frame has arrived.
    fn receive(&mut self, now: Instant, frame: Vec<u8>);
    /// The time it asked for has come.
    fn wake(&mut self, now: Instant);
    /// When to wake it, if nothing arrives before.
    fn next_wake(&self) -> Option<Instant>;
    /// A frame that starts to leave now, and when its last bit is out. `None`: nothing more now.
    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)>;
    /// It sends nothing while the network runs, whatever it receives: its frames are injected in between.
    fn is_passive(&self) -> bool {
        false
    }
    /// Exchanges the memory for frames. The nodes of one thread use one store in turn: then what one of them
    /// leaves in the caches serves the next.
    fn exchange_frames(&mut self, _frames: &mut Frames) {}
    /// Its link carries no more than this from now on; `None`: as much as it sends. True: the host
    /// keeps to it. Otherwise its frames wait where the link begins.
    fn limit_rate(&mut self, _rate: Option<BitRate>) -> bool {
        false
    }
}
