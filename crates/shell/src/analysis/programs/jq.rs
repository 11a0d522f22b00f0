//! jq and yq: only filters that see nothing but their input.
//!
//! A filter is read as tokens. Every name in it that isn't the name of a field must be a known function, so that
//! `env`, `import` and whatever a later version adds are not understood.

use super::super::argument::{Argument, PathOperand};
use super::super::options::{Order, sort};
use super::{Reading, Refusal, Verdict, no_names, paths_of, refuse};

const OPTIONS: &str = "-r -c -n -s -e -S -C -M -a -j -R -h -V --raw-output --compact-output --null-input --slurp \
    --exit-status --sort-keys --color-output --monochrome-output --ascii-output --join-output --raw-input --tab \
    --indent= --stream --seq --unbuffered --raw-output0 --version --help";

/// Functions and keywords of jq that see only their input.
const KNOWN: &[&str] = &[
    "and",
    "or",
    "not",
    "if",
    "then",
    "elif",
    "else",
    "end",
    "as",
    "reduce",
    "foreach",
    "try",
    "catch",
    "label",
    "break",
    "true",
    "false",
    "null",
    "empty",
    "error",
    "length",
    "utf8bytelength",
    "keys",
    "keys_unsorted",
    "values",
    "has",
    "in",
    "map",
    "map_values",
    "path",
    "paths",
    "leaf_paths",
    "del",
    "delpaths",
    "setpath",
    "getpath",
    "to_entries",
    "from_entries",
    "with_entries",
    "select",
    "recurse",
    "recurse_down",
    "add",
    "any",
    "all",
    "flatten",
    "range",
    "floor",
    "ceil",
    "round",
    "sqrt",
    "pow",
    "log",
    "log2",
    "log10",
    "exp",
    "fabs",
    "abs",
    "tostring",
    "tonumber",
    "toboolean",
    "type",
    "infinite",
    "nan",
    "isinfinite",
    "isnan",
    "isnormal",
    "isvalid",
    "sort",
    "sort_by",
    "group_by",
    "min",
    "max",
    "min_by",
    "max_by",
    "unique",
    "unique_by",
    "reverse",
    "contains",
    "inside",
    "startswith",
    "endswith",
    "combinations",
    "ltrimstr",
    "rtrimstr",
    "trim",
    "ltrim",
    "rtrim",
    "explode",
    "implode",
    "split",
    "splits",
    "join",
    "ascii_downcase",
    "ascii_upcase",
    "while",
    "until",
    "repeat",
    "test",
    "match",
    "capture",
    "scan",
    "sub",
    "gsub",
    "ascii",
    "tojson",
    "fromjson",
    "todate",
    "fromdate",
    "now",
    "dateadd",
    "datesub",
    "date",
    "strptime",
    "strftime",
    "strflocaltime",
    "mktime",
    "gmtime",
    "localtime",
    "fromdateiso8601",
    "todateiso8601",
    "arrays",
    "objects",
    "iterables",
    "booleans",
    "numbers",
    "strings",
    "nulls",
    "scalars",
    "walk",
    "transpose",
    "first",
    "last",
    "nth",
    "limit",
    "skip",
    "until",
    "index",
    "rindex",
    "indices",
    "pick",
    "tostream",
    "fromstream",
    "truncate_stream",
    "limit",
    "splits",
    "ascii",
    "bsearch",
    "getpath",
    "input_line_number",
    "min_by",
    "inputs",
    "input",
    "ltrimstr",
    "toarray",
    "have_literal_numbers",
    "significand",
    "trunc",
];

/// Functions that both programs called `yq` read alike, and that see only their input.
const KNOWN_TO_YQ: &[&str] = &[
    "and",
    "or",
    "not",
    "true",
    "false",
    "null",
    "length",
    "keys",
    "has",
    "map",
    "map_values",
    "to_entries",
    "from_entries",
    "with_entries",
    "select",
    "add",
    "any",
    "all",
    "flatten",
    "type",
    "sort",
    "sort_by",
    "group_by",
    "min",
    "max",
    "unique",
    "unique_by",
    "reverse",
    "contains",
    "join",
    "split",
    "test",
    "first",
    "path",
    "del",
    "as",
    "tostring",
    "to_string",
    "to_number",
    "tonumber",
    "downcase",
    "upcase",
    "ascii_downcase",
    "ascii_upcase",
];

