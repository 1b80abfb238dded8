//! Rules that the types of the configuration cannot express; errors name the place and the remedy.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{
    DEFAULT_PORT, Group, Need, OnFull, Order, Pfc, Profile, QueueConfig, Thresholds,
    TrafficManagerConfig,
};
use crate::limits::{CLASSES, MAX_QUEUES};

/// Longest time that a key may give: the clock of the switch counts picoseconds in 64 bits, which
/// are 213 days.
const MAX_TIME_NS: u64 = 1_000_000 * 1_000_000_000;

/// A configuration that makes no sense, with the place and the remedy.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("traffic manager: {place}: {problem}")]
pub struct ConfigError {
    place: String,
    problem: String,
}

impl ConfigError {
    /// A mistake at a place of the configuration; the problem says what to do.
    pub fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            problem: problem.into(),
        }
    }
}

/// Checks that the times of a place are none after which clocks would overflow.
fn validate_times(place: &str, times: &[(&str, u64)]) -> Result<(), ConfigError> {
    match times.iter().find(|(_, time)| *time > MAX_TIME_NS) {
        Some((key, time)) => Err(ConfigError::new(
            place,
            format!("{key} = {time} is above {MAX_TIME_NS}, a million seconds"),
        )),
        None => Ok(()),
    }
}

impl TrafficManagerConfig {
    /// Checks what the types cannot express. A traffic manager takes only configurations that pass.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut names = BTreeSet::new();
        for profile in &self.profile {
            if !names.insert(profile.name.as_str()) {
                return Err(ConfigError::new(
                    format!("profile \"{}\"", profile.name),
                    "defined twice; give each profile a name of its own",
                ));
            }
            profile.validate()?;
            profile.validate_lossless(self.pfc.as_ref().zip(self.thresholds()))?;
            profile.validate_ranks(self.rank.is_some())?;
        }
        self.validate_pfc()?;
        self.validate_ranks()?;
        self.validate_exports()?;
        for (port, name) in &self.ports {
            let place = format!("[ports] {port} = \"{name}\"");
            if port != DEFAULT_PORT
                && port.parse::<u16>().map(|n| n.to_string()).as_ref() != Ok(port)
            {
                return Err(ConfigError::new(
                    place,
                    "the key must be a port number (0 to 65535) or \"default\"",
                ));
            }
            if !names.contains(name.as_str()) {
                let known: Vec<_> = names.iter().copied().collect();
                let problem = format!("no such profile; defined: {}", list_or_none(&known));
                return Err(ConfigError::new(place, problem));
            }
        }
        Ok(())
    }

    fn validate_pfc(&self) -> Result<(), ConfigError> {
        let Some(pfc) = &self.pfc else {
            return Ok(());
        };
        let times = [
            ("response_ns", pfc.response_ns),
            ("wakeup_ns", pfc.wakeup_ns),
            ("watchdog_ns", pfc.watchdog_ns),
        ];
        validate_times("[pfc]", &times)?;
        let fail = |problem: String| Err(ConfigError::new("[pfc]", problem));
        match (pfc.pause_bytes, pfc.resume_bytes) {
            (Some(pause_bytes), Some(resume_bytes)) if resume_bytes > pause_bytes => {
                return fail(format!(
                    "resume_bytes = {resume_bytes} is above pause_bytes = {pause_bytes}; a queue \
                     would resume before it pauses"
                ));
            }
            (Some(_), None) | (None, Some(_)) => {
                return fail("needs both pause_bytes and resume_bytes, or neither".into());
            }
            _ => {}
        }
        if pfc.max_frame_bytes == 0 {
            return fail("max_frame_bytes = 0; give the longest frame, 1530 for Ethernet".into());
        }
        if self.profile.iter().all(|profile| profile.lossless() == 0) {
            return fail("is set, but no queue says lossless = true".into());
        }
        Ok(())
    }

    fn validate_ranks(&self) -> Result<(), ConfigError> {
        let mut queues = self.profile.iter().flat_map(|profile| &profile.queue);
        if self.rank.is_some() && !queues.any(|queue| queue.rank) {
            let problem = "is set, but no queue says rank = true";
            return Err(ConfigError::new("[rank]", problem));
        }
        Ok(())
    }

    fn validate_exports(&self) -> Result<(), ConfigError> {
        let mut registers = BTreeSet::new();
        for export in &self.export {
            validate_times("[[export]]", &[("period_ns", export.period_ns)])?;
            let register = &export.register;
            let fail = |problem| Err(ConfigError::new("[[export]]", problem));
            if register.is_empty() {
                return fail("register = \"\"; name a register of the program".to_owned());
            }
            if !registers.insert(register) {
                return fail(format!(
                    "register {register:?} is written by two exports; give each one of its own"
                ));
            }
        }
        Ok(())
    }
}

