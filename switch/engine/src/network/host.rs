//! A host as the network sees it.

use ebb_pipeline::Frames;
use ebb_units::{BitRate, Instant};

/// Something at the end of a switch port. It is sans-IO: it gets the time, and says when it wants
/// to be woken.
pub trait Host: Send {
    /// The name of the host.
    fn name(&self) -> &str;
    /// The last bit of a frame has arrived.
    fn receive(&mut self, now: Instant, frame: Vec<u8>);
    /// The time at which the host wanted to be woken has come.
    fn wake(&mut self, now: Instant);
    /// When to wake the host if no frame arrives before; `None`: not at all.
    fn next_wake(&self) -> Option<Instant>;
    /// The next frame that starts to leave now, and when its last bit leaves; `None` if there is
    /// none. It is called until it returns `None`.
    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)>;
    /// Whether the host sends nothing while the network runs, whatever it receives. Its frames are
    /// injected in between.
    fn is_passive(&self) -> bool {
        false
    }
    /// Exchanges the memory for frames. The nodes of one thread use one store in turn, so what one
    /// leaves in the caches serves the next.
    fn exchange_frames(&mut self, _frames: &mut Frames) {}
    /// Limits the rate of the host's link to `_rate` from now on; `None` lifts the limit. True if
    /// the host keeps to it itself; otherwise its frames wait where the link begins.
    fn limit_rate(&mut self, _rate: Option<BitRate>) -> bool {
        false
    }
}
