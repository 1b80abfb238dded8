//! Notes the steps of a packet that is traced.

use super::{
    Change, Choice, EntryHit, KeyValue, MAX_EVENTS, Source, TableEvent, TraceEvent, Value,
};
use crate::action::Primitive;
use crate::bits::to_bytes;
use crate::layout::Layout;
use crate::machine::Machine;
use crate::parser::{ExtractTo, Op, State};
use crate::profile::{BoundAction, Resolved};
use crate::program::Checksum;

impl Value {
    pub(super) fn new(words: &[u64], bits: u32) -> Value {
        Value {
            bits,
            bytes: to_bytes(words, bits),
        }
    }
}

impl From<&Option<ebb_bmv2_json::SourceInfo>> for Source {
    fn from(info: &Option<ebb_bmv2_json::SourceInfo>) -> Source {
        match info {
            None => Source::default(),
            Some(info) => Source {
                text: info.source_fragment.clone(),
                at: format!("{}:{}", info.filename, info.line),
            },
        }
    }
}

impl Source {
    /// For what the compiler does not show.
    pub(crate) fn or_name(mut self, name: &str) -> Source {
        if self.text.is_empty() {
            self.text = name.to_owned();
        }
        self
    }
}

impl Machine<'_> {
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.state.trace.is_some()
    }

    pub fn note(&mut self, event: TraceEvent) {
        if let Some(events) = &mut self.state.trace {
            match events.len() {
                ..MAX_EVENTS => events.push(event),
                MAX_EVENTS => events.push(TraceEvent::Cut),
                _ => {}
            }
        }
    }

    /// The fields as they are, if they are to be compared later.
    pub fn snapshot(&self) -> Option<Vec<u64>> {
        self.is_traced().then(|| self.packet.words.clone())
    }

    /// Notes what is different from a snapshot.
    pub fn note_changes(&mut self, before: Option<Vec<u64>>) {
        if let Some(before) = before {
            for change in changes(&self.program.layout, &before, &self.packet.words) {
                self.note(TraceEvent::Changed(change));
            }
        }
    }

    /// Parses as [`parse_state`](Machine::parse_state) does.
    pub fn parse_state_traced(
        &mut self,
        state: &State,
        at: &mut usize,
    ) -> Result<Option<u32>, u32> {
        self.note(TraceEvent::State(state.name.clone()));
        for op in &state.ops {
            let before = match op {
                // Actions note themselves what they change.
                Op::Primitives(_) => None,
                _ => self.snapshot(),
            };
            let extracted = self.header_of(op);
            let start = *at;
            self.parser_op(op, at)?;
            match extracted {
                Some(header) => self.note_extract(header, *at - start),
                None => self.note_changes(before),
            }
        }
        if state.cases.is_empty() {
            return Ok(state.default);
        }
        let next = self.choose_next(state, *at)?;
        let mut key = self.state.scratch.as_slice();
        let key = state.key_widths().map(|bits| {
            let (part, rest) = key.split_at(bits.div_ceil(8) as usize);
            key = rest;
            Value {
                bits,
                bytes: part.to_vec(),
            }
        });
        let event = TraceEvent::Select {
            key: key.collect(),
            next: next.map(|s| self.program.parser.states[s as usize].name.clone()),
        };
        self.note(event);
        Ok(next)
    }

    /// The header that an operation is going to extract.
    fn header_of(&self, op: &Op) -> Option<u32> {
        match op {
            Op::Extract(ExtractTo::Header(header), _) => Some(*header),
            Op::Extract(ExtractTo::Stack(next_at, headers), _) => {
                let next = self.packet.words[*next_at as usize] as usize;
                headers.get(next).copied()
            }
            _ => None,
        }
    }

    fn note_extract(&mut self, header: u32, bytes: usize) {
        let header = self.program.layout.header_at(header);
        let words = &self.packet.words;
        let fields = header.fields.iter().map(|field| {
            let value = Value::new(field.slot.of(words), field.bits(words));
            (field.name.clone(), value)
        });
        let event = TraceEvent::Extract {
            header: header.name.clone(),
            bytes: bytes as u32,
            fields: fields.collect(),
        };
        self.note(event);
    }

    pub fn note_parser_end(&mut self, error: u32) {
        let name = match self.program.error_names.get(&error) {
            Some(name) => name.clone(),
            None if error == self.program.errors.no_error => "NoError".to_owned(),
            None => format!("error {error}"),
        };
        let event = TraceEvent::ParserEnd {
            error: name,
            parsed_bytes: self.packet.payload_at as u32,
            payload_bytes: (self.packet.frame.len() - self.packet.payload_at) as u32,
        };
        self.note(event);
    }

    pub fn note_checksum(&mut self, checksum: &Checksum, expected: u64) {
        let slot = checksum.target;
        let mask = crate::bits::low_mask(slot.bits);
        let event = TraceEvent::Checksum {
            field: field_name(&self.program.layout, slot.at),
            found: Value::new(slot.of(&self.packet.words), slot.bits),
            expected: Value::new(&[expected & mask], slot.bits.min(64)),
        };
        self.note(event);
    }

    /// `hash` is that of the selector, if the table has one.
    pub fn note_table(&mut self, table: usize, entry: Option<u32>, hash: u64) {
        let t = &self.state.tables[table];
        let words = &self.packet.words;
        let key = t.spec.key.iter().map(|field| {
            let mut value = field.slot.of(words).to_vec();
            if let Some(mask) = &field.mask {
                value.iter_mut().zip(mask).for_each(|(v, m)| *v &= m);
            }
            KeyValue {
                name: field.name.clone(),
                kind: field.kind,
                value: Value::new(&value, field.slot.bits),
            }
        });
        let hit = entry.and_then(|e| t.entries.get(e as usize)?.as_ref());
        let bound = self.member_of(table, entry, hash);
        let event = TableEvent {
            table: t.spec.name.clone(),
            key: key.collect(),
            entry: hit.map(|e| EntryHit {
                key: e.key.decompile(&t.spec.key),
                priority: e.priority,
            }),
            choice: self.choice(table, entry, hash, bound),
            action: bound.map(|bound| self.call_of(bound)),
        };
        self.note(TraceEvent::Table(event));
    }

    fn choice(
        &self,
        table: usize,
        entry: Option<u32>,
        hash: u64,
        bound: Option<&BoundAction>,
    ) -> Option<Choice> {
        let same = |other: &BoundAction| bound.is_some_and(|b| std::ptr::eq(b, other));
        Some(match self.resolved(table, entry)? {
            Resolved::Action(_) => return None,
            Resolved::Member(member) => Choice::Member(*member),
            Resolved::Set(set) => Choice::Set {
                index: set.actions().iter().position(same),
                of: set.actions().len(),
                hash,
            },
            Resolved::Group(group) => Choice::Group {
                group: *group,
                member: self.profile_of(table).and_then(|profile| {
                    let mut members = profile.members.iter();
                    members.find_map(|(id, m)| same(&m.bound).then_some(*id))
                }),
                hash,
            },
        })
    }

    fn call_of(&self, bound: &BoundAction) -> (String, Vec<(String, Value)>) {
        let action = &self.program.actions[bound.action as usize];
        let args = action.params.iter().map(|param| {
            let value = Value::new(param.slot.of(&bound.data), param.slot.bits);
            (param.name.clone(), value)
        });
        (action.name.clone(), args.collect())
    }

    /// Notes what a primitive is going to do beyond the packet's fields.
    pub fn note_primitive(&mut self, primitive: &Primitive, data: &[u64]) {
        let scope = self.scope(data);
        let event = match primitive {
            Primitive::RegisterRead {
                register, index, ..
            } => {
                let index = index.index(&scope);
                TraceEvent::RegisterRead {
                    register: self.state.registers.arrays[register.number as usize]
                        .name
                        .to_string(),
                    index,
                    value: scope
                        .registers
                        .get_big(*register, index)
                        .unwrap_or_default()
                        .to_string(),
                }
            }
            Primitive::RegisterWrite {
                register,
                index,
                value,
            } => TraceEvent::RegisterWrite {
                register: self.state.registers.arrays[register.number as usize]
                    .name
                    .to_string(),
                index: index.index(&scope),
                value: value.text(&scope),
            },
            Primitive::Count(counter, index) => TraceEvent::Count {
                counter: self.state.counters[*counter as usize].name.to_string(),
                index: index.index(&scope),
                bytes: self.packet.ingress_length,
            },
            Primitive::Meter { meter, index, .. } => TraceEvent::Meter {
                meter: self.state.meters[*meter as usize].name.to_string(),
                index: index.index(&scope),
            },
            Primitive::Log(text, args) => TraceEvent::Log(self.log_text(text, args, data)),
            Primitive::Exit => TraceEvent::Exit,
            _ => return,
        };
        self.note(event);
    }

    pub fn note_deparse(&mut self) {
        let words = &self.packet.words;
        let valid = self.program.emit.iter().filter(|e| e.is_valid(words));
        let name = |header| self.program.layout.header_at(header).name.clone();
        let event = TraceEvent::Deparse {
            headers: valid.map(|e| name(e.header)).collect(),
            header_bytes: self.packet.header_bytes as u32,
            payload_bytes: self.packet.payload(self.packet.header_bytes).len() as u32,
        };
        self.note(event);
    }
}

/// The name of the field whose words start there.
fn field_name(layout: &Layout, at: u32) -> String {
    let mut fields = layout
        .headers
        .iter()
        .flat_map(|h| h.fields.iter().map(move |f| (h, f)));
    let found = fields.find(|(_, f)| f.slot.at == at);
    found.map_or_else(String::new, |(h, f)| format!("{}.{}", h.name, f.name))
}

/// The changes between two states. Fields of invalid headers have no value, so they cannot change.
fn changes(layout: &Layout, before: &[u64], after: &[u64]) -> Vec<Change> {
    let mut changes = Vec::new();
    for header in &layout.headers {
        let (was, is) = (header.is_valid(before), header.is_valid(after));
        if was != is {
            changes.push(Change::Validity {
                header: header.name.clone(),
                valid: is,
            });
        }
        for field in header.fields.iter().filter(|_| is) {
            let value = |words: &[u64]| Value::new(field.slot.of(words), field.bits(words));
            let (from, to) = (value(before), value(after));
            if from != to {
                changes.push(Change::Field {
                    field: format!("{}.{}", header.name, field.name),
                    from,
                    to,
                });
            }
        }
    }
    changes
}
