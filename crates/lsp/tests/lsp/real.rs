//! Servers that people use.

use crate::support::Work;
use lathe_lsp::{Operation, QueryAnswer};
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
    let work = Work::with(|_| {
        json!({"pyright": {
            "command": program("pyright-langserver"), "args": ["--stdio"],
            "extensionToLanguage": {".py": "python"},
        }})
    });
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
    let work = Work::with(|_| {
        json!({"typescript": {
            "command": program("tsc"), "args": ["--lsp", "--stdio"],
            "extensionToLanguage": {".ts": "typescript"},
        }})
    });
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
