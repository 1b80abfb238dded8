//! The hosts of a workload, where they are, and what groups they are in.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::draws::Draws;
use crate::error::Error;

/// A host, by its place in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct HostId(pub u32);

impl HostId {
    /// The place in the list, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A host with its place in the network.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedHost {
    /// Name, unique among the hosts.
    pub name: String,
    /// Required for real packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// Hosts with the same label share a top-of-rack switch. Needed by patterns that look at racks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// Hosts with the same label are in one pod. Needed by patterns that look at pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

/// A file that lists hosts.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostList {
    /// Hosts, whose order gives their numbers.
    #[serde(rename = "host")]
    pub hosts: Vec<PlacedHost>,
}

/// A part of the hosts. Groups share no hosts: each takes from those that the groups before it left.
/// Exactly one of `hosts`, `count`, `fraction` and `rest` is given.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name by which patterns refer to the group.
    pub name: String,
    /// These hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// This many hosts, drawn by the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// So large a share of all hosts, rounded to the nearest number, drawn by the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// Every host that is still free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest: bool,
}

/// All hosts, with racks and pods as numbers, and the groups.
#[derive(Clone, Debug)]
pub struct Hosts {
    hosts: Vec<PlacedHost>,
    racks: Vec<Option<u32>>,
    pods: Vec<Option<u32>>,
    groups: Vec<(String, Vec<HostId>)>,
}

impl Hosts {
    pub(crate) fn new(hosts: Vec<PlacedHost>, groups: &[Group], seed: u64) -> Result<Self, Error> {
        if hosts.is_empty() {
            return Err(Error::at(
                "hosts",
                "none; list them in the workload as [[host]] or give a hosts file",
            ));
        }
        for (index, host) in hosts.iter().enumerate() {
            if hosts[..index].iter().any(|other| other.name == host.name) {
                return Err(Error::at("hosts", format!("{} is there twice", host.name)));
            }
        }
        let mut all = Self {
            racks: numbers(hosts.iter().map(|host| host.rack.as_deref())),
            pods: numbers(hosts.iter().map(|host| host.pod.as_deref())),
            hosts,
            groups: Vec::new(),
        };
        let mut free: Vec<HostId> = all.ids().collect();
        for group in groups {
            let members = all.members(group, &mut free, seed)?;
            all.groups.push((group.name.clone(), members));
        }
        Ok(all)
    }

    fn members(
        &self,
        group: &Group,
        free: &mut Vec<HostId>,
        seed: u64,
    ) -> Result<Vec<HostId>, Error> {
        let place = format!("group {}", group.name);
        if self.groups.iter().any(|(name, _)| *name == group.name) {
            return Err(Error::at(place, "there are two of this name"));
        }
        let wanted = match (&group.hosts, group.count, group.fraction, group.rest) {
            (Some(names), None, None, false) => {
                let mut members = Vec::new();
                for name in names {
                    let id = self.find(name).ok_or_else(|| {
                        Error::at(&place, format!("there is no host {name} in the list"))
                    })?;
                    let at = free.iter().position(|&other| other == id).ok_or_else(|| {
                        Error::at(&place, format!("host {name} is in a group already"))
                    })?;
                    members.push(free.remove(at));
                }
                return Ok(members);
            }
            (None, None, None, true) => return Ok(std::mem::take(free)),
            (None, Some(count), None, false) => count as usize,
            (None, None, Some(fraction), false) if (0.0..=1.0).contains(&fraction) => {
                libm::round(fraction * self.hosts.len() as f64) as usize
            }
            (None, None, Some(fraction), false) => {
                return Err(Error::at(
                    place,
                    format!("fraction is {fraction}, expected 0 to 1"),
                ));
            }
            _ => {
                return Err(Error::at(
                    place,
                    "give exactly one of hosts, count, fraction and rest",
                ));
            }
        };
        if wanted > free.len() {
            return Err(Error::at(
                place,
                format!("{wanted} hosts wanted, {} are free", free.len()),
            ));
        }
        let mut order = free.clone();
        Draws::new(seed, &group.name, "group").shuffle(&mut order);
        order.truncate(wanted);
        order.sort_unstable();
        free.retain(|id| !order.contains(id));
        Ok(order)
    }

    /// Number of hosts.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether there are no hosts.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Numbers of all hosts, in order.
    pub fn ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// The host of a number of this list.
    pub fn get(&self, id: HostId) -> &PlacedHost {
        &self.hosts[id.index()]
    }

