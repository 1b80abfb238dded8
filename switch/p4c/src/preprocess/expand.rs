//! Macro replacement (C11, 6.10.3.1 to 6.10.3.4).
//!
//! The replacement of a macro is put in front of what is still to be read, and read again. As long as it is being
//! read the macro is disabled. All that replacement makes is paid for before it is made ([`crate::budget`]).

use std::ops::Range;
use std::rc::Rc;

use super::lexer::Lexer;
use super::macros::{Body, Macro, Part, What};
use super::token::{Kind, MADE, Padding, Token};
use super::{Collecting, Preprocessor};
use crate::diagnostics::Diagnostic;
use crate::source::Span;

/// The most levels of arguments within arguments, each of which takes stack; C promises 63 of parentheses.
const MAX_NESTING: usize = 256;
/// Bytes of text that cost as much as a token.
const BYTES_A_TOKEN: usize = 16;

/// Tokens that are read before what follows in the file.
#[derive(Debug)]
pub(super) struct Context {
    tokens: Rc<Vec<Token>>,
    /// Tokens that are left.
    left: Range<usize>,
    /// Where they all count as being: at the outermost macro that brought them. None: each where it is written.
    place: Option<Span>,
    /// The macro that is disabled meanwhile.
    replaced: Option<Rc<Macro>>,
    /// Whether nothing behind them is read: they are an argument or a directive.
    is_all: bool,
}

/// The arguments of one use of a macro.
struct Arguments {
    tokens: Rc<Vec<Token>>,
    ranges: Vec<Range<usize>>,
    /// The arguments with all macros in them replaced, once they were needed.
    expanded: Vec<Option<Rc<Vec<Token>>>>,
    /// Whether there are no variable arguments, not even an empty one.
    none_variable: bool,
    /// The place of the macro that they are for.
    place: Span,
    /// Whether that is where its name is written: then they stand where they are written, too.
    written: bool,
}

impl Arguments {
    fn none(place: Span) -> Arguments {
        Arguments {
            tokens: Rc::default(),
            ranges: Vec::new(),
            expanded: Vec::new(),
            none_variable: true,
            place,
            written: false,
        }
    }

    fn raw(&self, index: usize) -> &[Token] {
        &self.tokens[self.ranges[index].clone()]
    }
}

/// Treatment of a macro's name.
enum Outcome {
    /// Its replacement is read next.
    Replaced,
    /// It stands for itself: no arguments follow.
    Stands,
    /// It is left out with its arguments, for an error that has been reported.
    Gone,
}

