//! Macros, and how they are defined (C11, 6.10.3).

use std::cell::Cell;
use std::rc::Rc;

use super::token::{Kind, Token};
use crate::source::Span;

/// A macro that the preprocessor computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    File,
    Line,
    BaseFile,
    Counter,
    IncludeLevel,
    Date,
    Time,
    TimeStamp,
    /// `__has_include` and `__has_include_next`, which only conditions may ask.
    HasInclude,
    /// The operator `_Pragma`, which is replaced by nothing.
    Pragma,
}

pub(super) const BUILTINS: &[(&str, Builtin)] = &[
    ("__FILE__", Builtin::File),
    ("__LINE__", Builtin::Line),
    ("__BASE_FILE__", Builtin::BaseFile),
    ("__COUNTER__", Builtin::Counter),
    ("__INCLUDE_LEVEL__", Builtin::IncludeLevel),
    ("__DATE__", Builtin::Date),
    ("__TIME__", Builtin::Time),
    ("__TIMESTAMP__", Builtin::TimeStamp),
    ("__has_include", Builtin::HasInclude),
    ("__has_include_next", Builtin::HasInclude),
    ("_Pragma", Builtin::Pragma),
];

/// A part of what a macro is replaced by.
#[derive(Debug)]
pub(super) struct Part {
    pub what: What,
    /// The token it is written with, for the blank in front of it.
    pub token: Token,
    /// Whether `##` follows.
    pub pasted: bool,
}

#[derive(Debug)]
pub(super) enum What {
    Token,
    /// The argument of this number.
    Argument(usize),
    /// The spelling of an argument as a string.
    Spelled(usize),
    /// `__VA_OPT__( .. )`, which is there if there are variable arguments.
    Optional(Vec<Part>),
    /// Its spelling as a string.
    SpelledOptional(Vec<Part>),
}

#[derive(Debug)]
pub(super) enum Body {
    /// Tokens, as they are.
    Plain(Rc<Vec<Token>>),
    /// A replacement with parameters or `##`.
    Template(Vec<Part>),
    Builtin(Builtin),
}

#[derive(Debug)]
pub(super) struct Macro {
    /// How many parameters it has; none for one without a list, which is replaced wherever its name stands.
    pub params: Option<usize>,
    /// Whether the last parameter stands for any number of arguments.
    pub variadic: bool,
    pub body: Body,
    /// Whether what it is replaced by is being read: then it stands for itself.
    pub disabled: Cell<bool>,
    /// Where it is defined.
    pub place: Span,
    /// Text behind its name, for comparison with another definition.
    written: Vec<Token>,
}

/// Error in a definition, with its place.
pub(super) type Problem = (Span, &'static str);

/// Spellings of tokens.
pub(super) type Spelling<'a> = &'a dyn Fn(Token) -> &'a str;

impl Macro {
    pub fn builtin(builtin: Builtin) -> Macro {
        Macro {
            params: None,
            variadic: false,
            body: Body::Builtin(builtin),
            disabled: Cell::new(false),
            place: Span::default(),
            written: Vec::new(),
        }
    }

    /// Reads what follows a macro's name; `end` is where that ends.
    pub fn define(
        name: Token,
        rest: &[Token],
        end: Span,
        spelling: Spelling,
    ) -> Result<Macro, Problem> {
        let mut reader = Reader {
            spelling,
            end,
            params: Vec::new(),
            variadic: false,
            has_params: false,
        };
        let mut body = rest;
        // Only a parenthesis that touches the name starts a list of parameters.
        if let Some(open) = rest.first()
            && !open.space
            && spelling(*open) == "("
        {
            reader.has_params = true;
            body = reader.parameters(&rest[1..])?;
        }
        let parts = reader.parts(body, "`##` stands between two tokens")?;
        let is_plain = |part: &Part| matches!(part.what, What::Token) && !part.pasted;
        let body = match parts.iter().all(is_plain) {
            true => Body::Plain(Rc::new(parts.iter().map(|part| part.token).collect())),
            false => Body::Template(parts),
        };
        Ok(Macro {
            params: reader.has_params.then_some(reader.params.len()),
            variadic: reader.variadic,
            body,
            disabled: Cell::new(false),
            place: name.text,
            written: rest.to_vec(),
        })
    }

    /// Whether another definition says the same (C11, 6.10.3, 2): blanks are alike, however many there are.
    pub fn is_same(&self, other: &Macro, spelling: Spelling) -> bool {
        let alike = |(at, (a, b)): (usize, (&Token, &Token))| {
            spelling(*a) == spelling(*b) && (a.space == b.space || at == 0 && self.params.is_none())
        };
        let builtin = |body: &Body| matches!(body, Body::Builtin(_));
        !builtin(&self.body)
            && self.params == other.params
            && self.written.len() == other.written.len()
            && self
                .written
                .iter()
                .zip(&other.written)
                .enumerate()
                .all(alike)
    }
}

struct Reader<'a> {
    spelling: Spelling<'a>,
    end: Span,
    params: Vec<&'a str>,
    variadic: bool,
    has_params: bool,
}

