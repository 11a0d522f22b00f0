//! Commands that inline code runs: whether they stand in the code as they are.
//!
//! `os.system("ls")` in the words of an interpreter is a command that can be looked at. `os.system(a + b)`,
//! `eval(atob(x))` and awk's `print $0 | "sh"` are not: what they run is known when they run it.

use super::code::unescaped;
use super::nested::is_shell;
use crate::broad::base_name;
use lathe_shell::analysis::Argument;

/// A language, with what its code runs commands and further code by.
struct Language {
    names: &'static [&'static str],
    /// Calls that run a command.
    runs: &'static [&'static str],
    /// The same where one of these words is in the code.
    runs_with: (&'static [&'static str], &'static [&'static str]),
    /// Calls that run a text as code.
    evaluates: &'static [&'static str],
    /// Whether a call needs no parentheses.
    bare: bool,
    /// Characters that start a variable inside of double quotes.
    interpolates: &'static [&'static str],
}

const LANGUAGES: &[Language] = &[
    Language {
        names: &["python", "pypy", "ipython"],
        runs: &[
            "system",
            "popen",
            "getoutput",
            "getstatusoutput",
            "check_output",
            "check_call",
            "Popen",
            "execv",
            "execvp",
            "execvpe",
            "execl",
            "execlp",
            "spawnv",
            "spawnvp",
            "posix_spawn",
        ],
        runs_with: (&["subprocess"], &["run", "call"]),
        evaluates: &["exec", "eval"],
        bare: false,
        interpolates: &[],
    },
    Language {
        names: &["node", "nodejs", "bun", "deno", "tsx", "ts-node"],
        runs: &["execSync", "spawnSync", "execFileSync"],
        runs_with: (
            &["child_process", "Deno.Command", "Bun.spawn"],
            &["exec", "spawn", "execFile", "Command"],
        ),
        evaluates: &["eval", "Function"],
        bare: false,
        interpolates: &["${"],
    },
    Language {
        names: &["perl"],
        runs: &["system", "exec", "qx"],
        runs_with: (&[], &[]),
        evaluates: &["eval"],
        bare: true,
        interpolates: &["$", "@"],
    },
    Language {
        names: &["ruby", "rails", "rake", "irb"],
        runs: &["system", "exec", "spawn", "popen", "capture2", "capture3"],
        runs_with: (&[], &[]),
        evaluates: &["eval", "instance_eval", "class_eval"],
        bare: true,
        interpolates: &["#{"],
    },
    Language {
        names: &["php"],
        runs: &[
            "system",
            "exec",
            "shell_exec",
            "passthru",
            "popen",
            "proc_open",
        ],
        runs_with: (&[], &[]),
        evaluates: &["eval", "assert", "create_function"],
        bare: false,
        interpolates: &["$"],
    },
    Language {
        names: &["lua", "luajit"],
        runs: &["execute", "popen"],
        runs_with: (&[], &[]),
        evaluates: &["load", "loadstring"],
        bare: false,
        interpolates: &[],
    },
    Language {
        names: &["Rscript", "R"],
        runs: &["system", "system2", "shell"],
        runs_with: (&[], &[]),
        evaluates: &["eval"],
        bare: false,
        interpolates: &[],
    },
];

/// Programs whose other words decide what happens: all of them must be known.
const RISKY: &[&str] = &[
    "rm", "rmdir", "unlink", "shred", "dd", "mv", "cp", "tee", "ln", "env", "xargs", "sudo",
    "nohup", "timeout", "eval", "find", "python", "python3", "perl", "ruby", "node",
];

/// Whether the words of a command are code that runs a text which can't be known.
pub(super) fn runs_unknown(argv: &[Argument]) -> bool {
    let name = base_name(argv.first().and_then(Argument::fixed).unwrap_or_default());
    let base =
        name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let mut codes = argv
        .iter()
        .skip(1)
        .filter_map(Argument::fixed)
        .filter(|text| !text.starts_with("--"));
    if matches!(name, "awk" | "gawk" | "mawk" | "nawk" | "original-awk") {
        return codes.any(awk_runs_unknown);
    }
    let mut codes = codes.flat_map(|code| [vec![code.to_owned()], unescaped(code)].concat());
    let Some(language) = LANGUAGES
        .iter()
        .find(|language| language.names.contains(&base))
    else {
        return false;
    };
    codes.any(|code| language.runs_unknown(&code))
}

