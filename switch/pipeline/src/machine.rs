//! Runs actions on one packet: the interpreter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebb_units::Instant;
use num_bigint::BigInt;
use rand::Rng;

use crate::action::{Primitive, StackRef, Target};
use crate::bits::low_mask;
use crate::drop_reason::DropReason;
use crate::expr::{Number, Scope, UnionRef};
use crate::layout::NO_HOME;
use crate::packet::{CloneCall, Packet};
use crate::program::Program;
use crate::slot::{Slot, store, store_big};
use crate::state::State;

/// Most primitives that an action may run: one that jumps back without end is cut off.
const MAX_STEPS: usize = 100_000;

/// The interpreter, with what it works on.
pub(crate) struct Machine<'a> {
    /// The program.
    pub program: &'a Program,
    /// The state of the switch.
    pub state: &'a mut State,
    /// The packet.
    pub packet: &'a mut Packet,
    /// The time of the packet's pass.
    pub now: Instant,
}

impl Machine<'_> {
    /// State that expressions can refer to, with the data of the action.
    #[inline]
    pub fn scope<'s>(&'s self, data: &'s [u64]) -> Scope<'s> {
        Scope {
            words: &self.packet.words,
            data,
            registers: &self.state.registers,
            layout: &self.program.layout,
        }
    }

    /// Runs primitives with the data of their action.
    pub fn run(&mut self, body: &[Primitive], data: &[u64]) {
        match self.snapshot() {
            None => self.run_body::<false>(body, data),
            before => {
                self.run_body::<true>(body, data);
                self.note_changes(before);
            }
        }
    }

    #[inline]
    fn run_body<const TRACED: bool>(&mut self, body: &[Primitive], data: &[u64]) {
        let mut at = 0;
        let mut steps = 0;
        while let Some(primitive) = body.get(at) {
            steps += 1;
            if steps > MAX_STEPS {
                return self.fail(DropReason::NoTermination);
            }
            at += 1;
            if TRACED {
                self.note_primitive(primitive, data);
            }
            match primitive {
                // Most primitives are assignments, which cannot end anything.
                Primitive::AssignWord(to, mask, value) => {
                    let value = value.eval(&self.scope(data));
                    self.packet.words[*to as usize] = value & mask;
                    continue;
                }
                Primitive::Jump(to) => at = to.index(&self.scope(data)) as usize,
                Primitive::JumpUnless(condition, to) => {
                    let scope = self.scope(data);
                    if !condition.eval(&scope) {
                        at = to.index(&scope) as usize;
                    }
                }
                other => self.step(other, data),
            }
            if self.packet.requests.exit {
                return;
            }
        }
    }

    /// Runs a part of the interpreter. A panic there is a bug, but must not end the thread with all
    /// its switches: it costs the packet. Calls from native code are guarded likewise.
    pub fn interpret(&mut self, part: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| part(self))).is_err() {
            self.fail(DropReason::InternalError);
        }
    }

    /// Ends the pipeline; the packet will be dropped for this reason.
    pub fn fail(&mut self, reason: DropReason) {
        self.packet.requests.ask().failed = Some(reason);
        self.packet.requests.exit = true;
    }

    /// Runs one primitive that is no jump.
    #[inline(never)]
    pub fn step(&mut self, primitive: &Primitive, data: &[u64]) {
        let index = |n: &Number, machine: &Self| n.index(&machine.scope(data));
        match primitive {
            Primitive::Assign(to, value) => self.assign(to, value, data),
            Primitive::AssignVariable { to, from } => self.assign_variable(*to, *from),
            Primitive::AssignHeader(to, from) => {
                let scope = self.scope(data);
                if let (Some(to), Some(from)) = (to.resolve(&scope), from.resolve(&scope)) {
                    self.copy_header(to, from);
                }
            }
            Primitive::AssignUnion(to, from) => self.assign_union(to, from, data),
            Primitive::AssignStack { to, from } => self.assign_stack(to, from),
            Primitive::Push(stack, n) => self.push(stack, index(n, self) as usize),
            Primitive::Pop(stack, n) => self.pop(stack, index(n, self) as usize),
            Primitive::Exit => self.packet.requests.exit = true,
            Primitive::Assert(condition) => {
                if !condition.eval(&self.scope(data)) {
                    self.fail(DropReason::AssertFailed);
                }
            }
            Primitive::Assume(condition) => {
                if !condition.eval(&self.scope(data)) {
                    self.fail(DropReason::AssumeFailed);
                }
            }
            Primitive::Log(text, args) => self.log(text, args, data),
            Primitive::MarkToDrop(to) => {
                let words = &mut self.packet.words;
                let port = u64::from(self.state.drop_port);
                to.egress_spec.set(words, port);
                if let Some(group) = to.mcast_grp {
                    group.set(words, 0);
                }
            }
            Primitive::SetValid(h) => {
                if let Some(h) = h.resolve(&self.scope(data)) {
                    self.set_valid(h);
                }
            }
            Primitive::SetInvalid(h) => {
                if let Some(h) = h.resolve(&self.scope(data)) {
                    self.set_invalid(h);
                }
            }
            Primitive::Clone {
                session,
                field_list,
            } => {
                self.packet.requests.ask().clone = Some(CloneCall {
                    session: index(session, self) as u32,
                    field_list: index(field_list, self) as u32,
                });
            }
            Primitive::Resubmit(list) => {
                self.packet.requests.ask().resubmit = Some(index(list, self) as u32);
            }
            Primitive::Recirculate(list) => {
                self.packet.requests.ask().recirculate = Some(index(list, self) as u32);
            }
            Primitive::Digest(list) => {
                self.packet.requests.ask().digest = Some(index(list, self) as u32);
            }
            Primitive::Hash {
                to,
                base,
                calculation,
                size,
            } => {
                let (base, size) = (index(base, self), index(size, self).max(1));
                let hash = self.calculate(*calculation);
                // Division is slow, and sizes are mostly powers of two.
                let within = if size.is_power_of_two() {
                    hash & (size - 1)
                } else {
                    hash % size
                };
                self.store(to, i128::from(within.wrapping_add(base)), data);
            }
            Primitive::Random { to, low, high } => {
                let (low, high) = (index(low, self), index(high, self));
                // Nothing is specified for an empty range; BMv2 leaves the target alone.
                if low <= high {
                    let n: u64 = self.state.rng.random_range(low..=high);
                    self.store(to, i128::from(n), data);
                }
            }
            Primitive::Meter {
                meter,
                index: i,
                to,
            } => {
                let i = index(i, self) as usize;
                let bytes = u64::from(self.packet.ingress_length);
                let meters = &mut self.state.meters[*meter as usize];
                if let Some(cell) = meters.cells.get_mut(i) {
                    let bytes = bytes.saturating_add_signed(i64::from(meters.adjust));
                    let colour = cell.colour(meters.unit, bytes, self.now);
                    self.store(to, i128::from(colour), data);
                }
            }
            Primitive::Count(counter, i) => {
                let i = index(i, self);
                let bytes = u64::from(self.packet.ingress_length);
                self.state.counters[*counter as usize].count(i, bytes);
            }
            Primitive::RegisterRead {
                to,
                register,
                index: i,
            } => {
                let i = index(i, self);
                if register.bits < 128 {
                    if let Some(value) = self.state.registers.get(*register, i) {
                        self.store(to, value, data);
                    }
                } else if let Some(value) = self.state.registers.get_big(*register, i) {
                    self.store_big(to, &value, data);
                }
            }
            Primitive::RegisterWrite {
                register,
                index: i,
                value,
            } => {
                let i = index(i, self);
                if value.big {
                    let value = value.tree.eval_big(&self.scope(data));
                    self.state.registers.set_big(*register, i, &value);
                } else {
                    let value = value.value(&self.scope(data));
                    self.state.registers.set(*register, i, value);
                }
            }
            Primitive::Truncate(n) => {
                let n = index(n, self) as usize;
                self.packet.truncate(n);
            }
            Primitive::Tofino(primitive) => self.tofino_step(primitive, data),
            // `run_body` handles these itself.
            Primitive::NoOp
            | Primitive::AssignWord(..)
            | Primitive::Jump(_)
            | Primitive::JumpUnless(..) => {}
        }
    }

    #[inline]
    pub fn assign(&mut self, to: &Target, value: &Number, data: &[u64]) {
        match (to, &value.word) {
            (Target::Field(slot), Some(word)) if slot.words == 1 => {
                let value = word.eval(&self.scope(data));
                self.packet.words[slot.at as usize] = value & low_mask(slot.bits);
            }
            _ => self.assign_wide(to, value, data),
        }
    }

    #[inline(never)]
    fn assign_wide(&mut self, to: &Target, value: &Number, data: &[u64]) {
        if !value.big {
            let value = value.tree.eval(&self.scope(data));
            return self.store(to, value, data);
        }
        let value = value.tree.eval_big(&self.scope(data));
        self.store_big(to, &value, data);
    }

    /// The field that a target stands for; `None` if it is no field or does not exist.
    fn slot(&self, to: &Target, data: &[u64]) -> Option<Slot> {
        match to {
            Target::Field(slot) => Some(*slot),
            Target::Element(slots, index) => {
                let i = index.index(&self.scope(data));
                slots.get(usize::try_from(i).ok()?).copied()
            }
            Target::Last(next, slots) => {
                let count = self.packet.words[*next as usize] as usize;
                slots.get(count.checked_sub(1)?).copied()
            }
            Target::Register(..) | Target::Nowhere => None,
        }
    }

    /// Stores a number in a target.
    #[inline]
    pub fn store(&mut self, to: &Target, value: i128, data: &[u64]) {
        match to {
            Target::Field(slot) => store(&mut self.packet.words, *slot, value),
            Target::Register(register, index) => {
                let i = index.index(&self.scope(data));
                self.state.registers.set(*register, i, value);
            }
            other => {
                if let Some(slot) = self.slot(other, data) {
                    store(&mut self.packet.words, slot, value);
                }
            }
        }
    }

    fn store_big(&mut self, to: &Target, value: &BigInt, data: &[u64]) {
        if let Target::Register(register, index) = to {
            let i = index.index(&self.scope(data));
            self.state.registers.set_big(*register, i, value);
        } else if let Some(slot) = self.slot(to, data) {
            store_big(&mut self.packet.words, slot, value);
        }
    }

    /// Copies a variable-length field with its length.
    fn assign_variable(&mut self, to: (Slot, u32), from: (Slot, u32)) {
        let words = &mut self.packet.words;
        words[to.1 as usize] = words[from.1 as usize].min(u64::from(to.0.bits));
        let n = to.0.words.min(from.0.words) as usize;
        let (source, target) = (
            (from.0.at + from.0.words) as usize - n,
            (to.0.at + to.0.words) as usize - n,
        );
        words[to.0.at as usize..target].fill(0);
        words.copy_within(source..source + n, target);
    }

    /// Copies a header and its validity.
    pub fn copy_header(&mut self, to: u32, from: u32) {
        let layout = &self.program.layout;
        let (target, source) = (layout.header_at(to), layout.header_at(from));
        if !source.is_valid(&self.packet.words) {
            self.packet.words[target.valid_at as usize] = 0;
            return;
        }
        let n = target.words.min(source.words) as usize;
        let first = source.first as usize;
        self.packet
            .words
            .copy_within(first..first + n, target.first as usize);
        self.mark_valid(to);
    }

    fn assign_union(&mut self, to: &UnionRef, from: &UnionRef, data: &[u64]) {
        let scope = self.scope(data);
        if let (Some(to), Some(from)) = (to.resolve(&scope), from.resolve(&scope)) {
            self.copy_union(to, from);
        }
    }

    fn copy_union(&mut self, to: u32, from: u32) {
        let unions = &self.program.layout.unions;
        let (to, from) = (&unions[to as usize], &unions[from as usize]);
        for (to, from) in to.headers.iter().zip(&from.headers) {
            self.copy_header(*to, *from);
        }
    }

    fn copy_element(&mut self, of_unions: bool, to: u32, from: u32) {
        if of_unions {
            self.copy_union(to, from);
        } else {
            self.copy_header(to, from);
        }
    }

    fn invalidate_element(&mut self, of_unions: bool, element: u32) {
        let layout = &self.program.layout;
        let headers = if of_unions {
            layout.unions[element as usize].headers.as_slice()
        } else {
            std::slice::from_ref(&element)
        };
        for h in headers {
            self.packet.words[layout.header_at(*h).valid_at as usize] = 0;
        }
    }

    fn assign_stack(&mut self, to: &StackRef, from: &StackRef) {
        self.packet.words[to.next_at as usize] = self.packet.words[from.next_at as usize];
        for (to_element, from_element) in to.elements.iter().zip(&from.elements) {
            self.copy_element(to.of_unions, *to_element, *from_element);
        }
    }

    /// P4_16 section 8.18, `push_front`.
    fn push(&mut self, stack: &StackRef, n: usize) {
        let size = stack.elements.len();
        let n = n.min(size);
        for i in (n..size).rev() {
            self.copy_element(stack.of_unions, stack.elements[i], stack.elements[i - n]);
        }
        for element in &stack.elements[..n] {
            self.invalidate_element(stack.of_unions, *element);
        }
        let next = &mut self.packet.words[stack.next_at as usize];
        *next = (*next + n as u64).min(size as u64);
    }

    /// P4_16 section 8.18, `pop_front`.
    fn pop(&mut self, stack: &StackRef, n: usize) {
        let size = stack.elements.len();
        let n = n.min(size);
        for i in 0..size - n {
            self.copy_element(stack.of_unions, stack.elements[i], stack.elements[i + n]);
        }
        for element in &stack.elements[size - n..] {
            self.invalidate_element(stack.of_unions, *element);
        }
        let next = &mut self.packet.words[stack.next_at as usize];
        *next = next.saturating_sub(n as u64);
    }

    /// Makes a header valid, and with it the other members of its union invalid.
    pub fn mark_valid(&mut self, header: u32) {
        let layout = &self.program.layout;
        let h = layout.header_at(header);
        for sibling in &h.siblings {
            self.packet.words[layout.header_at(*sibling).valid_at as usize] = 0;
        }
        self.packet.words[h.valid_at as usize] = 1;
        if let Some(home_at) = h.home_at {
            self.packet.words[home_at as usize] = NO_HOME;
        }
    }

    /// Reads the fields that the parser has left in the frame, of headers that are where they were.
    pub fn fetch_fields(&mut self) {
        let (layout, left) = (&self.program.layout, &self.program.usage.left);
        if !left.contains(&true) {
            return;
        }
        let Packet { words, frame, .. } = &mut *self.packet;
        for header in &layout.headers {
            if !header.is_valid(words) {
                continue;
            }
            let home = header.home_at.map_or(NO_HOME, |at| words[at as usize]);
            if home != NO_HOME {
                let data = &frame[home as usize..];
                header
                    .pieces
                    .read_those(data, words, |at| left[at as usize]);
            }
        }
    }

    /// P4's `setValid`: the fields are zero then. On Tofino they are what was written to them before, as validity is a
    /// bit of its own there.
    pub fn set_valid(&mut self, header: u32) {
        let h = self.program.layout.header_at(header);
        if h.is_valid(&self.packet.words) {
            return;
        }
        if self.program.tofino().is_none() {
            self.packet.words[h.first as usize..(h.first + h.words) as usize].fill(0);
        }
        self.packet.packet_length += h.fixed_bits / 8;
        self.mark_valid(header);
    }

    /// P4's `setInvalid`.
    fn set_invalid(&mut self, header: u32) {
        let h = self.program.layout.header_at(header);
        if h.is_valid(&self.packet.words) {
            let bytes = h.bits(&self.packet.words) as u32 / 8;
            self.packet.packet_length = self.packet.packet_length.saturating_sub(bytes);
            self.packet.words[h.valid_at as usize] = 0;
        }
    }

    /// Hashes the inputs of a calculation, as the control plane has set it.
    pub fn calculate(&mut self, calculation: u32) -> u64 {
        if !self.state.hashes.is_empty()
            && let Some(hash) = self.calculate_as_set(calculation)
        {
            return hash;
        }
        let mut bytes = std::mem::take(&mut self.state.scratch);
        self.program.calculations[calculation as usize].lay_out(
            &self.program.layout,
            self.packet,
            &mut bytes,
        );
        let hash = self.hash(calculation, &bytes);
        self.state.scratch = bytes;
        hash
    }

    /// The hash of a calculation that the control plane has set; `None` if it has not.
    #[cold]
    fn calculate_as_set(&mut self, calculation: u32) -> Option<u64> {
        let program = self.program;
        let mut all = program.hashes.iter().zip(&self.state.hashes);
        let (of, set) = all.find(|(of, _)| of.calculations.contains(&calculation))?;
        let turns = &mut self.state.turns[calculation as usize];
        let algorithm = &program.algorithms[calculation as usize];
        let otherwise = |bytes: &[u8]| algorithm.compute(bytes, turns);
        let inputs = &program.calculations[calculation as usize];
        Some(
            set.as_ref()?
                .of_packet(of, inputs, &self.packet.words, otherwise),
        )
    }

    /// Applies the algorithm of a calculation to bytes.
    pub fn hash(&mut self, calculation: u32, bytes: &[u8]) -> u64 {
        self.program.algorithms[calculation as usize]
            .compute(bytes, &mut self.state.turns[calculation as usize])
    }

    fn log(&mut self, text: &str, args: &[Number], data: &[u64]) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let message = self.log_text(text, args, data);
        tracing::info!(packet = self.packet.packet_id, "{message}");
    }

    /// The text of `log_msg` with numbers in the place of `{}`.
    pub fn log_text(&self, text: &str, args: &[Number], data: &[u64]) -> String {
        let scope = self.scope(data);
        let mut args = args.iter();
        let mut message = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{}") {
            message.push_str(before);
            match args.next() {
                Some(n) => message.push_str(&n.text(&scope)),
                None => message.push_str("{}"),
            }
            rest = after;
        }
        message.push_str(rest);
        message
    }
}
