//! Common rules of the members of a group and of the actions of a one-shot set: their size, weights and the ports
//! that they watch.

use crate::bytes;
use crate::error::{EntityError, Result};
use crate::proto::config;
use crate::proto::config::action_profile::SelectorSizeSemantics;

/// The largest weight of a member: it bounds what one wrong digit can cost in memory.
const MAX_WEIGHT: i32 = 4096;
/// v1model: `bit<9> egress_spec`.
const MAX_PORT: u64 = 0x1ff;

/// Unit of the size of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    Members,
    Weights,
}

impl Semantics {
    pub fn of(profile: &config::ActionProfile) -> Self {
        match profile.selector_size_semantics {
            Some(SelectorSizeSemantics::SumOfMembers(_)) => Semantics::Members,
            _ => Semantics::Weights,
        }
    }
}

/// Checks the size of a group against `max_size`, or against what the P4Info says if that is 0.
pub fn check_size(
    profile: &config::ActionProfile,
    semantics: Semantics,
    max_size: i32,
    members: usize,
    weight: usize,
) -> Result<()> {
    let (size, what) = match semantics {
        Semantics::Members => (members, "members"),
        Semantics::Weights => (weight, "the weights of its members together"),
    };
    let limit = match max_size {
        0 => profile.max_group_size,
        given => given,
    };
    if limit > 0 && size > limit as usize {
        return Err(EntityError::exhausted(format!(
            "the group is too large: {size}; allowed: up to {limit} ({what})"
        )));
    }
    Ok(())
}

pub fn check_weight(
    profile: &config::ActionProfile,
    semantics: Semantics,
    weight: i32,
) -> Result<u32> {
    let most = match &profile.selector_size_semantics {
        Some(SelectorSizeSemantics::SumOfMembers(s))
            if semantics == Semantics::Members && s.max_member_weight > 0 =>
        {
            s.max_member_weight.min(MAX_WEIGHT)
        }
        _ => MAX_WEIGHT,
    };
    match weight {
        0 if profile.weights_disallowed => Ok(1),
        _ if profile.weights_disallowed => Err(EntityError::invalid(format!(
            "weight {weight}; this selector allows none (leave it 0)"
        ))),
        _ if (1..=most).contains(&weight) => Ok(weight as u32),
        _ => Err(EntityError::invalid(format!(
            "weight {weight}; allowed: 1 to {most}"
        ))),
    }
}

/// The number of a port that is watched. An empty one, which old clients send, is none.
pub fn watch_port(port: Option<Vec<u8>>) -> Result<Option<u32>> {
    let Some(port) = port.filter(|port| !port.is_empty()) else {
        return Ok(None);
    };
    match bytes::to_u64(&port).filter(|n| *n <= MAX_PORT) {
        Some(number) => Ok(Some(number as u32)),
        None => Err(EntityError::invalid(format!(
            "watch_port {}; allowed: 0 to {MAX_PORT}",
            bytes::hex(&port)
        ))),
    }
}