impl Language {
    fn runs_unknown(&self, code: &str) -> bool {
        let (marks, more) = self.runs_with;
        let more = more
            .iter()
            .filter(|_| marks.iter().any(|mark| code.contains(mark)));
        let runs = self.runs.iter().chain(more).any(|call| {
            self.calls(code, call)
                .any(|(_, given)| !self.is_known(given, code))
        });
        let evaluates = self.evaluates.iter().any(|call| {
            self.calls(code, call)
                .filter(|(before, _)| !before.ends_with(['.', '>', '$', ':']))
                .any(|(_, given)| !self.is_literal(given) && !reads_file(given))
        });
        runs || evaluates || self.has_unknown_backticks(code)
    }

    /// The texts before each call of a name, and what it is given.
    fn calls<'c>(&self, code: &'c str, name: &str) -> impl Iterator<Item = (&'c str, &'c str)> {
        let length = name.len();
        let bare = self.bare;
        code.match_indices(name)
            .filter_map(move |(at, _)| {
                let before = code.get(..at)?;
                let after = code.get(at + length..)?;
                let is_word = |character: char| character.is_alphanumeric() || character == '_';
                if before.ends_with(is_word) || after.starts_with(is_word) {
                    return None;
                }
                let trimmed = after.trim_start();
                match trimmed.strip_prefix('(') {
                    Some(given) => Some((before, given)),
                    // A block is code that stands there, and a name that is followed by nothing isn't called.
                    None if bare && !trimmed.starts_with(['{', '=', ',', ')', ';', '}']) => {
                        let called = !trimmed.is_empty() && !trimmed.starts_with("do ");
                        called.then_some((before, trimmed))
                    }
                    None => None,
                }
            })
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Whether what a call is given says which command it runs.
    fn is_known(&self, given: &str, code: &str) -> bool {
        let given = given.trim_start();
        if let Some(list) = given.strip_prefix(['[', '(']) {
            return self.first_is_known(list) && !is_joined(list);
        }
        // A variable that is only ever set to texts that stand there.
        let name: String = given
            .chars()
            .take_while(|character| character.is_alphanumeric() || *character == '_')
            .collect();
        let is_name = !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit());
        if is_name && !self.is_literal(given) {
            let values: Vec<&str> = assigned(code, &name).collect();
            return !values.is_empty()
                && values
                    .iter()
                    .all(|value| match value.strip_prefix(['[', '(']) {
                        Some(list) => self.first_is_known(list),
                        None => self.is_literal(value),
                    });
        }
        self.is_literal(given) && self.first_is_known(given)
    }

    /// Whether the program of a list of words is known, and is none whose words decide what happens.
    fn first_is_known(&self, list: &str) -> bool {
        let list = list.trim_start();
        if list.starts_with("sys.executable") || list.starts_with("process.execPath") {
            return true;
        }
        let Some((text, rest)) = self.literal(list) else {
            return false;
        };
        let program = base_name(text.split_whitespace().next().unwrap_or_default());
        let is_risky = RISKY.contains(&program) || is_shell(program);
        let rest = rest.trim_start();
        let Some(mut others) = rest.strip_prefix(',').filter(|_| is_risky) else {
            return true;
        };
        // The other words, up to what isn't one any more.
        loop {
            let next = others.trim_start().trim_start_matches(['[', '(']);
            let is_option = next.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty()
                    && name
                        .chars()
                        .all(|letter| letter.is_alphanumeric() || letter == '_')
            });
            if is_option || next.starts_with([']', ')', '{', ';']) || next.is_empty() {
                return true;
            }
            let Some((_, rest)) = self.literal(next) else {
                return false;
            };
            let rest = rest.trim_start().trim_start_matches([']', ')']);
            match rest.trim_start().strip_prefix(',') {
                Some(rest) => others = rest,
                None => return true,
            }
        }
    }

    /// Whether a text starts with a string that nothing is added to.
    fn is_literal(&self, given: &str) -> bool {
        let Some((_, rest)) = self.literal(given.trim_start()) else {
            return false;
        };
        let rest = rest.trim_start();
        let ends = [
            ")", "]", "}", ",", ";", "|", "&", ".split(", ".strip(", ".encode(", "if ", "or ",
            "and ", "unless ",
        ];
        rest.is_empty() || ends.iter().any(|end| rest.starts_with(end))
    }

    /// A string without variables in it, and the text after it.
    fn literal<'c>(&self, text: &'c str) -> Option<(&'c str, &'c str)> {
        let text = match text.chars().next()? {
            'r' | 'b' | 'u' | 'R' | 'B' | 'U' => text.get(1..)?,
            _ => text,
        };
        let quote = text
            .chars()
            .next()
            .filter(|first| "'\"`".contains(*first))?;
        let inside = text.get(1..)?;
        let thrice = quote.to_string().repeat(2);
        let (body, rest) = match inside.strip_prefix(thrice.as_str()) {
            Some(longer) => longer.split_once(&quote.to_string().repeat(3))?,
            None => {
                let mut escaped = false;
                let end = inside.find(|character: char| {
                    let ends = character == quote && !escaped;
                    escaped = character == '\\' && !escaped;
                    ends
                })?;
                (inside.get(..end)?, inside.get(end + 1..)?)
            }
        };
        let has_variable =
            quote != '\'' && self.interpolates.iter().any(|start| body.contains(start));
        (!has_variable).then_some((body, rest))
    }

    /// Whether backticks, which run what they hold in these languages, hold a variable.
    fn has_unknown_backticks(&self, code: &str) -> bool {
        let runs = self.bare || self.names.contains(&"php");
        runs && code
            .split('`')
            .skip(1)
            .step_by(2)
            .any(|inside| self.interpolates.iter().any(|start| inside.contains(start)))
    }
}

