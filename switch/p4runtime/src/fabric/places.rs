//! Places as people write them, such as "s1:3", "s1" or "h3".

use std::fmt::Display;

use tonic::Status;

use super::{Layout, LinkEnd, Node};
use crate::quote::short;

/// Most names of a list in an error; more would hide its message.
const NAMES_SHOWN: usize = 24;

/// A node, and perhaps one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    node: Node,
    port: Option<u16>,
}

impl Place {
    fn covers(self, end: LinkEnd) -> bool {
        self.node == end.node && self.port.is_none_or(|port| port == end.port)
    }
}

impl Layout {
    /// Name of a switch or host.
    pub fn node_name(&self, node: Node) -> &str {
        match node {
            Node::Switch(index) => &self.switches[index].name,
            Node::Host(index) => &self.hosts[index],
        }
    }

    /// The index of a switch.
    pub(super) fn switch(&self, name: &str) -> Result<usize, Status> {
        match self.node(name)? {
            Node::Switch(index) => Ok(index),
            Node::Host(_) => Err(Status::invalid_argument(format!(
                "\"{}\" is a host, not a switch",
                short(name)
            ))),
        }
    }

    /// The link between two places, and whether its first end is at the second place. The second
    /// may be empty.
    pub(super) fn link(&self, a: &str, b: &str) -> Result<(usize, bool), Status> {
        let near = self.place(a)?;
        let far = match b {
            "" => None,
            _ => Some(self.place(b)?),
        };
        let joins =
            |from: LinkEnd, to: LinkEnd| near.covers(from) && far.is_none_or(|far| far.covers(to));
        let found: Vec<_> = (0..self.links.len())
            .filter_map(|index| {
                let [first, second] = self.links[index];
                let reversed = !joins(first, second);
                (!reversed || joins(second, first)).then_some((index, reversed))
            })
            .collect();
        match found[..] {
            [one] => Ok(one),
            [] => {
                let known = self.links_where(|[x, y]| near.node == x.node || near.node == y.node);
                let what = match b {
                    "" => format!("there is no link at \"{}\"", short(a)),
                    _ => format!("no link joins \"{}\" and \"{}\"", short(a), short(b)),
                };
                let name = self.node_name(near.node);
                Err(Status::not_found(format!(
                    "{what}; links of {name}: {known}"
                )))
            }
            _ => {
                let them = name_list(found.iter().map(|(index, _)| self.link_name(*index)));
                Err(Status::invalid_argument(format!(
                    "{} links fit; name ports to choose one of: {them}",
                    found.len()
                )))
            }
        }
    }

    /// A switch and its port: the port that `at` names, or the one of the link from `at` to `toward`.
    pub(super) fn switch_port(&self, at: &str, toward: &str) -> Result<(usize, u16), Status> {
        let place = self.place(at)?;
        let Node::Switch(switch) = place.node else {
            let (link, reversed) = self.link(at, "")?;
            let far = self.links[link][usize::from(!reversed)];
            return Err(Status::invalid_argument(format!(
                "\"{}\" is a host; the switch port it is connected to is {}",
                short(at),
                self.end_name(far)
            )));
        };
        if let (Some(port), "") = (place.port, toward) {
            return Ok((switch, port));
        }
        let (link, reversed) = self.link(at, toward)?;
        Ok((switch, self.links[link][usize::from(reversed)].port))
    }

    pub(super) fn end_name(&self, end: LinkEnd) -> String {
        match end.node {
            Node::Switch(_) => format!("{}:{}", self.node_name(end.node), end.port),
            Node::Host(_) => self.node_name(end.node).to_owned(),
        }
    }

    fn link_name(&self, index: usize) -> String {
        let [a, b] = self.links[index].map(|end| self.end_name(end));
        format!("{a}-{b}")
    }

    fn links_where(&self, wanted: impl Fn(&[LinkEnd; 2]) -> bool) -> String {
        let found = (0..self.links.len()).filter(|index| wanted(&self.links[*index]));
        name_list(found.map(|index| self.link_name(index)))
    }

    fn place(&self, text: &str) -> Result<Place, Status> {
        let (name, port) = match text.rsplit_once(':') {
            None => (text, None),
            Some((name, port)) => match port.parse() {
                Ok(port) => (name, Some(port)),
                Err(_) => {
                    return Err(Status::invalid_argument(format!(
                        "\"{}\": expected SWITCH:PORT with a port number, SWITCH or HOST",
                        short(text)
                    )));
                }
            },
        };
        let node = self.node(name)?;
        if let (Node::Host(_), Some(_)) = (node, port) {
            return Err(Status::invalid_argument(format!(
                "\"{}\": a host has one link; leave the port out",
                short(text)
            )));
        }
        Ok(Place { node, port })
    }

    fn node(&self, name: &str) -> Result<Node, Status> {
        let switch = self.switches.iter().position(|s| s.name == name);
        let host = || self.hosts.iter().position(|h| h == name);
        switch
            .map(Node::Switch)
            .or_else(|| host().map(Node::Host))
            .ok_or_else(|| {
                Status::not_found(format!(
                    "there is no switch or host \"{}\"; switches: {}; hosts: {}",
                    short(name),
                    name_list(self.switches.iter().map(|s| &s.name)),
                    name_list(&self.hosts)
                ))
            })
    }
}

/// A list for people, cut where it would be too long.
fn name_list<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let shown: Vec<_> = names
        .by_ref()
        .take(NAMES_SHOWN)
        .map(|n| n.to_string())
        .collect();
    match (shown.is_empty(), names.count()) {
        (true, _) => "none".into(),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
