//! The model of a session: which one answers, how hard it tries, how it may reason.

use crate::conversation::ConversationShared;
use crate::conversation::hook_moment::DEFAULT_EFFORT;
use crate::conversation::model_switch::ModelSwitch;
use crate::turn::models::{NotAvailable, choose_model, described, next_model, planner_of};
use lathe_hooks::HookDecision;
use lathe_model::catalog::ThinkingKind;
use lathe_model::{Thinking, ThinkingDisplay, ThinkingMode};
use lathe_protocol::usage::Usage;
use lathe_settings::Variable;
use std::sync::Arc;

/// Who switches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchSource {
    /// The user's command.
    Command,
    /// The user's choice from a list.
    Picker,
    /// A host.
    Sdk,
}

impl SwitchSource {
    fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Picker => "picker",
            Self::Sdk => "sdk",
        }
    }
}

/// Why the model was not switched.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// Settings don't allow it.
    #[error(transparent)]
    NotAvailable(#[from] NotAvailable),
    /// A hook objects.
    #[error("a PreModelSwitch hook rejected it: {0}")]
    Hook(String),
    /// A hook wants the user to confirm it; [`ModelHandle::switch_confirmed`] does.
    #[error("a PreModelSwitch hook requires confirmation, and there is no user to confirm it: {0}")]
    Ask(String),
}

/// How hard a model can be told to try, weakest first.
pub const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// An effort that is not a level.
#[derive(Debug, thiserror::Error)]
#[error("there is no effort {level:?}; use {}", EFFORTS.join(", "))]
pub struct UnknownEffort {
    level: String,
}

/// The model of a session: which one answers, how hard it tries, how it may reason.
///
/// Answers don't wait for a turn that runs.
#[derive(Clone, Copy)]
pub struct ModelHandle<'a> {
    pub(in crate::session) shared: &'a Arc<ConversationShared>,
}

