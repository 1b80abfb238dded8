//! Executes a script: every packet goes straight from ingress to egress.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use ebb_bmv2_json::Program;
use ebb_pipeline::control::*;
use ebb_pipeline::*;
use ebb_units::Instant;

use crate::script::{Command, Pattern, number, parse};

/// A program that recirculates for ever fails instead of hanging.
const MAX_PASSES: usize = 10_000;

struct Bench {
    pipeline: Pipeline,
    now: Instant,
    sent: BTreeMap<u16, Vec<Vec<u8>>>,
    expected: BTreeMap<u16, Vec<Pattern>>,
    /// Ports where anything may come.
    any: Vec<u16>,
    ports: Vec<u16>,
    nodes: Vec<Vec<Replica>>,
}

pub fn file(json: &Path, stf: &Path) -> Result<(), String> {
    let read = |p: &Path| std::fs::read(p).map_err(|e| format!("{}: {e}", p.display()));
    let program = Program::from_json(&read(json)?).map_err(|e| e.to_string())?;
    let pipeline = Pipeline::load(&program).map_err(|e| e.to_string())?;
    let commands = parse(&String::from_utf8_lossy(&read(stf)?))?;
    let mut bench = Bench {
        pipeline,
        now: Instant::ZERO,
        sent: BTreeMap::new(),
        expected: BTreeMap::new(),
        any: Vec::new(),
        ports: Vec::new(),
        nodes: Vec::new(),
    };
    for c in &commands {
        if let Command::Packet { port, .. } | Command::Expect { port, .. } = c {
            bench.ports.push(*port);
        }
    }
    for c in commands {
        bench.command(&c).map_err(|e| format!("{c:?}: {e}"))?;
    }
    bench.check()
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    Ok(number(text)?.to_be_bytes().to_vec())
}

/// The one name that is `name`, or ends with it.
fn choose<T: Copy>(all: &[(String, T)], name: &str) -> Result<T, String> {
    let same = |n: &str| n.replace('.', "_") == name.replace('.', "_");
    all.iter()
        .find(|(n, _)| n == name)
        .or_else(|| all.iter().find(|(n, _)| same(n)))
        .or_else(|| all.iter().find(|(n, _)| n.ends_with(name)))
        .map(|(_, t)| *t)
        .ok_or_else(|| {
            format!(
                "there is no {name} among {:?}",
                all.iter().map(|a| &a.0).collect::<Vec<_>>()
            )
        })
}

impl Bench {
    fn command(&mut self, c: &Command) -> Result<(), String> {
        match c {
            Command::Packet { port, bytes } => self.receive(*port, bytes),
            Command::Expect { port, packet } => {
                match packet {
                    Some(p) => self.expected.entry(*port).or_default().push(p.clone()),
                    None => self.any.push(*port),
                }
                Ok(())
            }
            Command::Add {
                table,
                priority,
                keys,
                action,
                args,
            } => self.add(table, *priority, keys, action, args),
            Command::SetDefault {
                table,
                action,
                args,
            } => {
                let table = self.table(table)?;
                let call = self.call(table, action, args)?;
                self.pipeline
                    .set_default_entry(table, Some(TableAction::Direct(call)))
                    .map_err(|e| e.to_string())
            }
            Command::Cli(words) => self.cli(words),
            Command::Wait => Ok(()),
        }
    }

    fn table(&self, name: &str) -> Result<TableId, String> {
        let all: Vec<_> = self
            .pipeline
            .tables()
            .map(|t| (self.pipeline.table_info(t).name.to_owned(), t))
            .collect();
        choose(&all, name)
    }

    fn call(
        &self,
        table: TableId,
        action: &str,
        args: &[(String, String)],
    ) -> Result<ActionCall, String> {
        let all: Vec<_> = self
            .pipeline
            .table_info(table)
            .actions
            .iter()
            .map(|a| (self.pipeline.action_info(*a).name.to_owned(), *a))
            .collect();
        let action = choose(&all, action)?;
        let params = self
            .pipeline
            .action_info(action)
            .params
            .iter()
            .map(|(name, _)| {
                let arg = args.iter().find(|(n, _)| n == name);
                bytes(&arg.ok_or_else(|| format!("argument {name} is missing"))?.1)
            })
            .collect::<Result<_, _>>()?;
        Ok(ActionCall { action, params })
    }