/// Whether something is made of a list that stands there: `["r", "m x"].join("")`.
fn is_joined(list: &str) -> bool {
    let mut open = 1;
    let mut quote = None;
    let mut characters = list.chars();
    for character in characters.by_ref() {
        match (quote, character) {
            (Some(start), _) if character == start => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(character),
            (None, '[' | '(') => open += 1,
            (None, ']' | ')') => open -= 1,
            (None, _) => {}
        }
        if open == 0 {
            break;
        }
    }
    characters.as_str().trim_start().starts_with('.')
}

/// The values that a variable is set to.
fn assigned<'c>(code: &'c str, name: &str) -> impl Iterator<Item = &'c str> {
    code.match_indices(name).filter_map(move |(at, _)| {
        let before = code.get(..at)?;
        let after = code.get(at + name.len()..)?.trim_start();
        let value = after
            .strip_prefix('=')
            .filter(|rest| !rest.starts_with('='))?;
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        (!before.ends_with(is_word)).then(|| value.trim_start())
    })
}

/// Whether code is read from a file that a string names, as a script is.
fn reads_file(given: &str) -> bool {
    [
        "open(",
        "compile(open(",
        "readFileSync(",
        "fs.readFileSync(",
        "File.read",
        "file_get_contents(",
        "parse(\"",
    ]
    .iter()
    .any(|start| given.trim_start().starts_with(start))
}

/// The same of a program for awk: `system` with anything but a string, a pipe to or from anything but a string, and a
/// pipe to a shell.
fn awk_runs_unknown(program: &str) -> bool {
    let mut before = String::new();
    let mut rest = program;
    while let Some(character) = rest.chars().next() {
        let after = rest.get(character.len_utf8()..).unwrap_or_default();
        match character {
            '"' | '/' if character == '"' || starts_pattern(&before) => {
                let Some(end) = end_of(after, character) else {
                    return false;
                };
                before.push(character);
                before.push_str(after.get(..end).unwrap_or_default());
                before.push(character);
                rest = after.get(end + 1..).unwrap_or_default();
                continue;
            }
            '(' if before.trim_end().ends_with("system") && !is_string(after, &[')']) => {
                return true;
            }
            '|' if after.starts_with('|') => {
                before.push_str("||");
                rest = after.get(1..).unwrap_or_default();
                continue;
            }
            '|' => {
                let target = after.trim_start_matches('&').trim_start();
                let is_known = if target.starts_with("getline") {
                    ends_in_string(&before)
                } else {
                    is_string(target, &[';', '}', '\n', ')']) && !feeds_shell(target)
                };
                if !is_known {
                    return true;
                }
            }
            _ => {}
        }
        before.push(character);
        rest = after;
    }
    false
}

/// Whether a slash after this text starts a pattern.
fn starts_pattern(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with(['(', ',', '{', '}', ';', '!', '~', '&', '|', '\n'])
}

/// Where a string or pattern ends.
fn end_of(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.find(|character: char| {
        let ends = character == quote && !escaped;
        escaped = character == '\\' && !escaped;
        ends
    })
}

/// Whether a text starts with a string that ends before one of these, or with the text.
fn is_string(text: &str, ends: &[char]) -> bool {
    let Some(inside) = text.trim_start().strip_prefix('"') else {
        return false;
    };
    end_of(inside, '"').is_some_and(|end| {
        let rest = inside.get(end + 1..).unwrap_or_default();
        let rest = rest.trim_start_matches([' ', '\t']);
        rest.is_empty() || rest.starts_with(ends)
    })
}

/// Whether a text ends in a string that stands by itself.
fn ends_in_string(before: &str) -> bool {
    let Some(body) = before.trim_end().strip_suffix('"') else {
        return false;
    };
    body.rfind('"').is_some_and(|start| {
        let front = body
            .get(..start)
            .unwrap_or_default()
            .trim_end_matches([' ', '\t']);
        front.is_empty() || front.ends_with(['{', '}', ';', '(', '!', '=', '&', '|', '\n'])
    })
}