impl Preprocessor<'_> {
    /// The next token after macro replacement, and its place; pads included.
    pub(super) fn next(&mut self) -> (Token, Span) {
        loop {
            let (mut token, place) = self.read();
            if token.kind != Kind::Name || token.painted {
                return (token, place);
            }
            let Some(found) = self.macros.get(self.spelling(token)) else {
                return (token, place);
            };
            if found.disabled.get() {
                token.painted = true;
                return (token, place);
            }
            if self.holds || self.exhausted {
                return (token, place);
            }
            let found = Rc::clone(found);
            match self.replace(&found, token, place) {
                Outcome::Replaced => return (Token::pad_of(token), place),
                Outcome::Stands => return (token, place),
                Outcome::Gone => {}
            }
        }
    }

    /// The next token that is no pad, without macro replacement.
    pub(super) fn next_unexpanded(&mut self) -> Token {
        let before = std::mem::replace(&mut self.holds, true);
        let token = loop {
            let (token, _) = self.next();
            if !token.is_pad() {
                break token;
            }
        };
        self.holds = before;
        token
    }

    fn read(&mut self) -> (Token, Span) {
        let Some(context) = self.contexts.last_mut() else {
            let token = self.next_of_file();
            return (token, token.text);
        };
        match context.left.next() {
            Some(index) => {
                let token = context.tokens[index];
                (token, context.place.unwrap_or(token.text))
            }
            None if context.is_all => (Token::end(), Span::default()),
            None => {
                self.leave();
                (Token::pad(), Span::default())
            }
        }
    }

    fn leave(&mut self) {
        if let Some(Context {
            replaced: Some(replaced),
            ..
        }) = self.contexts.pop()
        {
            replaced.disabled.set(false);
        }
    }

    fn enter(&mut self, tokens: Rc<Vec<Token>>, place: Option<Span>, replaced: Option<Rc<Macro>>) {
        if let Some(replaced) = &replaced {
            replaced.disabled.set(true);
        }
        self.contexts.push(Context {
            left: 0..tokens.len(),
            tokens,
            place,
            replaced,
            is_all: false,
        });
    }

    /// Reads tokens and nothing behind them: calls `read` until it has seen [`Kind::End`].
    pub(super) fn within<T>(
        &mut self,
        tokens: Rc<Vec<Token>>,
        range: Range<usize>,
        place: Option<Span>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outside = self.contexts.len();
        self.contexts.push(Context {
            tokens,
            left: range,
            place,
            replaced: None,
            is_all: true,
        });
        let result = read(self);
        while self.contexts.len() > outside {
            self.leave();
        }
        result
    }

    /// Pays for tokens and bytes that a macro used at `place` brings; `false` if that is too much, which was reported.
    pub(super) fn pay(&mut self, tokens: usize, bytes: usize, place: Span) -> bool {
        let place = self.spellings.original(place);
        let paid = !self.exhausted
            && self
                .diagnostics
                .spend_text(tokens + bytes / BYTES_A_TOKEN, place);
        self.exhausted |= !paid;
        paid
    }

    /// Pays for copies of tokens.
    fn pay_for(&mut self, tokens: &[Token], place: Span) -> bool {
        let bytes = tokens.iter().map(|token| token.text.range().len()).sum();
        self.pay(tokens.len() + 1, bytes, place)
    }

    /// Puts what a macro stands for in front of what is still to be read.
    fn replace(&mut self, found: &Rc<Macro>, name: Token, place: Span) -> Outcome {
        if found.params.is_some() && !self.opens_arguments() {
            return Outcome::Stands;
        }
        let tokens = match &found.body {
            Body::Builtin(builtin) => {
                return match self.pay(1, 0, place) && self.builtin(*builtin, name, place) {
                    true => Outcome::Replaced,
                    false => Outcome::Gone,
                };
            }
            Body::Plain(tokens) if found.params.is_none() => {
                self.pay_for(tokens, place).then(|| Rc::clone(tokens))
            }
            body => self.replaced(body, found, name, place),
        };
        let Some(tokens) = tokens else {
            return Outcome::Gone;
        };
        self.enter(tokens, Some(place), Some(Rc::clone(found)));
        Outcome::Replaced
    }

    /// Replacement of a macro with arguments or `##`; none if that is wrong or too large, which was reported.
    fn replaced(
        &mut self,
        body: &Body,
        found: &Macro,
        name: Token,
        place: Span,
    ) -> Option<Rc<Vec<Token>>> {
        let mut arguments = match found.params {
            Some(params) => self.arguments(found, params, name, place)?,
            None => Arguments::none(place),
        };
        match body {
            Body::Plain(tokens) => self.pay_for(tokens, place).then(|| Rc::clone(tokens)),
            Body::Template(parts) => Some(Rc::new(self.substitute(
                parts,
                false,
                found,
                &mut arguments,
            )?)),
            Body::Builtin(_) => None,
        }
    }

    /// Puts a token in front of what is still to be read, as what a macro at `place` stands for.
    pub(super) fn put(&mut self, token: Token, place: Span) {
        self.enter(Rc::new(vec![token]), Some(place), None);
    }

    /// Whether `(` follows, which is then read. What stands in its place stays to be read.
    fn opens_arguments(&mut self) -> bool {
        let holds = std::mem::replace(&mut self.holds, true);
        let collecting = std::mem::replace(&mut self.collecting, Collecting::Parenthesis);
        let mut padding = Padding::default();
        let token = loop {
            let (token, _) = self.next();
            if !token.is_pad() {
                break token;
            }
            padding.add(token);
        };
        self.holds = holds;
        self.collecting = collecting;
        if self.spelling(token) == "(" && token.kind == Kind::Punct {
            return true;
        }
        if token.kind != Kind::End {
            match self.contexts.last_mut() {
                Some(context) => context.left.start -= 1,
                None => self.ahead = Some(token),
            }
        }
        if padding.any {
            self.enter(Rc::new(vec![padding.pad()]), None, None);
        }
        false
    }

    /// Reads arguments up to their `)`; none if they are no arguments for the macro, which has been reported.
    fn arguments(
        &mut self,
        found: &Macro,
        params: usize,
        name: Token,
        place: Span,
    ) -> Option<Arguments> {
        let holds = std::mem::replace(&mut self.holds, true);
        let collecting = std::mem::replace(&mut self.collecting, Collecting::Arguments);
        let most = if found.variadic { params } else { usize::MAX };
        let read = self.read_arguments(most, place);
        self.holds = holds;
        self.collecting = collecting;
        let text = |name| self.spelling(name).to_owned();
        let Some((tokens, mut ranges)) = read else {
            if !self.exhausted {
                let message = format!(
                    "the arguments of macro `{}` have no closing `)`",
                    text(name)
                );
                self.error("macro-arguments", place, message);
            }
            return None;
        };
        let is_empty = |range: &Range<usize>| range.is_empty();
        let given = match params == 0 && ranges.len() == 1 && ranges.iter().all(is_empty) {
            true => 0,
            false => ranges.len(),
        };
        let none_variable =
            found.variadic && (given < params || (given == 1 && ranges.iter().all(is_empty)));
        if given != params && !(found.variadic && given + 1 == params) {
            let message = format!(
                "macro `{}` takes {params} arguments, {given} given",
                text(name)
            );
            self.error("macro-arguments", place, message);
            return None;
        }
        ranges.resize(params, 0..0);
        Some(Arguments {
            tokens: Rc::new(tokens),
            expanded: vec![None; ranges.len()],
            ranges,
            none_variable,
            place,
            written: name.text == place,
        })
    }

    /// Reads up to `)` and separates at commas, of which the last one of `most` arguments has all that are left. None
    /// if there is no `)`, or they are too large.
    fn read_arguments(
        &mut self,
        most: usize,
        place: Span,
    ) -> Option<(Vec<Token>, Vec<Range<usize>>)> {
        let (mut tokens, mut ranges) = (Vec::<Token>::new(), Vec::new());
        let (mut start, mut depth) = (0, 0usize);
        loop {
            // Tokens of the file are as many as the file is long; those of macros may be read again at every level.
            let from_macro = !self.contexts.is_empty();
            if from_macro && !self.pay(1, 0, place) {
                return None;
            }
            let (mut token, _) = self.next();
            // The end of a line is a blank here.
            token.space |= token.starts_line;
            token.starts_line = false;
            let sign = match token.kind {
                Kind::Punct => self.spelling(token),
                Kind::End => return None,
                _ => "",
            };
            match sign {
                "(" => depth += 1,
                ")" if depth > 0 => depth -= 1,
                ")" | "," if depth == 0 && (sign == ")" || ranges.len() + 1 < most) => {
                    let last = sign == ")";
                    while tokens.len() > start && tokens[tokens.len() - 1].is_pad() {
                        tokens.pop();
                    }
                    ranges.push(start..tokens.len());
                    start = tokens.len();
                    if last {
                        return Some((tokens, ranges));
                    }
                    continue;
                }
                _ => {}
            }
            if !token.is_pad() || tokens.len() > start {
                tokens.push(token);
            }
        }
    }

    /// An argument with all macros in it replaced.
    fn expanded(&mut self, arguments: &mut Arguments, index: usize) -> Option<Rc<Vec<Token>>> {
        if let Some(expanded) = &arguments.expanded[index] {
            return Some(Rc::clone(expanded));
        }
        if self.nesting >= MAX_NESTING {
            self.exhausted = true;
            let message =
                format!("macros are nested more than {MAX_NESTING} levels deep in arguments");
            let place = self.spellings.original(arguments.place);
            self.diagnostics
                .report(Diagnostic::error("too-deep", place, message));
            return None;
        }
        self.nesting += 1;
        let (tokens, range) = (
            Rc::clone(&arguments.tokens),
            arguments.ranges[index].clone(),
        );
        let place = arguments.place;
        let own_place = (!arguments.written).then_some(place);
        let expanded = self.within(tokens, range, own_place, |all| {
            let mut expanded = Vec::new();
            loop {
                let (token, _) = all.next();
                if token.kind == Kind::End || !all.pay(1, 0, place) {
                    return expanded;
                }
                expanded.push(token);
            }
        });
        self.nesting -= 1;
        if self.exhausted {
            return None;
        }
        let expanded = Rc::new(expanded);
        arguments.expanded[index] = Some(Rc::clone(&expanded));
        Some(expanded)
    }

    /// The parts of a body, or of what is in its `__VA_OPT__( .. )`, with arguments in place of parameters, and pasted;
    /// none if that is too large.
    fn substitute(
        &mut self,
        parts: &[Part],
        is_optional: bool,
        found: &Macro,
        arguments: &mut Arguments,
    ) -> Option<Vec<Token>> {
        let mut out: Vec<Token> = Vec::new();
        // Whether `##` stands in front, and whether anything stands in front of that.
        let (mut joins, mut has_left) = (false, false);
        for (index, part) in parts.iter().enumerate() {
            let is_token = matches!(part.what, What::Token);
            let mut items = self.items(part, joins, found, arguments)?;
            if is_optional && index == 0 {
                // A `##` in front of `__VA_OPT__` joins the first token in it.
                let first = items.iter().position(|token| !token.is_pad());
                items.drain(..first.unwrap_or(items.len()));
            }
            let is_variable = found.variadic
                && matches!(part.what, What::Argument(index) if Some(index + 1) == found.params);
            let comma = joins
                && has_left
                && is_variable
                && !part.pasted
                && out.last().is_some_and(|last| self.spelling(*last) == ",");
            // Pads keep what stands in place of a parameter apart from its neighbours.
            if !is_token && index > 0 && !joins {
                out.push(Token::pad_of(part.token));
            }
            if comma {
                // gcc's `, ## __VA_ARGS__`: the comma is gone without variable arguments, and else not pasted.
                if arguments.none_variable {
                    out.pop();
                }
                out.extend(&items);
            } else if joins && has_left {
                self.paste(&mut out, &items, part.pasted, arguments.place)?;
            } else {
                out.extend(&items);
            }
            if !is_token && !part.pasted {
                out.push(Token::pad());
            }
            has_left = !items.is_empty() || (joins && has_left);
            joins = part.pasted;
        }
        Some(out)
    }

    /// Replacement of one part.
    fn items(
        &mut self,
        part: &Part,
        joins: bool,
        found: &Macro,
        arguments: &mut Arguments,
    ) -> Option<Vec<Token>> {
        Some(match &part.what {
            What::Token => {
                let token = [part.token];
                self.pay_for(&token, arguments.place)
                    .then(|| token.to_vec())?
            }
            What::Argument(index) if joins || part.pasted => {
                let raw = arguments.raw(*index);
                self.pay_for(raw, arguments.place).then(|| raw.to_vec())?
            }
            What::Argument(index) => {
                let expanded = self.expanded(arguments, *index)?;
                self.pay_for(&expanded, arguments.place)
                    .then(|| expanded.to_vec())?
            }
            What::Spelled(index) => {
                let text = self.stringify(arguments.raw(*index), arguments.place)?;
                vec![text]
            }
            What::Optional(inside) => {
                let mut tokens = self.optional(inside, found, arguments)?;
                while part.pasted && tokens.last().is_some_and(|last| last.kind == Kind::Pad) {
                    tokens.pop();
                }
                tokens
            }
            What::SpelledOptional(inside) => {
                let tokens = self.optional(inside, found, arguments)?;
                vec![self.stringify(&tokens, arguments.place)?]
            }
        })
    }

    /// Contents of `__VA_OPT__( .. )`, if there are variable arguments.
    fn optional(
        &mut self,
        inside: &[Part],
        found: &Macro,
        arguments: &mut Arguments,
    ) -> Option<Vec<Token>> {
        let last = found.params.unwrap_or(0).saturating_sub(1);
        let variable = self.expanded(arguments, last)?;
        if variable.iter().all(|token| token.is_pad()) {
            // As in cpp, what is in them is replaced all the same: that counts `__COUNTER__`, and finds mistakes.
            let mut joins = false;
            for part in inside {
                match part.what {
                    What::Argument(index) if !joins && !part.pasted => {
                        self.expanded(arguments, index)?;
                    }
                    _ => {}
                }
                joins = part.pasted;
            }
            return Some(Vec::new());
        }
        let mut tokens = self.substitute(inside, true, found, arguments)?;
        // Those of `##` in it whose left side is the first token.
        let pads = tokens.iter().take_while(|token| token.kind == Kind::PadOf);
        tokens.drain(..pads.count());
        Some(tokens)
    }

    /// The spelling of tokens as a string (C11, 6.10.3.2).
    fn stringify(&mut self, tokens: &[Token], place: Span) -> Option<Token> {
        let bytes: usize = tokens
            .iter()
            .map(|token| token.text.range().len() + 1)
            .sum();
        if !self.pay(1, 2 * bytes, place) {
            return None;
        }
        let mut text = String::from("\"");
        let mut padding = Padding::default();
        for token in tokens {
            if token.is_pad() {
                padding.add(*token);
                continue;
            }
            if std::mem::take(&mut padding).has_space(*token) && text.len() > 1 {
                text.push(' ');
            }
            let spelling = self.spelling(*token);
            match token.kind {
                Kind::Str | Kind::Char => {
                    for c in spelling.chars() {
                        if matches!(c, '"' | '\\') {
                            text.push('\\');
                        }
                        text.push(c);
                    }
                }
                _ => text.push_str(spelling),
            }
        }
        // A `\` of its own at the end would take the quote with it.
        let slashes = text.bytes().rev().take_while(|byte| *byte == b'\\').count();
        if slashes % 2 == 1 {
            text.pop();
        }
        text.push('"');
        Some(Token::new(Kind::Str, self.spellings.make(&text)))
    }

    /// Joins the last token of `out` and the first of `right` (C11, 6.10.3.3); `more` if `##` follows. If both are not
    /// one token, they stay two, as in the assembler mode of cpp.
    fn paste(
        &mut self,
        out: &mut Vec<Token>,
        right: &[Token],
        more: bool,
        place: Span,
    ) -> Option<()> {
        let (Some(left), Some((first, rest))) = (out.last().copied(), right.split_first()) else {
            return Some(());
        };
        if left.is_pad() || first.is_pad() {
            // As in cpp, an argument without tokens at the edge of `__VA_OPT__` leaves nothing to join.
            out.extend(right);
            return Some(());
        }
        let bytes = left.text.range().len() + first.text.range().len();
        if !self.pay(1, bytes, place) {
            return None;
        }
        let last = out.len() - 1;
        out.insert(last, Token::pad_of(left));
        match self.joined(left, *first) {
            Some(token) => {
                out[last + 1] = token;
                if !(more && rest.is_empty()) {
                    out.push(Token::pad());
                }
            }
            None => out.extend([Token::pad(), *first]),
        }
        out.extend(rest);
        Some(())
    }

    /// Two tokens as one, if their spelling is one.
    fn joined(&mut self, left: Token, right: Token) -> Option<Token> {
        let (left_text, right_text) = (self.spelling(left), self.spelling(right));
        // Comments begin before anything is pasted.
        if left_text == "/" && right_text != "=" {
            return None;
        }
        let text = format!("{left_text}{right_text}");
        let span = self.spellings.make(&text);
        let made = &self.spellings.made;
        let mut lexer = Lexer::new(MADE, span.start as usize);
        lexer.one_line = true;
        let token = lexer.token(made);
        if token.text != span {
            self.spellings.made.truncate(span.start as usize);
            return None;
        }
        Some(Token {
            space: left.space,
            starts_line: false,
            ..token
        })
    }
}
