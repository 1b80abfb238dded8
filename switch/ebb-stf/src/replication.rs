//! Multicast nodes, groups and clone sessions as `simple_switch_CLI` has them: nodes are made first
//! and put into groups then, and a session may lead to a group.

use std::collections::BTreeMap;

use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{CloneSession, Replica};

use crate::bench::in_words;

#[derive(Debug, Default)]
pub struct Replication {
    nodes: Vec<Node>,
    groups: BTreeMap<u16, Vec<usize>>,
    sessions: BTreeMap<u32, Session>,
}

#[derive(Debug)]
struct Node {
    instance: u16,
    ports: Vec<u16>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Session {
    pub port: Option<u16>,
    pub group: Option<u16>,
}

impl Replication {
    pub fn create_group(&mut self, group: u16) {
        self.groups.entry(group).or_default();
    }

    /// Nodes are numbered from 0 in the order they are made.
    pub fn create_node(&mut self, instance: u16, ports: &[u16]) {
        self.nodes.push(Node {
            instance,
            ports: sorted(ports),
        });
    }

    pub fn update_node(&mut self, node: usize, ports: &[u16]) -> Result<(), String> {
        let nodes = self.nodes.len();
        match self.nodes.get_mut(node) {
            Some(node) => node.ports = sorted(ports),
            None => return Err(no_node(node, nodes)),
        }
        Ok(())
    }

    pub fn associate(&mut self, group: u16, node: usize) -> Result<(), String> {
        if node >= self.nodes.len() {
            return Err(no_node(node, self.nodes.len()));
        }
        match self.groups.get_mut(&group) {
            Some(members) => members.push(node),
            None => {
                return Err(format!(
                    "there is no multicast group {group}: mc_mgrp_create"
                ));
            }
        }
        Ok(())
    }

    /// A session has a port, a group or both; each is set by a command of its own.
    pub fn set_session(&mut self, session: u32, to: Session) {
        let known = self.sessions.entry(session).or_default();
        known.port = to.port.or(known.port);
        known.group = to.group.or(known.group);
    }

    pub fn delete_session(&mut self, session: u32) -> Result<(), String> {
        match self.sessions.remove(&session) {
            Some(_) => Ok(()),
            None => Err(format!("there is no clone session {session}")),
        }
    }

    pub fn session(&self, session: u32) -> Option<Session> {
        self.sessions.get(&session).copied()
    }

    /// Puts all of it into the switch.
    pub fn install(&self, pipeline: &mut Pipeline) -> Result<(), String> {
        let old: Vec<u16> = pipeline.multicast_groups().map(|(id, _)| id).collect();
        for group in old {
            in_words(pipeline.delete_multicast_group(group))?;
        }
        for group in self.groups.keys() {
            in_words(pipeline.insert_multicast_group(*group, self.replicas(*group)))?;
        }
        let old: Vec<u32> = pipeline.clone_sessions().map(|(id, _)| id).collect();
        for session in old {
            in_words(pipeline.delete_clone_session(session))?;
        }
        for (number, session) in &self.sessions {
            let group = session.group.map(|group| self.replicas(group));
            let mut replicas = group.unwrap_or_default();
            replicas.extend(session.port.map(|port| Replica { port, instance: 0 }));
            let session = CloneSession {
                replicas,
                ..CloneSession::default()
            };
            in_words(pipeline.insert_clone_session(*number, session))?;
        }
        Ok(())
    }

    fn replicas(&self, group: u16) -> Vec<Replica> {
        let members = self.groups.get(&group).map_or(&[][..], Vec::as_slice);
        let nodes = members.iter().filter_map(|node| self.nodes.get(*node));
        nodes
            .flat_map(|node| {
                let instance = node.instance;
                node.ports.iter().map(move |port| Replica {
                    port: *port,
                    instance,
                })
            })
            .collect()
    }
}

/// BMv2 keeps the ports of a node as a set.
fn sorted(ports: &[u16]) -> Vec<u16> {
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn no_node(node: usize, nodes: usize) -> String {
    format!("there is no node {node}; {nodes} were made, counted from 0")
}
