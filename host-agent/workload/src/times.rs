//! Distributions of times, such as that of a server's work on a query.

use serde::{Deserialize, Serialize};

use crate::draws::Draws;
use crate::error::Error;

/// Distribution of times, in ns.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TimeDistribution {
    /// One time.
    Fixed {
        /// The time.
        value_ns: u64,
    },
    /// Uniform over `min_ns..=max_ns`.
    Uniform {
        /// Least time.
        min_ns: u64,
        /// Largest time.
        max_ns: u64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean_ns: u64,
    },
    /// `offset_ns + gamma(shape, scale_ns)`, mean `offset_ns + shape * scale_ns`.
    Gamma {
        /// Shape, above 0.
        shape: f64,
        /// Scale.
        scale_ns: u64,
        /// Least time.
        #[serde(default)]
        offset_ns: u64,
    },
}

impl TimeDistribution {
    pub(crate) fn check(&self, place: &str) -> Result<(), Error> {
        match *self {
            Self::Uniform { min_ns, max_ns } if min_ns > max_ns => Err(Error::at(
                place,
                format!("min_ns is {min_ns}, above max_ns {max_ns}"),
            )),
            Self::Gamma { shape, .. } if !(shape > 0.0 && shape.is_finite()) => Err(Error::at(
                place,
                format!("shape is {shape}, expected above 0"),
            )),
            _ => Ok(()),
        }
    }

    /// The mean, in ns.
    pub fn mean_ns(&self) -> f64 {
        match *self {
            Self::Fixed { value_ns } => value_ns as f64,
            Self::Uniform { min_ns, max_ns } => (min_ns as f64 + max_ns as f64) / 2.0,
            Self::Exponential { mean_ns } => mean_ns as f64,
            Self::Gamma {
                shape,
                scale_ns,
                offset_ns,
            } => offset_ns as f64 + shape * scale_ns as f64,
        }
    }

    /// A time, in ns.
    pub fn draw_ns(&self, draws: &mut Draws) -> u64 {
        let value = match *self {
            Self::Fixed { value_ns } => return value_ns,
            Self::Uniform { min_ns, max_ns } => {
                min_ns as f64 + draws.unit() * (max_ns as f64 - min_ns as f64)
            }
            Self::Exponential { mean_ns } => draws.exponential() * mean_ns as f64,
            Self::Gamma {
                shape,
                scale_ns,
                offset_ns,
            } => offset_ns as f64 + draws.gamma(shape) * scale_ns as f64,
        };
        libm::round(value) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HULL's EPFL evaluation, section III-B: 180 * gamma(0.7, 20000) + 10000 ns, mean 2.53 ms.
    #[test]
    fn search_service_time_is_2_53_ms_on_average() {
        let service = TimeDistribution::Gamma {
            shape: 0.7,
            scale_ns: 180 * 20_000,
            offset_ns: 10_000,
        };
        assert_eq!(service.mean_ns(), 2_530_000.0);
        let mut draws = Draws::new(1, "search", "service");
        let n = 100_000;
        let times: Vec<u64> = (0..n).map(|_| service.draw_ns(&mut draws)).collect();
        let mean = times.iter().sum::<u64>() as f64 / f64::from(n);
        // The standard error is 3.0 ms / sqrt(n) = 9.5 us; 4 of them.
        assert!((mean - 2_530_000.0).abs() < 38_000.0, "{mean}");
        assert!(times.iter().all(|&time| time >= 10_000));
    }

    #[test]
    fn means_of_the_other_distributions() {
        let mut draws = Draws::new(1, "others", "service");
        for (distribution, standard_deviation) in [
            (TimeDistribution::Fixed { value_ns: 100_000 }, 0.0),
            (
                TimeDistribution::Exponential { mean_ns: 100_000 },
                100_000.0,
            ),
            (
                TimeDistribution::Uniform {
                    min_ns: 50_000,
                    max_ns: 150_000,
                },
                100_000.0 / 12f64.sqrt(),
            ),
        ] {
            let n = 40_000;
            let sum: u64 = (0..n).map(|_| distribution.draw_ns(&mut draws)).sum();
            let error = (sum as f64 / f64::from(n) - distribution.mean_ns()).abs();
            let bound = 4.0 * standard_deviation / f64::from(n).sqrt();
            assert!(error <= bound, "{distribution:?}: {error} ns");
        }
    }
}
