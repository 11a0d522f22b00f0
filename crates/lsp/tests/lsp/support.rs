//! A folder with files in it, and servers for them.

use lathe_lsp::{
    Conversation, EditOrder, FileChange, LanguageServers, LspError, Operation, QueryAnswer,
    Question, Servers, Surroundings, tell,
};
use lathe_settings::Environment;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Long enough for the slowest machine: only a hang takes so long.
pub(crate) const LONG: Duration = Duration::from_secs(120);

pub(crate) struct Work {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) servers: LanguageServers,
    pub(crate) problems: Arc<Mutex<Vec<String>>>,
    pub(crate) conversation: Conversation,
}

pub(crate) fn fixture() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/server.py");
    path.to_str().unwrap().to_owned()
}

/// An entry for the scripted server.
pub(crate) fn scripted(root: &Path, mode: &str) -> Value {
    json!({
        "command": "python3",
        "args": [fixture(), mode],
        "extensionToLanguage": {".words": "words"},
        "env": {"LSP_LOG": root.join("log"), "LSP_FOLDER": root, "OWN": "yes"},
    })
}

impl Work {
    /// A folder with one scripted server.
    pub(crate) fn new(mode: &str) -> Self {
        Self::with(|root| json!({"scripted": scripted(root, mode)}))
    }

    pub(crate) fn with(servers: impl FnOnce(&Path) -> Value) -> Self {
        Self::patient(servers, Some(LONG))
    }

    pub(crate) fn patient(servers: impl FnOnce(&Path) -> Value, news: Option<Duration>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let configs = serde_json::from_value(servers(&root)).unwrap();
        let servers = Servers::new(&configs, &[]);
        assert_eq!(servers.problems, Vec::<String>::new());
        let mut environment = Environment {
            cwd: root.clone(),
            ..Environment::default()
        };
        for name in ["PATH", "HOME"] {
            let value = std::env::var(name).unwrap();
            environment.variables.insert(name.to_owned(), value);
        }
        environment
            .variables
            .insert("ANTHROPIC_API_KEY".to_owned(), "secret".to_owned());
        let problems = Arc::new(Mutex::new(Vec::new()));
        let (told, roots) = (problems.clone(), vec![root.clone()]);
        let servers = LanguageServers::new(
            servers,
            Surroundings {
                confine: Arc::new(Ok),
                environment,
                version: "0".to_owned(),
                roots: Box::new(move || roots.clone()),
                on_problem: Box::new(move |text| told.lock().push(text)),
            },
            news,
        );
        let conversation = servers.conversation();
        Self {
            _folder: folder,
            root,
            servers,
            problems,
            conversation,
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Changes a file as our tools do.
    pub(crate) fn edit(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        self.servers.before_edit(&path);
        self.write(name, text);
        let runtime = tokio::runtime::Handle::current();
        self.servers.after_edit(&path, self.conversation, &runtime);
    }

    /// The text that the model would get now.
    pub(crate) async fn news(&self) -> String {
        let cancel = CancellationToken::new();
        let news = self.servers.news(self.conversation, &cancel).await;
        tell(&news, &|path| self.shown(path)).unwrap_or_default()
    }

    pub(crate) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }

    pub(crate) async fn ask(
        &self,
        operation: Operation,
        name: &str,
        line: u32,
        character: u32,
    ) -> Result<QueryAnswer, LspError> {
        let question = Question {
            operation,
            path: self.root.join(name),
            line: Some(line),
            character: Some(character),
            query: Some("Outer".to_owned()),
        };
        let cancel = CancellationToken::new();
        tokio::time::timeout(LONG, self.servers.ask(&question, &cancel))
            .await
            .expect("an answer or an error")
    }

    /// The edit that a server works out for a symbol in a line.
    pub(crate) async fn edited(
        &self,
        name: &str,
        place: Option<(u32, &str)>,
        order: &EditOrder,
    ) -> Result<Vec<FileChange>, LspError> {
        let question = Question {
            operation: order.operation(),
            path: self.root.join(name),
            line: place.map(|(line, _)| line),
            character: None,
            query: place.map(|(_, symbol)| symbol.to_owned()),
        };
        let cancel = CancellationToken::new();
        tokio::time::timeout(LONG, self.servers.edit(&question, order, &cancel))
            .await
            .expect("an answer or an error")
    }

    pub(crate) async fn hover(&self) -> Result<String, LspError> {
        match self.ask(Operation::Hover, "a.words", 1, 1).await? {
            QueryAnswer::Text(text) => Ok(text),
            other => panic!("{other:?}"),
        }
    }

    /// The messages to the scripted server, by method.
    pub(crate) fn sent(&self, method: &str) -> Vec<Value> {
        self.log()
            .into_iter()
            .filter(|entry| entry["method"] == method)
            .collect()
    }

    pub(crate) fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.root.join("log")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The processes of the scripted server, in the order of their starts.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.log()
            .iter()
            .filter_map(|entry| i32::try_from(entry["started"].as_i64()?).ok())
            .collect()
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waits).await.expect(what);
}

/// Whether a process is there.
pub(crate) fn is_alive(process: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), None).is_ok()
}
