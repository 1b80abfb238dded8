//! The engine of a host with virtual machines: one link, and behind it the hypervisor with the
//! transports of every VM, in one thread. The hypervisor is the one of simulated hosts.
//!
//! ```text
//!  turn:   wake ──► applications      link ──► hypervisor ──► transports of a VM ──► its application
//!          timeouts ──► transports    transports of all VMs ──► hypervisor: pacers, batches ──► link
//!  sleep:  until a frame arrives, somebody wakes us, the link is free or a deadline has come
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use ebb_transport::nic::{Nic, NicParams};
use ebb_transport::tenant::{
    Departures, Guest, Hypervisor, HypervisorCounters, HypervisorParams, VmEntry,
};
use ebb_units::{Duration, Instant};
use ebb_wire::{EthernetHeader, MacAddress};
use serde_json::{Value, json};

use crate::engine::last_packets::send_last_packets;
use crate::engine::lateness::Lateness;
use crate::engine::link::{Arrived, Link};
use crate::engine::params::Params;
use crate::engine::pauses::Pauses;
use crate::engine::runtime::{Application, Site};
use crate::engine::transports::Transports;
use crate::engine::workers;
use crate::machine::clock;
use crate::machine::interface::Interface;
use crate::machine::next_hop::NextHops;
use crate::machine::signals::Signals;
use crate::machine::waker::Waker;

/// A virtual machine: its transports behind an interface without a rate of its own.
struct Vm {
    entry: VmEntry,
    transports: Transports,
    nic: Nic,
    /// Memory for the packet that leaves.
    packet: Vec<u8>,
    /// Its application has done its work.
    done: bool,
}

/// The engine.
pub struct HypervisorRuntime {
    link: Link,
    /// MAC address to which all frames go.
    gateway: MacAddress,
    hypervisor: Hypervisor,
    vms: Vec<Vm>,
    waker: Waker,
    signals: Signals,
    lateness: Lateness,
    pauses: Pauses,
    /// Frames wait for room in the kernel.
    stuck: bool,
    /// There is more to do at once: no time to sleep.
    busy: bool,
    /// When the engine has asked to be woken. None: only if something happens.
    wake_due: Option<Instant>,
}

impl HypervisorRuntime {
    /// Opens the engine of a host with these VMs on `interface`. Session ids of VM number n have the
    /// seed `seed + n`.
    pub fn open(
        interface: &str,
        mut params: Params,
        hypervisor: HypervisorParams,
        vms: Vec<VmEntry>,
        departures: Arc<dyn Departures + Send + Sync>,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let interface = Interface::find(interface)?;
        params.nic.mtu_bytes = params.nic.mtu_bytes.min(interface.mtu_bytes);
        let hops = NextHops::read(&interface)?;
        let first = vms.first().context("vm: there is none")?.ip;
        hops.resolve(first)?;
        let gateway = hops.mac(first).context("the gateway is not known")?;
        let guests: Result<Vec<Guest>, String> = vms
            .iter()
            .map(|vm| vm.guest(&params.nic, &hypervisor))
            .collect();
        let guests = guests.map_err(|error| anyhow!(error))?;
        let stations = (interface.mac, gateway);
        let link = Link::open_for_vms(interface, hops, &params)?;
        let waker = Waker::new().context("cannot create a pipe")?;
        let signals = Signals::install(&waker).context("cannot handle signals")?;
        params.engine.prepare_thread()?;
        let nic = params.nic;
        let vm_nic = NicParams {
            rate_bps: 0,
            pfc: false,
            ..nic
        };
        let vm = |(number, entry): (u64, VmEntry)| Vm {
            transports: Transports::of_vm(entry.ip, params.clone(), seed.wrapping_add(number)),
            nic: Nic::new(vm_nic),
            packet: Vec::new(),
            done: false,
            entry,
        };
        Ok(HypervisorRuntime {
            link,
            gateway,
            hypervisor: Hypervisor::new(stations, nic, hypervisor, &guests, departures),
            vms: (0..).zip(vms).map(vm).collect(),
            waker,
            signals,
            lateness: Lateness::new(),
            pauses: Pauses::new(false),
            stuck: false,
            busy: false,
            wake_due: None,
        })
    }

