//! Sessions whose model starts agents.

use lathe_engine::{
    EventStream, ModelOptions, Opened, PermissionOptions, SessionChoice, SessionHandle,
    SessionOptions, SettingsOptions,
};
use lathe_protocol::event::{Event, SessionState, TaskNotice, TaskStatus, TurnResult};
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::{PermissionMode, PermissionReply, PermissionRequest};
use lathe_scripted::{RecordedRequest, Scenario, ScriptedServer};
use lathe_settings::Environment;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Nothing here takes that long; only a hang does.
const HANG_LIMIT: Duration = Duration::from_secs(60);

/// Folders and a scripted model.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) server: ScriptedServer,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) settings: Value,
}

/// An open session.
pub(crate) struct Talk {
    pub(crate) session: SessionHandle,
    pub(crate) events: EventStream,
    pub(crate) remarks: Vec<lathe_protocol::diagnostic::Diagnostic>,
}

impl Place {
    pub(crate) async fn new(scenario: Scenario) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            server: ScriptedServer::start(scenario).await.unwrap(),
            variables: Vec::new(),
            settings: json!({}),
        };
        for folder in ["home", "config", "project"] {
            std::fs::create_dir_all(place.root().join(folder)).unwrap();
        }
        place
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.root().join("config")
    }

    /// An agent of the project's own.
    pub(crate) fn agent(&self, name: &str, front: &str, body: &str) {
        let folder = self.config().join("agents");
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: for tests\n{front}\n---\n{body}\n");
        std::fs::write(folder.join(format!("{name}.md")), text).unwrap();
    }

    pub(crate) fn environment(&self) -> Environment {
        let root = self.root();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut variables: BTreeMap<String, String> = [
            ("HOME", text(root.join("home"))),
            ("LATHE_CONFIG_DIR", text(root.join("config"))),
            ("PATH", std::env::var("PATH").unwrap()),
            ("ANTHROPIC_BASE_URL", self.server.base_url()),
            ("ANTHROPIC_API_KEY", "k".to_owned()),
            ("LATHE_MAX_RETRIES", "0".to_owned()),
            ("IS_SANDBOX", "1".to_owned()),
            ("LATHE_SESSION_TITLES", "0".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        variables.extend(self.variables.iter().cloned());
        Environment {
            variables,
            home: Some(root.join("home")),
            cwd: self.project(),
            ..Environment::default()
        }
    }

    pub(crate) fn options(&self) -> SessionOptions {
        let mut settings = self.settings.clone();
        settings["models"] = json!({"house": {"contextWindow": 200_000, "maxOutputTokens": 4_000}});
        settings["prices"] = json!({"house": {"input": 1.0, "output": 2.0}});
        SessionOptions {
            model: ModelOptions {
                name: Some("house".to_owned()),
                ..ModelOptions::default()
            },
            permissions: PermissionOptions {
                mode: Some(PermissionMode::BypassPermissions),
                allow_bypass: true,
                ..PermissionOptions::default()
            },
            settings: SettingsOptions {
                flags: vec![settings.to_string()],
                ..SettingsOptions::default()
            },
            ..SessionOptions::default()
        }
    }

    /// As [`Self::options`], in a folder that the user trusts.
    pub(crate) fn trusting_options(&self) -> SessionOptions {
        use lathe_settings::Source;
        let mut options = self.options();
        options.settings.sources = Some(vec![Source::User, Source::Project, Source::Local]);
        options
    }

    pub(crate) async fn open(&self) -> Talk {
        self.open_with(self.options()).await
    }

    /// Continues with the newest session.
    pub(crate) async fn resume(&self) -> Talk {
        let mut options = self.trusting_options();
        options.history.session = SessionChoice::Continue;
        self.open_with(options).await
    }

    pub(crate) async fn open_with(&self, options: SessionOptions) -> Talk {
        let Opened {
            session,
            events,
            remarks,
            ..
        } = lathe_engine::open(self.environment(), options)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        Talk {
            session,
            events,
            remarks,
        }
    }

    /// The requests whose first message has a text.
    pub(crate) fn requests_of(&self, first: &str) -> Vec<RecordedRequest> {
        let mut requests = self.server.message_requests();
        requests.retain(|request| begins(request, first));
        requests
    }
}

/// Whether a conversation begins with some words (harness text aside).
pub(crate) fn begins(request: &RecordedRequest, words: &str) -> bool {
    request
        .messages()
        .first()
        .is_some_and(|message| message["content"].to_string().contains(words))
}

/// Everything that a request says, as text.
pub(crate) fn whole(request: &RecordedRequest) -> String {
    Value::Array(request.messages().to_vec()).to_string()
}

impl Talk {
    pub(crate) fn send(&self, text: &str) {
        assert!(self.session.send(Op::Prompt(Prompt::new(text))));
    }

    /// Says something and waits for the result.
    pub(crate) async fn say(&mut self, text: &str) -> Arc<TurnResult> {
        self.send(text);
        self.result().await
    }

    pub(crate) async fn result(&mut self) -> Arc<TurnResult> {
        loop {
            if let Event::TurnFinished(result) = self.event().await {
                return result;
            }
        }
    }

    /// Waits until there is nothing to do after at least one more turn, and gives the results until then.
    pub(crate) async fn quiet(&mut self) -> Vec<Arc<TurnResult>> {
        let mut results = Vec::new();
        loop {
            match self.event().await {
                Event::TurnFinished(result) => results.push(result),
                Event::StateChanged(SessionState::Idle) if !results.is_empty() => return results,
                _ => {}
            }
        }
    }

    /// Waits for the next question.
    pub(crate) async fn question(&mut self) -> Arc<PermissionRequest> {
        loop {
            if let Event::PermissionRequested(request) = self.event().await {
                return request;
            }
        }
    }

    pub(crate) fn reply(&self, request: &PermissionRequest, reply: PermissionReply) {
        self.session.send(Op::PermissionReply {
            request_id: request.request_id.clone(),
            reply,
        });
    }

    /// Waits until a task ends; says which and how.
    pub(crate) async fn task_end(&mut self) -> (String, TaskStatus) {
        loop {
            if let Event::Task(TaskNotice::Finished {
                task_id, status, ..
            }) = self.event().await
            {
                return (task_id.0, status);
            }
        }
    }

    /// Waits until a task begins.
    pub(crate) async fn task_start(&mut self) -> String {
        loop {
            if let Event::Task(TaskNotice::Started { task_id, .. }) = self.event().await {
                return task_id.0;
            }
        }
    }

    pub(crate) async fn event(&mut self) -> Event {
        tokio::time::timeout(HANG_LIMIT, self.events.next())
            .await
            .expect("the session hangs")
            .expect("the session ended")
    }

    pub(crate) async fn finish(self) {
        self.session.finish().await;
    }
}
