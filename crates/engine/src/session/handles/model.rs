//! The model of a session: which one answers, how hard it tries, how it may reason.

use crate::conversation::ConversationShared;
use crate::turn::models::{NotAvailable, choose_model};
use lathe_model::{Thinking, ThinkingDisplay};
use std::sync::Arc;

/// How hard a model can be told to try.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// An effort that is not a level.
#[derive(Debug, thiserror::Error)]
#[error("there is no effort {level:?}; there are {}", EFFORTS.join(", "))]
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
    /// Chooses the model from the next step on; `None` is the default. Gives its id.
    ///
    /// # Errors
    /// When `availableModels` doesn't allow it; then nothing changes.
    pub fn set(self, model: Option<&str>) -> Result<String, NotAvailable> {
        let chosen = match model {
            Some(name) => choose_model(self.shared, name)?,
            None => self.shared.choices.first.model.clone(),
        };
        self.shared.choices.write().model.clone_from(&chosen);
        Ok(chosen)
    }

    /// The model that the next step uses.
    #[must_use]
    pub fn current(self) -> String {
        self.shared.choices.read().model.clone()
    }

    /// A name for people of the model that the next step uses.
    #[must_use]
    pub fn display_name(self) -> String {
        let id = self.current();
        let name = self.shared.session.catalog.resolve(&id).info.name;
        name.unwrap_or(id)
    }

    /// The models that are known: short name or id, and a name for people.
    #[must_use]
    pub fn known(self) -> Vec<(String, String)> {
        let catalog = &self.shared.session.catalog;
        catalog
            .aliases()
            .filter(|(alias, _)| choose_model(self.shared, alias).is_ok())
            .map(|(alias, id)| {
                let info = catalog.resolve(id).info;
                (alias.to_owned(), info.name.unwrap_or_else(|| id.to_owned()))
            })
            .collect()
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
        Ok(())
    }

    /// The model that takes over when the first is overloaded.
    #[must_use]
    pub fn fallback(self) -> Option<String> {
        self.shared.choices.read().fallback.clone()
    }

    /// Chooses the model that takes over when the first is overloaded; `None` is nobody. Gives its id.
    ///
    /// # Errors
    /// When `availableModels` doesn't allow it; then nothing changes.
    pub fn set_fallback(self, name: Option<&str>) -> Result<Option<String>, NotAvailable> {
        let model = name
            .map(|name| choose_model(self.shared, name))
            .transpose()?;
        self.shared.choices.write().fallback.clone_from(&model);
        Ok(model)
    }
}
