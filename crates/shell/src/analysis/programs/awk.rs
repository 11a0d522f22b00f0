//! awk: only programs that neither run commands nor open files of their own.
//!
//! Four implementations are in use, and they disagree on where a regular expression starts, what a keyword is
//! and how lines continue. The grammar here is what all of them read alike: a slash starts an expression only
//! where nothing else can stand, lines don't continue with a backslash, every name with a parenthesis is a known
//! function, and `print` has no `>` or `|`.

use super::super::argument::Argument;
use super::super::options::{Order, sort};
use super::sed::skip_regex;
use super::shell_words::is_identifier;
use super::{Reading, Refusal, Verdict, refuse};

const OPTIONS: &str = "-F= -v= --field-separator= --assign= --version";

/// Variables of awk's own that an assignment may set without changing which files are read.
const SETTABLE: &[&str] = &["FS", "OFS", "RS", "ORS", "SUBSEP", "CONVFMT", "OFMT", "NR"];

pub(super) fn judge(words: &[Argument]) -> Verdict {
    let sorted = sort(words, OPTIONS, Order::OperandsLast)?;
    if sorted.has("--version") {
        return Ok(Reading::default());
    }
    for value in sorted.values("-v").chain(sorted.values("--assign")) {
        if !value.is_some_and(is_assignment) {
            return refuse("awk assigns a variable that isn't plain");
        }
    }
    let Some((program, files)) = sorted.operands.split_first() else {
        return refuse("awk without a program");
    };
    let Some(program) = program.fixed() else {
        return refuse("awk's program is not fixed");
    };
    check_program(program)?;
    // An operand such as `name=value` assigns; anything else is a file.
    let mut reading = Reading::default();
    for file in files {
        match file.fixed() {
            Some("-") => {}
            Some(text) if is_assignment(text) => {}
            // Options end at the program, but for implementations that look further.
            Some(text) if text.starts_with('-') => {
                return refuse("awk with an option after its program");
            }
            Some(_) => reading.paths.push(file.path()),
            None if file.is_surely_operand() => reading.paths.push(file.path()),
            None => return refuse(format!("{} could turn into an assignment", file.text())),
        }
    }
    Ok(reading)
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        is_identifier(name)
            && (SETTABLE.contains(&name) || name.bytes().any(|byte| byte.is_ascii_lowercase()))
            && !KEYWORDS.contains(&name)
            && !FUNCTIONS.contains(&name)
    })
}

/// Functions that every implementation has, or that fail where they are unknown.
const FUNCTIONS: &[&str] = &[
    "length", "substr", "index", "split", "sub", "gsub", "match", "sprintf", "sin", "cos", "atan2",
    "exp", "log", "sqrt", "int", "rand", "srand", "tolower", "toupper", "gensub", "strftime",
    "systime", "mktime", "asort", "asorti", "strtonum",
];

/// Names that mean something else than a variable, in any implementation.
const KEYWORDS: &[&str] = &[
    "BEGIN",
    "END",
    "BEGINFILE",
    "ENDFILE",
    "function",
    "func",
    "getline",
    "system",
    "close",
    "fflush",
    "extension",
    "ENVIRON",
    "PROCINFO",
    "SYMTAB",
    "FUNCTAB",
    "ARGV",
    "ARGC",
    "ARGIND",
    "ERRNO",
    "switch",
    "case",
    "default",
    "namespace",
    "if",
    "else",
    "while",
    "for",
    "do",
    "break",
    "continue",
    "next",
    "nextfile",
    "exit",
    "return",
    "delete",
    "in",
    "print",
    "printf",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "compl",
    "patsplit",
    "isarray",
    "typeof",
    "bindtextdomain",
    "dcgettext",
    "dcngettext",
    "eval",
    "include",
    "load",
    "usleep",
    "errno",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Number,
    Text,
    Regex,
    /// An operator or a bracket.
    Sign(&'a str),
    Newline,
    End,
}

/// Longest first.
const SIGNS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "!~", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "{",
    "}", "(", ")", "[", "]", ";", ",", "+", "-", "*", "/", "%", "^", "!", "<", ">", "~", "?", ":",
    "=", "$",
];

