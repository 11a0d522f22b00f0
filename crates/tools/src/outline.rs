//! The outline of a source file: the lines where something is declared, for a reader who can't have all of it.

use regex::Regex;
use std::path::Path;

/// The most that an outline holds, in bytes.
const MOST_BYTES: usize = 6 * 1024;
/// How much of a declaration is shown.
const LONGEST_LINE: usize = 120;

/// Patterns of declarations, by file extension.
const LANGUAGES: [(&[&str], &str); 10] = [
    (
        &["rs"],
        r#"^\s{0,8}(?:pub(?:\([^)]*\))?\s+)?(?:(?:default|async|unsafe|const|extern\s+"[^"]*")\s+)*(?:fn|struct|enum|union|trait|impl|mod|type|macro_rules!)\b"#,
    ),
    (&["py", "pyi"], r"^\s{0,8}(?:async\s+def|def|class)\s"),
    (
        &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"],
        r"^\s{0,4}(?:(?:export|default|declare|abstract|async)\s+)*(?:function\b|class\s|interface\s|enum\s|namespace\s|type\s+\w+\s*[=<]|(?:const|let|var)\s+\w+\s*(?::[^=]+)?=\s*(?:async\s*)?(?:\(|function\b|\w+\s*=>))",
    ),
    (&["go"], r"^(?:func|type)\s"),
    (
        &["java", "kt", "kts", "cs", "swift", "scala"],
        r"^\s{0,8}(?:(?:public|private|protected|internal|open|static|final|abstract|sealed|override|data|suspend|async|virtual|partial|case|inline|mutating|fileprivate)\s+)*(?:(?:class|interface|enum|record|fun|func|struct|protocol|extension|object|trait|namespace|def)\s)|^\s{2,8}(?:public|private|protected)\s[^;=]*\([^;]*$",
    ),
    (
        &["c", "h", "cc", "cpp", "cxx", "hpp", "hh", "m", "mm"],
        r"^(?:(?:static|inline|extern|const)\s+)*(?:struct|class|enum|union|namespace|typedef|template)\b|^[A-Za-z_][\w\s*&:<>,~]*\([^;]*$",
    ),
    (&["rb"], r"^\s{0,8}(?:def|class|module)\s"),
    (
        &["php"],
        r"^\s{0,8}(?:(?:public|private|protected|static|abstract|final)\s+)*(?:function|class|interface|trait|enum)\s",
    ),
    (&["md", "markdown"], r"^#{1,4}\s"),
    (
        &["sh", "bash", "zsh", "lua"],
        r"^\s{0,4}(?:local\s+)?function\s|^[\w-]+\s*\(\)\s*\{?",
    ),
];

/// The declarations of a file after a line, one per line with its number. `None` where the language isn't known or
/// nothing is declared.
pub(crate) fn outline(text: &str, path: &Path, after: usize) -> Option<String> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let (_, pattern) = LANGUAGES
        .iter()
        .find(|(endings, _)| endings.contains(&ending.as_str()))?;
    let pattern = Regex::new(pattern).ok()?;
    let mut found: Vec<(usize, usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate().skip(after) {
        // A line of megabytes is no declaration.
        let start = line.get(..line.floor_char_boundary(400)).unwrap_or(line);
        if pattern.is_match(start) {
            let indent = start.len() - start.trim_start().len();
            let shown: String = start
                .trim_end()
                .trim_end_matches(['{', ':'])
                .trim_end()
                .chars()
                .take(LONGEST_LINE)
                .collect();
            found.push((index + 1, indent, shown));
        }
    }
    shortened(&mut found);
    let lines: Vec<String> = found
        .iter()
        .map(|(number, _, line)| format!("{number}: {line}"))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Leaves out the innermost declarations until the rest fits, then the last ones.
fn shortened(found: &mut Vec<(usize, usize, String)>) {
    let size = |found: &[(usize, usize, String)]| -> usize {
        found.iter().map(|(_, _, line)| line.len() + 9).sum()
    };
    while size(found) > MOST_BYTES {
        match found.iter().map(|(_, indent, _)| *indent).max() {
            Some(deepest) if deepest > 0 => found.retain(|(_, indent, _)| *indent < deepest),
            _ => {
                let half = found.len() * 9 / 10;
                found.truncate(half);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> String {
        outline(text, Path::new(name), 0).unwrap_or_default()
    }

    #[test]
    fn declarations_are_found_by_language() {
        let cases = [
            (
                "a.rs",
                "use x;\npub(crate) async fn one() {\n    let fnord = 1;\n}\nimpl A for B {\n    fn two(&self) {}\n}\n",
                "2: pub(crate) async fn one()\n5: impl A for B\n6:     fn two(&self) {}",
            ),
            (
                "a.py",
                "import x\nclass A:\n    def b(self):\n        pass\n",
                "2: class A\n3:     def b(self)",
            ),
            (
                "a.ts",
                "export const f = (a) => 1;\nconst n = 5;\nexport default class X {\n",
                "1: export const f = (a) => 1;\n3: export default class X",
            ),
            (
                "a.go",
                "package x\nfunc (a *A) B() {\ntype T struct {\n",
                "2: func (a *A) B()\n3: type T struct",
            ),
            (
                "A.java",
                "public class A {\n    private int b(int c) {\n        call(1);\n",
                "1: public class A\n2:     private int b(int c)",
            ),
            (
                "a.c",
                "#include <x>\nstatic int f(int a)\n{\n    g(a);\nstruct s {\n",
                "2: static int f(int a)\n5: struct s",
            ),
            ("a.md", "# One\ntext\n## Two\n", "1: # One\n3: ## Two"),
            ("a.sh", "set -e\nrun() {\n", "2: run()"),
            ("a.rb", "module A\n  def b\n", "1: module A\n2:   def b"),
            ("a.txt", "fn one() {}\n", ""),
            ("Makefile", "all:\n", ""),
        ];
        for (name, text, expected) in cases {
            assert_eq!(of(name, text), expected, "{name}");
        }
    }

    #[test]
    fn a_long_outline_keeps_the_outermost() {
        let text: String = (0..500)
            .map(|at| format!("impl Thing{at} {{\n    fn inner{at}() {{}}\n}}\n"))
            .collect();
        let outline = of("a.rs", &text);
        assert!(outline.len() <= MOST_BYTES, "{}", outline.len());
        assert!(
            outline.contains("impl Thing0") && !outline.contains("inner"),
            "{outline}"
        );
    }

    #[test]
    fn what_was_shown_is_not_repeated() {
        let text = "fn a() {}\nfn b() {}\nfn c() {}\n";
        assert_eq!(outline(text, Path::new("x.rs"), 2).unwrap(), "3: fn c() {}");
        assert_eq!(outline(text, Path::new("x.rs"), 3), None);
    }
}
