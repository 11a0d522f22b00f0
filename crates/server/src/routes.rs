//! The routes.

use crate::api::{
    Answer, Diff, LinkUse, NewSession, OpDone, OpRequest, Paired, Pairing, Records, SessionEntry,
    SessionList, Started, Uploaded,
};
use crate::devices::{Device, DeviceScope};
use crate::guard;
use crate::jobs::JobsError;
use crate::problem::{Body, Problem, full};
use crate::serve::Shared;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use lathe_protocol::ids::{RecordId, RequestId, SessionId};
use lathe_protocol::record::{Record, RecordKind};
use lathe_session::{Scope, SessionInfo};
use lathe_wire::{Client, ClientKind, Hello, HostInfo, NakCode, OpError, OpId, WireOp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The rights of the page: its own files and this server, nothing inline, no other place.
pub(crate) const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// How many ended sessions are listed.
const LISTED: usize = 100;
/// How many records one answer has at most.
const MOST_RECORDS: usize = 200;
/// The longest diff that is shown.
const LONGEST_DIFF: usize = 2 * 1024 * 1024;

/// A file of the page.
pub(crate) fn page(path: &str) -> Result<Response<Body>, Problem> {
    let (kind, text) = match path {
        path if path == "/" || guard::is_session_page(path) => (
            "text/html; charset=utf-8",
            include_str!("../page/index.html"),
        ),
        "/app.js" => (
            "text/javascript; charset=utf-8",
            include_str!("../page/app.js"),
        ),
        "/relay.js" => (
            "text/javascript; charset=utf-8",
            include_str!("../page/relay.js"),
        ),
        "/app.css" => ("text/css; charset=utf-8", include_str!("../page/app.css")),
        "/icon.svg" => ("image/svg+xml", include_str!("../page/icon.svg")),
        _ => return Err(Problem::not_found("such page")),
    };
    let mut response = Response::new(full(text));
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

fn json(value: &impl Serialize) -> Response<Body> {
    let mut response = Response::new(full(serde_json::to_vec(value).unwrap_or_default()));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad(format!("the body is wrong: {error}")))
}

/// A parameter of an address.
pub(crate) fn parameter(uri: &Uri, name: &str) -> Option<String> {
    url::form_urlencoded::parse(uri.query()?.as_bytes())
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

/// Exchanges a code for a token.
pub(crate) fn pair(shared: &Shared, body: &[u8]) -> Result<Response<Body>, Problem> {
    let pairing: Pairing = parse(body)?;
    let scope = shared.devices.take_code(&pairing.code).ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "the code is not known, was used, or is too old; make another with `lathe web`",
        )
    })?;
    let (device, token) = shared
        .devices
        .admit(&pairing.name, scope)
        .map_err(|error| Problem::failed(&error))?;
    Ok(json(&Paired {
        token,
        scope,
        name: device.name,
    }))
}

/// Looks at a link of a push message, or uses it.
pub(crate) async fn link(
    shared: &Shared,
    path: &str,
    body: &[u8],
) -> Result<Response<Body>, Problem> {
    let wanted: LinkUse = parse(body)?;
    let view = shared.links.view(&wanted.code)?;
    match path {
        "/v1/links" => {}
        "/v1/links/use" => crate::notify::answer(shared, &wanted).await?,
        _ => return Err(Problem::not_found("such address")),
    }
    Ok(json(&view))
}

fn need(device: &Device, scope: DeviceScope) -> Result<(), Problem> {
    if device.scope >= scope {
        return Ok(());
    }
    let (has, needs) = (device.scope.name(), scope.name());
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        format!("this needs the scope {needs}, and this device has {has}"),
    ))
}

/// The fleet, where the server has one.
fn jobs(shared: &Shared) -> Result<&dyn crate::jobs::Jobs, Problem> {
    let jobs = shared.options.jobs.as_deref();
    jobs.ok_or_else(|| Problem::not_found("fleet"))
}