    /// The site that the application of each VM sees, and its transports.
    pub fn sites(&mut self) -> impl Iterator<Item = (Site, &mut Transports)> {
        let (interface, hops) = (self.link.interface().to_owned(), self.link.hops().clone());
        let (waker, lateness, pauses) = (&self.waker, &self.lateness, &self.pauses);
        self.vms.iter_mut().map(move |vm| {
            let site = Site {
                address: vm.entry.ip,
                interface: interface.clone(),
                hops: hops.clone(),
                waker: waker.clone(),
                lateness: lateness.clone(),
                pauses: pauses.clone(),
            };
            (site, &mut vm.transports)
        })
    }

    /// Lateness of this engine.
    pub fn lateness(&self) -> Value {
        self.lateness.to_json()
    }

    /// Delays of packets from other VMs to each of these, one JSON object for each pair.
    pub fn delays(&self) -> impl Iterator<Item = Value> {
        self.hypervisor.delays().map(|(vm, from, delays)| {
            json!({
                "host": self.vms[vm].entry.name,
                "from_address": from,
                "packets": delays.packets,
                "longest_ns": delays.longest.as_picos().div_ceil(1_000),
                "mean_ns": delays.sum.as_nanos() / delays.packets.max(1),
            })
        })
    }

    /// Counts of the hypervisor since it started.
    pub fn counters(&self) -> HypervisorCounters {
        self.hypervisor.counters()
    }

    /// Runs until the applications, one for each VM, have done their work and no flow waits for late
    /// packets, or a signal comes. An error is one of the link; the applications are stopped first.
    pub fn run(&mut self, applications: &mut [impl Application]) -> anyhow::Result<()> {
        let result = self.run_until_done(applications);
        let now = clock::now();
        for (vm, application) in self.vms.iter_mut().zip(&mut *applications) {
            application.stop(now, &mut vm.transports);
        }
        result?;
        send_last_packets(|end| {
            self.turn(applications)?;
            let idle = self.hypervisor.next_deadline().is_none() && !self.stuck;
            if !idle {
                self.sleep(applications, Some(end))?;
            }
            Ok(idle)
        })
    }

    fn run_until_done(&mut self, applications: &mut [impl Application]) -> anyhow::Result<()> {
        let mut leaving = false;
        while !self.signals.asked_to_end() {
            self.turn(applications)?;
            if self.vms.iter().all(|vm| vm.done) {
                if !leaving {
                    let transports = self.vms.iter_mut().flat_map(|vm| vm.transports.iter_mut());
                    transports.for_each(|(_, transport)| transport.leave(clock::now()));
                    leaving = true;
                }
                if !self.vms.iter().any(|vm| vm.transports.is_active()) {
                    break;
                }
            }
            self.sleep(applications, None)?;
        }
        Ok(())
    }

    /// Does a bounded batch of everything that can be done now.
    fn turn(&mut self, applications: &mut [impl Application]) -> anyhow::Result<()> {
        let now = clock::now();
        self.lateness.woke(self.wake_due.take(), now);
        if self.waker.take() {
            for (vm, application) in self.vms.iter_mut().zip(&mut *applications) {
                let flow = application.handle_wake(now, &mut vm.transports);
                vm.done |= flow == ControlFlow::Break(());
            }
        }
        self.busy = self.receive(now)?;
        while let Some((guest, frame)) = self.hypervisor.poll_local(now) {
            if let Some(packet) = frame.get(EthernetHeader::BYTES..) {
                self.vms[guest].receive(now, packet);
            }
        }
        for (number, application) in applications.iter_mut().enumerate() {
            self.work(now, number, application);
        }
        self.transmit()
    }

    /// Reads a batch of frames from the link. True: there may be more.
    fn receive(&mut self, now: Instant) -> anyhow::Result<bool> {
        let (hypervisor, vms) = (&mut self.hypervisor, &mut self.vms);
        let realtime_now_ns = clock::realtime_ns();
        self.link.receive(now, |arrived| {
            let (bytes, realtime_ns) = match arrived {
                Arrived::Packet { bytes, realtime_ns } => (bytes, realtime_ns),
                Arrived::Control(frame) => {
                    // A damaged frame counts as lost.
                    let _ = hypervisor.handle_control(now, frame);
                    return;
                }
            };
            // Time of arrival at the socket, which is before the engine looked.
            let waited_ns = realtime_ns.map_or(0, |at| realtime_now_ns.saturating_sub(at));
            let arrived_at = now - Duration::from_nanos(waited_ns);
            if let Some(guest) = hypervisor.receive(now, arrived_at, bytes) {
                vms[guest].receive(now, bytes);
            }
        })
    }

