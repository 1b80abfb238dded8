//! Sizes of transfers.

use serde::{Deserialize, Serialize};

use crate::draws::Draws;
use crate::error::Error;
use crate::tables;

/// Distribution of sizes, each at least 1 byte.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SizeDistribution {
    /// One size.
    Fixed {
        /// The size.
        bytes: u64,
    },
    /// Uniform over `min_bytes..=max_bytes`.
    Uniform {
        /// Smallest size.
        min_bytes: u64,
        /// Largest size.
        max_bytes: u64,
    },
    /// P(X > x) = exp(-(x - `min_bytes`) / (`mean_bytes` - `min_bytes`)) above `min_bytes`. What is above
    /// `cap_bytes` becomes `cap_bytes`; `mean_bytes` is the mean without the cap.
    Exponential {
        /// Smallest size.
        #[serde(default, skip_serializing_if = "is_zero")]
        min_bytes: u64,
        /// Mean without the cap.
        mean_bytes: u64,
        /// Largest size. None: there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap_bytes: Option<u64>,
    },
    /// P(X > x) = (m/x)^shape above m = `mean_bytes` * (shape - 1) / shape. What is above
    /// `cap_bytes` becomes `cap_bytes`; `mean_bytes` is the mean without the cap.
    Pareto {
        /// Shape of the tail, above 1.
        shape: f64,
        /// Mean without the cap.
        mean_bytes: u64,
        /// Largest size. None: no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap_bytes: Option<u64>,
    },
    /// Web search (DCTCP, SIGCOMM 2010, figure 4): mean 1.71 MB.
    WebSearch {},
    /// Data mining (VL2, SIGCOMM 2009, figure 2): mean 12.7 MB.
    DataMining {},
    /// A cumulative distribution: either `points` or `file`, with [bytes, share of flows not larger].
    Empirical {
        /// Pairs of bytes and the share of flows that are not larger, ascending.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        points: Vec<(u64, f64)>,
        /// Lines of `bytes share`, `#` starts a comment; relative to the workload's file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        /// Sizes between the points.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// One of several distributions, by weight.
    Mixture {
        /// The distributions.
        parts: Vec<MixturePart>,
    },
}

/// A part of a mixture.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MixturePart {
    /// Relative to the sum of all weights.
    pub weight: f64,
    /// Its distribution.
    pub size: SizeDistribution,
}

/// Sizes between the points of a cumulative distribution.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    /// Straight between the points: sizes between them occur.
    #[default]
    Linear,
    /// Only the sizes of the points occur.
    Step,
}

