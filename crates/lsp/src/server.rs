//! One running server: its start, the files that are open at it, and what it knows of them.

use crate::config::ServerConfig;
use crate::connection::Connection;
use crate::diagnostics::{Problem, read_list, to_columns};
use crate::error::LspError;
use crate::inbox::Inbox;
use crate::limits::{
    AFTER_SAVE, AGAIN, CHECK, CHECK_OF_QUIET, FILE_BYTES, INDEXING, OPEN_FILES, REQUEST, SETTLED,
    YOUNG,
};
use crate::manager::Surroundings;
use crate::position::{Encoding, from_uri, to_uri};
use crate::process;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The file was changed while the server thought about it.
const CONTENT_MODIFIED: i64 = -32801;
/// The server gave up by itself and may be asked again.
const SERVER_CANCELLED: i64 = -32802;

/// A running server.
pub(crate) struct Server {
    pub(crate) config: Arc<ServerConfig>,
    connection: Connection,
    inbox: Arc<Inbox>,
    capabilities: Value,
    pub(crate) encoding: Encoding,
    documents: tokio::sync::Mutex<Documents>,
    started: Instant,
    /// True if it didn't report anything after the last change.
    quiet: AtomicBool,
}

#[derive(Default)]
struct Documents {
    open: HashMap<PathBuf, Document>,
    /// Incremented with every use.
    clock: u64,
}

struct Document {
    version: i64,
    hash: u64,
    used: u64,
}

/// A file as the server knows it now.
pub(crate) struct Shown {
    pub(crate) version: i64,
    pub(crate) text: String,
    /// True if the server didn't have this version yet.
    pub(crate) news: bool,
    /// The sequence number of reports before it was shown.
    pub(crate) mark: u64,
}

