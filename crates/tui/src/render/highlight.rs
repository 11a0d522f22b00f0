//! Colours for code. A small tokenizer that knows comments, strings, numbers and words, with a table
//! of keywords per language. It works line by line and carries over only what a line leaves open, so
//! code can be coloured while it streams in. Nothing is loaded and nothing is slow; what it doesn't
//! know stays plain.

use crate::render::style::{Line, Style};
use crate::render::theme::Theme;

/// How a language is written.
struct Language {
    names: &'static [&'static str],
    keywords: &'static str,
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    strings: &'static [&'static str],
}

const C_STRINGS: &[&str] = &["\"", "'"];

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while",
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: &["\""],
    },
    Language {
        names: &["python", "py"],
        keywords: "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return self try while with yield",
        line_comments: &["#"],
        block_comment: None,
        strings: &["\"\"\"", "'''", "\"", "'"],
    },
    Language {
        names: &[
            "javascript",
            "js",
            "jsx",
            "typescript",
            "ts",
            "tsx",
            "mjs",
            "cjs",
        ],
        keywords: "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in infer instanceof interface keyof let namespace never new null number object of private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined unknown var void while with yield",
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: &["`", "\"", "'"],
    },
    Language {
        names: &["go", "golang"],
        keywords: "any bool break byte case chan const continue default defer else error fallthrough false float64 for func go goto if import int int64 interface iota map nil package range return rune select string struct switch true type uint var",
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: &["`", "\"", "'"],
    },
    Language {
        names: &["c", "h", "cpp", "c++", "cc", "hpp", "cxx", "objc"],
        keywords: "alignas alignof auto bool break case catch char class concept const consteval constexpr continue co_await co_return decltype default define delete do double else endif enum explicit export extern false final float for friend goto if ifdef ifndef include inline int long mutable namespace new noexcept nullptr operator override private protected public requires return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while",
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: C_STRINGS,
    },
    Language {
        names: &[
            "java", "kotlin", "kt", "scala", "csharp", "cs", "c#", "swift", "dart", "groovy",
        ],
        keywords: "abstract actor as async await base bool boolean break byte case catch char class companion const continue data def default do double else enum extends extension false final finally float for foreach fun func get guard if implements import in init inline int interface internal is it lateinit lazy let long match module namespace new nil null object open operator override package private protected protocol public readonly record return sealed self set short static string struct super suspend switch this throw throws trait true try typealias using val var virtual void when where while with yield",
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: &["\"\"\"", "\"", "'"],
    },
    Language {
        names: &["bash", "sh", "shell", "zsh", "console", "fish"],
        keywords: "alias break case cd continue declare do done echo elif else esac eval exec exit export fi for function if in local printf read readonly return select set shift source test then trap unset until while",
        line_comments: &["#"],
        block_comment: None,
        strings: C_STRINGS,
    },
    Language {
        names: &["ruby", "rb", "elixir", "ex", "exs", "crystal"],
        keywords: "alias and begin break case class def defined? defmodule defp do else elsif end ensure false fn for if import in module next nil not or private raise redo require rescue retry return self super then true undef unless until use when while with yield",
        line_comments: &["#"],
        block_comment: None,
        strings: C_STRINGS,
    },
    Language {
        names: &["php"],
        keywords: "abstract and array as break case catch class const continue declare default do echo else elseif enum extends false final finally fn for foreach function global if implements include instanceof interface isset match namespace new null or private protected public readonly require return self static switch this throw trait true try use var while yield",
        line_comments: &["//", "#"],
        block_comment: Some(("/*", "*/")),
        strings: C_STRINGS,
    },
    Language {
        names: &["lua", "haskell", "hs", "elm", "ocaml", "ml", "fsharp", "fs"],
        keywords: "and as begin break case class data deriving do else elseif end exception false for forall fun function goto if import in infix instance let local match module mutable new newtype nil not of open or rec repeat return sig struct then true try type until val when where while with",
        line_comments: &["--"],
        block_comment: None,
        strings: &["\""],
    },
    Language {
        names: &["sql", "mysql", "postgres", "postgresql", "sqlite"],
        keywords: "add all alter and as asc begin between by cascade case column commit constraint create cross default delete desc distinct drop else end exists false foreign from full group having if in index inner insert integer into is join key left like limit not null offset on or order outer primary references returning right rollback select set table text then true union unique update using values view when where with ADD ALL ALTER AND AS ASC BEGIN BETWEEN BY CASCADE CASE COLUMN COMMIT CONSTRAINT CREATE CROSS DEFAULT DELETE DESC DISTINCT DROP ELSE END EXISTS FALSE FOREIGN FROM FULL GROUP HAVING IF IN INDEX INNER INSERT INTEGER INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER PRIMARY REFERENCES RETURNING RIGHT ROLLBACK SELECT SET TABLE TEXT THEN TRUE UNION UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WITH",
        line_comments: &["--"],
        block_comment: Some(("/*", "*/")),
        strings: C_STRINGS,
    },
    Language {
        names: &["json", "jsonc", "json5"],
        keywords: "true false null",
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: &["\""],
    },
    Language {
        names: &[
            "yaml",
            "yml",
            "toml",
            "ini",
            "conf",
            "dockerfile",
            "docker",
            "make",
            "makefile",
            "nix",
            "hcl",
            "terraform",
            "tf",
            "properties",
        ],
        keywords: "true false null yes no on off FROM RUN CMD COPY ADD ENV ARG WORKDIR EXPOSE ENTRYPOINT USER VOLUME LABEL AS ifeq ifneq else endif include define endef let in with rec inherit if then resource variable output module provider locals data",
        line_comments: &["#", ";"],
        block_comment: None,
        strings: &["\"\"\"", "\"", "'"],
    },
    Language {
        names: &["css", "scss", "less"],
        keywords: "important media import keyframes from to supports font-face include mixin extend use forward if else for each while function return",
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: C_STRINGS,
    },
    Language {
        names: &["html", "xml", "svg", "vue", "svelte"],
        keywords: "",
        line_comments: &[],
        block_comment: Some(("<!--", "-->")),
        strings: C_STRINGS,
    },
    Language {
        names: &["zig", "odin", "v"],
        keywords: "align and anytype asm async await break catch comptime const continue defer else enum errdefer error export extern false fn for if import inline map mut noalias null or orelse packed pub return struct suspend switch test true try type undefined union unreachable usingnamespace var volatile when while",
        line_comments: &["//"],
        block_comment: None,
        strings: C_STRINGS,
    },
];

