//! The control flow of one packet: pipelines, tables, checksums, deparser.

use crate::action::Primitive;
use crate::bits::write_words;
use crate::layout::Header;
use crate::machine::Machine;
use crate::packet::Packet;
use crate::profile::{BoundAction, Profile, Resolved, bucket};
use crate::program::{Checksum, Emit, Next, Node, Program};
use crate::slot::store;
use crate::trace::TraceEvent;

/// Most nodes that a packet may pass: a pipeline that goes in a circle, which no compiler writes,
/// is cut off.
const MAX_NODES: usize = 65_536;

/// The result of applying a table.
struct Applied {
    /// Whether an entry was hit, and had an action.
    hit: bool,
    /// The action that ran; `None` if none did.
    action: Option<u32>,
}

impl Machine<'_> {
    /// Runs a pipeline from a node.
    pub fn pipeline(&mut self, start: Next) {
        let program = self.program;
        let mut next = start;
        let mut steps = 0;
        while let Some(node) = next {
            if self.packet.requests.exit {
                return;
            }
            steps += 1;
            if steps > MAX_NODES {
                self.packet.requests.ask().failed = Some(crate::DropReason::NoTermination);
                return;
            }
            next = match &program.nodes[node as usize] {
                Node::Table(t) => {
                    let applied = self.apply(t.table as usize);
                    t.next(applied.hit, applied.action)
                }
                Node::Condition {
                    source,
                    condition,
                    then,
                    otherwise,
                } => {
                    let value = condition.eval(&self.scope(&[]));
                    if self.is_traced() {
                        let source = source.clone();
                        self.note(TraceEvent::Condition { source, value });
                    }
                    if value { *then } else { *otherwise }
                }
                Node::Call { action, next } => {
                    let action = &program.actions[*action as usize];
                    if self.is_traced() {
                        self.note(TraceEvent::Statements(action.source.clone()));
                    }
                    self.run(&action.body, &[]);
                    *next
                }
            };
        }
    }

    /// Applies a table.
    fn apply(&mut self, table: usize) -> Applied {
        let mut data = std::mem::take(&mut self.state.action_data);
        let before = self.snapshot();
        let entry = self.find(table);
        let hash = self.selector_hash(table, entry);
        if self.is_traced() {
            self.note_table(table, entry, hash);
            // A direct meter has written its colour.
            self.note_changes(before);
        }
        let action = self.member_of(table, entry, hash).map(|bound| {
            data.clear();
            data.extend_from_slice(&bound.data);
            bound.action
        });
        // A group without members is like a miss, without an action.
        let hit = entry.is_some() && action.is_some();
        self.note_entry(table, entry);
        if let Some(action) = action {
            let program = self.program;
            self.run(&program.actions[action as usize].body, &data);
        }
        self.state.action_data = data;
        Applied { hit, action }
    }

    /// Notes the entry that a table has hit, for actions of Tofino that use it.
    #[inline]
    pub fn note_entry(&mut self, table: usize, entry: Option<u32>) {
        self.state.tofino.entry = entry;
        self.state.tofino.table = table;
    }

    /// Finds the entry that the packet hits and counts the packet there.
    #[inline]
    pub fn find(&mut self, table: usize) -> Option<u32> {
        let state = &mut *self.state;
        let bytes = u64::from(self.packet.ingress_length);
        let words = &mut self.packet.words;
        let seen = (bytes, self.now);
        let entry = state
            .tables
            .hit(table, words, seen, &mut state.key, &mut state.masked_key);
        if let Some((m, meter)) = state.tables.meter(table, entry) {
            let bytes = bytes.saturating_add_signed(i64::from(m.adjust));
            let colour = meter.colour(m.unit, bytes, self.now);
            store(words, m.target, i128::from(colour));
        }
        entry
    }

    /// The action of an entry, or of a miss (`None`).
    pub fn action_of(&mut self, table: usize, entry: Option<u32>) -> Option<&BoundAction> {
        let hash = match self.resolved(table, entry) {
            Some(Resolved::Action(_)) => 0,
            _ => self.selector_hash(table, entry),
        };
        self.member_of(table, entry, hash)
    }

    /// The hash that chooses among several actions; 0 if there is no choice.
    fn selector_hash(&mut self, table: usize, entry: Option<u32>) -> u64 {
        let profile = self.profile_of(table);
        let several = match self.resolved(table, entry) {
            None | Some(Resolved::Action(_) | Resolved::Member(_)) => false,
            Some(Resolved::Set(set)) => !set.actions().is_empty(),
            Some(Resolved::Group(group)) => profile
                .and_then(|p| p.groups.get(group))
                .is_some_and(|g| !g.buckets.is_empty()),
        };
        match profile.and_then(|p| p.spec.selector) {
            Some(selector) if several => self.calculate(selector),
            _ => 0,
        }
    }

    /// Like [`action_of`](Self::action_of), with the hash that chooses among the members of a
    /// group.
    #[inline]
    pub fn member_of(&self, table: usize, entry: Option<u32>, hash: u64) -> Option<&BoundAction> {
        let chosen = |n: usize| (n > 0).then(|| bucket(hash, n));
        let member = match self.resolved(table, entry)? {
            Resolved::Action(bound) => return Some(bound),
            Resolved::Set(set) => return set.actions().get(chosen(set.actions().len())?),
            Resolved::Member(member) => member,
            Resolved::Group(group) => {
                let buckets = &self.profile_of(table)?.groups.get(group)?.buckets;
                buckets.get(chosen(buckets.len())?)?
            }
        };
        Some(&self.profile_of(table)?.members.get(member)?.bound)
    }

    /// The action profile of a table.
    pub fn profile_of(&self, table: usize) -> Option<&Profile> {
        let profile = self.state.tables[table].spec.profile?;
        self.state.profiles().get(profile.index())
    }

    /// Effect of an entry, or of a miss (`None`).
    #[inline]
    pub fn resolved(&self, table: usize, entry: Option<u32>) -> Option<&Resolved> {
        self.state.tables[table].action(entry)
    }

    /// Whether all checksums that apply are right.
    pub fn verify_checksums(&mut self) -> bool {
        let program = self.program;
        let mut right = true;
        for c in &program.verify {
            if self.packet.words[c.target_valid_at as usize] != 0 && self.applies(c) {
                let expected = self.calculate(c.calculation);
                let at = (c.target.at + c.target.words - 1) as usize;
                let mask = crate::bits::low_mask(c.target.bits);
                right &= self.packet.words[at] & mask == expected & mask;
                if self.is_traced() {
                    self.note_checksum(c, expected);
                }
            }
        }
        right
    }

    /// Whether a checksum applies to the packet.
    fn applies(&self, c: &Checksum) -> bool {
        c.condition
            .as_ref()
            .is_none_or(|condition| condition.eval(&self.scope(&[])))
    }

    /// Updates checksums and turns `packet.frame` into the frame to be sent. The headers are
    /// written over the old ones, and the payload moves only if they have another length.
    pub fn deparse(&mut self) {
        match self.native() {
            Some(native) => self.deparse_native(native),
            None => {
                self.interpret(Self::deparse_headers);
                if self.is_traced() {
                    self.note_deparse();
                }
                let whole = self.packet.truncated_to;
                self.packet.frame.truncate(whole);
            }
        }
    }

    /// Updates checksums and writes the headers, as the interpreter does it.
    fn deparse_headers(&mut self) {
        let program = self.program;
        // Native code may have parsed the packet.
        self.fetch_fields();
        let before = self.snapshot();
        for c in &program.update {
            if self.applies(c) {
                let value = self.calculate(c.calculation);
                store(&mut self.packet.words, c.target, i128::from(value));
            }
        }
        self.note_changes(before);
        let calls: &[Primitive] = &program.deparser_calls;
        self.run(calls, &[]);
        self.measure();
        self.packet.make_room(self.packet.header_bytes);
        let mut at = 0;
        for emit in &program.emit {
            if emit.is_valid(&self.packet.words) {
                at += self.emit(emit, at);
            }
        }
    }

    /// Writes a valid header into the frame, where there is room for it. Returns its length in
    /// bytes.
    pub fn emit(&mut self, emit: &Emit, at: usize) -> usize {
        let layout = &self.program.layout;
        let packet = &mut *self.packet;
        let header = layout.header_at(emit.header);
        let bits = emit.bits(&packet.words);
        let out = &mut packet.frame[at..at + bits / 8];
        let whole_bytes = bits.is_multiple_of(8) && layout.shortcuts;
        if whole_bytes && bits as u32 == header.fixed_bits {
            header.pieces.write(&packet.words, out);
        } else {
            emit_fields(header, &packet.words, out);
        }
        bits / 8
    }

    /// Notes how long the headers are, for [`crate::Packet::wire_len`].
    pub fn measure(&mut self) {
        self.program.measure(self.packet);
    }
}

impl Program {
    /// Notes how long the headers of a packet are.
    pub fn measure(&self, packet: &mut Packet) {
        let words = &packet.words;
        let valid = self.emit.iter().filter(|emit| emit.is_valid(words));
        packet.header_bytes = valid.map(|emit| emit.bits(words) / 8).sum();
    }
}

/// Writes a header field by field. If it is not whole bytes, its last bits are lost, as on BMv2.
fn emit_fields(header: &Header, words: &[u64], out: &mut [u8]) {
    out.fill(0);
    let mut bit = 0;
    for field in &header.fields {
        let bits = field.bits(words);
        let end = bit + bits as usize;
        if end <= out.len() * 8 {
            write_words(out, bit, bits, field.slot.of(words));
        }
        bit = end;
    }
}
