//! `${…}`, `$((…))`, subscripts, and the decoding of `$'…'`.

use super::ShellKind;
use super::parser::{Outcome, Parser, is_name_byte};
use super::tree::{Arithmetic, Parameter, WordPart};
use super::words::Quoting;

impl Parser<'_> {
    /// After `${`, up to and including the closing brace.
    pub(super) fn braced_parameter(&mut self, quoting: Quoting) -> Outcome<Parameter> {
        self.enter()?;
        let mut parameter = Parameter::plain(String::new(), quoting != Quoting::None);
        let next_is = |parser: &mut Self, byte| parser.peek_at(1) == Some(byte);
        match self.peek() {
            Some(b'#') if !next_is(self, b'}') => {
                self.position += 1;
                self.parameter_name(&mut parameter)?;
                parameter.plain = false;
                parameter.length = true;
                if self.peek() != Some(b'}') {
                    return self.refuse("a length with an operator");
                }
            }
            Some(b'!') if !next_is(self, b'}') => {
                self.position += 1;
                self.parameter_name(&mut parameter)?;
                parameter.plain = false;
                parameter.indirect = true;
                if matches!(self.peek(), Some(b'*' | b'@')) && next_is(self, b'}') {
                    self.position += 1;
                }
            }
            _ => self.parameter_name(&mut parameter)?,
        }
        self.parameter_operator(&mut parameter, quoting)?;
        if self.peek() != Some(b'}') {
            return self.refuse("a parameter expansion of an unknown form");
        }
        self.position += 1;
        self.leave();
        Ok(parameter)
    }

    fn parameter_name(&mut self, parameter: &mut Parameter) -> Outcome<()> {
        match self.peek() {
            Some(b'0'..=b'9') => {
                let start = self.position;
                while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    self.position += 1;
                }
                parameter.name = self.slice(start).to_owned();
            }
            Some(byte @ (b'@' | b'*' | b'#' | b'?' | b'$' | b'!' | b'-')) => {
                parameter.name = char::from(byte).to_string();
                self.position += 1;
            }
            _ => {
                parameter.name = self.name().to_owned();
                if parameter.name.is_empty() {
                    return self.refuse("a parameter expansion of an unknown form");
                }
                if self.peek() == Some(b'[') {
                    self.position += 1;
                    parameter.plain = false;
                    let subscript = self.subscript()?;
                    parameter.evaluated.push(subscript);
                }
            }
        }
        Ok(())
    }

    fn parameter_operator(&mut self, parameter: &mut Parameter, quoting: Quoting) -> Outcome<()> {
        let first = self.peek();
        if first == Some(b'}') {
            return Ok(());
        }
        parameter.plain = false;
        match first {
            Some(b':') => match self.peek_at(1) {
                Some(b'-' | b'+' | b'?' | b'=') => {
                    parameter.assigns = self.peek_at(1) == Some(b'=');
                    self.position += 2;
                    parameter.operand = Some(self.operand(quoting, false)?);
                }
                _ => {
                    if self.shell == ShellKind::Zsh {
                        return self.refuse("a zsh modifier");
                    }
                    self.position += 1;
                    let slice = self.arithmetic_until(Close::Brace)?;
                    parameter.evaluated.push(slice);
                }
            },
            Some(b'-' | b'+' | b'?' | b'=') => {
                parameter.assigns = first == Some(b'=');
                self.position += 1;
                parameter.operand = Some(self.operand(quoting, false)?);
            }
            Some(b'#' | b'%' | b'/' | b'^' | b',') => {
                self.position += 1;
                parameter.operand = Some(self.operand(quoting, true)?);
            }
            Some(b'@') => {
                let Some(letter) = self.peek_at(1).filter(u8::is_ascii_alphabetic) else {
                    return self.refuse("a parameter transformation of an unknown form");
                };
                parameter.transformation = Some(char::from(letter));
                self.position += 2;
            }
            _ => return self.refuse("a parameter expansion of an unknown form"),
        }
        Ok(())
    }

    /// After `[`, up to and including `]`.
    pub(super) fn subscript(&mut self) -> Outcome<Arithmetic> {
        if matches!(self.peek(), Some(b'@' | b'*')) && self.peek_at(1) == Some(b']') {
            self.position += 2;
            return Ok(Arithmetic {
                whole: true,
                ..Arithmetic::default()
            });
        }
        let expression = self.arithmetic_until(Close::Bracket)?;
        self.position += 1;
        Ok(expression)
    }

    /// After `((`, up to and including `))`.
    pub(super) fn arithmetic_parentheses(&mut self) -> Outcome<Arithmetic> {
        let expression = self.arithmetic_until(Close::Parentheses)?;
        self.position += 2;
        Ok(expression)
    }

    /// After `for ((`, up to and including `))`: three expressions with semicolons between them.
    pub(super) fn arithmetic_for_header(&mut self) -> Outcome<Arithmetic> {
        let expression = self.arithmetic_until(Close::Header)?;
        self.position += 2;
        Ok(expression)
    }

    /// Reads an expression and stops before what closes it.
    fn arithmetic_until(&mut self, close: Close) -> Outcome<Arithmetic> {
        self.enter()?;
        let mut found = Arithmetic::default();
        let mut open = 0_usize;
        loop {
            let Some(byte) = self.peek() else {
                return self.refuse("an arithmetic expression that isn't closed");
            };
            match byte {
                b')' if open == 0 => {
                    if matches!(close, Close::Parentheses | Close::Header)
                        && self.peek_at(1) == Some(b')')
                    {
                        break;
                    }
                    return self.refuse("an arithmetic expression that could be a subshell");
                }
                b'}' if close == Close::Brace && open == 0 => break,
                b']' if close == Close::Bracket && open == 0 => break,
                b'(' => {
                    open += 1;
                    self.position += 1;
                }
                b')' => {
                    open -= 1;
                    self.position += 1;
                }
                b'0'..=b'9' => {
                    while self
                        .peek()
                        .is_some_and(|next| is_name_byte(next) || next == b'#')
                    {
                        self.position += 1;
                    }
                }
                _ if is_name_byte(byte) => {
                    found.names = true;
                    self.name();
                }
                b'[' if found.names => {
                    self.position += 1;
                    let subscript = self.arithmetic_until(Close::Bracket)?;
                    found.expansions.extend(subscript.expansions);
                    self.position += 1;
                }
                b'$' | b'`' => {
                    let part = self.arithmetic_expansion()?;
                    found.expansions.extend(part);
                }
                b';' if close == Close::Header && open == 0 => self.position += 1,
                b'\n' if !self.pending.is_empty() => {
                    return self
                        .refuse("a new line in an expression before a here-document's body");
                }
                b' ' | b'\t' | b'\n' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'='
                | b'!' | b'&' | b'|' | b'^' | b'~' | b'?' | b':' | b',' => self.position += 1,
                b'.' if close == Close::Bracket => {
                    // A key such as `a.b`; whether it is one depends on the array.
                    found.names = true;
                    self.position += 1;
                }
                _ => return self.refuse("an arithmetic expression with something unknown in it"),
            }
        }
        self.leave();
        Ok(found)
    }

    fn arithmetic_expansion(&mut self) -> Outcome<Vec<WordPart>> {
        let word = self.single_expansion()?;
        Ok(word
            .into_iter()
            .filter(|part| !matches!(part, WordPart::Quoted(_)))
            .collect())
    }

    /// After `$'`, up to and including the closing quote, decoded as bash does.
    pub(super) fn ansi_quoted(&mut self) -> Outcome<String> {
        let mut decoded: Vec<u8> = Vec::new();
        loop {
            let Some(byte) = self.peek() else {
                return self.refuse("a single quote that isn't closed");
            };
            self.position += 1;
            match byte {
                b'\'' => break,
                b'\\' => self.ansi_escape(&mut decoded)?,
                b'\n' if !self.pending.is_empty() => {
                    return self.refuse("a new line in quotes before a here-document's body");
                }
                _ => {
                    self.position -= 1;
                    self.note_quoted_oddity(byte);
                    self.position += 1;
                    decoded.push(byte);
                }
            }
        }
        match String::from_utf8(decoded) {
            Ok(text) => Ok(text),
            Err(_) => self.refuse("escapes that aren't text"),
        }
    }

    fn ansi_escape(&mut self, decoded: &mut Vec<u8>) -> Outcome<()> {
        let Some(letter) = self.peek() else {
            return self.refuse("a backslash at the end");
        };
        self.position += 1;
        let simple = match letter {
            b'a' => 7,
            b'b' => 8,
            b'e' | b'E' => 27,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\\' | b'\'' | b'"' | b'?' => letter,
            b'x' => return self.coded_character(16, 2, false, decoded),
            b'u' => return self.coded_character(16, 4, true, decoded),
            b'U' => return self.coded_character(16, 8, true, decoded),
            b'0'..=b'7' => {
                self.position -= 1;
                return self.coded_character(8, 3, false, decoded);
            }
            _ => return self.refuse("an escape of an unknown form"),
        };
        decoded.push(simple);
        Ok(())
    }

    fn coded_character(
        &mut self,
        radix: u32,
        most: usize,
        unicode: bool,
        decoded: &mut Vec<u8>,
    ) -> Outcome<()> {
        let mut value = 0_u32;
        let mut digits = 0;
        while digits < most
            && let Some(digit) = self
                .peek()
                .and_then(|byte| char::from(byte).to_digit(radix))
        {
            value = value.wrapping_mul(radix).wrapping_add(digit);
            digits += 1;
            self.position += 1;
        }
        // Bash cuts the string at a NUL, other shells don't.
        if digits == 0 || value == 0 {
            return self.refuse("an escape of an unknown form");
        }
        if unicode {
            match char::from_u32(value) {
                Some(character) => {
                    decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                None => return self.refuse("an escape that isn't a character"),
            }
        } else {
            match u8::try_from(value) {
                Ok(byte) => decoded.push(byte),
                Err(_) => return self.refuse("an escape that isn't a byte"),
            }
        }
        Ok(())
    }
}

/// The end of an arithmetic expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Close {
    Parentheses,
    Header,
    Brace,
    Bracket,
}