/// A construct that a line left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Open {
    #[default]
    Nothing,
    Comment,
    /// A string that may go over lines, by its index in the language's list.
    Text(usize),
}

/// Colours lines of one piece of code, one after another.
pub(crate) struct Highlighter {
    language: Option<&'static Language>,
    diff: bool,
    open: Open,
}

impl Highlighter {
    /// For a language by its name or a file's ending.
    pub(crate) fn new(name: &str) -> Self {
        let name = name
            .split([' ', ',', '{'])
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        Self {
            language: LANGUAGES
                .iter()
                .find(|language| language.names.contains(&name.as_str())),
            diff: name == "diff" || name == "patch",
            open: Open::Nothing,
        }
    }

    /// For a file, by its name.
    pub(crate) fn for_path(path: &std::path::Path) -> Self {
        let name = path
            .extension()
            .or_else(|| path.file_name())
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        Self::new(name)
    }

    /// Colours the next line.
    pub(crate) fn line(&mut self, text: &str, theme: &Theme) -> Line {
        if self.diff {
            let style = match text.bytes().next() {
                Some(b'+') => theme.success,
                Some(b'-') => theme.error,
                Some(b'@') => theme.syntax.function,
                _ => Style::PLAIN,
            };
            return Line::styled(text, style);
        }
        let Some(language) = self.language else {
            return Line::plain(text);
        };
        let mut line = Line::empty();
        let mut rest = text;
        match self.open {
            Open::Comment => {
                let end = language
                    .block_comment
                    .and_then(|(_, end)| rest.find(end).map(|at| at + end.len()));
                let Some(end) = end else {
                    return Line::styled(text, theme.syntax.comment);
                };
                line.push(&rest[..end], theme.syntax.comment);
                rest = &rest[end..];
                self.open = Open::Nothing;
            }
            Open::Text(index) => {
                let quote = language.strings.get(index).copied().unwrap_or("\"");
                let Some(end) = string_end(rest, quote) else {
                    return Line::styled(text, theme.syntax.string);
                };
                line.push(&rest[..end], theme.syntax.string);
                rest = &rest[end..];
                self.open = Open::Nothing;
            }
            Open::Nothing => {}
        }
        self.rest(rest, language, theme, &mut line);
        line
    }