/// Answers a request whose device is known.
pub(crate) async fn route(
    shared: &Arc<Shared>,
    head: &Parts,
    body: Bytes,
    device: &Device,
    stop: CancellationToken,
) -> Result<Response<Body>, Problem> {
    let path = head.uri.path().to_owned();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let get = head.method == Method::GET;
    let post = head.method == Method::POST;
    match parts.as_slice() {
        ["openapi.json"] if get => Ok(json(&crate::api::openapi())),
        ["v1", "sessions"] if get => {
            let shared = Arc::clone(shared);
            Ok(json(&blocking(move || Ok(shared.list())).await?))
        }
        ["v1", "sessions"] if post => {
            need(device, DeviceScope::Prompt)?;
            Ok(json(&start(shared, &parse(&body)?).await?))
        }
        ["v1", "fleet"] if get => {
            let board = jobs(shared)?.board().await;
            Ok(json(&board.map_err(|error| Problem::failed(&error))?))
        }
        ["v1", "fleet", id] if post => {
            need(device, DeviceScope::Approve)?;
            let wanted: crate::jobs::JobAct = parse(&body)?;
            let done = jobs(shared)?.act(id, wanted.act, &device.name).await;
            let problem = |why: JobsError| Problem::new(StatusCode::CONFLICT, why.to_string());
            Ok(json(&done.map_err(problem)?))
        }
        ["v1", "search"] if get => {
            let words = parameter(&head.uri, "q").unwrap_or_default();
            let shared = Arc::clone(shared);
            Ok(json(&blocking(move || shared.search(&words)).await?))
        }
        ["v1", "sessions", id] if get => {
            let (shared, id) = (Arc::clone(shared), (*id).to_owned());
            Ok(json(&blocking(move || shared.entry(&id)).await?))
        }
        ["v1", "sessions", id, "records"] if get => {
            let before = parameter(&head.uri, "before");
            let limit = parameter(&head.uri, "limit").and_then(|text| text.parse().ok());
            let (shared, id) = (Arc::clone(shared), (*id).to_owned());
            let read = move || shared.records(&id, before.as_deref(), limit.unwrap_or(100));
            Ok(json(&blocking(read).await?))
        }
        ["v1", "sessions", id, "diff"] if get => {
            let (shared, id) = (Arc::clone(shared), (*id).to_owned());
            Ok(json(&blocking(move || shared.diff(&id)).await?))
        }
        ["v1", "sessions", id, "files"] if get => {
            let path = parameter(&head.uri, "path").unwrap_or_default();
            let (shared, id) = (Arc::clone(shared), (*id).to_owned());
            let read = move || {
                let folder = shared.entry(&id)?.folder.unwrap_or_default();
                crate::files::read(&shared.options.environment, &folder, &path)
            };
            Ok(json(&blocking(read).await?))
        }
        ["v1", "sessions", id, "events"] if get => {
            let host = shared.host(id)?;
            Ok(crate::events::stream(shared, &host, head, device, stop))
        }
        ["v1", "sessions", id, "ops"] if post => {
            let request: OpRequest = parse(&body)?;
            let op: WireOp = serde_json::from_value(request.op)
                .map_err(|error| Problem::bad(format!("the operation is wrong: {error}")))?;
            let op_id = request.id.map(|id| id.parse::<OpId>()).transpose();
            let op_id = op_id.map_err(|_| Problem::bad("the id is not a UUID"))?;
            Ok(json(&shared.operate(id, op_id, op, device).await?))
        }
        ["v1", "sessions", id, "questions", request] if post => {
            let answer: Answer = parse(&body)?;
            let reply = serde_json::from_value(answer.reply)
                .map_err(|error| Problem::bad(format!("the reply is wrong: {error}")))?;
            let request_id = RequestId::from((*request).to_owned());
            let op = WireOp::PermissionReply { request_id, reply };
            Ok(json(&shared.operate(id, None, op, device).await?))
        }
        ["v1", "sessions", id, "uploads"] if post => {
            need(device, DeviceScope::Prompt)?;
            let name = parameter(&head.uri, "name").unwrap_or_default();
            let file = parameter(&head.uri, "id");
            let (shared, id) = (Arc::clone(shared), (*id).to_owned());
            Ok(json(
                &blocking(move || shared.upload(&id, file, &name, &body)).await?,
            ))
        }
        _ => Err(Problem::not_found("such address")),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    lathe_spawn::blocking(work)
        .await
        .map_err(|error| Problem::failed(&error))?
}

/// Starts a session in a folder that had one, or continues one.
async fn start(shared: &Arc<Shared>, request: &NewSession) -> Result<Started, Problem> {
    let list = {
        let shared = Arc::clone(shared);
        blocking(move || Ok(shared.list())).await?
    };
    let folder = match (&request.folder, &request.resume) {
        (Some(folder), None) => list.folders.iter().find(|known| *known == folder).cloned(),
        (None, Some(id)) => list
            .sessions
            .iter()
            .find(|session| session.id == *id)
            .and_then(|session| session.folder.clone()),
        _ => return Err(Problem::bad("give either folder or resume")),
    };
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "sessions are started in folders that had one before; start the first one there in a terminal",
        ));
    };
    let mut arguments = Vec::new();
    if let Some(id) = &request.resume {
        let id: SessionId = id
            .parse()
            .map_err(|_| Problem::bad("resume is not an id"))?;
        arguments.extend(["--resume".to_owned(), id.to_string()]);
    }
    if request.worktree {
        arguments.push("--worktree".to_owned());
    }
    arguments.extend(["--".to_owned(), request.prompt.clone()]);
    let started = crate::start::in_background(&shared.options, &folder, &arguments).await;
    started
        .map(|session| Started { session })
        .map_err(|error| Problem::new(StatusCode::BAD_GATEWAY, error.to_string()))
}

