//! Faults made on purpose, where there is no network that makes them: a trim is what a switch of
//! ours does to a packet that does not fit (`docs/wire-format.md`), the others are what Ethernet
//! and its switches do. Off unless the parameters ask for them.

use std::collections::VecDeque;

use ebb_transport::DscpParams;
use ebb_units::{Duration, Instant};
use ebb_wire::checksum::internet_checksum;
use ebb_wire::{EbbFlags, EbbHeader, EthernetHeader, Protocol};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// The most packets that are late at a time; others are on time.
const MAX_LATE: usize = 1024;

/// Section `faults` of the parameters file.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultParams {
    /// The same seed and the same packets give the same faults.
    pub seed: u64,
    /// Length of a trimmed frame, in bytes from the Ethernet header on.
    pub trim_size_bytes: u16,
    /// How late a reordered packet is.
    pub reorder_delay_ns: u64,
    /// Faults of what this agent sends.
    pub leaving: FaultRates,
    /// Faults of what arrives at this agent.
    pub arriving: FaultRates,
}

/// Probabilities per packet, each drawn on its own.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultRates {
    pub drop: f64,
    /// That a packet is trimmed, if it is of the class that may be and longer than a trim leaves.
    pub trim: f64,
    /// One bit is flipped.
    pub corrupt: f64,
    pub duplicate: f64,
    /// Later packets overtake this one.
    pub reorder: f64,
}

impl Default for FaultParams {
    fn default() -> Self {
        FaultParams {
            seed: 0,
            trim_size_bytes: 128,
            reorder_delay_ns: 1_000_000,
            leaving: FaultRates::default(),
            arriving: FaultRates::default(),
        }
    }
}

