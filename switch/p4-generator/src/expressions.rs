//! Values of a given type.

use super::{Block, Function, Generator, Parameter, Place, Scope, Ty};

/// The most bits of a literal's value. Wider numbers are rarer in programs, and make no other paths in a compiler.
const WIDEST_LITERAL_BITS: u32 = 64;

impl Generator {
    /// A number of that width, in decimal, without its type. Small numbers and all ones are common.
    pub(super) fn number(&mut self, width: u32) -> String {
        let bits = width.min(WIDEST_LITERAL_BITS);
        let all = u64::MAX >> (64 - bits);
        let value = match self.dice.below(6) {
            0 => 0,
            1 => all,
            2 => self.dice.bits() & all,
            _ => self.dice.below(16) as u64 & all,
        };
        value.to_string()
    }

    pub(super) fn literal(&mut self, ty: &Ty) -> String {
        match ty {
            Ty::Bits(width) => {
                let number = self.number(*width);
                match self.dice.below(3) {
                    0 => format!("(bit<{width}>){number}"),
                    _ => format!("{width}w{number}"),
                }
            }
            Ty::Signed(width) => {
                let number = self.number(*width - 1);
                match self.dice.below(3) {
                    0 => format!("(-{width}s{number})"),
                    _ => format!("{width}s{number}"),
                }
            }
            Ty::Bool => self.dice.pick(&["true", "false"]).to_owned(),
            Ty::Enum(index) => {
                let member = self.dice.below(self.enums[*index].members);
                format!("{}.M{member}", self.enums[*index].name)
            }
            Ty::Code(index) => {
                let member = self.dice.below(self.codes[*index].members);
                format!("{}.M{member}", self.codes[*index].name)
            }
        }
    }

    /// A name of that type, if one is in scope.
    fn named(&mut self, scope: &Scope, ty: &Ty) -> Option<String> {
        let own = scope.places.iter().chain(&self.constants);
        let found: Vec<String> = own
            .filter(|place| place.ty == *ty)
            .map(|place| place.path.clone())
            .collect();
        (!found.is_empty()).then(|| self.dice.pick(&found))
    }

    pub(super) fn value(&mut self, scope: &Scope, ty: &Ty, depth: u32) -> String {
        if depth == 0 || self.dice.chance(25) {
            let named = self.named(scope, ty).filter(|_| self.dice.chance(75));
            return named.unwrap_or_else(|| self.literal(ty));
        }
        match ty {
            Ty::Bits(width) => self.bits(scope, *width, depth - 1),
            Ty::Signed(width) => self.signed(scope, *width, depth - 1),
            Ty::Bool => self.condition(scope, depth - 1),
            Ty::Code(index) if self.dice.chance(30) => {
                let bits = self.value(scope, &Ty::Bits(self.codes[*index].width), depth - 1);
                format!("(({})({bits}))", self.codes[*index].name)
            }
            Ty::Enum(_) | Ty::Code(_) => self.value(scope, ty, 0),
        }
    }

    fn bits(&mut self, scope: &Scope, width: u32, depth: u32) -> String {
        let ty = Ty::Bits(width);
        match self.dice.below(14) {
            0..=2 => {
                let operator = self.dice.pick(&["+", "-", "*", "&", "|", "^"]);
                self.two(scope, operator, &ty, depth)
            }
            3 => {
                let operator = self.dice.pick(&["|+|", "|-|"]);
                self.two(scope, operator, &ty, depth)
            }
            4 => self.shifted(scope, &ty, width, depth),
            5 => self.inverted(scope, &ty, depth),
            6 | 7 => {
                let from = self.other_width(scope);
                let inner = self.value(scope, &Ty::Bits(from), depth);
                format!("((bit<{width}>)({inner}))")
            }
            8 => self
                .slice(scope, width)
                .unwrap_or_else(|| self.literal(&ty)),
            9 if width > 1 => {
                let high = self.dice.between(1, width as usize - 1) as u32;
                let left = self.value(scope, &Ty::Bits(high), depth);
                let right = self.value(scope, &Ty::Bits(width - high), depth);
                format!("({left} ++ {right})")
            }
            10 => self.choice(scope, &ty, depth),
            11 if width > 1 => {
                let inner = self.value(scope, &Ty::Signed(width), depth);
                format!("((bit<{width}>)({inner}))")
            }
            11 => {
                let inner = self.value(scope, &Ty::Bool, depth);
                format!("((bit<1>)({inner}))")
            }
            12 => {
                let code = (0..self.codes.len()).find(|code| self.codes[*code].width == width);
                match code {
                    Some(code) => format!(
                        "((bit<{width}>)({}))",
                        self.value(scope, &Ty::Code(code), depth)
                    ),
                    None => self.value(scope, &ty, 0),
                }
            }
            _ => self
                .call(scope, &ty)
                .unwrap_or_else(|| self.value(scope, &ty, 0)),
        }
    }

    fn signed(&mut self, scope: &Scope, width: u32, depth: u32) -> String {
        let ty = Ty::Signed(width);
        match self.dice.below(8) {
            0..=2 => {
                let operator = self
                    .dice
                    .pick(&["+", "-", "*", "&", "|", "^", "|+|", "|-|"]);
                self.two(scope, operator, &ty, depth)
            }
            3 => self.shifted(scope, &ty, width, depth),
            4 => self.inverted(scope, &ty, depth),
            5 => self.choice(scope, &ty, depth),
            _ => {
                let inner = self.value(scope, &Ty::Bits(width), depth);
                format!("((int<{width}>)({inner}))")
            }
        }
    }

