//! Low-pass filters and random early detection, two externs of Tofino.
//!
//! A filter keeps a mean that follows its input with a time constant T. After a pause of d a sample counts
//! d / (T + d), the first-order filter in discrete time; a rate keeps T / (T + d) of what it has summed up. Neither the
//! chip's arithmetic nor its rounding is public.

use std::sync::Arc;

use ebb_bmv2_json::FilterKind;
use ebb_units::Instant;
use rand::Rng;
use rand::rngs::SmallRng;

use crate::control::{ControlError, EarlyDetectionConfig, FilterConfig, LowPassConfig};
use crate::stateful::ArraySpec;

const PS_PER_NS: f64 = 1000.0;

/// An array of the program, before it has cells.
#[derive(Debug)]
pub(crate) struct FilterSpec {
    /// Its name and size.
    pub array: ArraySpec,
    /// The use that its cells make of their input.
    pub kind: FilterKind,
}

/// An array of filters.
#[derive(Debug)]
pub(crate) struct Filters {
    /// Its name in P4.
    pub name: Arc<str>,
    kind: FilterKind,
    /// Its filters.
    pub cells: Vec<Filter>,
}

/// A filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    config: FilterConfig,
    mean: f64,
    /// When it had its last input; none: it has had none since it was configured.
    last: Option<Instant>,
}

impl Filters {
    pub fn new(spec: &FilterSpec) -> Filters {
        Filters {
            name: spec.array.name.clone(),
            kind: spec.kind,
            cells: vec![Filter::new(spec.kind); spec.array.size as usize],
        }
    }

    /// The configuration that its cells have in the beginning.
    pub fn initial(&self) -> FilterConfig {
        Filter::new(self.kind).config
    }

    /// Gives a cell, if there is one of this index, the configuration that it has in the beginning.
    pub fn reset(&mut self, index: usize) {
        if let Some(cell) = self.cells.get_mut(index) {
            *cell = Filter::new(self.kind);
        }
    }

    /// Refuses the configuration of another kind of filter, and one without meaning.
    pub fn check(&self, config: &FilterConfig) -> Result<(), ControlError> {
        let problem = match (self.kind, config) {
            (FilterKind::Lpf, FilterConfig::LowPass(c)) => (!(c.gain_ns >= 0.0
                && c.decay_ns >= 0.0))
                .then_some("time constants are at least 0")
                .or((c.scale_down > 31).then_some("an output is scaled down by 31 bits at most")),
            (FilterKind::Wred { .. }, FilterConfig::EarlyDetection(c)) => {
                let is_share = (0.0..=1.0).contains(&c.max_probability);
                let is_time = c.time_constant_ns >= 0.0;
                (!is_time)
                    .then_some("time constants are at least 0")
                    .or((c.min_cells > c.max_cells).then_some("the thresholds are not in order"))
                    .or((!is_share).then_some("a probability is 0 to 1"))
            }
            _ => Some("this is the configuration of another kind of filter"),
        };
        match problem {
            None => Ok(()),
            Some(problem) => Err(ControlError::invalid(
                format!("filter array {}", self.name),
                problem,
            )),
        }
    }

    /// The output of a cell for an input. One that is not there acts as one that nobody has configured.
    pub fn of(&mut self, index: u64, input: u64, now: Instant, rng: &mut SmallRng) -> u64 {
        let mut none = Filter::new(self.kind);
        let cell = usize::try_from(index).ok();
        let cell = cell.and_then(|index| self.cells.get_mut(index));
        let cell = cell.unwrap_or(&mut none);
        match (cell.config, self.kind) {
            (FilterConfig::LowPass(config), _) => cell.low_pass(&config, input, now),
            (
                FilterConfig::EarlyDetection(config),
                FilterKind::Wred {
                    drop_value,
                    no_drop_value,
                },
            ) => match cell.drops(&config, input, now, rng) {
                true => drop_value.into(),
                false => no_drop_value.into(),
            },
            (FilterConfig::EarlyDetection(_), FilterKind::Lpf) => input,
        }
    }
}

impl Filter {
    fn new(kind: FilterKind) -> Filter {
        Filter {
            config: match kind {
                FilterKind::Lpf => FilterConfig::LowPass(LowPassConfig::default()),
                FilterKind::Wred { .. } => {
                    FilterConfig::EarlyDetection(EarlyDetectionConfig::default())
                }
            },
            mean: 0.0,
            last: None,
        }
    }

    /// Its configuration.
    pub fn config(&self) -> FilterConfig {
        self.config
    }

    /// Sets the configuration; the mean begins anew.
    pub fn configure(&mut self, config: FilterConfig) {
        *self = Filter {
            config,
            mean: 0.0,
            last: None,
        };
    }

    fn low_pass(&mut self, config: &LowPassConfig, input: u64, now: Instant) -> u64 {
        match config.is_rate {
            true => self.add(input as f64, config.decay_ns, now),
            false => {
                let rises = input as f64 >= self.mean;
                let time = if rises {
                    config.gain_ns
                } else {
                    config.decay_ns
                };
                self.follow(input as f64, time, now);
            }
        }
        // Rounded, as a mean that comes as close as one pleases to a number is to reach it.
        self.mean.round() as u64 >> config.scale_down
    }

    fn drops(
        &mut self,
        config: &EarlyDetectionConfig,
        input: u64,
        now: Instant,
        rng: &mut SmallRng,
    ) -> bool {
        self.follow(input as f64, config.time_constant_ns, now);
        let (least, most) = (f64::from(config.min_cells), f64::from(config.max_cells));
        if self.mean < least {
            return false;
        }
        if self.mean >= most {
            return true;
        }
        let share = (self.mean - least) / (most - least) * f64::from(config.max_probability);
        rng.random_range(0.0..1.0) < share
    }

