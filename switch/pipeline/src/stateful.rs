//! Counters, meters and registers.

use std::sync::Arc;

use ebb_units::Instant;
use num_bigint::BigInt;

use crate::bits::words_for;
use crate::control::{CounterValue, MeterConfig, MeterCounts, MeterUnit};
use crate::native::Cells;
use crate::slot::{Slot, load, load_big, store, store_big};

const PS_PER_S: u128 = 1_000_000_000_000;

impl CounterValue {
    #[inline]
    pub(crate) fn count(&mut self, bytes: u64) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// An array of the program, before it has cells.
#[derive(Debug)]
pub(crate) struct ArraySpec {
    /// Its name in P4.
    pub name: Arc<str>,
    /// How many cells it has.
    pub size: u32,
}

/// A counter array.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Its name in P4.
    pub name: Arc<str>,
    /// Packets and bytes of each cell. Zeroed memory costs nothing until it is written to, and most
    /// of an array is never used.
    pub cells: Cells<[u64; 2]>,
}

impl Counters {
    pub fn new(spec: &ArraySpec) -> Counters {
        Counters {
            name: spec.name.clone(),
            cells: vec![[0; 2]; spec.size as usize].into(),
        }
    }

    /// Counts a packet of this length in bytes. Outside the array nothing happens, as on BMv2.
    #[inline]
    pub fn count(&mut self, index: u64, length: u64) {
        if let Some([packets, bytes]) = self.cells.get_mut(index as usize) {
            *packets = packets.wrapping_add(1);
            *bytes = bytes.wrapping_add(length);
        }
    }
}

/// Values of v1model's `MeterColor`.
const GREEN: u64 = 0;
const YELLOW: u64 = 1;
const RED: u64 = 2;

/// A meter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// Its configuration; `None` if every packet is green.
    config: Option<MeterConfig>,
    /// The bucket of the committed rate.
    committed: Bucket,
    /// The bucket of the peak rate or of the excess burst.
    peak: Bucket,
    /// Packets by colour.
    counts: MeterCounts,
}

/// A token bucket. What it has been granted is computed from the start of time, so that rounding
/// errors do not add up.
#[derive(Clone, Debug, Default)]
struct Bucket {
    /// The tokens it has.
    tokens: u64,
    /// The tokens it has been granted since time zero.
    granted: u128,
}

impl Bucket {
    /// A bucket that is full at `now`.
    fn full(burst: u64, rate: u64, now: Instant) -> Bucket {
        Bucket {
            tokens: burst,
            granted: Bucket::granted_by(rate, now),
        }
    }

    /// The tokens that a rate grants from time zero to `now`.
    fn granted_by(rate: u64, now: Instant) -> u128 {
        u128::from(now.as_picos()) * u128::from(rate) / PS_PER_S
    }

    /// Grants what is due, and returns the tokens that did not fit.
    fn fill(&mut self, rate: u64, burst: u64, now: Instant) -> u64 {
        let granted = Bucket::granted_by(rate, now);
        let fresh = u64::try_from(granted.saturating_sub(self.granted)).unwrap_or(u64::MAX);
        self.granted = granted;
        let all = self.tokens.saturating_add(fresh);
        self.tokens = all.min(burst);
        all - self.tokens
    }