    fn condition(&mut self, scope: &Scope, depth: u32) -> String {
        match self.dice.below(9) {
            0 => {
                let operator = self.dice.pick(&["&&", "||"]);
                self.two(scope, operator, &Ty::Bool, depth)
            }
            1 => format!("(!{})", self.value(scope, &Ty::Bool, depth)),
            2 if !scope.headers.is_empty() => {
                let header = self.dice.pick(&scope.headers);
                format!("hdr.h{header}x.isValid()")
            }
            3 => {
                let operator = self.dice.pick(&["==", "!="]);
                let ty = match self.dice.below(3) {
                    0 => Ty::Enum(0),
                    1 => Ty::Code(0),
                    _ => Ty::Bool,
                };
                self.two(scope, operator, &ty, depth)
            }
            4 => {
                let operator = self.dice.pick(&["<", "<=", ">", ">=", "==", "!="]);
                let width = self.other_width(scope).max(2);
                self.two(scope, operator, &Ty::Signed(width), depth)
            }
            5 => format!("((bool)({}))", self.value(scope, &Ty::Bits(1), depth)),
            _ => {
                let operator = self.dice.pick(&["<", "<=", ">", ">=", "==", "!="]);
                let width = self.other_width(scope);
                self.two(scope, operator, &Ty::Bits(width), depth)
            }
        }
    }

    fn shifted(&mut self, scope: &Scope, ty: &Ty, width: u32, depth: u32) -> String {
        let operator = self.dice.pick(&["<<", ">>"]);
        let left = self.value(scope, ty, depth);
        format!("({left} {operator} {})", self.shift(scope, width))
    }

    fn inverted(&mut self, scope: &Scope, ty: &Ty, depth: u32) -> String {
        let operator = self.dice.pick(&["~", "-"]);
        format!("({operator}{})", self.value(scope, ty, depth))
    }

    fn choice(&mut self, scope: &Scope, ty: &Ty, depth: u32) -> String {
        let condition = self.value(scope, &Ty::Bool, depth);
        let (yes, no) = (self.value(scope, ty, depth), self.value(scope, ty, depth));
        format!("({condition} ? {yes} : {no})")
    }

    fn two(&mut self, scope: &Scope, operator: &str, ty: &Ty, depth: u32) -> String {
        let left = self.value(scope, ty, depth);
        let mut right = self.value(scope, ty, depth);
        // An expression that is 0 or the value itself by algebra alone differs in each compiler's output.
        if left == right {
            right = self.literal(ty);
        }
        format!("({left} {operator} {right})")
    }

    /// The right side of a shift: up to a little more than the width.
    fn shift(&mut self, scope: &Scope, width: u32) -> String {
        match self
            .named(scope, &Ty::Bits(8))
            .filter(|_| self.dice.chance(30))
        {
            Some(name) => format!("({name} & 8w15)"),
            None => format!("8w{}", self.dice.below(width.min(200) as usize + 2)),
        }
    }

    /// The width in bits of something in scope, or any width if there is nothing.
    fn other_width(&mut self, scope: &Scope) -> u32 {
        let widths: Vec<u32> = scope
            .places
            .iter()
            .filter_map(|place| match place.ty {
                Ty::Bits(width) => Some(width),
                _ => None,
            })
            .collect();
        match widths.is_empty() {
            true => self.dice.pick(&[1, 7, 8, 16, 32]),
            false => self.dice.pick(&widths),
        }
    }

    /// `name[high:low]`
    fn slice(&mut self, scope: &Scope, width: u32) -> Option<String> {
        let places = scope.places.iter();
        let wide: Vec<&Place> = places
            .filter(|p| matches!(p.ty, Ty::Bits(w) if w >= width))
            .collect();
        if wide.is_empty() {
            return None;
        }
        let place = self.dice.pick(&wide);
        let low = self
            .dice
            .below((self.width(&place.ty) - width + 1) as usize) as u32;
        Some(format!("{}[{}:{low}]", place.path, low + width - 1))
    }

    /// A call of a function that returns such a value. Functions do not call each other in a
    /// circle, since they only see those before them.
    fn call(&mut self, scope: &Scope, ty: &Ty) -> Option<String> {
        let fitting = |f: &&Function| {
            f.returns.as_ref() == Some(ty) && f.params.iter().all(|p| p.direction == "in")
        };
        let found: Vec<_> = self.functions.iter().filter(fitting).cloned().collect();
        if found.is_empty() || scope.block == Block::Parser {
            return None;
        }
        let function = self.dice.pick(&found);
        let arguments = self.arguments(scope, &function.params)?;
        Some(format!("{}({arguments})", function.name))
    }

    /// The arguments of a call; none if nothing in scope can take what comes out.
    pub(super) fn arguments(&mut self, scope: &Scope, params: &[Parameter]) -> Option<String> {
        let mut list: Vec<String> = Vec::new();
        for param in params {
            let argument = match param.direction {
                "out" | "inout" => {
                    // No place twice: the order in which results are copied back would matter.
                    let free = scope
                        .places
                        .iter()
                        .filter(|p| p.writable && p.ty == param.ty && !list.contains(&p.path));
                    let free: Vec<String> = free.map(|p| p.path.clone()).collect();
                    if free.is_empty() {
                        return None;
                    }
                    self.dice.pick(&free)
                }
                "in" => self.value(scope, &param.ty, 1),
                _ => self.literal(&param.ty),
            };
            list.push(argument);
        }
        Some(list.join(", "))
    }
}
