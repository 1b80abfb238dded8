//! Virtual machines and their hypervisor, as files for the simulator and for the agent have them.

use std::net::Ipv4Addr;

use ebb_nic::NicParams;
use ebb_units::{BitRate, Duration};
use serde::Deserialize;

use super::coordination::CoordinationParams;
use super::guarantee::{Guarantee, WIRE_OVERHEAD_BYTES};
use super::hypervisor::{Guest, HypervisorParams};
use crate::transports::Scheme;

/// A virtual machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmEntry {
    /// Its name.
    pub name: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// DSCP of all that it sends, 0..63.
    pub dscp: u8,
    /// What it is guaranteed. None: it is not paced.
    #[serde(default)]
    pub guarantee: Option<Guarantee>,
    /// What others may send to it, without messages. None: the rate of its guarantee.
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
    pub fn guest(&self, nic: &NicParams) -> Result<Guest, String> {
        if let Some(guarantee) = &self.guarantee {
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
    /// How hypervisors behind `nic` work, or in words what stands in the way of VMs that use `scheme`.
    pub fn params(&self, scheme: Scheme, nic: &NicParams) -> Result<HypervisorParams, String> {
        if scheme.entry().payload.is_some() || scheme == Scheme::Pfabric {
            return Err(format!(
                "VMs: hypervisors write DSCP and identification of packets, which {scheme} needs \
                 itself; choose a transport of the TCP family other than pfabric"
            ));
        }
        if nic.pfc
            || u64::from(nic.frame_overhead_bytes) != WIRE_OVERHEAD_BYTES
            || nic.rate_bps == 0
        {
            return Err(format!(
                "VMs: expected nic.rate_bps, nic.frame_overhead_bytes = {WIRE_OVERHEAD_BYTES} and \
                 no nic.pfc"
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
        Ok(HypervisorParams { batch, hose })
    }
}