impl Server {
    /// Starts a server in a folder and waits until it is initialised. If that fails, its process is gone when this
    /// returns.
    pub(crate) async fn start(
        config: Arc<ServerConfig>,
        root: &Path,
        surroundings: &Surroundings,
        closing: &CancellationToken,
    ) -> Result<Self, LspError> {
        let failed = |reason: String| LspError::Start {
            name: config.name.clone(),
            reason,
        };
        let version = &surroundings.version;
        let process = process::start(&config, root, surroundings)
            .map_err(|error| failed(error.to_string()))?;
        let folder = json!({
            "uri": to_uri(root),
            "name": root.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned()),
        });
        let inbox = Arc::new(Inbox::new(config.settings.clone(), json!([folder.clone()])));
        let connection = Connection::new(
            &config.name,
            process,
            inbox.clone(),
            config.shutdown_timeout,
        );
        let params = json!({
            "processId": std::process::id(),
            "clientInfo": {"name": "lathe", "version": version},
            "rootPath": root,
            "rootUri": to_uri(root),
            "workspaceFolders": [folder],
            "capabilities": client_capabilities(),
            "initializationOptions": config.initialization_options,
            "trace": "off",
        });
        let limit = config.startup_timeout;
        let answer = connection
            .request("initialize", params, limit, closing)
            .await;
        if answer.is_err() {
            connection.kill().await;
        }
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(LspError::Ended { reason, .. }) => {
                return Err(failed(format!("it ended: {reason}")));
            }
            Err(LspError::TimedOut { .. }) => {
                return Err(failed(format!(
                    "it has not answered within {} s",
                    limit.as_secs_f64()
                )));
            }
            Err(LspError::Cancelled) => return Err(LspError::Cancelled),
            Err(other) => return Err(failed(other.to_string())),
        };
        let capabilities = answer["capabilities"].take();
        let encoding = capabilities
            .get("positionEncoding")
            .and_then(Value::as_str)
            .and_then(Encoding::named)
            .unwrap_or_default();
        connection.notify("initialized", &json!({}));
        if let Some(settings) = &config.settings {
            connection.notify(
                "workspace/didChangeConfiguration",
                &json!({"settings": settings}),
            );
        }
        Ok(Self {
            config,
            connection,
            inbox,
            capabilities,
            encoding,
            documents: tokio::sync::Mutex::default(),
            started: Instant::now(),
            quiet: AtomicBool::new(false),
        })
    }

    /// True once requests are no longer possible.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_over()
    }

    /// How it ended.
    pub(crate) async fn ending(&self) -> LspError {
        self.connection.ending().await
    }

    /// True while it reports work in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.inbox.is_busy()
    }

    /// Ends it.
    pub(crate) async fn close(&self) {
        self.connection.close(self.config.shutdown_timeout).await;
    }

    /// True if it has a capability: declared at initialisation (`key`) or registered later (`method`).
    pub(crate) fn can(&self, key: &str, method: &str) -> bool {
        let said = self.capabilities.get(key);
        said.is_some_and(|value| !value.is_null() && *value != Value::Bool(false))
            || self.inbox.has_registered(method)
    }

    /// A part of the capabilities that it declared.
    pub(crate) fn capability(&self, pointer: &str) -> Option<&Value> {
        self.capabilities.pointer(pointer)
    }

    /// Shows it a file as it is on disk, if it doesn't know it so.
    pub(crate) async fn show(&self, path: &Path) -> Result<Shown, LspError> {
        match read_text(path).await {
            Ok(text) => Ok(self.show_text(path, text).await),
            Err(error) => {
                self.hide(path).await;
                Err(LspError::Question(error.to_string()))
            }
        }
    }

    /// Shows it a text as that of a file.
    pub(crate) async fn show_text(&self, path: &Path, text: String) -> Shown {
        let hash = hash_of(&text);
        let mut documents = self.documents.lock().await;
        documents.clock += 1;
        let used = documents.clock;
        let mark = self.inbox.mark();
        let uri = to_uri(path);
        let (version, news) = match documents.open.get_mut(path) {
            Some(document) => {
                document.used = used;
                let news = document.hash != hash;
                if news {
                    document.version += 1;
                    document.hash = hash;
                    self.connection.notify(
                        "textDocument/didChange",
                        &json!({
                            "textDocument": {"uri": uri, "version": document.version},
                            "contentChanges": [{"text": text}],
                        }),
                    );
                }
                (document.version, news)
            }
            None => {
                let language = self.config.language_of(path).unwrap_or("plaintext");
                self.connection.notify(
                    "textDocument/didOpen",
                    &json!({"textDocument": {
                        "uri": uri, "languageId": language, "version": 1, "text": text,
                    }}),
                );
                let document = Document {
                    version: 1,
                    hash,
                    used,
                };
                documents.open.insert(path.to_owned(), document);
                self.close_oldest(&mut documents);
                (1, true)
            }
        };
        Shown {
            version,
            text,
            news,
            mark,
        }
    }

    fn close_oldest(&self, documents: &mut Documents) {
        if documents.open.len() <= OPEN_FILES {
            return;
        }
        let oldest = documents
            .open
            .iter()
            .min_by_key(|(_, document)| document.used)
            .map(|(path, _)| path.clone());
        if let Some(path) = oldest {
            self.close_document(documents, &path);
        }
    }

    fn close_document(&self, documents: &mut Documents, path: &Path) {
        if documents.open.remove(path).is_some() {
            let uri = to_uri(path);
            self.connection.notify(
                "textDocument/didClose",
                &json!({"textDocument": {"uri": uri}}),
            );
            self.inbox.forget(path);
        }
    }

    /// A file is gone.
    async fn hide(&self, path: &Path) {
        let mut documents = self.documents.lock().await;
        self.close_document(&mut documents, path);
    }

    /// Whether a file is open at the server.
    pub(crate) async fn is_open(&self, path: &Path) -> bool {
        self.documents.lock().await.open.contains_key(path)
    }

    /// Shows it all open files as they are on disk: somebody else may have changed them.
    pub(crate) async fn show_changes(&self) {
        let open: Vec<PathBuf> = self.documents.lock().await.open.keys().cloned().collect();
        for path in open {
            // One that can't be read has been closed.
            let _ = self.show(&path).await;
        }
    }

    /// Tells it that files changed on disk: one that is open is also shown anew, and saved.
    pub(crate) async fn files_changed(&self, changed: &[(PathBuf, Change)]) {
        let list: Vec<Value> = changed
            .iter()
            .map(|(path, change)| json!({"uri": to_uri(path), "type": *change as u8}))
            .collect();
        self.connection
            .notify("workspace/didChangeWatchedFiles", &json!({"changes": list}));
        for (path, _) in changed {
            if self.is_open(path).await && self.show(path).await.is_ok() {
                self.saved(path);
            }
        }
    }

    /// Tells it that an open file was saved.
    pub(crate) fn saved(&self, path: &Path) {
        self.connection.notify(
            "textDocument/didSave",
            &json!({"textDocument": {"uri": to_uri(path)}}),
        );
    }

    /// Waits until it reports no work in progress.
    pub(crate) async fn idle(&self, limit: Duration, cancel: &CancellationToken) {
        let mut changes = self.inbox.changes();
        let waits = async {
            while self.inbox.is_busy() && !self.is_over() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = waits => {}
            () = cancel.cancelled() => {}
            () = tokio::time::sleep(limit) => {}
        }
    }

    /// Sends a request. Retries while the answer is empty because the server is still indexing, or if the server
    /// asked to retry.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: &Value,
        cancel: &CancellationToken,
    ) -> Result<Value, LspError> {
        let deadline = Instant::now() + INDEXING;
        loop {
            let mut changes = self.inbox.changes();
            let answer = self
                .connection
                .request(method, params.clone(), REQUEST, cancel)
                .await;
            let again = match &answer {
                Ok(value) => {
                    is_empty(value) && (self.inbox.is_busy() || self.started.elapsed() < YOUNG)
                }
                Err(LspError::Refused { code, .. }) => {
                    [CONTENT_MODIFIED, SERVER_CANCELLED].contains(code)
                }
                Err(_) => false,
            };
            if !again || Instant::now() >= deadline {
                return answer;
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                _ = changes.changed() => {}
                () = cancel.cancelled() => return Err(LspError::Cancelled),
            }
        }
    }

    /// True if problems are pulled from it rather than pushed by it.
    pub(crate) fn is_asked(&self) -> bool {
        self.can("diagnosticProvider", "textDocument/diagnostic")
    }

    /// Waits until the server has reported on a file that it was shown; false on a timeout.
    pub(crate) async fn judged(
        &self,
        path: &Path,
        shown: &Shown,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> bool {
        let judged = async {
            if self.is_asked() {
                self.pull(path, limit, cancel).await
            } else {
                self.reports_settled(path, shown).await;
                true
            }
        };
        tokio::select! {
            judged = judged => judged,
            () = tokio::time::sleep(limit) => false,
            () = cancel.cancelled() => false,
        }
    }

    /// As [`Self::judged`], after a change. The wait is shorter for a server that reported nothing the last time:
    /// some report only problems.
    pub(crate) async fn judged_again(&self, path: &Path, shown: &Shown) {
        let limit = if self.quiet.load(Ordering::Relaxed) {
            CHECK_OF_QUIET
        } else {
            CHECK
        };
        let nobody = CancellationToken::new();
        let judged = self.judged(path, shown, limit, &nobody).await;
        self.quiet.store(!judged, Ordering::Relaxed);
        if self.is_asked() && self.inbox.speaks() {
            // Some answer pulls with their own problems and push the compiler's after a save.
            let _ = tokio::time::timeout(CHECK, self.still()).await;
        }
    }

    /// Waits until it has been idle and silent for a moment.
    async fn still(&self) {
        let mut changes = self.inbox.changes();
        while !self.is_over() {
            let wait = if self.is_busy() { CHECK } else { AFTER_SAVE };
            if tokio::time::timeout(wait, changes.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Waits for the server's own report and until no more follow.
    async fn reports_settled(&self, path: &Path, shown: &Shown) {
        let mut changes = self.inbox.changes();
        loop {
            let reported = !shown.news || self.inbox.was_reported(path, shown.mark, shown.version);
            let wait = if reported && !self.inbox.is_busy() {
                SETTLED
            } else {
                CHECK
            };
            match tokio::time::timeout(wait, changes.changed()).await {
                Ok(Ok(())) if !self.is_over() => {}
                _ => return,
            }
        }
    }

    /// Asks for the problems of a file.
    async fn pull(&self, path: &Path, limit: Duration, cancel: &CancellationToken) -> bool {
        let mut params = json!({"textDocument": {"uri": to_uri(path)}});
        if let Some(identifier) = self.capabilities.pointer("/diagnosticProvider/identifier") {
            params["identifier"] = identifier.clone();
        }
        loop {
            let mut changes = self.inbox.changes();
            let refreshes = self.inbox.refreshes();
            let answer = self
                .connection
                .request("textDocument/diagnostic", params.clone(), limit, cancel)
                .await;
            match answer {
                Ok(report) => {
                    self.keep_report(path.to_owned(), &report);
                    let related = report.get("relatedDocuments").and_then(Value::as_object);
                    for (uri, report) in related.into_iter().flatten() {
                        if let Some(path) = from_uri(uri) {
                            self.keep_report(path, report);
                        }
                    }
                    if self.inbox.refreshes() == refreshes {
                        return true;
                    }
                }
                Err(LspError::Refused { code, .. })
                    if [CONTENT_MODIFIED, SERVER_CANCELLED].contains(&code) =>
                {
                    let _ = tokio::time::timeout(AGAIN, changes.changed()).await;
                }
                Err(_) => return false,
            }
        }
    }

    /// The problems of a file as the server wrote them.
    pub(crate) fn written(&self, path: &Path) -> Vec<Value> {
        self.inbox.written(path)
    }

    fn keep_report(&self, path: PathBuf, report: &Value) {
        // A report without a list says that nothing has changed.
        if let Some(items) = report.get("items") {
            self.inbox.keep_written(&path, items);
            self.inbox.keep_answer(path, read_list(items));
        }
    }

    /// The problems that the server has reported for a file, worst first.
    pub(crate) async fn problems(&self, path: &Path) -> Vec<Problem> {
        let mut problems = self.inbox.problems(path);
        if problems.is_empty() {
            return problems;
        }
        let text = read_text(path).await.unwrap_or_default();
        to_columns(&mut problems, &text, self.encoding);
        problems.sort_by_key(|problem| (problem.severity, problem.line, problem.column));
        problems
    }
}

/// A change of a file, with the protocol's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Created = 1,
    Changed = 2,
    Deleted = 3,
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Why a file can't be shown to a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    #[error(
        "{} is larger than {} MB, too large for a language server",
        .0.display(),
        FILE_BYTES / 1024 / 1024
    )]
    TooLarge(PathBuf),
    #[error("{} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
}