impl<'a> Reader<'a> {
    /// Reads parameters up to `)`, and returns what follows.
    fn parameters<'t>(&mut self, mut rest: &'t [Token]) -> Result<&'t [Token], Problem> {
        let mut may_end = true;
        loop {
            let Some((token, after)) = rest.split_first() else {
                return Err((self.end, "macro parameters without `)`"));
            };
            rest = after;
            let text = (self.spelling)(*token);
            match text {
                ")" if may_end => return Ok(rest),
                "..." => {
                    self.variadic = true;
                    self.params.push("__VA_ARGS__");
                }
                _ if token.kind == Kind::Name => {
                    if self.params.contains(&text) {
                        return Err((token.text, "this macro parameter is there twice"));
                    }
                    self.params.push(text);
                }
                _ => return Err((token.text, "the name of a macro parameter is expected here")),
            }
            let mut next = rest.first().map(|t| (self.spelling)(*t));
            // gcc's `name...`: the variable arguments have that name.
            if next == Some("...") && !self.variadic {
                self.variadic = true;
                rest = &rest[1..];
                next = rest.first().map(|t| (self.spelling)(*t));
            }
            match next {
                Some(",") if !self.variadic => rest = &rest[1..],
                Some(")") => return Ok(&rest[1..]),
                None => return Err((self.end, "macro parameters without `)`")),
                Some(_) => {
                    return Err((
                        rest[0].text,
                        "`)` is expected here, behind the macro parameters",
                    ));
                }
            }
            may_end = false;
        }
    }

    fn param(&self, token: Option<&Token>) -> Option<usize> {
        let token = token.filter(|token| token.kind == Kind::Name)?;
        let name = (self.spelling)(*token);
        self.params.iter().position(|param| *param == name)
    }

    fn is_optional(&self, token: Option<&Token>) -> bool {
        self.variadic && token.is_some_and(|token| (self.spelling)(*token) == "__VA_OPT__")
    }

    /// Reads a body; `misplaced` says what is wrong with `##` at either end of it.
    fn parts(&self, tokens: &[Token], misplaced: &'static str) -> Result<Vec<Part>, Problem> {
        let mut parts: Vec<Part> = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let spelled = self.has_params && (self.spelling)(*token) == "#";
            let operand = at + usize::from(spelled);
            let what = if let Some(param) = self.param(tokens.get(operand)) {
                at = operand + 1;
                match spelled {
                    true => What::Spelled(param),
                    false => What::Argument(param),
                }
            } else if self.is_optional(tokens.get(operand)) {
                let (inside, after) = self.optional(tokens, operand)?;
                at = after;
                match spelled {
                    true => What::SpelledOptional(inside),
                    false => What::Optional(inside),
                }
            } else {
                at += 1;
                if (self.spelling)(*token) == "##" {
                    match parts.last_mut() {
                        Some(last) if at < tokens.len() => last.pasted = true,
                        _ => return Err((token.text, misplaced)),
                    }
                    continue;
                }
                What::Token
            };
            let mut token = Token {
                starts_line: false,
                ..*token
            };
            // The blank in front of the macro's name counts.
            token.space &= !parts.is_empty();
            parts.push(Part {
                what,
                token,
                pasted: false,
            });
        }
        Ok(parts)
    }

    /// Reads `( .. )` behind the `__VA_OPT__` at `at`; also returns the index behind it.
    fn optional(&self, tokens: &[Token], at: usize) -> Result<(Vec<Part>, usize), Problem> {
        let open = at + 1;
        let mut depth = 0usize;
        for (index, token) in tokens.iter().enumerate().skip(open) {
            match (self.spelling)(*token) {
                "(" => depth += 1,
                ")" if depth == 1 => {
                    let inside = &tokens[open + 1..index];
                    let nested = inside.iter().find(|token| self.is_optional(Some(token)));
                    if let Some(nested) = nested {
                        return Err((nested.text, "`__VA_OPT__` within `__VA_OPT__`"));
                    }
                    let misplaced = "`##` stands between two tokens of `__VA_OPT__`";
                    return Ok((self.parts(inside, misplaced)?, index + 1));
                }
                ")" => depth -= 1,
                _ if depth == 0 => break,
                _ => {}
            }
        }
        Err((tokens[at].text, "`__VA_OPT__` needs `( .. )`"))
    }
}