    fn rest(&mut self, mut rest: &str, language: &Language, theme: &Theme, line: &mut Line) {
        let mut before: Option<char> = None;
        while let Some(c) = rest.chars().next() {
            if language
                .line_comments
                .iter()
                .any(|mark| rest.starts_with(mark))
                && (c != '#' && c != ';' || before.is_none_or(char::is_whitespace))
            {
                line.push(rest, theme.syntax.comment);
                return;
            }
            if let Some((start, end)) = language.block_comment
                && rest.starts_with(start)
            {
                match rest[start.len()..].find(end) {
                    Some(at) => {
                        let length = start.len() + at + end.len();
                        line.push(&rest[..length], theme.syntax.comment);
                        rest = &rest[length..];
                    }
                    None => {
                        line.push(rest, theme.syntax.comment);
                        self.open = Open::Comment;
                        return;
                    }
                }
                continue;
            }
            if let Some((index, quote)) = language
                .strings
                .iter()
                .enumerate()
                .find(|(_, quote)| rest.starts_with(**quote))
            {
                if let Some(at) = string_end(&rest[quote.len()..], quote) {
                    let length = quote.len() + at;
                    line.push(&rest[..length], theme.syntax.string);
                    rest = &rest[length..];
                    before = Some('"');
                } else {
                    line.push(rest, theme.syntax.string);
                    if quote.len() == 3 || *quote == "`" {
                        self.open = Open::Text(index);
                    }
                    return;
                }
                continue;
            }
            if c.is_ascii_digit() && !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                let length = rest
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'))
                    .unwrap_or(rest.len());
                line.push(&rest[..length], theme.syntax.number);
                before = Some('0');
                rest = &rest[length..];
                continue;
            }
            if c.is_alphabetic() || c == '_' {
                let length = rest
                    .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .unwrap_or(rest.len());
                let word = &rest[..length];
                let after = rest[length..].trim_start();
                let style = if language.keywords.split(' ').any(|keyword| keyword == word) {
                    theme.syntax.keyword
                } else if after.starts_with('(') || after.starts_with("!(") {
                    theme.syntax.function
                } else if word.starts_with(|c: char| c.is_uppercase())
                    && word.chars().any(char::is_lowercase)
                {
                    theme.syntax.type_name
                } else {
                    Style::PLAIN
                };
                line.push(word, style);
                before = word.chars().last();
                rest = &rest[length..];
                continue;
            }
            line.push(c.to_string(), Style::PLAIN);
            before = Some(c);
            rest = &rest[c.len_utf8()..];
        }
    }
}

/// Where a string ends, after its closing quote.
fn string_end(text: &str, quote: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if text[at..].starts_with(quote) {
            return Some(at + quote.len());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styles(language: &str, code: &str) -> Vec<(String, Style)> {
        let theme = Theme::built_in("dark", false);
        let mut highlighter = Highlighter::new(language);
        code.lines()
            .flat_map(|line| highlighter.line(line, &theme).spans)
            .map(|span| (span.text, span.style))
            .collect()
    }

    #[test]
    fn keywords_strings_and_comments_are_highlighted() {
        let theme = Theme::built_in("dark", false);
        let found = styles("rust", "fn main() { let x = \"a\\\"b\"; 42 } // done");
        let style_of = |text: &str| {
            found
                .iter()
                .find(|(found, _)| found == text)
                .map(|(_, style)| *style)
        };
        assert_eq!(style_of("fn"), Some(theme.syntax.keyword));
        assert_eq!(style_of("main"), Some(theme.syntax.function));
        assert_eq!(style_of("\"a\\\"b\""), Some(theme.syntax.string));
        assert_eq!(style_of("42"), Some(theme.syntax.number));
        assert_eq!(style_of("// done"), Some(theme.syntax.comment));
    }

    #[test]
    fn an_open_construct_continues_in_the_next_line() {
        let theme = Theme::built_in("dark", false);
        assert_eq!(
            styles("c", "/* one\ntwo */ int"),
            [
                ("/* one".to_owned(), theme.syntax.comment),
                ("two */".to_owned(), theme.syntax.comment),
                (" ".to_owned(), Style::PLAIN),
                ("int".to_owned(), theme.syntax.keyword),
            ]
        );
        let python = styles("py", "x = \"\"\"a\nb\"\"\" # c");
        assert!(python.contains(&("b\"\"\"".to_owned(), theme.syntax.string)));
        assert!(python.contains(&("# c".to_owned(), theme.syntax.comment)));
    }

    #[test]
    fn no_text_is_lost_in_any_language() {
        let code = "a#b 'c \"d` /* e -- f // g <!-- h \\ 1.5e3 x_y é漢 ${z}\nnext 'line'";
        for language in LANGUAGES
            .iter()
            .flat_map(|language| language.names)
            .chain(&["diff", "none"])
        {
            let joined: String = styles(language, code)
                .into_iter()
                .map(|(text, _)| text)
                .collect();
            assert_eq!(joined, code.replace('\n', ""), "{language}");
        }
    }
}