    /// Takes this many tokens if there are as many.
    fn take(&mut self, amount: u64) -> bool {
        match self.tokens.checked_sub(amount) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

impl Meter {
    /// Sets the configuration, with full buckets.
    pub fn configure(&mut self, config: Option<MeterConfig>, now: Instant) {
        self.config = config;
        if let Some(c) = config {
            self.committed = Bucket::full(c.cburst, c.cir, now);
            self.peak = match c.eburst {
                None => Bucket::full(c.pburst, c.pir, now),
                Some(eburst) => Bucket::full(eburst, c.cir, now),
            };
        }
    }

    /// The configuration; `None` if every packet is green.
    pub fn config(&self) -> Option<MeterConfig> {
        self.config
    }

    /// Packets by colour.
    pub fn counts(&self) -> MeterCounts {
        self.counts
    }

    /// Sets the packets by colour.
    pub fn set_counts(&mut self, counts: MeterCounts) {
        self.counts = counts;
    }

    /// The colour of a packet, which is counted.
    pub fn colour(&mut self, unit: MeterUnit, bytes: u64, now: Instant) -> u64 {
        let colour = self.mark(unit, bytes, now);
        self.counts[colour as usize].count(bytes);
        colour
    }

    /// The colour of a packet by RFC 2697 or RFC 2698, colour-blind. Without configuration every
    /// packet is green.
    fn mark(&mut self, unit: MeterUnit, bytes: u64, now: Instant) -> u64 {
        let Some(c) = self.config else {
            return GREEN;
        };
        let amount = match unit {
            MeterUnit::Bytes => bytes,
            MeterUnit::Packets => 1,
        };
        let spilled = self.committed.fill(c.cir, c.cburst, now);
        match c.eburst {
            None => {
                self.peak.fill(c.pir, c.pburst, now);
                if !self.peak.take(amount) {
                    RED
                } else if !self.committed.take(amount) {
                    YELLOW
                } else {
                    GREEN
                }
            }
            // The excess bucket gets what the committed one cannot hold.
            Some(eburst) => {
                self.peak.tokens = self.peak.tokens.saturating_add(spilled).min(eburst);
                if self.committed.take(amount) {
                    GREEN
                } else if self.peak.take(amount) {
                    YELLOW
                } else {
                    RED
                }
            }
        }
    }
}

/// A meter array of the program, before it has cells.
#[derive(Debug)]
pub(crate) struct MeterSpec {
    /// Its name and size.
    pub array: ArraySpec,
    /// Unit of its rates and bursts.
    pub unit: MeterUnit,
    /// Bytes that it adds to the length of each packet.
    pub adjust: i32,
}

/// A meter array.
#[derive(Debug)]
pub(crate) struct Meters {
    /// Its name in P4.
    pub name: Arc<str>,
    /// Unit that it counts.
    pub unit: MeterUnit,
    /// Bytes that it adds to the length of each packet.
    pub adjust: i32,
    /// Its meters.
    pub cells: Vec<Meter>,
}

impl Meters {
    pub fn new(spec: &MeterSpec) -> Meters {
        Meters {
            name: spec.array.name.clone(),
            unit: spec.unit,
            adjust: spec.adjust,
            cells: vec![Meter::default(); spec.array.size as usize],
        }
    }
}

/// A register array, as expressions and primitives refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterRef {
    /// Its index among the arrays of the program.
    pub number: u32,
    /// Width of a cell in bits.
    pub bits: u32,
}

/// A register array of the program, before it has cells.
#[derive(Debug)]
pub(crate) struct RegisterSpec {
    /// Its name and size.
    pub array: ArraySpec,
    /// Width of a cell in bits.
    pub bits: u32,
    /// The words of the value of every cell in the beginning.
    pub initial: Box<[u64]>,
}

/// All register arrays of a switch.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    /// The arrays, in the order of the program.
    pub arrays: Vec<RegisterArray>,
}

/// A register array.
#[derive(Debug)]
pub(crate) struct RegisterArray {
    /// Its name in P4.
    pub name: Arc<str>,
    /// Width of a cell in bits.
    pub bits: u32,
    /// Number of cells.
    pub size: u64,
    /// The cells one after the other, each as the words of its value, the most significant one
    /// first.
    pub words: Cells<u64>,
}

impl RegisterArray {
    pub fn new(spec: &RegisterSpec) -> RegisterArray {
        let size = spec.array.size as usize;
        // Zeroed memory costs nothing until it is written to.
        let words = match spec.initial.iter().all(|word| *word == 0) {
            true => vec![0; size * words_for(spec.bits)],
            false => spec.initial.repeat(size),
        };
        RegisterArray {
            name: spec.array.name.clone(),
            bits: spec.bits,
            size: u64::from(spec.array.size),
            words: words.into(),
        }
    }

    /// Gives a cell the value that it has in the beginning.
    pub fn reset(&mut self, spec: &RegisterSpec, index: u32) {
        if let Some(slot) = self.slot(u64::from(index)) {
            let (at, words) = (slot.at as usize, slot.words as usize);
            self.words[at..at + words].copy_from_slice(&spec.initial);
        }
    }

    /// Where a cell lies in [`words`](Self::words). The loader bounds the memory of all arrays, so
    /// 32 bits hold every index.
    #[inline]
    pub fn slot(&self, index: u64) -> Option<Slot> {
        let words = words_for(self.bits) as u32;
        (index < self.size).then(|| Slot {
            at: index as u32 * words,
            words,
            bits: self.bits,
            signed: false,
        })
    }
}

/// Outside the array reads find nothing, and writes do nothing, as on BMv2.
impl Registers {
    /// The low 128 bits of a cell; `None` outside the array.
    #[inline]
    pub fn get(&self, register: RegisterRef, index: u64) -> Option<i128> {
        let array = &self.arrays[register.number as usize];
        Some(load(&array.words, array.slot(index)?))
    }

    /// The value of a cell of any width; `None` outside the array.
    pub fn get_big(&self, register: RegisterRef, index: u64) -> Option<BigInt> {
        let array = &self.arrays[register.number as usize];
        Some(load_big(&array.words, array.slot(index)?))
    }

    /// Stores as many low bits as the cell has.
    #[inline]
    pub fn set(&mut self, register: RegisterRef, index: u64, value: i128) {
        let array = &mut self.arrays[register.number as usize];
        if let Some(slot) = array.slot(index) {
            store(&mut array.words, slot, value);
        }
    }

