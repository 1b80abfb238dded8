//! Runs the commands of one test on one program.

use std::collections::{BTreeMap, BTreeSet};

use ebb_bmv2_json::Program;
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::TableEntry;
use ebb_units::Duration;

use crate::bench::{Bench, in_words};
use crate::entry::{self, Labelled};
use crate::expectation::{Expected, Sent, compare};
use crate::names;
use crate::profile;
use crate::replication::{Replication, Session};
use crate::script::{Command, EntryAction, KeyValue, Statement};
use crate::state;
use crate::verdict::{Outcome, Verdict};

/// How long `wait` waits. p4c's runner ignores the command; here meters and timeouts see time pass.
const WAIT: Duration = Duration::from_secs(1);

/// Whether a test checks counters and has no command about the frames that leave, as some scripts of p4c do. Then any
/// frames may leave.
fn only_counts(statements: &[Statement]) -> bool {
    let any = |test: fn(&Command) -> bool| statements.iter().any(|s| test(&s.command));
    any(|c| matches!(c, Command::CheckCounter { check: Some(_), .. }))
        && !any(|c| matches!(c, Command::Expect { .. } | Command::NoPacket))
}

/// How to run the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// Whether to run the program in the interpreter instead of as native code.
    pub interpreted: bool,
}

pub fn run(program: &Program, statements: &[Statement], mode: Mode) -> Verdict {
    let mut test = match Test::new(program, mode) {
        Ok(test) => test,
        Err(verdict) => return verdict,
    };
    if let Err(verdict) = test.all(statements) {
        return verdict;
    }
    let (mut verdict, causes) = test.verdict();
    if !causes.is_empty() {
        verdict.traces = traces(program, statements, mode, &causes);
    }
    verdict
}

/// Result of a test without its comparison.
#[derive(Default)]
pub struct Frames {
    /// Frames that leave: number (from 1) of the `packet` command that caused each, port, bytes.
    pub sent: Vec<(usize, u16, Vec<u8>)>,
    /// Commands that the switch refuses: line (from 1) of each, and reason.
    pub refused: Vec<(usize, String)>,
}

/// Runs all commands, also those after one that is refused, and compares nothing.
pub fn frames(program: &Program, statements: &[Statement], mode: Mode) -> Result<Frames, Verdict> {
    let mut test = Test::new(program, mode)?;
    let mut frames = Frames::default();
    for statement in statements {
        if let Err(problem) = test.step(statement) {
            frames.refused.push((statement.line, problem));
        }
    }
    let numbers: BTreeMap<usize, usize> = test.packets.iter().copied().zip(1..).collect();
    for (port, (_, sent)) in test.ports {
        for sent in sent {
            frames.sent.push((numbers[&sent.cause], port, sent.frame));
        }
    }
    // Stable: the order at each port stays.
    frames.sent.sort_by_key(|(number, ..)| *number);
    Ok(frames)
}

/// Runs the test again, and returns the traces of the packets of these lines. The second run repeats
/// the first one exactly, so a test that passes costs no traces.
fn traces(
    program: &Program,
    statements: &[Statement],
    mode: Mode,
    causes: &BTreeSet<usize>,
) -> Vec<String> {
    let Ok(mut test) = Test::new(program, mode) else {
        return Vec::new();
    };
    let watched = test.bench.watch();
    let mut texts = Vec::new();
    if test.all(statements).is_ok()
        && let Ok(watched) = watched.lock()
    {
        for (number, line) in (1..).zip(&test.packets) {
            if causes.contains(line)
                && let Some(trace) = watched.get(&number)
            {
                texts.push(format!("the packet of line {line}:\n{trace}"));
            }
        }
    }
    if test.verdict().0.outcome == Outcome::Pass {
        texts.push("with a trace, and so in the interpreter, the test passes".into());
    }
    texts
}

struct Test<'a> {
    program: &'a Program,
    bench: Bench,
    replication: Replication,
    labels: BTreeMap<String, Labelled>,
    ports: BTreeMap<u16, (Vec<Expected>, Vec<Sent>)>,
    /// The lines (from 1) of all `packet` commands so far, in their order.
    packets: Vec<usize>,
    /// Ports at which frames left because of the last `packet` command.
    last: Vec<u16>,
    /// Failed checks of counters and of `no_packet`.
    wrong: Vec<String>,
    output: Vec<String>,
}