    fn add(
        &mut self,
        table: &str,
        priority: i32,
        keys: &[(String, String)],
        action: &str,
        args: &[(String, String)],
    ) -> Result<(), String> {
        let table = self.table(table)?;
        let call = self.call(table, action, args)?;
        let info = self.pipeline.table_info(table);
        let fields: Vec<_> = info
            .key
            .iter()
            .map(|f| (f.name.to_owned(), (f.kind, f.bits)))
            .collect();
        let mut key = vec![MatchKey::Any; fields.len()];
        for (name, value) in keys {
            let indexed: Vec<_> = fields
                .iter()
                .enumerate()
                .map(|(i, (n, _))| (n.trim_end_matches('$').to_owned(), i))
                .collect();
            // `extra$0.h` is `extra[0].h`.
            let name = match name.split_once('$') {
                Some((stack, rest)) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
                    format!("{stack}[{}", rest.replacen('.', "].", 1))
                }
                _ => name.replace("valid", "$valid"),
            };
            let i = choose(&indexed, name.trim_end_matches('$'))
                .or_else(|_| choose(&indexed, &name.replace("$valid", "valid")))?;
            let (kind, bits) = fields[i].1;
            key[i] = match_key(kind, bits, value)?;
        }
        let priority = if info.needs_priority { priority + 1 } else { 0 };
        let entry = TableEntry {
            key,
            priority,
            action: TableAction::Direct(call),
            idle_timeout: None,
            metadata: Vec::new(),
        };
        self.pipeline
            .insert_entry(self.now, table, entry)
            .map(|_| ())
            .map_err(|e| e.to_string())
    }

    fn cli(&mut self, words: &[String]) -> Result<(), String> {
        let n = |i: usize| -> Result<u32, String> {
            let word = words.get(i).ok_or("too few arguments")?;
            u32::try_from(number(word)?).map_err(|e| e.to_string())
        };
        let done = |r: Result<(), ControlError>| r.map_err(|e| e.to_string());
        match words[0].as_str() {
            "mc_mgrp_create" => done(self.pipeline.insert_multicast_group(n(1)? as u16, vec![])),
            "mc_node_create" => {
                let instance = n(1)? as u16;
                let ports = (2..words.len()).map(n).collect::<Result<Vec<_>, _>>()?;
                self.nodes.push(
                    ports
                        .into_iter()
                        .map(|p| Replica {
                            port: p as u16,
                            instance,
                        })
                        .collect(),
                );
                Ok(())
            }
            "mc_node_associate" => {
                let (group, node) = (n(1)? as u16, n(2)? as usize);
                let mut replicas = self.pipeline.multicast_replicas(group).to_vec();
                replicas.extend(self.nodes.get(node).ok_or("no such node")?);
                done(self.pipeline.modify_multicast_group(group, replicas))
            }
            "mirroring_add" => {
                let session = CloneSession {
                    replicas: vec![Replica {
                        port: n(2)? as u16,
                        instance: 0,
                    }],
                    ..CloneSession::default()
                };
                done(self.pipeline.insert_clone_session(n(1)?, session))
            }
            "mirroring_add_mc" => {
                let session = CloneSession {
                    replicas: self.pipeline.multicast_replicas(n(2)? as u16).to_vec(),
                    ..CloneSession::default()
                };
                done(self.pipeline.insert_clone_session(n(1)?, session))
            }
            "register_write" => {
                let register = self
                    .pipeline
                    .register(&words[1])
                    .map_err(|e| e.to_string())?;
                let value = bytes(&words[3])?;
                done(
                    self.pipeline
                        .set_register_value(register, u64::from(n(2)?), &value),
                )
            }
            // Those that only print.
            "mirroring_get" | "register_read" | "meter_get_rates" | "counter_read" => Ok(()),
            other => Err(format!("command {other} is not supported")),
        }
    }

    fn receive(&mut self, port: u16, frame: &[u8]) -> Result<(), String> {
        self.now += ebb_units::Duration::from_millis(1);
        let mut queue = VecDeque::from([(
            frame.to_vec(),
            IngressInput {
                ingress_port: port,
                ..IngressInput::default()
            },
        )]);
        let mut passes = 0;
        while let Some((frame, input)) = queue.pop_front() {
            passes += 1;
            if passes > MAX_PASSES {
                return Err("the packet goes round and round".into());
            }
            let outcome = self.pipeline.ingress(self.now, frame, &input);
            let mut leaving = VecDeque::new();
            if let Some(clone) = outcome.clone {
                self.replicate(clone, &mut leaving);
            }
            match outcome.verdict {
                IngressVerdict::Resubmit { frame, preserved } => queue.push_back((
                    frame,
                    IngressInput {
                        instance_type: instance_type::RESUBMITTED,
                        preserved: Some(preserved),
                        ..input.clone()
                    },
                )),
                IngressVerdict::Multicast { group, packet } => {
                    for r in self.pipeline.multicast_replicas(group).to_vec() {
                        leaving.push_back((r, self.pipeline.clone_packet(&packet)));
                    }
                }
                IngressVerdict::Unicast {
                    egress_spec,
                    packet,
                    ..
                } => leaving.push_back((
                    Replica {
                        port: egress_spec,
                        instance: 0,
                    },
                    packet,
                )),
                IngressVerdict::Dropped(_) => {}
            }
            self.leave(leaving, &mut queue)?;
        }
        Ok(())
    }

    fn replicate(&mut self, clone: CloneRequest, leaving: &mut VecDeque<(Replica, Box<Packet>)>) {
        if let Some(session) = self.pipeline.clone_session(clone.session) {
            for r in session.replicas.clone() {
                leaving.push_back((r, self.pipeline.clone_packet(&clone.packet)));
            }
        }
    }

    fn leave(
        &mut self,
        mut leaving: VecDeque<(Replica, Box<Packet>)>,
        queue: &mut VecDeque<(Vec<u8>, IngressInput)>,
    ) -> Result<(), String> {
        let mut passes = 0;
        while let Some((replica, packet)) = leaving.pop_front() {
            passes += 1;
            if passes > MAX_PASSES {
                return Err("the packet is cloned for ever".into());
            }
            let input = EgressInput {
                egress_port: replica.port,
                egress_rid: replica.instance,
                enq_timestamp: self.now,
                ..EgressInput::default()
            };
            let outcome = self.pipeline.egress(self.now, packet, &input);
            if let Some(clone) = outcome.clone {
                self.replicate(clone, &mut leaving);
            }
            match outcome.verdict {
                EgressVerdict::Transmit(frame) => {
                    self.sent.entry(replica.port).or_default().push(frame);
                }
                EgressVerdict::Recirculate { frame, preserved } => queue.push_back((
                    frame,
                    IngressInput {
                        instance_type: instance_type::RECIRCULATED,
                        preserved: Some(preserved),
                        ..IngressInput::default()
                    },
                )),
                EgressVerdict::Dropped(_) => {}
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        for port in &self.ports {
            if self.any.contains(port) {
                continue;
            }
            let empty = (Vec::new(), Vec::new());
            let sent = self.sent.get(port).unwrap_or(&empty.0);
            let expected = self.expected.get(port).unwrap_or(&empty.1);
            for (i, want) in expected.iter().enumerate() {
                match sent.get(i) {
                    None => return Err(format!("port {port}: packet {i} is missing: {want}")),
                    Some(have) if !want.matches(have) => {
                        let have: String = have.iter().map(|b| format!("{b:02x}")).collect();
                        return Err(format!(
                            "port {port}: packet {i}\n  want {want}\n  have {have}"
                        ));
                    }
                    Some(_) => {}
                }
            }
            if sent.len() > expected.len() {
                return Err(format!(
                    "port {port}: {} packets, {} expected",
                    sent.len(),
                    expected.len()
                ));
            }
        }
        Ok(())
    }
}

fn match_key(kind: MatchKind, bits: u32, text: &str) -> Result<MatchKey, String> {
    let digit_bits = match text.get(..2) {
        Some("0x") => 4,
        Some("0b") => 1,
        _ => 0,
    };
    let zeros = text.replace('*', "0");
    Ok(match kind {
        MatchKind::Exact => MatchKey::Exact(bytes(text)?),
        MatchKind::Valid => MatchKey::Valid(number(text)? != 0),
        MatchKind::Ternary => match text.split_once("&&&") {
            Some((value, mask)) => MatchKey::Ternary {
                value: bytes(value)?,
                mask: bytes(mask)?,
            },
            None if text.contains('*') => {
                let ones: String = text[2..]
                    .chars()
                    .map(|c| match (c, digit_bits) {
                        ('*', _) => '0',
                        (_, 4) => 'f',
                        _ => '1',
                    })
                    .collect();
                let all = if bits >= 128 {
                    u128::MAX
                } else {
                    (1 << bits) - 1
                };
                let mask = number(&format!("{}{ones}", &text[..2]))? & all;
                MatchKey::Ternary {
                    value: bytes(&zeros)?,
                    mask: mask.to_be_bytes().to_vec(),
                }
            }
            None => MatchKey::Exact(bytes(text)?),
        },
        MatchKind::Lpm => match text.split_once('/') {
            Some((value, length)) => MatchKey::Lpm {
                value: bytes(value)?,
                prefix_len: number(length)? as u32,
            },
            None => MatchKey::Lpm {
                value: bytes(&zeros)?,
                prefix_len: bits - digit_bits * text.matches('*').count() as u32,
            },
        },
        MatchKind::Range => match text.split_once("..") {
            Some((low, high)) => MatchKey::Range {
                low: bytes(low)?,
                high: bytes(high)?,
            },
            None => MatchKey::Exact(bytes(text)?),
        },
    })
}
