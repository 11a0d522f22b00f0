//! Problems of a script, found before it runs.

use crate::error::ScriptError;
use crate::machine;
use crate::script::Script;
use crate::token::{Token, TokenKind, closing, tokens};
use std::collections::HashSet;

/// Words of the language that are no names.
const KEYWORDS: [&str; 46] = [
    "arguments",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "get",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "of",
    "return",
    "set",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Words before a parenthesis that is no list of parameters.
const NO_PARAMETERS: [&str; 6] = ["if", "for", "while", "switch", "with", "return"];

/// Finds what is wrong with a script without running it: `meta`, syntax, names that nothing defines.
#[must_use]
pub fn check(name: &str, text: &str) -> Vec<ScriptError> {
    let script = match Script::parse(name, text) {
        Ok(script) => script,
        Err(error) => return vec![error],
    };
    if let Err(error) = machine::compile(&script) {
        return vec![error];
    }
    match machine::globals() {
        Ok(globals) => unknown(&script, &globals),
        Err(error) => vec![error],
    }
}

/// Names that are used and that nothing defines, each once.
fn unknown(script: &Script, globals: &[String]) -> Vec<ScriptError> {
    let tokens = tokens(&script.text);
    let mut known: HashSet<&str> = globals.iter().map(String::as_str).collect();
    known.extend(KEYWORDS);
    known.extend(["args", "workflow", "meta"]);
    known.extend(declared(&tokens));
    let mut problems = Vec::new();
    let mut told = HashSet::new();
    for (index, token) in tokens.iter().enumerate() {
        let Some(word) = token.word() else { continue };
        let message = if word == "Date" && used(&tokens, index) {
            "there is no clock in a workflow (Date): pass times in args".to_owned()
        } else if word == "random" && index >= 2 && tokens[index - 2].word() == Some("Math") {
            "there is no randomness in a workflow (Math.random)".to_owned()
        } else if !known.contains(word) && used(&tokens, index) {
            format!("{word} is not defined")
        } else {
            continue;
        };
        if told.insert(word) {
            problems.push(ScriptError::Unknown {
                name: script.name.clone(),
                at: token.at,
                message,
            });
        }
    }
    problems
}

/// Whether a word is a name that is used, and not a field, a key or the name of a method.
fn used(tokens: &[Token], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| tokens.get(before));
    let after = tokens.get(index + 1);
    let is = |token: Option<&Token>, sign: &str| token.is_some_and(|token| token.is(sign));
    if is(before, ".") || is(before, "?.") || before.and_then(Token::word) == Some("typeof") {
        return false;
    }
    let leaves = before.and_then(Token::word);
    let names_loop = is(after, ":")
        && tokens
            .get(index + 2)
            .and_then(Token::word)
            .is_some_and(|word| matches!(word, "for" | "while" | "do"));
    if names_loop || matches!(leaves, Some("continue" | "break")) {
        return false;
    }
    let begins_field = is(before, "{") || is(before, ",");
    let is_key = is(after, ":") && begins_field;
    !is_key && !is_method(tokens, index)
}

/// Whether a word is the name of a method: parameters and a body follow.
fn is_method(tokens: &[Token], index: usize) -> bool {
    let opens = tokens.get(index + 1).is_some_and(|token| token.is("("));
    opens
        && closing(tokens, index + 1)
            .and_then(|end| tokens.get(end + 1))
            .is_some_and(|token| token.is("{"))
}

/// The index of the parenthesis that opens the one at an index.
fn opening(tokens: &[Token], close: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().take(close + 1).rev() {
        if token.is(")") {
            depth += 1;
        } else if token.is("(") {
            depth -= 1;
            if depth == 0 {
                return Some(index);
            }
        }
    }
    None
}

/// Every name that is defined somewhere: scopes are not told apart, so a name that is defined nowhere is unknown for
/// certain.
fn declared(tokens: &[Token]) -> HashSet<&str> {
    let mut names = HashSet::new();
    for (index, token) in tokens.iter().enumerate() {
        match token.word() {
            Some("const" | "let" | "var") => bindings(tokens, index + 1, &mut names),
            Some("class" | "function") => {
                let name = tokens.iter().skip(index + 1).find(|next| !next.is("other"));
                names.extend(name.and_then(Token::word));
            }
            Some("catch") => parameters(tokens, index + 1, &mut names),
            Some(word) if !NO_PARAMETERS.contains(&word) && is_method(tokens, index) => {
                parameters(tokens, index + 1, &mut names);
            }
            _ => {}
        }
        if token.word() == Some("function") {
            let open = (index..tokens.len()).find(|at| tokens[*at].is("("));
            if let Some(open) = open {
                parameters(tokens, open, &mut names);
            }
        }
        if token.is("=>") && index > 0 {
            match &tokens[index - 1] {
                before if before.is(")") => {
                    if let Some(open) = opening(tokens, index - 1) {
                        parameters(tokens, open, &mut names);
                    }
                }
                before => names.extend(before.word()),
            }
        }
    }
    names
}