/// The text of a file.
pub(crate) async fn read_text(path: &Path) -> Result<String, FileError> {
    let file = path.to_owned();
    let read = move || read_text_now(&file);
    match lathe_spawn::blocking(read).await {
        Ok(text) => text,
        Err(error) => Err(FileError::Io {
            path: path.to_owned(),
            source: std::io::Error::other(error),
        }),
    }
}

/// As [`read_text`], on a thread that may block.
pub(crate) fn read_text_now(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::Io {
        path: path.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile(path.to_owned()));
    }
    if metadata.len() > FILE_BYTES {
        return Err(FileError::TooLarge(path.to_owned()));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| FileError::NotText(path.to_owned()))
}

/// Our client capabilities.
fn client_capabilities() -> Value {
    let link = json!({"dynamicRegistration": false, "linkSupport": true});
    let plain = json!({"dynamicRegistration": false});
    let kinds: Vec<u8> = (1..=26).collect();
    json!({
        "general": {
            "positionEncodings": ["utf-8", "utf-16", "utf-32"],
            "staleRequestSupport": {"cancel": true, "retryOnContentModified": []},
            "markdown": {"parser": "CommonMark"},
        },
        "window": {"workDoneProgress": true, "showMessage": {}, "showDocument": {"support": false}},
        "workspace": {
            "applyEdit": false,
            "workspaceEdit": {"documentChanges": true, "failureHandling": "abort"},
            "workspaceFolders": true,
            "configuration": true,
            "didChangeConfiguration": plain,
            // Servers that get no word of changes from us look for themselves.
            "didChangeWatchedFiles": {"dynamicRegistration": false},
            "symbol": {"dynamicRegistration": false, "symbolKind": {"valueSet": kinds}},
            "diagnostics": {"refreshSupport": true},
        },
        "textDocument": {
            "synchronization": {
                "dynamicRegistration": false, "willSave": false, "willSaveWaitUntil": false, "didSave": true,
            },
            "definition": link,
            "implementation": link,
            "references": plain,
            "rename": {"dynamicRegistration": false, "prepareSupport": false},
            "codeAction": {
                "dynamicRegistration": false,
                "dataSupport": true,
                "disabledSupport": true,
                "isPreferredSupport": true,
                "resolveSupport": {"properties": ["edit"]},
                "codeActionLiteralSupport": {"codeActionKind": {"valueSet": [
                    "", "quickfix", "refactor", "refactor.extract", "refactor.inline", "refactor.rewrite", "source",
                    "source.organizeImports", "source.fixAll",
                ]}},
            },
            "callHierarchy": plain,
            "hover": {"dynamicRegistration": false, "contentFormat": ["markdown", "plaintext"]},
            "documentSymbol": {
                "dynamicRegistration": false,
                "hierarchicalDocumentSymbolSupport": true,
                "symbolKind": {"valueSet": kinds},
            },
            "publishDiagnostics": {
                "relatedInformation": false, "versionSupport": true, "codeDescriptionSupport": false,
            },
            "diagnostic": {"dynamicRegistration": false, "relatedDocumentSupport": true},
        },
    })
}
