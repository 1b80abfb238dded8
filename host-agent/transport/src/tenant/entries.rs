//! Virtual machines and their hypervisor, as files for the simulator and for the agent have them.

use std::net::Ipv4Addr;

use ebb_nic::NicParams;
use ebb_units::{BitRate, Duration};
use serde::Deserialize;

use super::coordination::CoordinationParams;
use super::guarantee::{Guarantee, WIRE_OVERHEAD_BYTES};
use super::hypervisor::{Guest, HypervisorParams};
use crate::transports::TransportKind;

/// A virtual machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmEntry {
    /// Its name.
    pub name: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// DSCP of all that it sends, 0..63; of no effect if its transport writes that itself.
    pub dscp: u8,
    /// Its guarantee. None: it is not paced.
    #[serde(default)]
    pub guarantee: Option<Guarantee>,
    /// Rate at which all others together may send to it, without messages. None: the rate of its guarantee.
    #[serde(default)]
    pub receive_bps: Option<BitRate>,
}

/// How hypervisors work.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HypervisorEntry {
    /// Length of a batch.
    pub batch_ns: u64,
    /// Between two messages about the hose of a VM.
    pub hose_ns: u64,
    /// The longest time of a message.
    pub message_ns: u64,
}

impl VmEntry {
    /// The VM behind `nic`, or in words what is wrong with it.
    pub fn guest(&self, nic: &NicParams, hypervisor: &HypervisorParams) -> Result<Guest, String> {
        if let Some(guarantee) = &self.guarantee {
            if !hypervisor.marks {
                return Err(format!(
                    "guarantee of {}: hypervisors write DSCP and identification of packets, which \
                     its transport needs itself; choose one of the TCP family other than pfabric",
                    self.name
                ));
            }
            if nic.pfc {
                return Err(format!(
                    "guarantee of {}: expected no nic.pfc, as paced frames do not wait for pauses",
                    self.name
                ));
            }
            let frame_bytes = nic.frame_bytes(usize::from(nic.mtu_bytes));
            let valid = guarantee.validate(frame_bytes);
            valid.map_err(|error| format!("guarantee of {}: {error}", self.name))?;
        }
        if self.dscp >= 64 {
            return Err(format!(
                "vm {}: {} is no DSCP; 0..63 are",
                self.name, self.dscp
            ));
        }
        let receives = |guarantee: Guarantee| self.receive_bps.unwrap_or(guarantee.rate);
        Ok(Guest {
            address: self.ip,
            dscp: self.dscp,
            guarantee: self.guarantee.map(|given| (given, receives(given))),
        })
    }
}

impl HypervisorEntry {
    /// How hypervisors behind `nic` work whose VMs use `transports`, or in words what stands in the way.
    pub fn params(
        &self,
        transports: impl IntoIterator<Item = TransportKind>,
        nic: &NicParams,
    ) -> Result<HypervisorParams, String> {
        let mut marks = true;
        for transport in transports {
            let entry = transport.entry();
            if entry.groups {
                return Err(format!(
                    "VMs: {transport} sends to groups, in which VMs are not; choose ndp or a transport \
                     of the TCP family"
                ));
            }
            marks &= entry.payload.is_none() && transport != TransportKind::Pfabric;
        }
        if u64::from(nic.frame_overhead_bytes) != WIRE_OVERHEAD_BYTES || nic.rate_bps == 0 {
            return Err(format!(
                "VMs: expected nic.rate_bps and nic.frame_overhead_bytes = {WIRE_OVERHEAD_BYTES}"
            ));
        }
        let batch = Duration::from_nanos(self.batch_ns);
        let least = nic.frame_time(usize::from(nic.mtu_bytes)) * 2;
        if batch < least || self.hose_ns == 0 {
            return Err(format!(
                "hypervisor: batch_ns is {}, expected at least {}, two full frames; and hose_ns \
                 above 0",
                self.batch_ns,
                least.as_nanos()
            ));
        }
        let hose = CoordinationParams {
            period: Duration::from_nanos(self.hose_ns),
            delay: Duration::from_nanos(self.message_ns),
        };
        Ok(HypervisorParams { batch, hose, marks })
    }
}