impl<'a> Test<'a> {
    fn new(program: &'a Program, mode: Mode) -> Result<Test<'a>, Verdict> {
        let loaded = match mode.interpreted {
            true => Pipeline::load_interpreted(program),
            false => Pipeline::load(program),
        };
        let pipeline =
            loaded.map_err(|error| Verdict::new(Outcome::LoadError, error.to_string()))?;
        let bench =
            Bench::new(pipeline).map_err(|problem| Verdict::new(Outcome::BadTest, problem))?;
        Ok(Test {
            program,
            bench,
            replication: Replication::default(),
            labels: BTreeMap::new(),
            ports: BTreeMap::new(),
            packets: Vec::new(),
            last: Vec::new(),
            wrong: Vec::new(),
            output: Vec::new(),
        })
    }

    fn all(&mut self, statements: &[Statement]) -> Result<(), Verdict> {
        for statement in statements {
            self.step(statement).map_err(|problem| {
                let problem = format!("line {}: {problem}", statement.line);
                let mut verdict = Verdict::new(Outcome::BadTest, problem);
                verdict.output = std::mem::take(&mut self.output);
                verdict
            })?;
        }
        if only_counts(statements) {
            self.ports.clear();
        }
        Ok(())
    }

    fn step(&mut self, statement: &Statement) -> Result<(), String> {
        let line = statement.line;
        match &statement.command {
            Command::Packet { port, bytes } => {
                self.last.clear();
                self.packets.push(line);
                for (port, frame) in self.bench.send(*port, bytes.clone())? {
                    self.last.push(port);
                    let sent = Sent { frame, cause: line };
                    self.ports.entry(port).or_default().1.push(sent);
                }
            }
            Command::Expect { port, pattern } => {
                let pattern = pattern.clone();
                let expected = Expected { line, pattern };
                self.ports.entry(*port).or_default().0.push(expected);
            }
            Command::NoPacket => {
                if let Some(port) = self.last.first() {
                    self.wrong
                        .push(format!("line {line}: a packet left at port {port}"));
                }
            }
            Command::Wait => self.bench.wait(WAIT),
            Command::Add {
                table,
                priority,
                keys,
                action,
                label,
            } => self.add(table, *priority, keys, action, label.as_deref())?,
            Command::SetDefault { table, action } => self.set_default(table, action.as_ref())?,
            Command::MemberCreate { .. }
            | Command::ProfileGroupCreate { .. }
            | Command::MemberAddToGroup { .. } => {
                let program = self.program;
                self.bench
                    .control(|pipeline, _| profile::run(program, pipeline, &statement.command))?;
            }
            Command::RemoveAll => self.remove_all()?,
            Command::Remove { label } => self.remove(label)?,
            Command::MirroringAdd { .. }
            | Command::MirroringAddMulticast { .. }
            | Command::MirroringDelete { .. }
            | Command::MirroringGet { .. }
            | Command::GroupCreate { .. }
            | Command::NodeCreate { .. }
            | Command::NodeUpdate { .. }
            | Command::NodeAssociate { .. } => self.replication(&statement.command)?,
            other => {
                let (program, labels) = (self.program, &self.labels);
                let said = self
                    .bench
                    .control(|pipeline, now| state::run(program, pipeline, now, labels, other))?;
                match said {
                    state::Said::Nothing => {}
                    state::Said::Output(text) => self.output.push(format!("line {line}: {text}")),
                    state::Said::Wrong(text) => self.wrong.push(format!("line {line}: {text}")),
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        table: &str,
        priority: Option<i32>,
        keys: &[(String, KeyValue)],
        action: &EntryAction,
        label: Option<&str>,
    ) -> Result<(), String> {
        let labelled = self.bench.control(|pipeline, now| {
            let id = find_table(pipeline, table)?;
            let info = pipeline.table_info(id);
            let key =
                entry::keys(&info.key, keys).map_err(|p| format!("table {}: {p}", info.name))?;
            // In an STF file 0 is a priority; in the switch they start at 1, as in P4Runtime. Tables without priorities
            // get none.
            let priority = match info.needs_priority {
                true => priority.unwrap_or_default().saturating_add(1),
                false => 0,
            };
            let table = info.name.to_owned();
            let entry = TableEntry {
                key: key.clone(),
                priority,
                action: entry::table_action(pipeline, id, action)?,
                idle_timeout: None,
                metadata: Vec::new(),
            };
            in_words(pipeline.insert_entry(now, id, entry))?;
            Ok(Labelled {
                table,
                key,
                priority,
            })
        })?;
        if let Some(label) = label {
            self.labels.insert(label.into(), labelled);
        }
        Ok(())
    }

    fn set_default(&mut self, table: &str, action: Option<&EntryAction>) -> Result<(), String> {
        self.bench.control(|pipeline, _| {
            let id = find_table(pipeline, table)?;
            let action = action.map(|action| entry::table_action(pipeline, id, action));
            in_words(pipeline.set_default_entry(id, action.transpose()?))
        })
    }

    /// Removes all entries that are not part of the program.
    fn remove_all(&mut self) -> Result<(), String> {
        self.labels.clear();
        self.bench.control(|pipeline, _| {
            let tables: Vec<_> = pipeline.tables().collect();
            for table in tables {
                let entries: Vec<_> = pipeline
                    .entries(table)
                    .filter(|entry| !entry.is_const)
                    .map(|view| (view.entry.key.clone(), view.entry.priority))
                    .collect();
                for (key, priority) in entries {
                    in_words(pipeline.delete_entry(table, &key, priority))?;
                }
            }
            Ok(())
        })
    }

    fn remove(&mut self, label: &str) -> Result<(), String> {
        let Some(entry) = self.labels.remove(label) else {
            return Err(format!("no entry was added as `{label}`"));
        };
        self.bench.control(|pipeline, _| {
            let table = in_words(pipeline.table(&entry.table))?;
            in_words(pipeline.delete_entry(table, &entry.key, entry.priority)).map(drop)
        })
    }

    fn replication(&mut self, command: &Command) -> Result<(), String> {
        let replication = &mut self.replication;
        let (port, group) = (None, None);
        match command {
            Command::GroupCreate { group } => replication.create_group(*group),
            Command::NodeCreate { instance, ports } => replication.create_node(*instance, ports),
            Command::NodeUpdate { node, ports } => replication.update_node(*node, ports)?,
            Command::NodeAssociate { group, node } => replication.associate(*group, *node)?,
            Command::MirroringAdd { session, port } => {
                let port = Some(*port);
                replication.set_session(*session, Session { port, group });
            }
            Command::MirroringAddMulticast { session, group } => {
                let group = Some(*group);
                replication.set_session(*session, Session { port, group });
            }
            Command::MirroringDelete { session } => replication.delete_session(*session)?,
            Command::MirroringGet { session } => {
                let known = replication.session(*session);
                self.output.push(match known {
                    Some(to) => format!("clone session {session}: {to:?}"),
                    None => format!("clone session {session}: none"),
                });
            }
            _ => {}
        }
        let replication = &self.replication;
        self.bench
            .control(|pipeline, _| replication.install(pipeline))
    }

    /// The verdict, and the lines of the `packet` commands that mismatches are about.
    fn verdict(self) -> (Verdict, BTreeSet<usize>) {
        let mut causes = BTreeSet::new();
        let mut details = self.wrong;
        for (port, (expected, sent)) in &self.ports {
            for difference in compare(*port, expected, sent, &self.packets) {
                causes.extend(difference.cause);
                details.push(difference.text);
            }
        }
        let verdict = Verdict {
            outcome: match details.is_empty() {
                true => Outcome::Pass,
                false => Outcome::Mismatch,
            },
            details,
            traces: Vec::new(),
            output: self.output,
        };
        (verdict, causes)
    }
}

fn find_table(pipeline: &Pipeline, name: &str) -> Result<ebb_pipeline::TableId, String> {
    let names: Vec<String> = pipeline
        .tables()
        .map(|table| pipeline.table_info(table).name.to_owned())
        .collect();
    let name = names::resolve("table", name, names.iter().map(String::as_str))?;
    in_words(pipeline.table(name))
}