fn check_program(program: &str) -> Result<(), Refusal> {
    // The words that matter most are refused wherever they stand, strings included.
    if program.contains("system") || program.contains("getline") {
        return refuse("awk's system or getline can run commands or read files");
    }
    let mut parser = Awk {
        bytes: program.as_bytes(),
        program,
        position: 0,
        token: Token::Newline,
        before: Token::Newline,
        printing: false,
        depth: 0,
    };
    parser.advance()?;
    parser.items()
}

struct Awk<'a> {
    program: &'a str,
    bytes: &'a [u8],
    position: usize,
    /// The token that is looked at, and the one before it.
    token: Token<'a>,
    before: Token<'a>,
    /// Within the words of `print`, where `>` writes to a file.
    printing: bool,
    depth: usize,
}

type Parsed = Result<(), Refusal>;

impl<'a> Awk<'a> {
    fn not_known<T>(what: &str) -> Result<T, Refusal> {
        refuse(format!("awk's {what} isn't known to only print"))
    }

    // ---- tokens -------------------------------------------------------------------------------

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn advance(&mut self) -> Parsed {
        self.before = self.token;
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.position += 1;
        }
        if self.peek() == Some(b'#') {
            let rest = self.program.get(self.position..).unwrap_or_default();
            let comment = rest.split('\n').next().unwrap_or_default();
            if comment.contains('\\') {
                return Self::not_known("comment with a backslash");
            }
            self.position += comment.len();
        }
        let start = self.position;
        let Some(byte) = self.peek() else {
            self.token = Token::End;
            return Ok(());
        };
        self.position += 1;
        self.token = match byte {
            b'\n' => Token::Newline,
            b'"' => {
                self.text()?;
                Token::Text
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                while self.peek().is_some_and(is_name_byte) {
                    self.position += 1;
                }
                Token::Name(self.program.get(start..self.position).unwrap_or_default())
            }
            b'0'..=b'9' => self.number()?,
            b'.' if self.peek().is_some_and(|next| next.is_ascii_digit()) => self.number()?,
            b'/' if self.starts_expression() => {
                if self.peek() == Some(b'=') {
                    return Self::not_known("expression that starts with '='");
                }
                let Some(end) = skip_regex(self.bytes, self.position, b'/') else {
                    return Self::not_known("regular expression");
                };
                self.position = end;
                Token::Regex
            }
            b'/' if !self.divides() => return Self::not_known("slash"),
            _ => {
                let rest = self.program.get(start..).unwrap_or_default();
                let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) else {
                    return Self::not_known("special form");
                };
                self.position = start + sign.len();
                // `**` and `**=` are powers in some and nonsense in others.
                if *sign == "*" && self.peek() == Some(b'*') {
                    return Self::not_known("special form");
                }
                Token::Sign(sign)
            }
        };
        Ok(())
    }

    /// Whether nothing but an operand can stand here, in every implementation.
    fn starts_expression(&self) -> bool {
        matches!(
            self.before,
            Token::Newline
                | Token::Sign("{" | "}" | "(" | ";" | "," | "!" | "~" | "!~" | "&&" | "||")
        )
    }

    /// Whether nothing but an operator can stand here.
    fn divides(&self) -> bool {
        match self.before {
            Token::Number | Token::Sign(")" | "]") => true,
            Token::Name(name) => !KEYWORDS.contains(&name) && !FUNCTIONS.contains(&name),
            _ => false,
        }
    }

    fn text(&mut self) -> Parsed {
        loop {
            let byte = self.peek();
            self.position += 1;
            match byte {
                Some(b'"') => return Ok(()),
                Some(b'\\') => match self.peek() {
                    None | Some(b'\n' | b'\r') => return Self::not_known("string"),
                    Some(_) => self.position += 1,
                },
                None | Some(b'\n') => return Self::not_known("string"),
                Some(_) => {}
            }
        }
    }

    /// A decimal number. One next to a name is read differently.
    fn number(&mut self) -> Result<Token<'a>, Refusal> {
        let digits = |parser: &mut Self| {
            while parser.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                parser.position += 1;
            }
        };
        digits(self);
        if self.peek() == Some(b'.') {
            self.position += 1;
            digits(self);
        }
        match self.peek() {
            Some(byte) if is_name_byte(byte) || byte == b'.' => Self::not_known("number"),
            _ => Ok(Token::Number),
        }
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token, Token::Sign(found) if found == sign)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.token, Token::Name(found) if found == name)
    }

    fn expect(&mut self, sign: &str) -> Parsed {
        if !self.is(sign) {
            return Self::not_known("form");
        }
        self.advance()
    }

    fn skip_newlines(&mut self) -> Parsed {
        while self.token == Token::Newline {
            self.advance()?;
        }
        Ok(())
    }

    // ---- items and statements ------------------------------------------------------------------

    fn items(&mut self) -> Parsed {
        loop {
            while self.token == Token::Newline || self.is(";") {
                self.advance()?;
            }
            match self.token {
                Token::End => return Ok(()),
                Token::Name("BEGIN" | "END") => self.advance()?,
                Token::Sign("{") => {}
                _ => {
                    self.expression()?;
                    if self.is(",") {
                        self.advance()?;
                        self.skip_newlines()?;
                        self.expression()?;
                    }
                }
            }
            if self.is("{") {
                self.block()?;
            } else if !matches!(self.token, Token::End | Token::Newline | Token::Sign(";")) {
                return Self::not_known("form");
            }
        }
    }

    fn block(&mut self) -> Parsed {
        self.expect("{")?;
        loop {
            while self.token == Token::Newline || self.is(";") {
                self.advance()?;
            }
            if self.is("}") {
                return self.advance();
            }
            self.statement()?;
        }
    }

    fn statement(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > 60 {
            return Self::not_known("nesting");
        }
        let read = self.statement_inside();
        self.depth -= 1;
        read
    }

    fn statement_inside(&mut self) -> Parsed {
        match self.token {
            Token::Sign("{") => return self.block(),
            Token::Sign(";") => return self.advance(),
            Token::Name("if") => {
                self.condition()?;
                self.body()?;
                // `else` may stand after a semicolon or on the next line.
                let (position, token, before) = (self.position, self.token, self.before);
                while self.token == Token::Newline || self.is(";") {
                    self.advance()?;
                }
                if self.is_name("else") {
                    self.advance()?;
                    return self.body();
                }
                (self.position, self.token, self.before) = (position, token, before);
                return Ok(());
            }
            Token::Name("while") => {
                self.condition()?;
                return self.body();
            }
            Token::Name("for") => {
                self.advance()?;
                self.open()?;
                for _ in 0..2 {
                    if !self.is(";") && !self.is(")") {
                        self.expression()?;
                    }
                    if self.is(")") {
                        break;
                    }
                    self.expect(";")?;
                }
                if !self.is(")") {
                    self.expression()?;
                }
                self.close()?;
                return self.body();
            }
            Token::Name("do") => {
                self.advance()?;
                self.body()?;
                while self.token == Token::Newline || self.is(";") {
                    self.advance()?;
                }
                if !self.is_name("while") {
                    return Self::not_known("loop");
                }
                self.condition()?;
            }
            Token::Name("print" | "printf") => {
                self.advance()?;
                self.printing = true;
                if !self.at_end_of_statement() {
                    self.list()?;
                }
                self.printing = false;
            }
            Token::Name("next" | "nextfile" | "break" | "continue") => self.advance()?,
            Token::Name("exit") => {
                self.advance()?;
                if !self.at_end_of_statement() {
                    self.expression()?;
                }
            }
            Token::Name("delete") => {
                self.advance()?;
                self.expression()?;
            }
            _ => self.expression()?,
        }
        match self.token {
            Token::Newline | Token::Sign(";") => self.advance(),
            Token::Sign("}") => Ok(()),
            _ => Self::not_known("statement"),
        }
    }

    /// The body after a condition: a slash right after it is read differently.
    fn body(&mut self) -> Parsed {
        if self.token == Token::Regex {
            return Self::not_known("slash");
        }
        self.skip_newlines()?;
        self.statement()
    }

    fn condition(&mut self) -> Parsed {
        self.advance()?;
        self.open()?;
        self.expression()?;
        self.close()
    }

    fn open(&mut self) -> Parsed {
        self.expect("(")
    }

    fn close(&mut self) -> Parsed {
        // A regular expression after a condition can't be told from a division.
        self.expect(")")
    }

    fn at_end_of_statement(&self) -> bool {
        matches!(
            self.token,
            Token::End | Token::Newline | Token::Sign(";" | "}")
        )
    }

    // ---- expressions ---------------------------------------------------------------------------

    fn list(&mut self) -> Parsed {
        loop {
            self.expression()?;
            if !self.is(",") {
                return Ok(());
            }
            self.advance()?;
            self.skip_newlines()?;
        }
    }

    /// Operands and operators in turn. What binds more tightly doesn't matter here; where it ends does.
    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > 60 {
            return Self::not_known("nesting");
        }
        self.operand()?;
        loop {
            match self.token {
                // In parentheses it compares, but not to every implementation.
                Token::Sign(">") if self.printing => {
                    return refuse("awk's print writes to a file");
                }
                Token::Sign(
                    "+" | "-" | "*" | "/" | "%" | "^" | "<" | "<=" | "==" | "!=" | ">=" | ">" | "~"
                    | "!~" | "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "^=" | "?" | ":",
                )
                | Token::Name("in") => {
                    self.advance()?;
                    self.operand()?;
                }
                Token::Sign("&&" | "||") => {
                    self.advance()?;
                    self.skip_newlines()?;
                    self.operand()?;
                }
                Token::Sign("++" | "--") => {
                    self.advance()?;
                    if self.is("/") || self.token == Token::Regex {
                        return Self::not_known("slash");
                    }
                }
                // Two operands in a row are joined.
                Token::Number | Token::Text | Token::Name(_) | Token::Sign("$" | "(") => {
                    self.operand()?;
                }
                Token::Regex
                | Token::Sign("!" | "[" | "{" | "}" | ")" | "]" | "," | ";")
                | Token::Newline
                | Token::End => break,
                Token::Sign(_) => return Self::not_known("operator"),
            }
        }
        self.depth -= 1;
        if self.token == Token::Regex {
            return Self::not_known("slash");
        }
        Ok(())
    }

    fn operand(&mut self) -> Parsed {
        while matches!(self.token, Token::Sign("!" | "+" | "-" | "++" | "--" | "$")) {
            self.advance()?;
        }
        match self.token {
            Token::Number | Token::Text | Token::Regex => self.advance(),
            Token::Sign("(") => {
                self.open()?;
                self.list()?;
                self.close()
            }
            Token::Name(name) if FUNCTIONS.contains(&name) => self.call(name),
            Token::Name(name) if KEYWORDS.contains(&name) => Self::not_known(name),
            Token::Name(_) => {
                self.advance()?;
                match self.token {
                    Token::Sign("[") => {
                        self.advance()?;
                        self.list()?;
                        self.expect("]")
                    }
                    // A name with a parenthesis is a call in one and two operands in another.
                    Token::Sign("(") => Self::not_known("call"),
                    _ => Ok(()),
                }
            }
            _ => Self::not_known("form"),
        }
    }

    fn call(&mut self, name: &str) -> Parsed {
        let adjacent = self.peek() == Some(b'(');
        self.advance()?;
        if !self.is("(") || !adjacent {
            // `length` alone is the length of the line; what follows must be nothing that could be an operand.
            let compares = self.is(">") && !self.printing;
            let alone = name == "length"
                && (compares
                    || matches!(
                        self.token,
                        Token::Sign(")" | "," | ";" | "}" | "==" | "!=" | "<" | "<=" | ">=")
                            | Token::Newline
                            | Token::End
                    ));
            return if alone { Ok(()) } else { Self::not_known(name) };
        }
        self.open()?;
        if !self.is(")") {
            self.list()?;
        }
        self.close()
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}
