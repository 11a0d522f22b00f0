//! Servers that people use.

use crate::support::Work;
use lathe_lsp::{EditOrder, LspError, Operation, QueryAnswer};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Where `scripts/setup-tests` puts the servers.
fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-packages"),
        PathBuf::from,
    );
    let program = folder.join("lsp/node_modules/.bin").join(name);
    assert!(
        program.is_file(),
        "{} is not there: run scripts/setup-tests",
        program.display()
    );
    program.canonicalize().unwrap()
}

const PYTHON: &str = "def greet(name: str) -> str:
    return 'Hello ' + name


def main() -> None:
    print(greet('é😀'), greet('x'))
";

#[tokio::test]
async fn pyright_answers_and_reports() {
    let work = pyright();
    work.write("app.py", PYTHON);
    // Behind two characters that take more units than one.
    let answer = work
        .ask(Operation::GoToDefinition, "app.py", 6, 26)
        .await
        .unwrap();
    match answer {
        QueryAnswer::Places(places) => {
            let shown = (
                work.shown(&places[0].path),
                places[0].line,
                places[0].column,
            );
            assert_eq!(shown, ("app.py".to_owned(), 1, 5));
            assert_eq!(places[0].text, "def greet(name: str) -> str:");
        }
        other => panic!("{other:?}"),
    }
    match work.ask(Operation::Hover, "app.py", 6, 12).await.unwrap() {
        QueryAnswer::Text(text) => assert!(text.contains("(name: str) -> str"), "{text}"),
        other => panic!("{other:?}"),
    }
    match work
        .ask(Operation::FindReferences, "app.py", 1, 5)
        .await
        .unwrap()
    {
        QueryAnswer::Places(places) => assert_eq!(places.len(), 3),
        other => panic!("{other:?}"),
    }
    match work
        .ask(Operation::IncomingCalls, "app.py", 1, 5)
        .await
        .unwrap()
    {
        QueryAnswer::Calls(calls) => assert_eq!(calls[0].0.name, "main"),
        other => panic!("{other:?}"),
    }
    work.edit("app.py", &PYTHON.replace("greet('x')", "greet(7)"));
    let news = work.news().await;
    assert!(news.contains("app.py\n  6:"), "{news}");
    assert!(
        news.contains("error:") && news.contains("reportArgumentType"),
        "{news}"
    );
    work.servers.shut_down().await;
    assert!(work.problems.lock().is_empty());
}

#[tokio::test]
async fn typescript_answers_and_is_asked_for_problems() {
    let work = typescript();
    work.write("tsconfig.json", "{}");
    let text =
        "export function twice(x: number): number {\n  return x * 2;\n}\nconsole.log(twice(2));\n";
    work.write("a.ts", text);
    match work
        .ask(Operation::GoToDefinition, "a.ts", 4, 13)
        .await
        .unwrap()
    {
        QueryAnswer::Places(places) => assert_eq!((places[0].line, places[0].column), (1, 17)),
        other => panic!("{other:?}"),
    }
    match work
        .ask(Operation::DocumentSymbol, "a.ts", 1, 1)
        .await
        .unwrap()
    {
        QueryAnswer::Symbols(symbols) => assert_eq!(symbols[0].name, "twice"),
        other => panic!("{other:?}"),
    }
    work.edit("a.ts", &text.replace("twice(2)", "twice('two')"));
    let news = work.news().await;
    assert!(news.contains("a.ts\n  4:19 error:"), "{news}");
    work.servers.shut_down().await;
}

fn pyright() -> Work {
    Work::with(|_| {
        json!({"pyright": {
            "command": program("pyright-langserver"), "args": ["--stdio"],
            "extensionToLanguage": {".py": "python"},
        }})
    })
}

fn typescript() -> Work {
    Work::with(|_| {
        json!({"typescript": {
            "command": program("tsc"), "args": ["--lsp", "--stdio"],
            "extensionToLanguage": {".ts": "typescript"},
        }})
    })
}

#[tokio::test]
async fn pyright_renames_over_files_and_replaces_a_symbol() {
    let work = pyright();
    work.write("shop.py", "class Cart:\n    def total(self) -> int:\n        return 1\n\n\ndef é😀() -> int: return Cart().total()\n".replace("é😀", "éa").as_str());
    work.write(
        "app.py",
        "from shop import Cart\n\nprint(\"😀\", Cart().total())\n",
    );
    let rename = EditOrder::Rename {
        new_name: "sum".to_owned(),
    };
    let changes = work
        .edited("shop.py", Some((2, "total")), &rename)
        .await
        .unwrap();
    let texts: Vec<(String, String)> = changes
        .iter()
        .map(|change| (work.shown(&change.path), change.after.clone()))
        .collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    for (name, text) in &texts {
        assert!(
            text.contains("sum(") && !text.contains("total"),
            "{name}: {text}"
        );
    }
    assert!(
        texts[0].1.contains("print(\"😀\", Cart().sum())"),
        "{texts:?}"
    );
    let replace = EditOrder::ReplaceSymbol {
        symbol: "Cart.total".to_owned(),
        text: "    def total(self) -> int:\n        return 2\n".to_owned(),
    };
    let changes = work.edited("shop.py", None, &replace).await.unwrap();
    assert!(
        changes[0]
            .after
            .starts_with("class Cart:\n    def total(self) -> int:\n        return 2\n\n\ndef"),
        "{changes:?}"
    );
    // Nothing was written.
    assert!(
        std::fs::read_to_string(work.root.join("app.py"))
            .unwrap()
            .contains("total")
    );
    let nothing = work.edited("app.py", Some((2, "")), &rename).await;
    assert!(matches!(nothing, Err(LspError::Question(_))), "{nothing:?}");
    work.servers.shut_down().await;
}

#[tokio::test]
async fn typescript_renames_and_fixes_a_missing_import() {
    let work = typescript();
    work.write("tsconfig.json", "{}");
    work.write(
        "a.ts",
        "export function twice(x: number): number {\n  return x * 2;\n}\n",
    );
    work.write("b.ts", "console.log(twice(2));\n");
    match work
        .ask(Operation::CodeActions, "b.ts", 1, 13)
        .await
        .unwrap()
    {
        QueryAnswer::Actions(actions) => {
            let import = actions
                .iter()
                .find(|action| action.title.contains("import"));
            let import = import.unwrap_or_else(|| panic!("{actions:?}"));
            assert_eq!(import.refused, None);
            let fix = EditOrder::CodeAction {
                title: import.title.clone(),
            };
            let changes = work.edited("b.ts", Some((1, "twice")), &fix).await.unwrap();
            assert_eq!(changes.len(), 1);
            assert!(
                changes[0].after.contains("import { twice } from"),
                "{changes:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    work.write(
        "b.ts",
        "import { twice } from './a';\r\nconsole.log(twice(2));\r\n",
    );
    let rename = EditOrder::Rename {
        new_name: "double".to_owned(),
    };
    let changes = work
        .edited("a.ts", Some((1, "twice")), &rename)
        .await
        .unwrap();
    let of_b = changes.iter().find(|change| change.path.ends_with("b.ts"));
    let of_b = &of_b.unwrap_or_else(|| panic!("{changes:?}")).after;
    assert_eq!(
        of_b,
        "import { double } from './a';\r\nconsole.log(double(2));\r\n"
    );
    let none = EditOrder::CodeAction {
        title: "no such action".to_owned(),
    };
    let error = work
        .edited("a.ts", Some((1, "twice")), &none)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no code action"), "{error}");
    work.servers.shut_down().await;
}