    /// The number of the host with this name.
    pub fn find(&self, name: &str) -> Option<HostId> {
        let index = self.hosts.iter().position(|host| host.name == name)?;
        Some(HostId(index as u32))
    }

    pub(crate) fn rack(&self, id: HostId) -> Option<u32> {
        self.racks[id.index()]
    }

    pub(crate) fn pod(&self, id: HostId) -> Option<u32> {
        self.pods[id.index()]
    }

    pub(crate) fn need_racks(&self, place: &str) -> Result<(), Error> {
        self.need_labels(place, "rack", &self.racks)
    }

    pub(crate) fn need_pods(&self, place: &str) -> Result<(), Error> {
        self.need_labels(place, "pod", &self.pods)
    }

    fn need_labels(&self, place: &str, label: &str, labels: &[Option<u32>]) -> Result<(), Error> {
        match labels.iter().position(Option::is_none) {
            None => Ok(()),
            Some(index) => Err(Error::at(
                place,
                format!(
                    "needs to know the {label} of each host; host {} has no `{label}`",
                    self.hosts[index].name
                ),
            )),
        }
    }

    /// The hosts of a group, or all.
    pub(crate) fn group(&self, place: &str, name: Option<&str>) -> Result<Vec<HostId>, Error> {
        let Some(name) = name else {
            return Ok(self.ids().collect());
        };
        let known = self.groups.iter().find(|(known, _)| known == name);
        match known {
            Some((_, members)) if members.is_empty() => {
                Err(Error::at(place, format!("group {name} has no hosts")))
            }
            Some((_, members)) => Ok(members.clone()),
            None => {
                let names: Vec<&str> = self.groups.iter().map(|(name, _)| &**name).collect();
                Err(Error::at(
                    place,
                    match names.is_empty() {
                        true => format!("there is no group {name}, nor any other"),
                        false => format!("there is no group {name}, but {}", names.join(", ")),
                    },
                ))
            }
        }
    }
}

/// Labels to numbers, in the order of their first occurrence.
fn numbers<'a>(labels: impl Iterator<Item = Option<&'a str>>) -> Vec<Option<u32>> {
    let mut known: Vec<&str> = Vec::new();
    labels
        .map(|label| {
            let label = label?;
            let index = known.iter().position(|other| *other == label);
            Some(index.unwrap_or_else(|| {
                known.push(label);
                known.len() - 1
            }) as u32)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(n: u32) -> Vec<PlacedHost> {
        (0..n)
            .map(|i| PlacedHost {
                name: format!("h{i}"),
                address: None,
                rack: None,
                pod: None,
            })
            .collect()
    }

    fn background_and_rest() -> Vec<Group> {
        vec![
            Group {
                name: "background".into(),
                fraction: Some(0.3),
                ..Group::default()
            },
            Group {
                name: "foreground".into(),
                rest: true,
                ..Group::default()
            },
        ]
    }

    #[test]
    fn groups_share_no_hosts_and_depend_on_the_seed() {
        let all = Hosts::new(hosts(250), &background_and_rest(), 1).unwrap();
        let background = all.group("", Some("background")).unwrap();
        let foreground = all.group("", Some("foreground")).unwrap();
        assert_eq!((background.len(), foreground.len()), (75, 175));
        assert!(background.iter().all(|id| !foreground.contains(id)));
        let other = Hosts::new(hosts(250), &background_and_rest(), 2).unwrap();
        assert_ne!(other.group("", Some("background")).unwrap(), background);
    }

    #[test]
    fn what_is_wrong_with_a_group_is_told() {
        let text = |group: Group| Hosts::new(hosts(3), &[group], 1).unwrap_err().to_string();
        let named = |name: &str| Group {
            name: name.into(),
            ..Group::default()
        };
        assert_eq!(
            text(Group {
                count: Some(4),
                ..named("g")
            }),
            "group g: 4 hosts wanted, 3 are free"
        );
        assert_eq!(
            text(Group {
                hosts: Some(vec!["x".into()]),
                ..named("g")
            }),
            "group g: there is no host x in the list"
        );
        assert_eq!(
            text(named("g")),
            "group g: give exactly one of hosts, count, fraction and rest"
        );
        let all = Hosts::new(hosts(3), &[], 1).unwrap();
        assert_eq!(
            all.group("traffic t", Some("g")).unwrap_err().to_string(),
            "traffic t: there is no group g, nor any other"
        );
    }
}
