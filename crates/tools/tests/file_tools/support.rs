//! A session's surroundings in a temporary folder, and calls of tools in it.

use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_tools::context::{CallContext, ChangeObserver, ProgressSink, ToolContext};
use lathe_tools::registry::{self, ToolRegistry};
use lathe_tools::tool::{ToolError, ToolOutput};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A folder to work in and the tools.
pub(crate) struct Workshop {
    folder: tempfile::TempDir,
    pub(crate) session: Arc<ToolContext>,
    tools: ToolRegistry,
    pub(crate) cancel: CancellationToken,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A workshop whose surroundings are changed before work begins.
    pub(crate) fn with(prepare: impl FnOnce(&mut ToolContext)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&root).unwrap();
        let mut session = ToolContext::new(
            SessionId::random(),
            root.clone(),
            root.clone(),
            vec![root.clone()],
            folder.path().join("results"),
            Arc::new(|path| path.ends_with(".env")),
            BTreeMap::from([("PATH".to_owned(), "/nowhere".to_owned())]),
        );
        prepare(&mut session);
        Self {
            folder,
            session: Arc::new(session),
            tools: registry::builtin(),
            cancel: CancellationToken::new(),
        }
    }

    pub(crate) fn observed(observer: impl ChangeObserver + 'static) -> Self {
        Self::with(|session| session.change_observer = Arc::new(observer))
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.session.working_folder.read().clone()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file as someone else would.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Everything in the folder, so that left-over temporary files show.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.root())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn call_context(&self) -> CallContext {
        CallContext {
            session: Arc::clone(&self.session),
            tool_use_id: "call".into(),
            turn: RecordId::random(),
            cancel: self.cancel.clone(),
            to_background: CancellationToken::new(),
            progress: ProgressSink::none(),
            sandbox: None,
            confinement: None,
        }
    }

    /// Calls a tool the way the executor does: schema, checks, work.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<ToolOutput, ToolError> {
        let tool = Arc::clone(self.tools.find(tool).unwrap());
        let call = tool.prepare(input, &self.session)?;
        call.validate(&self.session).await?;
        call.call(self.call_context()).await
    }

    /// Calls a tool that must succeed, for its text.
    pub(crate) async fn text(&self, tool: &str, input: Value) -> String {
        text_of(&self.call(tool, input).await.unwrap())
    }

    /// Calls a tool that must fail, for its message.
    pub(crate) async fn error(&self, tool: &str, input: Value) -> String {
        match self.call(tool, input).await {
            Ok(output) => panic!("{tool} succeeded: {output:?}"),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) async fn read(&self, name: &str) -> String {
        self.text("Read", json!({"file_path": name})).await
    }

    /// Reads and edits a file, which must succeed.
    pub(crate) async fn edit(&self, name: &str, old: &str, new: &str) -> ToolOutput {
        self.read(name).await;
        self.call(
            "Edit",
            json!({"file_path": name, "old_string": old, "new_string": new}),
        )
        .await
        .unwrap()
    }
}

pub(crate) fn text_of(output: &ToolOutput) -> String {
    output.content.text()
}

pub(crate) fn blocks_of(output: ToolOutput) -> Vec<ContentBlock> {
    match output.content {
        Content::Blocks(blocks) => blocks,
        Content::Text(text) => vec![ContentBlock::text(text)],
    }
}