    /// The time since the last input in ns; none: this is the first.
    fn pause(&mut self, now: Instant) -> Option<f64> {
        let last = self.last.replace(now)?;
        Some(now.as_picos().saturating_sub(last.as_picos()) as f64 / PS_PER_NS)
    }

    /// Follows samples; the first is their mean.
    fn follow(&mut self, sample: f64, time_constant_ns: f32, now: Instant) {
        let weight = match self.pause(now) {
            None => 1.0,
            Some(_) if time_constant_ns == 0.0 => 1.0,
            Some(pause) => pause / (f64::from(time_constant_ns) + pause),
        };
        self.mean += (sample - self.mean) * weight;
    }

    /// Adds to a sum that decays.
    fn add(&mut self, amount: f64, time_constant_ns: f32, now: Instant) {
        let kept = match self.pause(now) {
            Some(pause) if time_constant_ns > 0.0 => {
                f64::from(time_constant_ns) / (f64::from(time_constant_ns) + pause)
            }
            _ => 0.0,
        };
        self.mean = self.mean * kept + amount;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn filters(kind: FilterKind, config: FilterConfig) -> Filters {
        let array = ArraySpec {
            name: "f".into(),
            size: 2,
        };
        let mut made = Filters::new(&FilterSpec { array, kind });
        made.check(&config).unwrap();
        made.cells[1].configure(config);
        made
    }

    const WRED: FilterKind = FilterKind::Wred {
        drop_value: 7,
        no_drop_value: 9,
    };

    fn low_pass(is_rate: bool, gain_ns: f32, decay_ns: f32, scale_down: u32) -> FilterConfig {
        FilterConfig::LowPass(LowPassConfig {
            is_rate,
            gain_ns,
            decay_ns,
            scale_down,
        })
    }

    fn us(n: u64) -> Instant {
        Instant::from_micros(n)
    }

    #[test]
    fn a_sample_counts_as_long_as_it_was_waited_for() {
        let mut f = filters(FilterKind::Lpf, low_pass(false, 1000.0, 3000.0, 0));
        let mut rng = SmallRng::seed_from_u64(1);
        let mut of = |t, x| f.of(1, x, us(t), &mut rng);
        assert_eq!(of(0, 100), 100);
        // A microsecond is half of the weight as it rises, and a quarter as it falls.
        assert_eq!(of(1, 200), 150);
        assert_eq!(of(2, 50), 125);
        // Two at once: the second counts nothing.
        assert_eq!(of(2, 9000), 125);
        assert_eq!(of(1_000_000, 40), 40);
    }

    #[test]
    fn a_rate_sums_up_and_decays() {
        let mut f = filters(FilterKind::Lpf, low_pass(true, 1000.0, 1000.0, 2));
        let mut rng = SmallRng::seed_from_u64(1);
        let mut of = |t, x| f.of(1, x, us(t), &mut rng);
        assert_eq!([of(0, 400), of(0, 400)], [100, 200]);
        assert_eq!(of(1, 0), 100);
    }

    #[test]
    fn without_configuration_an_input_passes() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut f = filters(FilterKind::Lpf, low_pass(false, 1000.0, 1000.0, 4));
        assert_eq!(f.of(0, 77, us(5), &mut rng), 77);
        assert_eq!(f.of(2, 78, us(5), &mut rng), 78);
        f.of(1, 160, us(5), &mut rng);
        f.reset(1);
        assert_eq!(f.of(1, 79, us(5), &mut rng), 79);
        let config = FilterConfig::EarlyDetection(EarlyDetectionConfig::default());
        let mut f = filters(WRED, config);
        assert_eq!(f.of(0, u64::from(u32::MAX) >> 1, us(5), &mut rng), 9);
    }

    #[test]
    fn early_detection_drops_the_more_the_longer_the_queue_is() {
        let config = FilterConfig::EarlyDetection(EarlyDetectionConfig {
            time_constant_ns: 0.0,
            min_cells: 100,
            max_cells: 200,
            max_probability: 0.5,
        });
        let mut f = filters(WRED, config);
        let mut rng = SmallRng::seed_from_u64(1);
        let mut share = |cells| {
            let drops = (0..1000).filter(|t| f.of(1, cells, us(*t), &mut rng) == 7);
            drops.count()
        };
        assert_eq!([share(99), share(200), share(5000)], [0, 1000, 1000]);
        // Half of the way a quarter, within five standard deviations.
        let half = share(150);
        assert!((180..=320).contains(&half), "{half}");
    }

    #[test]
    fn a_configuration_without_meaning_is_refused() {
        let f = filters(FilterKind::Lpf, low_pass(false, 0.0, 0.0, 31));
        assert!(f.check(&low_pass(false, f32::NAN, 0.0, 0)).is_err());
        assert!(f.check(&low_pass(false, 0.0, -1.0, 0)).is_err());
        assert!(f.check(&low_pass(false, 0.0, 0.0, 32)).is_err());
        let early = |min_cells, max_probability| {
            FilterConfig::EarlyDetection(EarlyDetectionConfig {
                min_cells,
                max_cells: 10,
                max_probability,
                time_constant_ns: 1.0,
            })
        };
        assert!(f.check(&early(1, 0.5)).is_err());
        let f = filters(WRED, early(10, 1.0));
        assert!(f.check(&early(11, 1.0)).is_err());
        assert!(f.check(&early(1, 1.01)).is_err());
        assert!(f.check(&early(1, f32::NAN)).is_err());
    }
}
