//! Words that are written on all ways to a place in a program.

use crate::slot::{Place, Slot};

/// By word of the packet, whether it is.
pub(super) type Written = Vec<bool>;

/// Words that two ways to a place have both written. Returns whether `to` has lost something.
pub(super) fn join(to: &mut Option<Written>, from: &Written) -> bool {
    let Some(to) = to else {
        *to = Some(from.clone());
        return true;
    };
    let mut changed = false;
    for (to, from) in to.iter_mut().zip(from) {
        changed |= *to && !from;
        *to &= from;
    }
    changed
}

/// The field of a place is written.
pub(super) fn set(written: &mut Written, place: impl Into<Option<Place>>) {
    if let Some(place) = place.into() {
        written[place.at as usize] = true;
    }
}

/// The words of a field are written.
pub(super) fn set_slot(written: &mut Written, slot: Slot) {
    written[slot.at as usize..(slot.at + slot.words) as usize].fill(true);
}