impl Shared {
    /// A live session by its id.
    pub(crate) fn host(&self, id: &str) -> Result<HostInfo, Problem> {
        self.options
            .folder
            .hosts()
            .map_err(|error| Problem::failed(&error))?
            .into_iter()
            .find(|host| host.session_id.to_string() == id || host.id.as_str() == id)
            .ok_or_else(|| Problem::not_found("live session with this id"))
    }

    /// Whether a device may ask for an operation. One that was revoked may not.
    pub(crate) fn permit(&self, device: &Device, op: &WireOp) -> Result<(), Problem> {
        if !self.is_known(device) {
            return Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "this device was revoked",
            ));
        }
        guard::permit(device.scope, op, self.options.allow_widening)
    }

    /// Whether a device may type at the terminal of a session, which can do everything that its user can.
    pub(crate) fn permit_terminal(&self, device: &Device) -> Result<(), Problem> {
        if device.scope == DeviceScope::Admin && self.options.allow_widening {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "a terminal from elsewhere needs the scope admin, and `lathe serve --allow-widening` on that machine",
        ))
    }

    /// Whether a device is still on the list.
    pub(crate) fn is_known(&self, device: &Device) -> bool {
        self.devices
            .list()
            .is_ok_and(|devices| devices.contains(device))
    }

    fn list(&self) -> SessionList {
        let hosts = self.options.folder.hosts().unwrap_or_default();
        let mut sessions: Vec<SessionEntry> = hosts.iter().map(SessionEntry::of_host).collect();
        let live: BTreeSet<String> = sessions.iter().map(|entry| entry.id.clone()).collect();
        let ended = self.store.list(Scope::Everywhere, Some(LISTED));
        sessions.extend(
            ended
                .iter()
                .map(SessionEntry::of_info)
                .filter(|entry| !live.contains(&entry.id)),
        );
        sessions.sort_by_key(SessionEntry::order);
        let mut folders = Vec::new();
        for folder in sessions.iter().filter_map(|entry| entry.folder.clone()) {
            if !folders.contains(&folder) && folder.is_dir() {
                folders.push(folder);
            }
        }
        SessionList { sessions, folders }
    }

    fn entry(&self, id: &str) -> Result<SessionEntry, Problem> {
        if let Ok(host) = self.host(id) {
            return Ok(SessionEntry::of_host(&host));
        }
        Ok(SessionEntry::of_info(&self.info(id)?))
    }

    fn info(&self, id: &str) -> Result<SessionInfo, Problem> {
        id.parse::<SessionId>()
            .ok()
            .and_then(|id| self.store.find_anywhere(id))
            .ok_or_else(|| Problem::not_found("session with this id"))
    }

    fn records(&self, id: &str, before: Option<&str>, limit: usize) -> Result<Records, Problem> {
        let info = self.info(id)?;
        let loaded = lathe_session::load(&info.path).map_err(|error| Problem::failed(&error))?;
        let chain = loaded.history();
        let shown: Vec<&Arc<Record>> = chain
            .iter()
            .filter(|record| {
                matches!(&***record, Record::Message(message)
                    if matches!(message.kind, RecordKind::User | RecordKind::Assistant) && !message.is_meta)
            })
            .collect();
        let end = match before {
            None => shown.len(),
            Some(before) => {
                let before: RecordId = before
                    .parse()
                    .map_err(|_| Problem::bad("before is not the id of a record"))?;
                shown
                    .iter()
                    .position(|record| record.uuid() == Some(before))
                    .ok_or_else(|| Problem::not_found("such record"))?
            }
        };
        let from = end.saturating_sub(limit.clamp(1, MOST_RECORDS));
        Ok(Records {
            records: shown[from..end]
                .iter()
                .map(|record| serde_json::to_value(&***record).unwrap_or_default())
                .collect(),
            more: from > 0,
        })
    }

    fn diff(&self, id: &str) -> Result<Diff, Problem> {
        let folder = self.entry(id)?.folder.unwrap_or_default();
        let command = lathe_process::Command::git(folder).arguments([
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "HEAD",
        ]);
        let output = lathe_process::read_blocking(command, Duration::from_secs(20), LONGEST_DIFF)
            .map_err(|error| Problem::failed(&error))?;
        Ok(Diff {
            diff: String::from_utf8_lossy(&output.stdout).into_owned(),
        })
    }

    fn search(&self, words: &str) -> Result<Vec<lathe_session::search::FoundSession>, Problem> {
        let query = lathe_session::search::Query::parse(words);
        lathe_session::search::search(&self.store, Scope::Everywhere, &query, 20)
            .map_err(|error| Problem::bad(error.to_string()))
    }

    fn upload(
        &self,
        id: &str,
        file: Option<String>,
        name: &str,
        content: &[u8],
    ) -> Result<Uploaded, Problem> {
        let file = match file {
            None => uuid::Uuid::new_v4(),
            Some(text) => uuid::Uuid::parse_str(&text)
                .map_err(|_| Problem::bad("the parameter id is not a UUID"))?,
        };
        let file = file.to_string();
        let id: SessionId = self
            .entry(id)?
            .id
            .parse()
            .map_err(|_| Problem::not_found("session with this id"))?;
        let path =
            crate::rules::upload_path(&self.options.config_home, &id.to_string(), &file, name);
        lathe_session::paths::write_private_file(&path, content)
            .map_err(|error| Problem::failed(&error))?;
        Ok(Uploaded {
            path,
            file_uuid: file,
        })
    }

    /// Does an operation of a device at a session.
    async fn operate(
        &self,
        session: &str,
        id: Option<OpId>,
        op: WireOp,
        device: &Device,
    ) -> Result<OpDone, Problem> {
        self.permit(device, &op)?;
        self.ask_session(session, id, op, &device.name).await
    }

    /// Does an operation at a session, for somebody who may ask for it.
    pub(crate) async fn ask_session(
        &self,
        session: &str,
        id: Option<OpId>,
        op: WireOp,
        by: &str,
    ) -> Result<OpDone, Problem> {
        let host = self.host(session)?;
        let id = id.unwrap_or_else(OpId::new_v4);
        let hello = Hello::new(by, ClientKind::Page);
        let mut client = Client::connect(&self.options.folder, &host.id, hello)
            .await
            .map_err(|error| Problem::failed(&error))?;
        let sender = client.sender();
        let request = sender.request_as(id, op, Some(by.to_owned()));
        tokio::pin!(request);
        let result = loop {
            tokio::select! {
                result = &mut request => break result,
                // Answers come in the same stream; the rest is not of interest here.
                frame = client.next() => if !matches!(frame, Ok(Some(_))) { break Err(OpError::Closed) },
            }
        };
        match result {
            Ok(()) => Ok(OpDone { id: id.to_string() }),
            Err(OpError::Refused(nak)) => {
                let status = match nak.code {
                    NakCode::Answered => StatusCode::CONFLICT,
                    NakCode::Withdrawn => StatusCode::GONE,
                    NakCode::Unknown => StatusCode::NOT_FOUND,
                    NakCode::Refused => StatusCode::FORBIDDEN,
                    NakCode::Invalid => StatusCode::BAD_REQUEST,
                };
                let mut problem = Problem::new(status, nak.why);
                problem.by = nak.by;
                problem.reply = nak.reply.map(Box::new);
                Err(problem)
            }
            Err(error) => Err(Problem::new(StatusCode::BAD_GATEWAY, error.to_string())),
        }
    }
}