pub(super) fn judge(words: &[Argument]) -> Verdict {
    let mut reading = Reading::default();
    let mut kept = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.fixed() {
            // Options don't end there for every version.
            Some("--") => return refuse("jq with '--'"),
            Some("--arg" | "--argjson") => {
                let (Some(name), Some(value)) = (rest.next(), rest.next()) else {
                    return refuse("jq binds a name without a value");
                };
                if !name.is_one_word() || !value.is_one_word() {
                    return refuse("jq binds a word that isn't one");
                }
            }
            _ => kept.push(word.clone()),
        }
    }
    let sorted = sort(&kept, OPTIONS, Order::Mixed)?;
    no_names(&sorted)?;
    if sorted.has_any(&["--version", "-V", "--help", "-h"]) {
        return Ok(reading);
    }
    let Some((filter, files)) = sorted.operands.split_first() else {
        return refuse("jq without a filter");
    };
    let Some(filter) = filter.fixed() else {
        return refuse("jq's filter is not fixed");
    };
    check_filter(filter, KNOWN)?;
    reading.paths.extend(paths_of(files));
    Ok(reading)
}

/// Two programs have this name, and one of them takes a file where the other takes a filter: every word counts
/// as a file, the filter and the values of options too.
pub(super) fn judge_yq(words: &[Argument]) -> Verdict {
    const OPTIONS: &str = "-r -e -C -M -P -N -c -o= -p= --output-format= --input-format= --prettyPrint --exit-status \
        --no-doc --raw-output --version --indent= -I=";
    let sorted = sort(words, OPTIONS, Order::Mixed)?;
    no_names(&sorted)?;
    if sorted.has("--version") {
        return Ok(Reading::default());
    }
    let mut reading = Reading {
        paths: paths_of(&sorted.operands),
        ..Reading::default()
    };
    for option in &sorted.options {
        match option.value() {
            Some(value) => {
                let value = value.strip_prefix('=').unwrap_or(value);
                reading.paths.push(PathOperand::literal(value));
            }
            None if option.word.is_some() => return refuse("yq with a word that isn't fixed"),
            None => {}
        }
    }
    let mut words = sorted.operands.iter().map(|word| word.fixed());
    let filter = match words.next().flatten() {
        Some("eval" | "e" | "eval-all" | "ea") => words.next().flatten(),
        first => first,
    };
    let Some(filter) = filter else {
        return refuse("yq's filter is not fixed");
    };
    check_filter(filter, KNOWN_TO_YQ)?;
    Ok(reading)
}

/// Whether a filter of jq sees nothing but its input.
pub(super) fn check_jq_filter(filter: &str) -> Result<(), Refusal> {
    check_filter(filter, KNOWN)
}

fn check_filter(filter: &str, known: &[&str]) -> Result<(), Refusal> {
    let mut reader = Filter {
        bytes: filter.as_bytes(),
        text: filter,
        position: 0,
        known,
    };
    reader.tokens(None, 0)
}

struct Filter<'a> {
    text: &'a str,
    bytes: &'a [u8],
    position: usize,
    known: &'a [&'a str],
}

