//! The first step of opening: what the caller, the settings and the plugins say.

use super::agents::{self as main_agent};
use super::options::{OpenError, SessionOptions};
use crate::session::observe::Observer;
use crate::session::plugins::Plugins;
use crate::skills::{ExtensionOptions, Extensions};
use lathe_extensions::{AgentCatalog, AgentDefinition, OutputStyles};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_settings::schema::{apply_variables, key_variables};
use lathe_settings::trust_store::TrustStore;
use lathe_settings::write::OwnWrites;
use lathe_settings::{Environment, LoadOptions, Places, Resolved, Severity, Source, Trust};
use std::sync::Arc;

/// How much of what an untrusted folder brings is named at a start.
const MOST_WITHHELD: usize = 12;

/// Settings, plugins and extensions of a session, and the options as these complete them.
pub(super) struct Loaded {
    pub(super) options: SessionOptions,
    pub(super) places: Places,
    /// With the variables that settings add.
    pub(super) environment: Environment,
    pub(super) trust: Trust,
    /// Whether instruction files may import files outside the project.
    pub(super) outside_imports: bool,
    pub(super) settings: Resolved,
    pub(super) load_options: LoadOptions,
    pub(super) own_writes: OwnWrites,
    pub(super) plugins: Arc<Plugins>,
    pub(super) extensions: Extensions,
    pub(super) agents: Reading<AgentsAndStyles>,
    /// The agent that the main conversation runs as.
    pub(super) main: Option<AgentDefinition>,
    /// Sees the events besides the face.
    pub(super) observer: Option<Observer>,
    pub(super) remarks: Vec<Diagnostic>,
}

/// Loads settings, plugins and extensions.
pub(super) async fn load(
    environment: Environment,
    mut options: SessionOptions,
) -> Result<Loaded, OpenError> {
    let mut remarks = Vec::new();
    let mut places = Places::new(environment).with_flags(&options.settings.flags);
    if let Some(folder) = &options.settings.project_root {
        let folder = places.environment.resolve(&folder.to_string_lossy());
        places = places.with_project(std::fs::canonicalize(&folder).unwrap_or(folder));
    }
    let reads_own = |sources: &Vec<Source>| sources.contains(&Source::User);
    if options.settings.sources.as_ref().is_none_or(reads_own) {
        remarks.extend(super::claude_home::first_remark(&places).map(Diagnostic::note));
    }
    let trust_store = TrustStore::new(&places);
    let trust = if options.settings.restricted {
        Trust::Untrusted
    } else {
        trust_store.headless_trust(&places.project, options.settings.sources.as_deref())
    };
    let (mut settings, load_options) = load_settings(&places, &options, &trust, &mut remarks)?;
    let plugins = Arc::new(Plugins::load(&places, &settings, &options));
    plugins.equip(&mut options, &mut remarks);
    let (extensions, reading) = load_extensions(&places, &trust, &options, &settings);
    let mut environment = with_settings(&places.environment, &settings);
    apply_variables(&mut settings.settings, &environment);
    let observer = options.observe.begin(&settings.settings, &mut environment);
    // Waited for here only if the conversation may run as one of them.
    let mut agents = Reading::Begun(reading);
    let main = if plugins.may_choose_agent(&settings, &options) {
        let (known, _) = agents.wait().await?;
        plugins.choose_agent(&known, &settings, &mut options, &mut remarks);
        main_agent::main_agent(&known, &mut options)?
    } else {
        None
    };
    if settings.settings.cleanup_period_days == Some(0) {
        // Nothing is kept, so nothing is written.
        options.history.persist = false;
    }
    if options.model.effort.is_none() {
        let effort = settings.settings.effort;
        options.model.effort = effort.map(|effort| effort.name().to_owned());
    }
    // The model's own choice, whatever settings say.
    options.model.effort.take_if(|effort| effort == "auto");
    let outside_imports = trust_store
        .entry(&places.project)
        .and_then(|entry| entry.outside_imports)
        .unwrap_or(false);
    Ok(Loaded {
        options,
        places,
        environment,
        trust,
        outside_imports,
        settings,
        load_options,
        own_writes: OwnWrites::default(),
        plugins,
        extensions,
        agents,
        main,
        observer,
        remarks,
    })
}

