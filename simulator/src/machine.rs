//! A host with virtual machines behind one NIC, and the hypervisor between (`docs/tenant-pacer.md`).
//!
//! A VM is a [`SimHost`] whose own interface has no rate.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ebb_engine::simulation::Host;
use ebb_transport::nic::NicParams;
use ebb_transport::tenant::{Delays, Guest, Hypervisor, HypervisorCounters, HypervisorParams};
use ebb_units::Instant;
use ebb_wire::{EthernetHeader, MacAddress, PfcFrame};

use crate::departures::Noted;
use crate::host::{Identity, SimHost};

/// A host with virtual machines.
pub struct Machine {
    name: String,
    mac: MacAddress,
    guests: Vec<SimHost>,
    hypervisor: Hypervisor,
    /// VMs that may have something to send.
    touched: Vec<usize>,
}

impl Machine {
    /// A host with these VMs behind an interface. `departures`: those of the VMs of all hosts.
    pub fn new(
        identity: Identity,
        nic: NicParams,
        params: HypervisorParams,
        guests: Vec<(SimHost, Guest)>,
        departures: Arc<Noted>,
    ) -> Self {
        // Nobody wakes up late in virtual time.
        let nic = NicParams {
            catch_up_packets: 0,
            ..nic
        };
        let stations = (identity.mac, identity.gateway);
        let (hosts, guests): (Vec<_>, Vec<_>) = guests.into_iter().unzip();
        Machine {
            name: identity.name,
            mac: identity.mac,
            touched: (0..hosts.len()).collect(),
            guests: hosts,
            hypervisor: Hypervisor::new(stations, nic, params, &guests, departures),
        }
    }

    /// Its VMs.
    pub fn guests(&self) -> &[SimHost] {
        &self.guests
    }

    /// Its VMs. Each of them may have something to send after this.
    pub fn guests_mut(&mut self) -> &mut [SimHost] {
        self.touched = (0..self.guests.len()).collect();
        &mut self.guests
    }

    /// Counters of its hypervisor.
    pub fn counters(&self) -> HypervisorCounters {
        self.hypervisor.counters()
    }

    /// Name of each of its VMs, address of each VM that packets came from, and their delays.
    pub fn delays(&self) -> impl Iterator<Item = (&str, Ipv4Addr, Delays)> {
        let delays = self.hypervisor.delays();
        delays.map(|(guest, from, delays)| (self.guests[guest].name(), from, delays))
    }

    /// Passes frames of the VMs to the hypervisor until none of them has any to send.
    fn collect(&mut self, now: Instant) {
        while let Some(guest) = self.touched.pop() {
            // An arrival or a departure may let its application start something.
            self.guests[guest].wake(now);
            let mut sent = false;
            while let Some((_, frame)) = self.guests[guest].poll_transmit(now) {
                self.hypervisor.send(now, guest, frame);
                sent = true;
            }
            if sent {
                self.touched.push(guest);
            }
        }
    }

    /// Hands a VM a frame.
    fn deliver(&mut self, now: Instant, guest: usize, frame: Vec<u8>) {
        self.guests[guest].receive(now, frame);
        self.touched.push(guest);
    }
}

impl Host for Machine {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        let Ok(ethernet) = EthernetHeader::parse(&frame) else {
            return;
        };
        if ethernet.header.ethertype == PfcFrame::ETHERTYPE {
            // A damaged control frame counts as lost.
            let _ = self.hypervisor.handle_control(now, &ethernet);
            return;
        }
        if ethernet.header.dst != self.mac || ethernet.header.ethertype != EthernetHeader::IPV4 {
            return;
        }
        if let Some(guest) = self.hypervisor.receive(now, now, ethernet.payload) {
            self.deliver(now, guest, frame);
        }
    }

    fn wake(&mut self, now: Instant) {
        for (number, guest) in self.guests.iter().enumerate() {
            if guest.next_wake().is_some_and(|at| at <= now) {
                self.touched.push(number);
            }
        }
        while let Some((guest, frame)) = self.hypervisor.poll_local(now) {
            self.deliver(now, guest, frame);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let guests = self.guests.iter().filter_map(Host::next_wake).min();
        Instant::earliest([self.hypervisor.next_deadline(), guests])
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.collect(now);
        self.hypervisor.poll_transmit(now)
    }
}
