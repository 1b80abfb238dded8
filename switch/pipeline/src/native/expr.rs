//! Expressions: instructions for the words and conditions of `expr::word`, and calls for all
//! others.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};

use super::calls;
use super::code::{Code, Data};
use crate::expr::{BinaryOp, Compare, Condition, Number, Word};

impl Code<'_, '_> {
    /// The value of a number that is an index or a length.
    pub fn index(&mut self, number: &Number, data: Data) -> Value {
        match &number.word {
            Some(word) => self.eval(word, data),
            None => {
                let number = self.address(number);
                let words = self.constant(data.words as u64);
                self.call(calls::address::index(), &[number, data.pointer, words])
            }
        }
    }

    /// The value of a number in 64-bit arithmetic.
    pub fn eval(&mut self, word: &Word, data: Data) -> Value {
        match word {
            Word::Const(n) => self.constant(*n),
            Word::Field(at) => self.word(*at),
            Word::Param(at) => self.data_word(data, *at),
            Word::SignExtend(a, unused) => {
                let a = self.eval(a, data);
                let up = self.b.ins().ishl_imm(a, i64::from(*unused));
                self.b.ins().sshr_imm(up, i64::from(*unused))
            }
            Word::FieldConst(op, a, n) => {
                let a = self.word(*a);
                self.compute_const(*op, a, *n)
            }
            Word::Fields(op, a, b) => {
                let (a, b) = (self.word(*a), self.word(*b));
                self.compute(*op, a, b)
            }
            Word::WithConst(op, a, n) => {
                let a = self.eval(a, data);
                self.compute_const(*op, a, *n)
            }
            Word::Binary(op, a, b) => {
                let (a, b) = (self.eval(a, data), self.eval(b, data));
                self.compute(*op, a, b)
            }
            Word::Not(a) => {
                let a = self.eval(a, data);
                self.b.ins().bnot(a)
            }
            // Nothing in an expression has an effect, so both sides may be computed.
            Word::If(c, a, b) => {
                let (c, a, b) = (self.test(c, data), self.eval(a, data), self.eval(b, data));
                self.b.ins().select(c, a, b)
            }
            Word::FromTest(test) => {
                let test = self.test(test, data);
                self.flag(test)
            }
        }
    }

    /// An operation, with the results of `compute` in `expr::word`.
    fn compute(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let zero = self.constant(0);
        match op {
            BinaryOp::Add => self.b.ins().iadd(a, b),
            BinaryOp::Sub => self.b.ins().isub(a, b),
            BinaryOp::Mul => self.b.ins().imul(a, b),
            BinaryOp::And => self.b.ins().band(a, b),
            BinaryOp::Or => self.b.ins().bor(a, b),
            BinaryOp::Xor => self.b.ins().bxor(a, b),
            BinaryOp::Div | BinaryOp::Mod => {
                let by_zero = self.is(IntCC::Equal, b, 0);
                let one = self.constant(1);
                let divisor = self.b.ins().select(by_zero, one, b);
                let result = match op {
                    BinaryOp::Div => self.b.ins().udiv(a, divisor),
                    _ => self.b.ins().urem(a, divisor),
                };
                self.b.ins().select(by_zero, zero, result)
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                let inside = self.is(IntCC::UnsignedLessThan, b, 64);
                let result = match op {
                    BinaryOp::Shl => self.b.ins().ishl(a, b),
                    _ => self.b.ins().ushr(a, b),
                };
                self.b.ins().select(inside, result, zero)
            }
        }
    }

    /// An operation with a constant.
    fn compute_const(&mut self, op: BinaryOp, a: Value, n: u64) -> Value {
        let zero_result = match op {
            BinaryOp::Shl | BinaryOp::Shr => n >= 64,
            BinaryOp::Div | BinaryOp::Mod => n == 0,
            _ => false,
        };
        if zero_result {
            return self.constant(0);
        }
        let b = self.constant(n);
        match op {
            BinaryOp::Shl => self.b.ins().ishl(a, b),
            BinaryOp::Shr => self.b.ins().ushr(a, b),
            BinaryOp::Div => self.b.ins().udiv(a, b),
            BinaryOp::Mod => self.b.ins().urem(a, b),
            _ => self.compute(op, a, b),
        }
    }

    /// The value of a condition as a word.
    pub fn test(&mut self, test: &Condition, data: Data) -> Value {
        match test {
            Condition::Const(b) => self.b.ins().iconst(I8, i64::from(*b)),
            Condition::Field(op, a, n) => {
                let a = self.word(*a);
                self.is(condition_code(*op), a, *n)
            }
            Condition::Fields(op, a, b) => {
                let (a, b) = (self.word(*a), self.word(*b));
                self.b.ins().icmp(condition_code(*op), a, b)
            }
            Condition::Compare(op, a, b) => {
                let (a, b) = (self.eval(a, data), self.eval(b, data));
                self.b.ins().icmp(condition_code(*op), a, b)
            }
            Condition::Not(a) => {
                let a = self.test(a, data);
                self.b.ins().bxor_imm(a, 1)
            }
            Condition::And(a, b) => {
                let (a, b) = (self.test(a, data), self.test(b, data));
                self.b.ins().band(a, b)
            }
            Condition::Or(a, b) => {
                let (a, b) = (self.test(a, data), self.test(b, data));
                self.b.ins().bor(a, b)
            }
            Condition::Same(a, b) => {
                let (a, b) = (self.test(a, data), self.test(b, data));
                self.b.ins().icmp(IntCC::Equal, a, b)
            }
            Condition::If(c, a, b) => {
                let (c, a, b) = (self.test(c, data), self.test(a, data), self.test(b, data));
                self.b.ins().select(c, a, b)
            }
            Condition::Plain(_) => {
                let test = self.address(test);
                let words = self.constant(data.words as u64);
                let right = self.call(calls::address::condition(), &[test, data.pointer, words]);
                self.b.ins().ireduce(I8, right)
            }
        }
    }

    /// Ends the block with a branch, which takes fewer instructions than the condition as a value.
    pub fn branch_on(&mut self, test: &Condition, data: Data, then: Block, otherwise: Block) {
        match test {
            Condition::Not(a) => self.branch_on(a, data, otherwise, then),
            Condition::And(a, b) => {
                let both = self.block();
                self.branch_on(a, data, both, otherwise);
                self.go_on_in(both);
                self.branch_on(b, data, then, otherwise);
            }
            Condition::Or(a, b) => {
                let second = self.block();
                self.branch_on(a, data, then, second);
                self.go_on_in(second);
                self.branch_on(b, data, then, otherwise);
            }
            test => {
                let condition = self.test(test, data);
                self.branch(condition, then, otherwise);
            }
        }
    }

    /// The sum of two words, for addresses.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().iadd(a, b)
    }

    pub fn add_const(&mut self, a: Value, n: u64) -> Value {
        match n {
            0 => a,
            _ => {
                let n = self.b.ins().iconst(I64, n as i64);
                self.b.ins().iadd(a, n)
            }
        }
    }
}

fn condition_code(op: Compare) -> IntCC {
    match op {
        Compare::Eq => IntCC::Equal,
        Compare::Ne => IntCC::NotEqual,
        Compare::Lt => IntCC::UnsignedLessThan,
        Compare::Le => IntCC::UnsignedLessThanOrEqual,
        Compare::Gt => IntCC::UnsignedGreaterThan,
        Compare::Ge => IntCC::UnsignedGreaterThanOrEqual,
    }
}