impl FaultParams {
    pub fn validate(&self) -> Result<(), String> {
        let min = EthernetHeader::BYTES + IPV4_BYTES + EbbHeader::BYTES;
        if usize::from(self.trim_size_bytes) < min {
            return Err(format!(
                "faults.trim_size_bytes is {}; a trim must leave at least {min}",
                self.trim_size_bytes
            ));
        }
        for (side, rates) in [("leaving", &self.leaving), ("arriving", &self.arriving)] {
            for (name, rate) in rates.named() {
                if !(0.0..=1.0).contains(&rate) {
                    return Err(format!(
                        "faults.{side}.{name} is {rate}; a probability is 0..1"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl FaultRates {
    fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("drop", self.drop),
            ("trim", self.trim),
            ("corrupt", self.corrupt),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
        ]
    }
}

const IPV4_BYTES: usize = 20;

/// The faults of one direction.
pub struct Faults {
    params: FaultParams,
    rates: FaultRates,
    dscp: DscpParams,
    rng: SmallRng,
    /// The packet at hand.
    packet: Vec<u8>,
    /// Packets and when they come, in order.
    late: VecDeque<(Instant, Vec<u8>)>,
}

impl Faults {
    /// `None` where no faults are asked for.
    pub fn leaving(params: &FaultParams, dscp: DscpParams) -> Option<Self> {
        Self::new(params, params.leaving, dscp, 0)
    }

    pub fn arriving(params: &FaultParams, dscp: DscpParams) -> Option<Self> {
        Self::new(params, params.arriving, dscp, 1)
    }

    fn new(params: &FaultParams, rates: FaultRates, dscp: DscpParams, side: u64) -> Option<Self> {
        let any = rates.named().iter().any(|(_, rate)| *rate > 0.0);
        any.then(|| Faults {
            params: *params,
            rates,
            dscp,
            rng: SmallRng::seed_from_u64(params.seed.wrapping_mul(2).wrapping_add(side)),
            packet: Vec::new(),
            late: VecDeque::new(),
        })
    }

    /// A packet passes: calls `out` with what becomes of it, at once.
    pub fn pass(&mut self, now: Instant, packet: &[u8], mut out: impl FnMut(&[u8])) {
        if self.happens(self.rates.drop) {
            return;
        }
        self.packet.clear();
        self.packet.extend_from_slice(packet);
        if self.happens(self.rates.trim) {
            let keep = usize::from(self.params.trim_size_bytes) - EthernetHeader::BYTES;
            trim(&mut self.packet, keep, &self.dscp);
        }
        if self.happens(self.rates.corrupt) && !self.packet.is_empty() {
            let bit = self.rng.random_range(0..self.packet.len() * 8);
            self.packet[bit / 8] ^= 1 << (bit % 8);
        }
        if self.happens(self.rates.duplicate) {
            out(&self.packet);
        }
        if self.happens(self.rates.reorder) && self.late.len() < MAX_LATE {
            let at = now + Duration::from_nanos(self.params.reorder_delay_ns);
            self.late.push_back((at, self.packet.clone()));
        } else {
            out(&self.packet);
        }
    }

    /// The next late packet that has become due.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (at, _) = self.late.front()?;
        if *at > now {
            return None;
        }
        self.late.pop_front().map(|(_, packet)| packet)
    }

    /// When [`poll`](Self::poll) has something.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.late.front().map(|(at, _)| *at)
    }

    fn happens(&mut self, rate: f64) -> bool {
        // Nothing is drawn for faults that are off: a fault that is the only one then happens to the
        // same packets, whichever fault it is.
        rate > 0.0 && self.rng.random_bool(rate)
    }
}

/// Cuts an IPv4 packet to `keep` bytes as the switch does, if its class allows that and it is
/// longer.
fn trim(packet: &mut Vec<u8>, keep: usize, dscp: &DscpParams) {
    let eligible = packet.first() == Some(&0x45) && packet[1] >> 2 == dscp.trimmable;
    if !eligible || packet.len() <= keep {
        return;
    }
    packet.truncate(keep);
    packet[1] = dscp.trimmed << 2 | packet[1] & 3;
    packet[2..4].copy_from_slice(&(keep as u16).to_be_bytes());
    set_checksum(&mut packet[..IPV4_BYTES], 10);
    if packet[9] == Protocol::EBB.0 {
        let header = &mut packet[IPV4_BYTES..IPV4_BYTES + EbbHeader::BYTES];
        header[1] |= EbbFlags::TRIMMED.0;
        set_checksum(header, 26);
    }
}

fn set_checksum(bytes: &mut [u8], at: usize) {
    bytes[at..at + 2].fill(0);
    let checksum = internet_checksum(bytes);
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// An IPv4 packet of `docs/wire-vectors.json`.
    fn vector(name: &str) -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire-vectors.json");
        let text = std::fs::read_to_string(path).unwrap();
        let all: Value = serde_json::from_str(&text).unwrap();
        let all = all.as_array().unwrap();
        let found = all.iter().find(|vector| vector["name"] == name).unwrap();
        let hex: Vec<char> = found["frame"].as_str().unwrap().chars().collect();
        let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).unwrap();
        hex.chunks(2)
            .skip(EthernetHeader::BYTES)
            .map(byte)
            .collect()
    }

    fn faults(rates: FaultRates) -> Faults {
        let params = FaultParams {
            leaving: rates,
            ..Default::default()
        };
        Faults::leaving(&params, DscpParams::default()).unwrap()
    }

    fn pass(faults: &mut Faults, packet: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        faults.pass(Instant::ZERO, packet, |packet| out.push(packet.to_vec()));
        out
    }

    #[test]
    fn a_trim_is_the_one_of_the_switch() {
        let mut all = faults(FaultRates {
            trim: 1.0,
            ..Default::default()
        });
        for (whole, trimmed) in [
            ("ndp-data-syn", "ndp-data-trimmed"),
            ("scdp-symbol-full", "scdp-symbol-trimmed"),
        ] {
            assert_eq!(pass(&mut all, &vector(whole)), [vector(trimmed)], "{whole}");
            // A trimmed packet is of another class, and too short.
            assert_eq!(pass(&mut all, &vector(trimmed)), [vector(trimmed)]);
        }
        let nack = vector("nack");
        assert_eq!(pass(&mut all, &nack), [nack]);
    }

    #[test]
    fn faults_come_as_often_as_asked_for() {
        let packet = vector("ndp-data-syn");
        let one_in_ten = |rates| {
            let mut faults = faults(rates);
            let outcomes = (0..10_000).map(|_| pass(&mut faults, &packet));
            outcomes.filter(|out| *out != [packet.clone()]).count()
        };
        let none = FaultRates::default();
        for rates in [
            FaultRates { drop: 0.1, ..none },
            FaultRates { trim: 0.1, ..none },
            FaultRates {
                corrupt: 0.1,
                ..none
            },
            FaultRates {
                duplicate: 0.1,
                ..none
            },
            FaultRates {
                reorder: 0.1,
                ..none
            },
        ] {
            let count = one_in_ten(rates);
            assert!((850..1150).contains(&count), "{rates:?}: {count}");
        }
    }

    #[test]
    fn one_bit_is_flipped_and_one_copy_more_is_made() {
        let packet = vector("ndp-data-syn");
        let corrupt = FaultRates {
            corrupt: 1.0,
            ..Default::default()
        };
        let out = pass(&mut faults(corrupt), &packet);
        let differing = packet
            .iter()
            .zip(&out[0])
            .map(|(a, b)| (a ^ b).count_ones());
        assert_eq!(differing.sum::<u32>(), 1);
        let duplicate = FaultRates {
            duplicate: 1.0,
            ..Default::default()
        };
        let out = pass(&mut faults(duplicate), &packet);
        assert_eq!(out, [packet.clone(), packet]);
    }

    #[test]
    fn a_reordered_packet_is_late() {
        let mut faults = faults(FaultRates {
            reorder: 1.0,
            ..Default::default()
        });
        assert!(pass(&mut faults, b"x").is_empty());
        let due = Instant::from_micros(1000);
        assert_eq!(faults.next_deadline(), Some(due));
        assert_eq!(faults.poll(Instant::from_micros(999)), None);
        assert_eq!(faults.poll(due), Some(b"x".to_vec()));
        assert_eq!(faults.poll(due), None);
    }

    #[test]
    fn nothing_is_done_unless_asked_for() {
        let params = FaultParams::default();
        assert!(Faults::leaving(&params, DscpParams::default()).is_none());
        assert!(Faults::arriving(&params, DscpParams::default()).is_none());
    }

    #[test]
    fn impossible_rates_are_explained() {
        let mut params = FaultParams::default();
        params.arriving.trim = 1.5;
        let error = params.validate().unwrap_err();
        assert!(error.contains("faults.arriving.trim is 1.5"), "{error}");
    }
}