impl Profile {
    /// A queue with ranks needs fields to go by.
    fn validate_ranks(&self, has_fields: bool) -> Result<(), ConfigError> {
        match self.queue.iter().find(|queue| queue.rank) {
            Some(queue) if !has_fields => Err(ConfigError::new(
                format!("profile \"{}\", queue {}", self.name, queue.id),
                "has rank = true, but there is no [rank] with the fields to go by, field and flow",
            )),
            _ => Ok(()),
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let place = format!("profile \"{}\"", self.name);
        let fail = |problem: String| Err(ConfigError::new(place.clone(), problem));
        let times = [
            ("delay_ns", self.delay_ns),
            ("rx_delay_ns", self.rx_delay_ns),
            ("pipeline_delay_ns", self.pipeline_delay_ns),
        ];
        validate_times(&place, &times)?;
        if self.queue.is_empty() {
            return fail("has no queue; add a [[profile.queue]]".into());
        }
        let mut ids = BTreeSet::new();
        for queue in &self.queue {
            if !ids.insert(queue.id) {
                return fail(format!("queue {} is defined twice", queue.id));
            }
            self.validate_queue(queue)?;
        }
        let limits = [
            ("pool_packets", self.pool_packets),
            ("pool_bytes", self.pool_bytes),
        ];
        for (key, limit) in limits {
            if limit == Some(0) {
                return fail(format!("{key} = 0 holds nothing; omit it for no limit"));
            }
            if limit.is_some() && !self.queue.iter().any(|q| q.pool) {
                return fail(format!("{key} is set, but no queue says pool = true"));
            }
        }
        self.validate_buffers(&place)?;
        self.validate_groups(&place, &ids)?;
        self.validate_shares(&place)
    }

    /// Checks the buffers of a port with an ingress stage.
    fn validate_buffers(&self, place: &str) -> Result<(), ConfigError> {
        let fail = |problem: &str| Err(ConfigError::new(place, problem));
        match (self.ingress_bytes, self.egress_bytes) {
            (None, None) if self.egress_per_queue => fail("egress_per_queue needs egress_bytes"),
            (None, None) => Ok(()),
            (Some(ingress), Some(egress)) if ingress > 0 && egress > 0 => Ok(()),
            (Some(_), Some(_)) => fail("ingress_bytes and egress_bytes must be above 0"),
            _ => fail("needs both ingress_bytes and egress_bytes, or neither"),
        }
    }

    /// Checks the lossless queues, and the headroom for them.
    fn validate_lossless(&self, pfc: Option<(&Pfc, Thresholds)>) -> Result<(), ConfigError> {
        let place = format!("profile \"{}\"", self.name);
        let fail = |problem: String| Err(ConfigError::new(place.clone(), problem));
        let Some(queue) = self.queue.iter().find(|queue| queue.lossless) else {
            return Ok(());
        };
        let Some((pfc, thresholds)) = pfc else {
            return fail(format!(
                "queue {} is lossless, but there is no [pfc]",
                queue.id
            ));
        };
        let is_given = pfc.pause_bytes.is_some();
        let Some(ingress_bytes) = self.ingress_bytes else {
            return match is_given {
                true => Ok(()),
                false => fail(format!(
                    "queue {} is lossless, but there is no ingress_bytes to compute its thresholds \
                     of; give it, or [pfc] with pause_bytes and resume_bytes",
                    queue.id
                )),
            };
        };
        if self.rate_bps.is_zero() {
            return fail(
                "has lossless queues and ingress_bytes, but no rate_bps: no buffer is \
                         large enough for a link without a limit"
                    .into(),
            );
        }
        let need = Need::new(self, pfc, thresholds);
        if let Some(problem) = need.complaint(ingress_bytes) {
            return fail(problem);
        }
        let Thresholds {
            pause_bytes,
            resume_bytes,
            ..
        } = thresholds;
        if !is_given && pause_bytes < resume_bytes {
            let queues = self.lossless().count_ones();
            return fail(format!(
                "{queues} lossless queues need {queues} * {resume_bytes} = {} bytes of headroom of \
                 the {ingress_bytes} bytes of ingress_bytes, and as much again before they pause; \
                 use fewer lossless queues, more ingress_bytes or slower links, or give pause_bytes \
                 and resume_bytes",
                u64::from(queues).saturating_mul(resume_bytes)
            ));
        }
        let left = ingress_bytes - need.bytes();
        let lossy = self.queue.iter().find(|queue| !queue.lossless);
        match lossy {
            Some(queue) if left < pfc.max_frame_bytes => fail(format!(
                "the lossless queues need {} of the {ingress_bytes} bytes of ingress_bytes, which \
                 leaves no frame for queue {}; make it lossless too or give more",
                need.bytes(),
                queue.id
            )),
            _ => Ok(()),
        }
    }

    fn validate_queue(&self, queue: &QueueConfig) -> Result<(), ConfigError> {
        let place = format!("profile \"{}\", queue {}", self.name, queue.id);
        let fail = |problem: &str| Err(ConfigError::new(place.clone(), problem));
        if usize::from(queue.id) >= MAX_QUEUES {
            return fail("queue ids are 0 (lowest priority) to 31, of v1model to 7");
        }
        if queue.lossless && usize::from(queue.id) >= CLASSES {
            return fail("is lossless: flow control has the classes 0 to 7");
        }
        if queue.capacity_packets == Some(0) || queue.capacity_bytes == Some(0) {
            return fail("a capacity of 0 holds nothing; omit it for no limit");
        }
        if queue.pool && self.pool_packets.is_none() && self.pool_bytes.is_none() {
            return fail("pool = true, but the profile has neither pool_packets nor pool_bytes");
        }
        let limited = queue.capacity_packets.is_some() || queue.capacity_bytes.is_some();
        if queue.lossless && (limited || queue.pool) {
            return fail("is lossless: omit capacity_packets, capacity_bytes and pool");
        }
        if self.ingress_bytes.is_some() && (limited || queue.pool || queue.rank) {
            return fail(
                "the profile has ingress_bytes and egress_bytes, which hold the packets of all \
                 queues: omit capacity_packets, capacity_bytes, pool and rank",
            );
        }
        if queue.rank && !limited {
            return fail("rank = true needs capacity_packets or capacity_bytes");
        }
        let shares_buffer = queue.pool || queue.rank || self.ingress_bytes.is_some();
        if queue.on_full == OnFull::PushOut && !shares_buffer {
            return fail(
                "on_full = \"push-out\" needs packets that can give way: pool = true, rank = true \
                 or ingress_bytes",
            );
        }
        let yields = queue.pool && queue.on_full == OnFull::PushOut && !queue.rank;
        if queue.pool_exempt && !(yields && limited) {
            return fail(
                "pool_exempt = true needs pool = true, on_full = \"push-out\" and a capacity of its \
                 own, and no ranks",
            );
        }
        if queue.on_full == OnFull::PushOutDeflect && !queue.rank {
            return fail("on_full = \"push-out-deflect\" needs rank = true");
        }
        if queue.on_full == OnFull::DeflectEither && (queue.rank || !(limited || queue.pool)) {
            return fail(
                "on_full = \"deflect-either\" needs capacity_packets, capacity_bytes or pool, and no ranks",
            );
        }
        Ok(())
    }

    fn validate_groups(&self, place: &str, ids: &BTreeSet<u8>) -> Result<(), ConfigError> {
        let fail = |problem: String| Err(ConfigError::new(place, problem));
        let mut grouped = BTreeSet::new();
        for group in &self.group {
            if group.weight == 0 {
                return fail(format!(
                    "group of queues {:?}: weight 0 would never be served; use 1 or more",
                    group.queues
                ));
            }
            if group.queues.is_empty() {
                return fail("a group without queues".into());
            }
            for id in &group.queues {
                if !ids.contains(id) {
                    let known: Vec<_> = ids.iter().map(u8::to_string).collect();
                    return fail(format!(
                        "a group names queue {id}, which is not defined; defined: {}",
                        known.join(", ")
                    ));
                }
                if !grouped.insert(*id) {
                    return fail(format!("queue {id} is in two groups"));
                }
            }
            self.validate_order(place, group)?;
        }
        match ids.difference(&grouped).next() {
            Some(id) if !self.group.is_empty() => fail(format!(
                "queue {id} is in no group and would never be served; add it to one"
            )),
            _ => Ok(()),
        }
    }

    /// In order of arrival go queues whose packets wait for nothing but those before them.
    fn validate_order(&self, place: &str, group: &Group) -> Result<(), ConfigError> {
        let member = |queue: &&QueueConfig| group.queues.contains(&queue.id);
        let mut members = self.queue.iter().filter(member);
        let orderly = group.share.is_none()
            && self.ingress_bytes.is_none()
            && members.all(|queue| !queue.lossless && !queue.rank);
        match group.order == Order::Arrival && !orderly {
            true => Err(ConfigError::new(
                place,
                format!(
                    "group of queues {:?}: order = \"arrival\" goes without share, lossless, rank \
                     and ingress_bytes",
                    group.queues
                ),
            )),
            false => Ok(()),
        }
    }

    /// Checks the groups that have a share of the link.
    fn validate_shares(&self, place: &str) -> Result<(), ConfigError> {
        let fail = |problem: String| Err(ConfigError::new(place, problem));
        let mut sum = 0.0;
        for group in &self.group {
            let Group {
                queues,
                burst_bytes,
                ..
            } = group;
            let Some(share) = group.share else {
                if *burst_bytes > 0 {
                    return fail(format!(
                        "group of queues {queues:?}: burst_bytes without a share"
                    ));
                }
                if group.capped {
                    return fail(format!(
                        "group of queues {queues:?}: capped = true without a share"
                    ));
                }
                continue;
            };
            let ranked = |id| self.queue.iter().any(|q| q.id == id && q.rank);
            if group.capped && (queues.len() != 1 || ranked(queues[0])) {
                return fail(format!(
                    "group of queues {queues:?}: capped = true is for one queue without ranks"
                ));
            }
            if !(share * SHARE_STEPS >= 1.0 && share < 1.0) {
                return fail(format!(
                    "group of queues {queues:?}: share = {share} is not above 0 and below 1, in \
                     steps of a millionth"
                ));
            }
            if *burst_bytes == 0 {
                return fail(format!(
                    "group of queues {queues:?}: a share needs burst_bytes, at least the longest \
                     frame that is to be served first"
                ));
            }
            if group.weight > 1 {
                return fail(format!(
                    "group of queues {queues:?}: has a share, so omit weight"
                ));
            }
            if self.rate_bps.is_zero() {
                return fail("a group has a share of the link, but rate_bps has no limit".into());
            }
            sum += share;
        }
        if sum >= 1.0 {
            return fail(format!(
                "the shares of the groups add up to {sum}; together they must be below 1"
            ));
        }
        Ok(())
    }
}

/// Shares have steps of a millionth.
pub(crate) const SHARE_STEPS: f64 = 1e6;

fn list_or_none(names: &[&str]) -> String {
    match names {
        [] => "none".into(),
        _ => names.join(", "),
    }
}
