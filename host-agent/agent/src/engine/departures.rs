//! Times at which packets of virtual machines conformed, in a file that all agents of a machine share: they have the
//! same clock, and packets do not carry the time to their receiver.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use ebb_transport::tenant::Departures;
use ebb_units::Instant;

/// Packets of a VM that are remembered: more than buffers of a path hold.
const REMEMBERED: u64 = 4096;
/// Bytes of a time: ps of CLOCK_MONOTONIC, big-endian.
const TIME_BYTES: u64 = 8;

/// The last departures of every VM, by the identification of its packets.
pub struct DepartureFile {
    file: File,
    /// Where the times of each VM begin, in bytes.
    begins: BTreeMap<Ipv4Addr, u64>,
    /// The file could not be used once: nothing that it says counts any more.
    failed: AtomicBool,
}

impl DepartureFile {
    /// The file of a run whose VMs have these addresses, the same at all hosts. It is made if it is not
    /// there.
    pub fn open(path: &Path, addresses: impl Iterator<Item = Ipv4Addr>) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = options
            .open(path)
            .with_context(|| format!("cannot open the departures {}", path.display()))?;
        let begins = addresses.zip((0..).map(|vm: u64| vm * REMEMBERED * TIME_BYTES));
        Ok(DepartureFile {
            file,
            begins: begins.collect(),
            failed: AtomicBool::new(false),
        })
    }

    fn place(&self, from: Ipv4Addr, identification: u16) -> Option<u64> {
        let slot = u64::from(identification) % REMEMBERED;
        Some(self.begins.get(&from)? + slot * TIME_BYTES)
    }
}

impl Departures for DepartureFile {
    fn note(&self, from: Ipv4Addr, identification: u16, at: Instant) {
        let Some(place) = self.place(from, identification) else {
            return;
        };
        let time = at.as_picos().to_be_bytes();
        if let Err(error) = self.file.write_all_at(&time, place)
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                "no more delays of packets are measured: the file of departures: {error}"
            );
        }
    }

    fn at(&self, from: Ipv4Addr, identification: u16) -> Option<Instant> {
        let mut time = [0; TIME_BYTES as usize];
        let place = self.place(from, identification)?;
        self.file.read_exact_at(&mut time, place).ok()?;
        let picos = u64::from_be_bytes(time);
        let known = picos != 0 && !self.failed.load(Ordering::Relaxed);
        known.then(|| Instant::from_picos(picos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_find_what_others_have_noted_and_nothing_else() {
        let folder = ebb_testkit::Folder::new("departures");
        let path = folder.write("departures", "");
        let vms = [1, 2].map(|last| Ipv4Addr::new(100, 64, 0, last));
        let [sender, receiver] =
            [(); 2].map(|()| DepartureFile::open(&path, vms.into_iter()).unwrap());
        sender.note(vms[1], 7, Instant::from_micros(5));
        sender.note(Ipv4Addr::LOCALHOST, 7, Instant::from_micros(6));
        assert_eq!(receiver.at(vms[1], 7), Some(Instant::from_micros(5)));
        assert_eq!(receiver.at(vms[0], 7), None);
        assert_eq!(receiver.at(vms[1], 8), None);
        assert_eq!(receiver.at(Ipv4Addr::LOCALHOST, 7), None);
    }
}
