//! Cells of counters, meters, filters and registers.

use ebb_units::Instant;

use super::{ControlError, CounterValue, FilterConfig, MeterConfig, MeterCounts, Result};
use crate::bits::{from_bytes, low_mask, to_bytes};
use crate::stateful::{RegisterArray, RegisterRef};
use crate::{CounterId, EntryId, FilterId, MeterId, Pipeline, RegisterId, TableId};

fn out_of_range(kind: &'static str, name: &str, size: u64, index: u64) -> ControlError {
    ControlError::OutOfRange {
        kind,
        name: name.to_owned(),
        size,
        index,
    }
}

/// The cell of an array with this index.
fn cell<'a, T>(kind: &'static str, name: &str, cells: &'a [T], index: u64) -> Result<&'a T> {
    let found = cells.get(index as usize);
    found.ok_or_else(|| out_of_range(kind, name, cells.len() as u64, index))
}

/// The cell of an array with this index, to be changed.
fn cell_mut<'a, T>(
    kind: &'static str,
    name: &str,
    cells: &'a mut [T],
    index: u64,
) -> Result<&'a mut T> {
    let size = cells.len() as u64;
    let found = cells.get_mut(index as usize);
    found.ok_or_else(|| out_of_range(kind, name, size, index))
}

/// Checks that a meter can have this configuration.
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
    /// How many cells a counter array has.
    pub fn counter_size(&self, counter: CounterId) -> u64 {
        self.state.counters[counter.index()].cells.len() as u64
    }

    /// The value of a counter.
    pub fn counter_value(&self, counter: CounterId, index: u64) -> Result<CounterValue> {
        let c = &self.state.counters[counter.index()];
        let [packets, bytes] = *cell("counter", &c.name, &c.cells, index)?;
        Ok(CounterValue { packets, bytes })
    }

    /// Sets the value of a counter.
    pub fn set_counter_value(
        &mut self,
        counter: CounterId,
        index: u64,
        value: CounterValue,
    ) -> Result<()> {
        let c = &mut self.state.counters[counter.index()];
        *cell_mut("counter", &c.name, &mut c.cells, index)? = [value.packets, value.bytes];
        Ok(())
    }

    /// How many cells a meter array has.
    pub fn meter_size(&self, meter: MeterId) -> u64 {
        self.state.meters[meter.index()].cells.len() as u64
    }

    /// The configuration of a meter; `None` means that every packet is green.
    pub fn meter_config(&self, meter: MeterId, index: u64) -> Result<Option<MeterConfig>> {
        let m = &self.state.meters[meter.index()];
        Ok(cell("meter", &m.name, &m.cells, index)?.config())
    }

    /// Configures a meter, whose buckets are full then.
    pub fn set_meter_config(
        &mut self,
        now: Instant,
        meter: MeterId,
        index: u64,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        check_meter(config)?;
        let m = &mut self.state.meters[meter.index()];
        cell_mut("meter", &m.name, &mut m.cells, index)?.configure(config, now);
        Ok(())
    }

    /// Sets how many bytes the meters of an array add to the length of each packet, in place of what the program says.
    pub fn adjust_meter(&mut self, meter: MeterId, bytes: i32) {
        self.state.meters[meter.index()].adjust = bytes;
    }

    /// Sets how many bytes the meters of the entries of a table add to the length of each packet, in place of what the
    /// program says.
    pub fn adjust_direct_meter(&mut self, table: TableId, bytes: i32) -> Result<()> {
        let table = &mut self.state.tables[table.index()];
        let Some(meter) = &mut table.meter else {
            let name = format!("table {}", table.spec.name);
            return Err(ControlError::invalid(name, "its entries have no meters"));
        };
        meter.adjust = bytes;
        Ok(())
    }

    /// How many packets a meter has coloured.
    pub fn meter_counts(&self, meter: MeterId, index: u64) -> Result<MeterCounts> {
        let m = &self.state.meters[meter.index()];
        Ok(cell("meter", &m.name, &m.cells, index)?.counts())
    }

    /// Sets how many packets a meter has coloured.
    pub fn set_meter_counts(
        &mut self,
        meter: MeterId,
        index: u64,
        counts: MeterCounts,
    ) -> Result<()> {
        let m = &mut self.state.meters[meter.index()];
        cell_mut("meter", &m.name, &mut m.cells, index)?.set_counts(counts);
        Ok(())
    }

    /// How many cells a filter array has.
    pub fn filter_size(&self, filter: FilterId) -> u64 {
        self.state.filters[filter.index()].cells.len() as u64
    }

    /// How a filter is configured.
    pub fn filter_config(&self, filter: FilterId, index: u64) -> Result<FilterConfig> {
        let f = &self.state.filters[filter.index()];
        Ok(cell("filter array", &f.name, &f.cells, index)?.config())
    }

    /// How a filter of an array is configured in the beginning.
    pub fn initial_filter_config(&self, filter: FilterId) -> FilterConfig {
        self.state.filters[filter.index()].initial()
    }

    /// The filter array with a cell for each entry of a table; none: it has none.
    pub fn direct_filter(&self, table: TableId) -> Option<FilterId> {
        let direct = self.program.blueprint.direct_filters.iter();
        let found = direct.copied().find(|(of, _)| *of == table);
        found.map(|(_, number)| FilterId(number as u32))
    }

    /// Refuses a configuration that a filter of an array cannot have.
    pub fn check_filter_config(&self, filter: FilterId, config: &FilterConfig) -> Result<()> {
        self.state.filters[filter.index()].check(config)
    }

    /// Configures a filter, which forgets what it has seen.
    pub fn configure_filter(
        &mut self,
        filter: FilterId,
        index: u64,
        config: FilterConfig,
    ) -> Result<()> {
        let f = &mut self.state.filters[filter.index()];
        f.check(&config)?;
        cell_mut("filter array", &f.name, &mut f.cells, index)?.configure(config);
        Ok(())
    }

    /// Gives a filter of an array, or all of them, the configuration that it has in the beginning.
    pub fn reset_filter(&mut self, filter: FilterId, index: Option<u64>) -> Result<()> {
        let f = &mut self.state.filters[filter.index()];
        let Some(index) = index else {
            (0..f.cells.len()).for_each(|index| f.reset(index));
            return Ok(());
        };
        cell("filter array", &f.name, &f.cells, index)?;
        f.reset(index as usize);
        Ok(())
    }

    /// How many cells a register array has.
    pub fn register_size(&self, register: RegisterId) -> u64 {
        self.state.registers.arrays[register.index()].size
    }

    /// Width of the cells of a register array in bits.
    pub fn register_bits(&self, register: RegisterId) -> u32 {
        self.state.registers.arrays[register.index()].bits
    }

    /// Names of all register arrays, in the order of the program.
    pub fn register_names(&self) -> impl Iterator<Item = &str> {
        self.state.registers.arrays.iter().map(|r| &*r.name)
    }

    /// Sets a register to a number, for a target that shows its own state to the program. A number
    /// too large for the cell is stored as the largest that it holds; outside the array nothing
    /// happens.
    #[inline]
    pub fn show_in_register(&mut self, register: RegisterId, index: u64, value: u64) {
        let bits = self.register_bits(register);
        let largest = low_mask(bits.min(u64::BITS));
        let register = RegisterRef {
            number: register.0,
            bits,
        };
        let value = value.min(largest);
        self.state.registers.set(register, index, value.into());
    }

    /// The value of a register, of programs for Tofino in the first pipe: big-endian, as many bytes as the cell has.
    pub fn register_value(&self, register: RegisterId, index: u64) -> Result<Vec<u8>> {
        let r = &self.state.registers.arrays[register.index()];
        r.slot(index)
            .map(|slot| to_bytes(slot.of(&r.words), r.bits))
            .ok_or_else(|| out_of_range("register", &r.name, r.size, index))
    }

    /// The cell of an entry in the direct registers of its table.
    pub fn direct_cell(&self, entry: EntryId) -> u64 {
        u64::from(entry.0)
    }

    /// Gives a cell of a register array, or all of them, the value that it has in the beginning.
    pub fn reset_register(&mut self, register: RegisterId, index: Option<u64>) -> Result<()> {
        let program = self.program.clone();
        let spec = &program.blueprint.registers[register.index()];
        for array in self.in_all_pipes(register.index()) {
            match index {
                None => *array = RegisterArray::new(spec),
                Some(index) if index < array.size => array.reset(spec, index as u32),
                Some(index) => {
                    return Err(out_of_range("register", &array.name, array.size, index));
                }
            }
        }
        Ok(())
    }

    /// Sets the value of a register, of programs for Tofino in all pipes, given as big-endian bytes of any length that
    /// fit.
    pub fn set_register_value(
        &mut self,
        register: RegisterId,
        index: u64,
        value: &[u8],
    ) -> Result<()> {
        let r = &self.state.registers.arrays[register.index()];
        let words = from_bytes(value, r.bits).ok_or_else(|| {
            ControlError::invalid(
                format!("register {}", r.name),
                format!("value {value:02x?} does not fit in {} bits", r.bits),
            )
        })?;
        if r.slot(index).is_none() {
            return Err(out_of_range("register", &r.name, r.size, index));
        }
        for array in self.in_all_pipes(register.index()) {
            if let Some(slot) = array.slot(index) {
                slot.of_mut(&mut array.words).copy_from_slice(&words);
            }
        }
        Ok(())
    }
}