/// The names in a list of parameters.
fn parameters<'a>(tokens: &'a [Token], open: usize, names: &mut HashSet<&'a str>) {
    if let Some(end) = closing(tokens, open) {
        pattern(tokens, open, end, names);
    }
}

/// The names that a pattern between two indexes binds.
fn pattern<'a>(tokens: &'a [Token], from: usize, to: usize, names: &mut HashSet<&'a str>) {
    for index in from..to {
        let is_key = tokens.get(index + 1).is_some_and(|next| next.is(":"));
        let is_field = index > 0 && tokens[index - 1].is(".");
        if let Some(word) = tokens[index].word().filter(|_| !is_key && !is_field) {
            names.insert(word);
        }
    }
}

/// The names of a declaration, which begins at an index.
fn bindings<'a>(tokens: &'a [Token], start: usize, names: &mut HashSet<&'a str>) {
    let mut index = start;
    loop {
        let Some(token) = tokens.get(index) else {
            return;
        };
        if token.is("{") || token.is("[") {
            let Some(end) = closing(tokens, index) else {
                return;
            };
            pattern(tokens, index, end, names);
            index = end + 1;
        } else if let Some(word) = token.word() {
            names.insert(word);
            index += 1;
        } else {
            return;
        }
        // To the comma after the value, if there is one before the declaration ends.
        let mut depth = 0_usize;
        loop {
            let Some(token) = tokens.get(index) else {
                return;
            };
            match &token.kind {
                TokenKind::Sign("(" | "[" | "{") => depth += 1,
                TokenKind::Sign(")" | "]" | "}") if depth == 0 => return,
                TokenKind::Sign(")" | "]" | "}") => depth -= 1,
                TokenKind::Sign(";") if depth == 0 => return,
                TokenKind::Sign(",") if depth == 0 => break,
                TokenKind::Word(word)
                    if depth == 0
                        && matches!(word.as_str(), "const" | "let" | "var" | "of" | "in") =>
                {
                    return;
                }
                _ => {}
            }
            index += 1;
        }
        index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "export const meta = { name: 'a', description: 'b' }\n";

    fn problems(body: &str) -> Vec<String> {
        let found = check("a.js", &format!("{META}{body}"));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn scripts_of_every_form_have_no_problems() {
        for body in [
            "return await agent('x', { label: `l${args.n}`, schema: { type: 'object' } })",
            "const { a, b: [c, ...d], e = 1 } = args, f = (g, { h }) => g + h + a + c + d + e;\nfunction i(j = f) { return j }\nreturn i()",
            "for (const x of args) log(x)\nfor (let i = 0, n = 3; i < n; i++) { log(i) }\ntry { phase('p') } catch (error) { log(error.message) }",
            "class Box { #hidden = 1; get(value) { return value } static make() { return new Box() } }\nreturn Box.make().get(2)",
            "const tool = { run(x) { return x }, async go(y) { return y }, 'quoted': 1 }\nreturn args ? tool.run(1) : tool?.go",
            "const r = await pipeline(args, async (v, item, index) => v + item + index)\nreturn parallel(r.map((it) => () => workflow('other', it)))",
            "let a, b\n[a, b] = [1, 2]\nlabel: while (a < b) { a++; continue label }\nreturn JSON.stringify([...new Set([a])]) + Math.max(1, budget.remaining())",
            "if (typeof nothing === 'undefined') return /x{2}/.test('x')",
        ] {
            assert_eq!(problems(body), Vec::<String>::new(), "{body}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_column() {
        for (body, expected) in [
            (
                "let x = ;",
                "a.js:2:9: syntax error: unexpected token in expression: ';'",
            ),
            (
                "const a = 1\n  fetch('x')",
                "a.js:3:3: fetch is not defined",
            ),
            ("return require('fs')", "a.js:2:8: require is not defined"),
            (
                "log(Date.now())",
                "a.js:2:5: there is no clock in a workflow (Date): pass times in args",
            ),
            (
                "log(Math.random())",
                "a.js:2:10: there is no randomness in a workflow (Math.random)",
            ),
            ("process.exit(1)", "a.js:2:1: process is not defined"),
            ("return `${missing}`", "a.js:2:11: missing is not defined"),
            ("if (absent) { log(1) }", "a.js:2:5: absent is not defined"),
        ] {
            assert_eq!(problems(body), [expected], "{body}");
        }
        let early = check("a.js", "agent('x')");
        assert!(
            early[0]
                .to_string()
                .starts_with("a.js:1:1: the script must begin")
        );
    }
}