impl Filter<'_> {
    fn not_known<T>(what: &str) -> Result<T, Refusal> {
        refuse(format!(
            "the filter's {what} isn't known to see only its input"
        ))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn name(&mut self) -> String {
        let start = self.position;
        while self
            .peek()
            .is_some_and(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        {
            self.position += 1;
        }
        self.text
            .get(start..self.position)
            .unwrap_or_default()
            .to_owned()
    }

    /// Reads tokens up to the end, or to the parenthesis that closes an interpolation.
    fn tokens(&mut self, close: Option<u8>, depth: usize) -> Result<(), Refusal> {
        if depth > 8 {
            return Self::not_known("nesting");
        }
        let mut open: Vec<u8> = Vec::new();
        // Whether a key of an object can stand here: after its brace or a comma in it.
        let mut key_follows = false;
        while let Some(byte) = self.peek() {
            self.position += 1;
            let may_be_key = key_follows;
            key_follows = match byte {
                b'{' => true,
                b',' => open.last() == Some(&b'{'),
                b' ' | b'\t' | b'\n' => key_follows,
                _ => false,
            };
            match byte {
                b'"' => self.string(depth)?,
                b'(' | b'[' | b'{' => open.push(byte),
                b')' if open.is_empty() && close == Some(b')') => return Ok(()),
                b')' | b']' | b'}' => {
                    let opened = match byte {
                        b')' => b'(',
                        b']' => b'[',
                        _ => b'{',
                    };
                    if open.pop() != Some(opened) {
                        return Self::not_known("bracket");
                    }
                }
                b'.' => self.field()?,
                b'$' => {
                    let name = self.name();
                    if name.is_empty() || name == "ENV" || name.starts_with("__") {
                        return Self::not_known("variable");
                    }
                }
                b'@' => {
                    let name = self.name();
                    if !matches!(
                        name.as_str(),
                        "text"
                            | "json"
                            | "csv"
                            | "tsv"
                            | "html"
                            | "uri"
                            | "sh"
                            | "base64"
                            | "base64d"
                    ) {
                        return Self::not_known("format");
                    }
                }
                b'0'..=b'9' => {
                    self.name();
                }
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                    self.position -= 1;
                    let name = self.name();
                    // `name::function` comes from a module.
                    if self.peek() == Some(b':') && self.bytes.get(self.position + 1) == Some(&b':')
                    {
                        return Self::not_known("module");
                    }
                    let is_key = may_be_key && self.is_key(&name);
                    if !self.known.contains(&name.as_str()) && !is_key {
                        return Self::not_known(&name);
                    }
                }
                b' ' | b'\t' | b'\n' | b'|' | b',' | b':' | b'=' | b'!' | b'<' | b'>' | b'+'
                | b'-' | b'*' | b'/' | b'%' | b'?' | b';' => {}
                _ => return Self::not_known("special form"),
            }
        }
        if open.is_empty() && close.is_none() {
            return Ok(());
        }
        Self::not_known("bracket")
    }

    /// A field after its dot: any name is one. After two dots a name is a function.
    fn field(&mut self) -> Result<(), Refusal> {
        if self.peek() == Some(b'.') {
            self.position += 1;
            return match self.peek() {
                Some(b'.' | b'_') => Self::not_known("dots"),
                Some(next) if next.is_ascii_alphanumeric() => Self::not_known("dots"),
                _ => Ok(()),
            };
        }
        self.name();
        Ok(())
    }

    /// Whether the name just read is the key of an object: a single colon after it makes it one. For jq a key may stand
    /// by itself, and is a field then; the name of a function that sees more than its input is not taken for one.
    fn is_key(&self, name: &str) -> bool {
        let rest = self
            .text
            .get(self.position..)
            .unwrap_or_default()
            .trim_start();
        let is_function = matches!(
            name,
            "env" | "input_filename" | "modulemeta" | "get_search_list" | "import" | "include"
        );
        let by_itself = rest.starts_with([',', '}']) && self.known == KNOWN;
        let is_field = by_itself && !is_function;
        is_field || rest.starts_with(':') && !rest.starts_with("::")
    }

    fn string(&mut self, depth: usize) -> Result<(), Refusal> {
        loop {
            let Some(byte) = self.peek() else {
                return Self::not_known("string");
            };
            self.position += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => {
                    let escaped = self.peek();
                    self.position += 1;
                    match escaped {
                        Some(b'(') => self.tokens(Some(b')'), depth + 1)?,
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u') => {}
                        _ => return Self::not_known("string"),
                    }
                }
                _ => {}
            }
        }
    }
}