    /// Lets a VM do what is due, and takes what it has to send.
    fn work(&mut self, now: Instant, number: usize, application: &mut impl Application) {
        let vm = &mut self.vms[number];
        if application.next_deadline().is_some_and(|at| at <= now) {
            application.handle_timeout(now, &mut vm.transports);
        }
        vm.nic
            .release(now, |packet| vm.transports.handle_packet(now, packet));
        vm.transports.handle_timeout(now);
        loop {
            vm.settle(now, application);
            let mut sent = false;
            while vm.next_packet(now) {
                let mut frame = Vec::with_capacity(EthernetHeader::BYTES + vm.packet.len());
                EthernetHeader {
                    dst: self.gateway,
                    src: self.link.mac(),
                    ethertype: EthernetHeader::IPV4,
                }
                .emit(&mut frame);
                frame.extend_from_slice(&vm.packet);
                self.hypervisor.send(now, number, frame);
                sent = true;
            }
            if !sent {
                break;
            }
        }
        application.tell_clients();
    }

    fn transmit(&mut self) -> anyhow::Result<()> {
        let mut now = clock::now();
        self.stuck = !self.link.flush(now)?;
        while !self.stuck {
            let mut sent = false;
            while !self.link.is_full() {
                now = clock::now();
                let Some((_, frame)) = self.hypervisor.poll_transmit(now) else {
                    break;
                };
                self.link.push_frame(&frame);
                sent = true;
            }
            if !sent {
                break;
            }
            self.stuck = !self.link.flush(now)?;
        }
        Ok(())
    }

    /// Sleeps until something can be done, at the latest until `end`.
    fn sleep(
        &mut self,
        applications: &[impl Application],
        end: Option<Instant>,
    ) -> anyhow::Result<()> {
        if self.busy {
            return Ok(());
        }
        let transports = self.vms.iter().flat_map(|vm| vm.transports.deadlines());
        let deliveries = self.vms.iter().filter_map(|vm| vm.nic.next_delivery());
        let link = (!self.stuck).then(|| self.hypervisor.next_deadline());
        let wake = transports
            .chain(deliveries)
            .chain(applications.iter().filter_map(Application::next_deadline))
            .chain(link.flatten())
            .chain(self.link.next_deadline())
            .chain(end)
            .min();
        self.wake_due = wake;
        let patience = wake.map(|wake| wake.since(clock::now()));
        if patience == Some(Duration::ZERO) {
            return Ok(());
        }
        self.link
            .wait(patience, &self.waker)
            .context("cannot sleep")
    }
}

impl Vm {
    fn receive(&mut self, now: Instant, packet: &[u8]) {
        let transports = &mut self.transports;
        self.nic.receive(now, packet, |packet| {
            transports.handle_packet(now, packet);
        });
    }

    /// Does the jobs of the transports, and hands their events to the application.
    fn settle(&mut self, now: Instant, application: &mut impl Application) {
        for (_, transport) in self.transports.iter_mut() {
            while let Some(job) = transport.poll_job() {
                transport.handle_job(now, workers::run(job));
            }
        }
        while let Some((kind, event)) = self.transports.poll_event() {
            application.handle_event(now, kind, event, &mut self.transports);
        }
    }

    /// Writes the next packet that it sends to `packet`. False: there is none.
    fn next_packet(&mut self, now: Instant) -> bool {
        self.transports.begin_transmit();
        loop {
            let wanted = self.nic.wants(now);
            if wanted.is_empty() {
                break;
            }
            let packet = &mut self.packet;
            if self.transports.poll_transmit(now, wanted, packet).is_none() {
                break;
            }
            self.nic.push(packet);
        }
        self.nic.poll(now, &mut self.packet).is_some()
    }
}