impl SizeDistribution {
    /// Replaces names of files by the points in them.
    pub(crate) fn load(
        &mut self,
        place: &str,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), Error> {
        match self {
            Self::Empirical { points, file, .. } => {
                if let Some(name) = file.take() {
                    if !points.is_empty() {
                        return Err(Error::at(place, "give `points` or `file`, not both"));
                    }
                    let text = read(&name)
                        .map_err(|problem| Error::at(place, format!("file {name}: {problem}")))?;
                    *points = parse_points(&text)
                        .map_err(|problem| Error::at(place, format!("file {name}, {problem}")))?;
                }
                Ok(())
            }
            Self::Mixture { parts } => {
                for (index, part) in parts.iter_mut().enumerate() {
                    part.size.load(&format!("{place} part {index}"), read)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self, place: &str) -> Result<(), Error> {
        let wrong = |problem: String| Err(Error::at(place, problem));
        match self {
            Self::Fixed { bytes: 0 } => wrong("bytes is 0, expected at least 1".into()),
            &Self::Uniform {
                min_bytes,
                max_bytes,
            } if min_bytes == 0 || min_bytes > max_bytes => wrong(format!(
                "min_bytes is {min_bytes}, expected 1 to max_bytes, which is {max_bytes}"
            )),
            &Self::Exponential {
                min_bytes,
                mean_bytes,
                cap_bytes,
            } => match cap_bytes {
                _ if mean_bytes <= min_bytes => wrong(format!(
                    "mean_bytes is {mean_bytes}, expected above min_bytes, which is {min_bytes}"
                )),
                Some(cap) if cap <= min_bytes => wrong(format!(
                    "cap_bytes is {cap}, expected above min_bytes, which is {min_bytes}"
                )),
                _ => Ok(()),
            },
            &Self::Pareto {
                shape,
                mean_bytes,
                cap_bytes,
            } => {
                if !(shape > 1.0 && shape.is_finite()) {
                    return wrong(format!(
                        "shape is {shape}, expected above 1 (otherwise there is no mean)"
                    ));
                }
                if mean_bytes == 0 {
                    return wrong("mean_bytes is 0, expected at least 1".into());
                }
                match cap_bytes {
                    Some(cap) if (cap as f64) < pareto_minimum(shape, mean_bytes) => {
                        wrong(format!(
                            "cap_bytes is {cap}, below the smallest size, {:.0}",
                            pareto_minimum(shape, mean_bytes)
                        ))
                    }
                    _ => Ok(()),
                }
            }
            Self::Empirical { points, file, .. } => {
                if let Some(name) = file {
                    return wrong(format!("file {name} has not been read"));
                }
                check_points(points).or_else(|problem| wrong(format!("points: {problem}")))
            }
            Self::Mixture { parts } => {
                if parts.is_empty() {
                    return wrong("a mixture needs parts".into());
                }
                for (index, part) in parts.iter().enumerate() {
                    let place = format!("{place} part {index}");
                    if !(part.weight > 0.0 && part.weight.is_finite()) {
                        return Err(Error::at(
                            place,
                            format!("weight is {}, expected above 0", part.weight),
                        ));
                    }
                    part.size.check(&place)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The mean that loads are computed from; not rounded to bytes.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Fixed { bytes } => *bytes as f64,
            Self::Uniform {
                min_bytes,
                max_bytes,
            } => (*min_bytes as f64 + *max_bytes as f64) / 2.0,
            &Self::Exponential {
                min_bytes,
                mean_bytes,
                cap_bytes,
            } => {
                let (mean, minimum) = (mean_bytes as f64, min_bytes as f64);
                let scale = mean - minimum;
                // The mean is the integral of P(X > x), of which the cap removes the part above it.
                let missing = |cap: u64| scale * libm::exp((minimum - cap as f64) / scale);
                mean - cap_bytes.map_or(0.0, missing)
            }
            &Self::Pareto {
                shape,
                mean_bytes,
                cap_bytes,
            } => {
                let mean = mean_bytes as f64;
                match cap_bytes {
                    None => mean,
                    // As above.
                    Some(cap) => {
                        let minimum = pareto_minimum(shape, mean_bytes);
                        let cap = cap as f64;
                        mean - cap * libm::pow(minimum / cap, shape) / (shape - 1.0)
                    }
                }
            }
            Self::WebSearch {} => points_mean(&tables::WEB_SEARCH, Interpolation::Linear),
            Self::DataMining {} => points_mean(&tables::DATA_MINING, Interpolation::Linear),
            Self::Empirical {
                points,
                interpolation,
                ..
            } => points_mean(points, *interpolation),
            Self::Mixture { parts } => {
                let weights: f64 = parts.iter().map(|part| part.weight).sum();
                let sum: f64 = parts
                    .iter()
                    .map(|part| part.weight * part.size.mean_bytes())
                    .sum();
                sum / weights
            }
        }
    }

    /// Draws a size, in bytes.
    pub fn draw_bytes(&self, draws: &mut Draws) -> u64 {
        let value = match self {
            Self::Fixed { bytes } => return *bytes,
            Self::Uniform {
                min_bytes,
                max_bytes,
            } => {
                let sizes = (max_bytes - min_bytes).saturating_add(1);
                return min_bytes + draws.below_u64(sizes);
            }
            &Self::Exponential {
                min_bytes,
                mean_bytes,
                cap_bytes,
            } => {
                let scale = (mean_bytes - min_bytes) as f64;
                let value = min_bytes as f64 + scale * draws.exponential();
                cap_bytes.map_or(value, |cap| value.min(cap as f64))
            }
            &Self::Pareto {
                shape,
                mean_bytes,
                cap_bytes,
            } => {
                let value =
                    pareto_minimum(shape, mean_bytes) * libm::exp(draws.exponential() / shape);
                cap_bytes.map_or(value, |cap| value.min(cap as f64))
            }
            Self::WebSearch {} => {
                quantile(&tables::WEB_SEARCH, Interpolation::Linear, draws.unit())
            }
            Self::DataMining {} => {
                quantile(&tables::DATA_MINING, Interpolation::Linear, draws.unit())
            }
            Self::Empirical {
                points,
                interpolation,
                ..
            } => quantile(points, *interpolation, draws.unit()),
            Self::Mixture { parts } => {
                let weights: f64 = parts.iter().map(|part| part.weight).sum();
                let mut left = draws.unit() * weights;
                let mut chosen = &parts[0].size;
                for part in parts {
                    chosen = &part.size;
                    if left < part.weight {
                        break;
                    }
                    left -= part.weight;
                }
                return chosen.draw_bytes(draws);
            }
        };
        (libm::round(value) as u64).max(1)
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn pareto_minimum(shape: f64, mean_bytes: u64) -> f64 {
    mean_bytes as f64 * (shape - 1.0) / shape
}

fn parse_points(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let mut points = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let (Some(bytes), share, rest) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let point = match (bytes.parse(), share.map(str::parse), rest) {
            (Ok(bytes), Some(Ok(share)), None) => (bytes, share),
            _ => {
                return Err(format!(
                    "line {}: expected `bytes share`, e.g. `10000 0.15`",
                    index + 1
                ));
            }
        };
        points.push(point);
    }
    Ok(points)
}

fn check_points(points: &[(u64, f64)]) -> Result<(), String> {
    let Some(&(_, last)) = points.last() else {
        return Err("none; expected [bytes, share of flows not larger] from small to large".into());
    };
    // Written so that a NaN fails too.
    let rises = points
        .windows(2)
        .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    if !rises || !points.iter().all(|point| (0.0..=1.0).contains(&point.1)) {
        return Err("bytes must rise, and shares from 0 to 1 must not fall".into());
    }
    if last != 1.0 {
        return Err(format!("the last share is {last}, expected 1"));
    }
    Ok(())
}

/// The size that a share `unit` of the flows does not exceed, 0 <= `unit` < 1. Shares below that of the first
/// point give its size.
fn quantile(points: &[(u64, f64)], interpolation: Interpolation, unit: f64) -> f64 {
    // The first point with a greater share. There is one: the share of the last is 1.
    let index = points
        .partition_point(|point| point.1 <= unit)
        .min(points.len() - 1);
    let (bytes, share) = points[index];
    match (interpolation, index.checked_sub(1)) {
        (Interpolation::Linear, Some(before)) => {
            let (low, low_share) = points[before];
            low as f64 + (bytes - low) as f64 * (unit - low_share) / (share - low_share)
        }
        _ => bytes as f64,
    }
}

fn points_mean(points: &[(u64, f64)], interpolation: Interpolation) -> f64 {
    let (mut low, mut low_share) = (points[0].0, 0.0);
    let mut mean = 0.0;
    for &(bytes, share) in points {
        let size = match interpolation {
            Interpolation::Linear => (low as f64 + bytes as f64) / 2.0,
            Interpolation::Step => bytes as f64,
        };
        mean += size * (share - low_share);
        (low, low_share) = (bytes, share);
    }
    mean
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
