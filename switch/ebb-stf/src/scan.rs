//! Words, names and numbers of one line.

/// A number as it was written: digits with `*` keep their places, because in a ternary key the
/// places that are not written are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// The bits that one digit stands for; none for decimal numbers.
    bits_per_digit: Option<u32>,
    /// The digits, most significant first; none for `*`, which decimal numbers do not have.
    digits: Vec<Option<u8>>,
}

impl Number {
    /// The value, big-endian, without leading zeros; `*` counts as 0.
    pub fn value(&self) -> Vec<u8> {
        match self.bits_per_digit {
            Some(bits) => self.bits(bits, |digit| digit.unwrap_or(0)),
            None => decimal(&self.digits),
        }
    }

    /// The mask, big-endian: ones for the digits that are written. None if all bits are compared.
    pub fn mask(&self) -> Option<Vec<u8>> {
        let bits = self.bits_per_digit?;
        let ones = (1u8 << bits) - 1;
        Some(self.bits(bits, |digit| digit.map_or(0, |_| ones)))
    }

    /// The length in bits of the prefix that ends before the first `*`; none if the number is decimal.
    pub fn prefix_bits(&self) -> Option<u32> {
        let digits = self.digits.iter().filter(|digit| digit.is_some()).count();
        Some(self.bits_per_digit? * digits as u32)
    }

    pub fn has_wildcard(&self) -> bool {
        self.digits.contains(&None)
    }

    /// The value; none if the number has a `*` or needs more bits.
    pub fn to_u64(&self) -> Option<u64> {
        if self.has_wildcard() {
            return None;
        }
        let value = self.value();
        let mut word = [0; 8];
        word.get_mut(8usize.checked_sub(value.len())?..)?
            .copy_from_slice(&value);
        Some(u64::from_be_bytes(word))
    }

    fn bits(&self, bits: u32, digit: impl Fn(Option<u8>) -> u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (mut byte, mut filled) = (0u8, 0);
        for d in self.digits.iter().rev() {
            // Octal digits may straddle two bytes.
            for place in 0..bits {
                byte |= ((digit(*d) >> place) & 1) << filled;
                filled += 1;
                if filled == 8 {
                    bytes.push(byte);
                    (byte, filled) = (0, 0);
                }
            }
        }
        bytes.push(byte);
        trimmed(bytes)
    }
}

/// Little-endian to big-endian without leading zeros.
fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes.reverse();
    bytes
}

fn decimal(digits: &[Option<u8>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for digit in digits {
        let mut carry = u32::from(digit.unwrap_or(0));
        for byte in &mut bytes {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
    }
    trimmed(bytes)
}

/// The part of a line that is not read yet.
pub struct Line<'a> {
    rest: &'a str,
}

impl<'a> Line<'a> {
    /// A line without its comment, which begins at the first `#` that is not in quotes.
    pub fn new(text: &'a str) -> Self {
        let mut quoted = false;
        let comment = text.find(|c| {
            quoted ^= c == '"';
            c == '#' && !quoted
        });
        let text = &text[..comment.unwrap_or(text.len())];
        Line { rest: text.trim() }
    }

    pub fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn rest(&self) -> &'a str {
        self.rest
    }

    pub fn take_rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    pub fn starts_with_digit(&self) -> bool {
        self.rest.starts_with(|c: char| c.is_ascii_digit())
    }

    pub fn consume(&mut self, mark: &str) -> bool {
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    pub fn expect(&mut self, mark: &str) -> Result<(), String> {
        match self.consume(mark) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{mark}`"))),
        }
    }

    /// Reads an identifier; none if something else comes next.
    pub fn word(&mut self) -> Option<&'a str> {
        if self.starts_with_digit() {
            return None;
        }
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        (!word.is_empty()).then_some(word)
    }

    /// Reads identifiers with dots and indices between them, or a name in quotes.
    pub fn path(&mut self, what: &str) -> Result<String, String> {
        if let Some(quoted) = self.rest.strip_prefix('"') {
            let (name, rest) = quoted.split_once('"').ok_or("a quote is not closed")?;
            self.rest = rest.trim_start();
            return Ok(name.into());
        }
        if self.starts_with_digit() {
            return Err(self.expected(what));
        }
        let path = self.take_while(|c| c.is_ascii_alphanumeric() || "_$.[]".contains(c));
        match path.is_empty() {
            true => Err(self.expected(what)),
            false => Ok(path.into()),
        }
    }

    pub fn number(&mut self, what: &str) -> Result<Number, String> {
        if !self.starts_with_digit() {
            return Err(self.expected(what));
        }
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || c == '*');
        let (bits_per_digit, digits) = match text.get(..2).unwrap_or_default() {
            "0x" | "0X" => (Some(4), &text[2..]),
            "0o" | "0O" => (Some(3), &text[2..]),
            "0b" | "0B" => (Some(1), &text[2..]),
            _ => (None, text),
        };
        let base = bits_per_digit.map_or(10, |bits| 1 << bits);
        let digits: Option<Vec<_>> = digits
            .chars()
            .map(|c| match c {
                '*' => bits_per_digit.map(|_| None),
                c => c.to_digit(base).map(|digit| Some(digit as u8)),
            })
            .collect();
        match digits.filter(|digits| !digits.is_empty()) {
            Some(digits) => Ok(Number {
                bits_per_digit,
                digits,
            }),
            None => Err(format!("expected {what}, found `{text}`")),
        }
    }

    pub fn integer<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, String> {
        let before = self.rest;
        let value = self.number(what)?.to_u64();
        let text = before[..before.len() - self.rest.len()].trim_end();
        value
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| format!("`{text}` is no good as {what}"))
    }

    /// All integers to the end of the line; at least one.
    pub fn integers<T: TryFrom<u64>>(&mut self, what: &str) -> Result<Vec<T>, String> {
        let mut integers = vec![self.integer(what)?];
        while !self.at_end() {
            integers.push(self.integer(what)?);
        }
        Ok(integers)
    }

    pub fn decimal(&mut self, what: &str) -> Result<f64, String> {
        let text = self.take_while(|c| c.is_ascii_digit() || c == '.');
        match text.parse::<f64>() {
            Ok(value) => Ok(value),
            Err(_) => Err(format!("expected {what}, found `{text}{}`", self.rest)),
        }
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        taken
    }

    fn expected(&self, what: &str) -> String {
        match self.at_end() {
            true => format!("expected {what}, the line ends"),
            false => format!("expected {what}, found `{}`", self.rest),
        }
    }
}
