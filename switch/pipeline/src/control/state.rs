//! Counters, meters, registers.

use ebb_units::Instant;

use super::{ControlError, CounterValue, MeterConfig, MeterCounts, MeterUnit, Result};
use crate::bits::{from_bytes, to_bytes};
use crate::{CounterId, MeterId, Pipeline, RegisterId};

fn out_of_range(kind: &'static str, name: &str, size: u64, index: u64) -> ControlError {
    ControlError::OutOfRange {
        kind,
        name: name.to_owned(),
        size,
        index,
    }
}

pub(super) fn check_meter(config: Option<MeterConfig>) -> Result<()> {
    match config {
        Some(c) if c.cir > c.pir => Err(ControlError::invalid(
            "meter",
            format!(
                "the committed rate {} is above the peak rate {}",
                c.cir, c.pir
            ),
        )),
        _ => Ok(()),
    }
}

impl Pipeline {
    pub fn counter_size(&self, counter: CounterId) -> u64 {
        self.state.counters[counter.index()].cells.len() as u64
    }

    pub fn counter_value(&self, counter: CounterId, index: u64) -> Result<CounterValue> {
        let c = &self.state.counters[counter.index()];
        c.cells
            .get(index as usize)
            .map(|[packets, bytes]| CounterValue {
                packets: *packets,
                bytes: *bytes,
            })
            .ok_or_else(|| out_of_range("counter", &c.name, c.cells.len() as u64, index))
    }

    pub fn set_counter_value(
        &mut self,
        counter: CounterId,
        index: u64,
        value: CounterValue,
    ) -> Result<()> {
        let c = &mut self.state.counters[counter.index()];
        let size = c.cells.len() as u64;
        match c.cells.get_mut(index as usize) {
            Some(cell) => *cell = [value.packets, value.bytes],
            None => return Err(out_of_range("counter", &c.name, size, index)),
        }
        Ok(())
    }

    pub fn meter_size(&self, meter: MeterId) -> u64 {
        self.state.meters[meter.index()].cells.len() as u64
    }

    pub fn meter_unit(&self, meter: MeterId) -> MeterUnit {
        self.state.meters[meter.index()].unit
    }

    /// `None`: not configured, every packet is green.
    pub fn meter_config(&self, meter: MeterId, index: u64) -> Result<Option<MeterConfig>> {
        let m = &self.state.meters[meter.index()];
        m.cells
            .get(index as usize)
            .map(|cell| cell.config())
            .ok_or_else(|| out_of_range("meter", &m.name, m.cells.len() as u64, index))
    }

    pub fn set_meter_config(
        &mut self,
        now: Instant,
        meter: MeterId,
        index: u64,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        check_meter(config)?;
        let m = &mut self.state.meters[meter.index()];
        let size = m.cells.len() as u64;
        match m.cells.get_mut(index as usize) {
            Some(cell) => cell.configure(config, now),
            None => return Err(out_of_range("meter", &m.name, size, index)),
        }
        Ok(())
    }

    pub fn meter_counts(&self, meter: MeterId, index: u64) -> Result<MeterCounts> {
        let m = &self.state.meters[meter.index()];
        m.cells
            .get(index as usize)
            .map(|cell| cell.counts())
            .ok_or_else(|| out_of_range("meter", &m.name, m.cells.len() as u64, index))
    }

    pub fn set_meter_counts(
        &mut self,
        meter: MeterId,
        index: u64,
        counts: MeterCounts,
    ) -> Result<()> {
        let m = &mut self.state.meters[meter.index()];
        let size = m.cells.len() as u64;
        match m.cells.get_mut(index as usize) {
            Some(cell) => cell.set_counts(counts),
            None => return Err(out_of_range("meter", &m.name, size, index)),
        }
        Ok(())
    }

    pub fn register_size(&self, register: RegisterId) -> u64 {
        self.state.registers.arrays[register.index()].size
    }

    pub fn register_bits(&self, register: RegisterId) -> u32 {
        self.state.registers.arrays[register.index()].bits
    }

    /// Big-endian, as many bytes as the cell has.
    pub fn register_value(&self, register: RegisterId, index: u64) -> Result<Vec<u8>> {
        let r = &self.state.registers.arrays[register.index()];
        r.slot(index)
            .map(|slot| to_bytes(slot.of(&r.words), r.bits))
            .ok_or_else(|| out_of_range("register", &r.name, r.size, index))
    }

    pub fn set_register_value(
        &mut self,
        register: RegisterId,
        index: u64,
        value: &[u8],
    ) -> Result<()> {
        let r = &mut self.state.registers.arrays[register.index()];
        let words = from_bytes(value, r.bits).ok_or_else(|| {
            ControlError::invalid(
                format!("register {}", r.name),
                format!("value {value:02x?} does not fit in {} bits", r.bits),
            )
        })?;
        match r.slot(index) {
            Some(slot) => slot.of_mut(&mut r.words).copy_from_slice(&words),
            None => return Err(out_of_range("register", &r.name, r.size, index)),
        }
        Ok(())
    }
}