/// Whether a string names a shell, which runs what is printed to it.
fn feeds_shell(text: &str) -> bool {
    let inside = text.trim_start().trim_start_matches('"');
    let mut words = inside.split(|character: char| character.is_whitespace() || character == '"');
    words.next().is_some_and(|word| is_shell(base_name(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(program: &str, code: &str) -> bool {
        let words = [program, "-e", code].map(|word| Argument::Fixed(word.to_owned()));
        runs_unknown(&words)
    }

    #[test]
    fn texts_that_are_made_on_the_way_are_unknown() {
        for (program, code) in [
            ("python3", r#"import os; os.system("r" + "m -rf ~")"#),
            ("python3", r#"import os; os.system("r" "m -rf ~")"#),
            ("python3", r#"import os; os.system("%s -rf ~" % "rm")"#),
            ("python3", r#"import os; os.system("mr"[::-1])"#),
            ("python3", r#"import os; os.system(f"{x} ~")"#),
            (
                "python3",
                "import subprocess as s, sys; s.run(sys.argv[1], shell=True)",
            ),
            (
                "python3",
                r#"import subprocess; subprocess.run(["rm", "-rf", x])"#,
            ),
            (
                "python3",
                r#"import subprocess; subprocess.call(["sh", "-c", x])"#,
            ),
            ("python3", "exec(__import__('base64').b64decode('eA=='))"),
            ("python3", "import sys; exec(sys.stdin.read())"),
            ("python3", r#"x = "ls"; x = y; import os; os.system(x)"#),
            ("node", "eval(atob('eA=='))"),
            ("node", "new Function(process.argv[1])()"),
            ("node", "require('child_process').exec(process.argv[1])"),
            ("node", "require('child_process').execSync(`rm ${x}`)"),
            ("perl", "system $_"),
            ("perl", r#"system("rm -rf $F[0]")"#),
            ("perl", r#"system("r"."m")"#),
            ("perl", "exec @ARGV"),
            ("perl", "`$ARGV[0]`"),
            ("perl", r#"eval pack("H*", "726d")"#),
            ("ruby", "system $_"),
            ("ruby", r#"eval ["x"].pack("H*")"#),
            ("ruby", "`rm #{x}`"),
            ("php", r#"eval(base64_decode("x"));"#),
            ("php", "system($argv[1]);"),
            ("lua", "os.execute(arg[1])"),
            ("awk", "{ system($0) }"),
            ("awk", r#"{ system("rm " $1) }"#),
            ("awk", r#"{ print | "sh" }"#),
            ("gawk", r#"{ print |& "/bin/bash" }"#),
            ("awk", "{ print | $1 }"),
            ("awk", r#"{ "echo " $1 | getline x }"#),
            ("awk", "{ cmd | getline x }"),
        ] {
            assert!(runs(program, code), "{program}: {code}");
        }
    }

    #[test]
    fn texts_that_stand_there_are_known() {
        for (program, code) in [
            ("python3", r#"import os; os.system("ls")"#),
            ("python3", "print(1)"),
            (
                "python3",
                r#"import subprocess; subprocess.run(["gofmt", "-w", f], check=True)"#,
            ),
            (
                "python3",
                r#"import subprocess; c = ["git", "log"]; subprocess.run(c)"#,
            ),
            (
                "python3",
                r#"import subprocess; subprocess.run("ls -l".split())"#,
            ),
            (
                "python3",
                "import subprocess, sys; subprocess.run([sys.executable, '-m', 'x'])",
            ),
            (
                "python3",
                r#"import subprocess; subprocess.run(["rm", "a"], check=True)"#,
            ),
            ("python3", "exec(open('setup.py').read())"),
            (
                "python3",
                "model.eval(); ast.literal_eval(x); re.compile(y)",
            ),
            ("node", "const m = /x/.exec(s); console.log(m)"),
            (
                "node",
                "console.log(require('child_process').execSync('git log').toString())",
            ),
            ("perl", "s/a/b/"),
            ("perl", r#"system("ls") == 0 or die"#),
            ("perl", "eval { x() }; print $@"),
            ("perl", "print `git log`"),
            ("ruby", "puts `git log`"),
            ("ruby", "obj.instance_eval { x }"),
            ("php", r#"echo shell_exec("ls");"#),
            ("awk", "/a|b/ { print > \"out\" }"),
            ("awk", r#"{ print $1 | "sort" }"#),
            ("awk", r#"BEGIN { "date" | getline x; print x }"#),
            ("awk", r#"{ system("ls") }"#),
            ("awk", "x || y { print }"),
        ] {
            assert!(!runs(program, code), "{program}: {code}");
        }
    }
}
