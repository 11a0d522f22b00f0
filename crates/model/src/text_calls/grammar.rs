//! A grammar for answers with calls in words, for servers that hold a model to one (llama.cpp's GBNF).
//!
//! Words are free as long as they don't begin the tag of a call. A call names a tool that is offered, its arguments are
//! JSON, and after it come only further calls: what the model writes in the tag can always be read.

use std::fmt::Write as _;

/// Everything but the names of tools.
const RULES: &str = r##"root ::= text call*
text ::= [^<] text | "<" tag | ""
tag ::= [^t<] text | "<" tag | "t" tag-t | ""
tag-t ::= [^o<] text | "<" tag | "o" tag-to | ""
tag-to ::= [^o<] text | "<" tag | "o" tag-too | ""
tag-too ::= [^l<] text | "<" tag | "l" tag-tool | ""
tag-tool ::= [^_<] text | "<" tag | ""
call ::= "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " object "}\n</tool_call>" "\n"?
object ::= "{" space (pair ("," space pair)*)? space "}"
pair ::= string ":" space value
array ::= "[" space (value ("," space value)*)? space "]"
value ::= object | array | string | number | "true" | "false" | "null"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F]))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
space ::= " "?
"##;

/// The grammar for these tools.
pub(crate) fn of(names: &[String]) -> String {
    let mut grammar = RULES.to_owned();
    let quoted: Vec<String> = names
        .iter()
        .map(|name| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")))
        .collect();
    let _ = writeln!(grammar, "name ::= {}", quoted.join(" | "));
    grammar
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_rule_that_is_used_is_there_and_names_are_quoted() {
        let grammar = super::of(&["Read".to_owned(), "a\"b".to_owned()]);
        assert!(grammar.ends_with("name ::= \"Read\" | \"a\\\"b\"\n"));
        let rules: Vec<&str> = grammar
            .lines()
            .filter_map(|line| line.split(" ::= ").next())
            .collect();
        for used in [
            "root", "text", "tag", "tag-t", "tag-to", "tag-too", "tag-tool", "call", "object",
            "pair", "array", "value", "string", "number", "space", "name",
        ] {
            assert_eq!(
                rules.iter().filter(|rule| **rule == used).count(),
                1,
                "{used}"
            );
        }
    }
}