    /// Stores as many low bits of a big number as the cell has.
    pub fn set_big(&mut self, register: RegisterRef, index: u64, value: &BigInt) {
        let array = &mut self.arrays[register.number as usize];
        if let Some(slot) = array.slot(index) {
            store_big(&mut array.words, slot, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_micros(n * 1000)
    }

    #[test]
    fn a_meter_follows_rfc_2698() {
        let mut meter = Meter::default();
        assert_eq!(meter.colour(MeterUnit::Packets, 100, ms(0)), GREEN);
        let config = MeterConfig {
            cir: 1,
            cburst: 1,
            pir: 2,
            pburst: 2,
            eburst: None,
        };
        meter.configure(Some(config), ms(0));
        let mut colours = |t| meter.colour(MeterUnit::Packets, 1500, ms(t));
        assert_eq!(colours(0), GREEN);
        assert_eq!(colours(1), YELLOW);
        assert_eq!(colours(2), RED);
        // Half a second gives one token to the peak bucket, none to the committed one.
        assert_eq!(colours(500), YELLOW);
        assert_eq!(colours(1000), GREEN);
    }

    #[test]
    fn a_byte_meter_counts_bytes() {
        let mut meter = Meter::default();
        let config = MeterConfig {
            cir: 1_000_000,
            cburst: 1000,
            pir: 1_000_000,
            pburst: 2000,
            eburst: None,
        };
        meter.configure(Some(config), ms(5));
        let mut colour = |t, bytes| meter.colour(MeterUnit::Bytes, bytes, ms(t));
        assert_eq!(colour(5, 1000), GREEN);
        assert_eq!(colour(5, 1000), YELLOW);
        assert_eq!(colour(5, 1), RED);
        // A millisecond is worth 1000 bytes.
        assert_eq!(colour(6, 1000), GREEN);
    }

    #[test]
    fn a_meter_with_one_rate_follows_rfc_2697() {
        let mut meter = Meter::default();
        let config = MeterConfig {
            cir: 1000,
            cburst: 2,
            pir: 1000,
            pburst: 2,
            eburst: Some(3),
        };
        meter.configure(Some(config), ms(0));
        let mut colours = |t| meter.colour(MeterUnit::Packets, 1500, ms(t));
        // Two of the committed burst, three of the excess burst.
        let burst: Vec<_> = (0..6).map(|_| colours(0)).collect();
        assert_eq!(burst, [GREEN, GREEN, YELLOW, YELLOW, YELLOW, RED]);
        // The committed bucket fills first: a token per millisecond.
        assert_eq!([colours(1), colours(1)], [GREEN, RED]);
        // Tokens beyond its depth go to the excess bucket: 4 tokens are two of each.
        let later: Vec<_> = (0..5).map(|_| colours(5)).collect();
        assert_eq!(later, [GREEN, GREEN, YELLOW, YELLOW, RED]);
    }

    #[test]
    fn with_one_rate_and_no_excess_burst_both_kinds_mark_alike() {
        // P4Runtime: SINGLE_RATE_TWO_COLOR is a special case of either.
        let config = |eburst| MeterConfig {
            cir: 700,
            cburst: 5,
            pir: 700,
            pburst: 5,
            eburst,
        };
        let mut meters = [Meter::default(), Meter::default()];
        meters[0].configure(Some(config(None)), ms(0));
        meters[1].configure(Some(config(Some(0))), ms(0));
        for n in 0..2000 {
            let [a, b] = &mut meters;
            // Ten at once, for which there are seven tokens.
            let at = ms(n / 10 * 10);
            let colours = [a, b].map(|m| m.colour(MeterUnit::Packets, 60, at));
            assert_eq!(colours[0], colours[1], "packet {n}");
            assert_ne!(colours[0], YELLOW);
        }
        assert!(meters[0].counts()[2].packets > 100);
    }

    fn spec(name: &str, bits: u32, size: u32) -> RegisterSpec {
        let name = name.into();
        RegisterSpec {
            array: ArraySpec { name, size },
            bits,
            initial: vec![0; words_for(bits)].into(),
        }
    }

    #[test]
    fn registers_cut_to_their_width() {
        let mut registers = Registers {
            arrays: vec![
                RegisterArray::new(&spec("r", 9, 2)),
                RegisterArray::new(&spec("w", 100, 1)),
            ],
        };
        let [r, w] = [(0, 9), (1, 100)].map(|(number, bits)| RegisterRef { number, bits });
        registers.set(r, 1, -1);
        registers.set(r, 2, 7);
        assert_eq!(registers.get(r, 1), Some(0x1ff));
        assert_eq!(registers.get(r, 0), Some(0));
        assert_eq!(registers.get(r, 2), None);
        registers.set(w, 0, -1);
        assert_eq!(registers.get(w, 0), Some((1 << 100) - 1));
        let wide = (BigInt::from(3) << 99) + 5;
        registers.set_big(w, 0, &wide);
        assert_eq!(registers.get_big(w, 0), Some((BigInt::from(1) << 99) + 5));
    }
}