/// Something that is read on a thread of its own, and known once it was waited for.
pub(super) enum Reading<T> {
    Begun(tokio::task::JoinHandle<T>),
    Known(T),
}

impl<T: Clone> Reading<T> {
    pub(super) async fn wait(&mut self) -> Result<T, OpenError> {
        let known = match self {
            Self::Known(known) => return Ok(known.clone()),
            Self::Begun(reading) => reading
                .await
                .map_err(|error| OpenError::Usage(error.to_string()))?,
        };
        *self = Self::Known(known.clone());
        Ok(known)
    }
}

/// The agents and output styles that were read.
pub(super) type AgentsAndStyles = (Arc<AgentCatalog>, Arc<OutputStyles>);

/// Starts to read what users added as files, on threads beside the rest of the opening.
fn load_extensions(
    places: &Places,
    trust: &Trust,
    options: &SessionOptions,
    settings: &Resolved,
) -> (Extensions, tokio::task::JoinHandle<AgentsAndStyles>) {
    let added = options
        .permissions
        .folders
        .iter()
        .map(|folder| places.environment.resolve(&folder.to_string_lossy()))
        .collect();
    let (sources, added) = if options.extensions.without_files {
        (Some(&[][..]), Vec::new())
    } else {
        (options.settings.sources.as_deref(), added)
    };
    let plugins = options.extensions.plugins.clone();
    let mut chosen = ExtensionOptions::new(places, trust, sources, added, plugins);
    chosen.agents.clone_from(&options.extensions.agents);
    chosen.only_skills.clone_from(&options.extensions.skills);
    chosen.without_skills = options.extensions.without_skills;
    chosen
        .overrides
        .clone_from(&settings.settings.skill_overrides);
    let extensions = Extensions::begin(chosen.clone());
    let agents = lathe_spawn::blocking(move || {
        let styles = Arc::new(chosen.load_styles());
        (Arc::new(chosen.load_agents()), styles)
    });
    (extensions, agents)
}

fn load_settings(
    places: &Places,
    options: &SessionOptions,
    trust: &Trust,
    remarks: &mut Vec<Diagnostic>,
) -> Result<(Resolved, LoadOptions), OpenError> {
    let load = LoadOptions {
        flags: options.settings.flags.clone(),
        managed_flags: options.settings.managed.clone(),
        sources: options.settings.sources.clone(),
        trust: trust.clone(),
    };
    let settings = match options.settings.loaded.as_deref() {
        Some(loaded) if loaded.project == places.project && loaded.options == load => {
            loaded.resolved.clone()
        }
        _ => lathe_settings::load(places, &load),
    };
    if let Some(problem) = settings.flag_errors().first() {
        return Err(OpenError::Usage(problem.to_string()));
    }
    // Notes are for `config doctor`: the same ones at every start would be noise.
    let told = settings.problems.iter();
    let told = told.filter(|problem| problem.severity > Severity::Note);
    remarks.extend(told.map(Diagnostic::from));
    let own = lathe_mcp::config::own_servers(places);
    let mut withheld = settings.withheld();
    withheld.retain(|bring| {
        !own.iter()
            .any(|name| bring.key == format!("mcpServers.{name}"))
    });
    if !withheld.is_empty() {
        let mut what: Vec<String> = withheld.iter().map(ToString::to_string).collect();
        let more = what.len().saturating_sub(MOST_WITHHELD);
        if more > 0 {
            what.truncate(MOST_WITHHELD);
            what.push(format!(
                "and {more} more, which `lathe config doctor` lists"
            ));
        }
        remarks.push(Diagnostic::warning(format!(
            "this folder is not trusted, so parts of its settings were ignored: {}. Trust it with `lathe trust add`, or name its sources with --setting-sources.",
            what.join(", ")
        )));
    }
    Ok((settings, load))
}

/// The environment with the variables that settings add. What the process has wins.
pub(crate) fn with_settings(environment: &Environment, settings: &Resolved) -> Environment {
    let mut environment = environment.clone();
    for (name, value) in settings.environment() {
        environment.variables.entry(name).or_insert(value);
    }
    environment.withheld = key_variables(&settings.settings);
    environment
}