impl ModelHandle<'_> {
    /// Chooses the model from the next step on; `None` is the default. Gives its id. Hooks may object.
    ///
    /// # Errors
    /// When `availableModels` or a hook doesn't allow it; then nothing changes.
    pub async fn switch(
        self,
        model: Option<&str>,
        source: SwitchSource,
    ) -> Result<String, SwitchError> {
        let Some(switch) = self.wanted(model, source)? else {
            self.set_planner(model);
            return Ok(self.current());
        };
        let outcome = self.shared.hooks.pre_model_switch(&switch).await;
        if let Some(reason) = outcome.block.or(outcome.stop) {
            return Err(SwitchError::Hook(reason));
        }
        if let Some(permission) = outcome.permission {
            let reason = permission.reason.unwrap_or(permission.hook);
            match permission.decision {
                HookDecision::Allow => {}
                HookDecision::Ask => return Err(SwitchError::Ask(reason)),
                HookDecision::Defer | HookDecision::Deny => return Err(SwitchError::Hook(reason)),
            }
        }
        Ok(self.carry_out(switch).await)
    }

    /// As [`Self::switch`], after the user confirmed what a hook asked about: hooks are not asked again.
    ///
    /// # Errors
    /// When `availableModels` doesn't allow it; then nothing changes.
    pub async fn switch_confirmed(
        self,
        model: Option<&str>,
        source: SwitchSource,
    ) -> Result<String, SwitchError> {
        match self.wanted(model, source)? {
            Some(switch) => Ok(self.carry_out(switch).await),
            None => {
                self.set_planner(model);
                Ok(self.current())
            }
        }
    }

    /// The name of a model may say which one plans.
    fn set_planner(self, model: Option<&str>) {
        let planner = match model {
            Some(name) => planner_of(&self.shared.session.catalog, name),
            None => self.shared.choices.first.planning.clone(),
        };
        self.shared.choices.write().planning = planner;
    }

    /// The switch that a name asks for; `None` if that model answers already.
    fn wanted(
        self,
        model: Option<&str>,
        source: SwitchSource,
    ) -> Result<Option<ModelSwitch>, SwitchError> {
        let chosen = match model {
            Some(name) => choose_model(self.shared, name)?,
            None => self.shared.choices.first.model.clone(),
        };
        let from = self.shared.choices.read().model.clone();
        let requested = model.map(str::to_owned);
        Ok((from != chosen)
            .then(|| ModelSwitch::of(self.shared, &from, &chosen, requested, source.name())))
    }

    async fn carry_out(self, switch: ModelSwitch) -> String {
        self.shared.choices.write().model.clone_from(&switch.to);
        self.set_planner(switch.requested.as_deref());
        self.shared.hooks.post_model_switch(&switch).await;
        self.current()
    }

    /// As [`Self::switch`] or, `confirmed`, [`Self::switch_confirmed`], for a face that doesn't wait for it.
    pub fn switch_later(
        self,
        model: String,
        source: SwitchSource,
        confirmed: bool,
    ) -> impl Future<Output = Result<String, SwitchError>> + Send + 'static {
        let shared = self.shared.clone();
        async move {
            let handle = ModelHandle { shared: &shared };
            let model = Some(model.as_str()).filter(|model| *model != "default");
            if confirmed {
                handle.switch_confirmed(model, source).await
            } else {
                handle.switch(model, source).await
            }
        }
    }

    /// Whether a switch of the model waits for hooks.
    #[must_use]
    pub fn has_switch_hooks(self) -> bool {
        self.shared.hooks.wants_model_switches()
    }

    /// The model that the next step uses.
    #[must_use]
    pub fn current(self) -> String {
        next_model(self.shared)
    }

    /// A name for people of the model that the next step uses.
    #[must_use]
    pub fn display_name(self) -> String {
        let id = self.current();
        let name = self.shared.session.catalog.resolve(&id).info.name;
        name.unwrap_or(id)
    }

    /// The dollars that an answer costs, by model and usage, as far as prices are known. It doesn't hold on to the
    /// session.
    pub fn prices(self) -> impl Fn(&str, &Usage) -> Option<f64> + Send + Sync + 'static {
        let catalog = Arc::clone(&self.shared.session.catalog);
        move |model, usage| catalog.cost(model, usage)
    }

    /// The models that are known: short name or id, and a name for people. After the short names come the models that
    /// settings declare at providers, or that their servers told.
    #[must_use]
    pub fn known(self) -> Vec<(String, String)> {
        let catalog = &self.shared.session.catalog;
        let providers = catalog.providers();
        let short: Vec<(String, String)> = catalog
            .aliases()
            .map(|(alias, id)| (alias.to_owned(), id.to_owned()))
            .collect();
        let elsewhere = providers
            .entries()
            .filter(|entry| entry.name != providers.default_provider())
            .flat_map(|entry| {
                let ids = entry.known().into_keys();
                ids.map(|id| format!("{}/{id}", entry.name))
            })
            .filter(|id| short.iter().all(|(_, known)| known != id))
            .map(|id| (id.clone(), id))
            .collect::<Vec<_>>();
        let all = short.iter().chain(&elsewhere);
        all.filter(|(name, _)| choose_model(self.shared, name).is_ok())
            .map(|(name, id)| {
                let info = catalog.resolve(id).info;
                let called = described(catalog, name).or(info.name);
                (name.clone(), called.unwrap_or_else(|| id.clone()))
            })
            .collect()
    }

    /// The context window of a model in tokens, and the dollars for a million tokens of input and of output. `None`
    /// if nothing is known about the model.
    #[must_use]
    pub fn window_and_prices(self, name: &str) -> Option<(u64, Option<(f64, f64)>)> {
        let model = self.shared.session.catalog.resolve(name);
        let prices = model.info.prices.as_ref();
        let prices = prices.map(|prices| (prices.input, prices.output));
        model.known.then_some((model.info.context_window, prices))
    }

    /// The id that a name stands for, and whether the model decides by itself how much to think, which an effort guides.
    /// `None` if that is unknown.
    #[must_use]
    pub fn id_and_thinking(self, name: &str) -> (String, Option<bool>) {
        let model = self.shared.session.catalog.resolve(name);
        let adaptive = model.info.thinking.as_ref();
        let adaptive = adaptive.map(|ways| ways.contains(&ThinkingKind::Adaptive));
        (model.id, adaptive)
    }

    /// Changes the thinking budget: `None` resets, `Some(0)` switches thinking off. What of it is shown
    /// stays as it is.
    pub fn set_max_thinking_tokens(self, tokens: Option<u32>) {
        let mut choices = self.shared.choices.write();
        let display = choices.thinking.and_then(|thinking| thinking.display);
        choices.thinking = match tokens {
            None => self.shared.choices.first.thinking,
            Some(0) => Some(Thinking::disabled()),
            Some(tokens) => {
                let display = display.unwrap_or_else(|| self.first_thinking_display());
                Some(Thinking::budget(tokens).showing(display))
            }
        };
    }

    /// Changes what of the thinking is shown; `None` is as the session began.
    pub fn set_thinking_display(self, display: Option<ThinkingDisplay>) {
        let display = display.unwrap_or_else(|| self.first_thinking_display());
        let mut choices = self.shared.choices.write();
        choices.thinking = choices.thinking.map(|thinking| thinking.showing(display));
    }

    fn first_thinking_display(self) -> ThinkingDisplay {
        let said = self.shared.choices.first.thinking.and_then(|it| it.display);
        said.unwrap_or(ThinkingDisplay::Summarized)
    }

    /// How hard the model should try, if someone said so.
    #[must_use]
    pub fn effort(self) -> Option<String> {
        self.shared.choices.read().effort.clone()
    }

    /// How hard the model tries; the API's own default if nobody said so.
    #[must_use]
    pub fn effort_level(self) -> String {
        self.effort().unwrap_or_else(|| DEFAULT_EFFORT.to_owned())
    }

    /// Whether the model may think.
    #[must_use]
    pub fn thinks(self) -> bool {
        let thinking = self.shared.choices.read().thinking;
        thinking.is_none_or(|thinking| thinking.mode != ThinkingMode::Disabled)
    }

    /// Says how hard the model should try, from the next request on; `None` is as the session began.
    ///
    /// # Errors
    /// When there is no such level.
    pub fn set_effort(self, level: Option<&str>) -> Result<(), UnknownEffort> {
        if let Some(level) = level
            && !EFFORTS.contains(&level)
        {
            return Err(UnknownEffort {
                level: level.to_owned(),
            });
        }
        self.shared.choices.set_effort(level);
        let level = self.effort().unwrap_or_else(|| DEFAULT_EFFORT.to_owned());
        let name = Variable::EffortOfSession.name();
        self.shared
            .tools
            .shell
            .add_environment([(name.into(), level.into())]);
        Ok(())
    }

    /// The models that take over, in this order, when the one before does not answer.
    #[must_use]
    pub fn fallbacks(self) -> Vec<String> {
        self.shared.choices.read().fallbacks.clone()
    }

    /// Chooses the models that take over when the one before does not answer; none is nobody. Gives their ids.
    ///
    /// # Errors
    /// When `availableModels` doesn't allow one; then nothing changes.
    pub fn set_fallbacks<'n>(
        self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Vec<String>, NotAvailable> {
        let models = names
            .into_iter()
            .map(|name| choose_model(self.shared, name))
            .collect::<Result<Vec<_>, _>>()?;
        self.shared.choices.write().fallbacks.clone_from(&models);
        Ok(models)
    }
}
