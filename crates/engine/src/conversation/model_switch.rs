//! Hooks at switches of the model.

use crate::conversation::ConversationShared;
use crate::conversation::hook_points::HookPoints;
use lathe_hooks::HookOutcome;
use lathe_model::CacheMarkers;
use lathe_protocol::hook::HookEvent;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A switch of the model, as hooks are told of it.
#[derive(Debug, Clone)]
pub(crate) struct ModelSwitch {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) requested: Option<String>,
    pub(crate) source: &'static str,
    pub(crate) context_tokens: u64,
    /// Whether the provider keeps what was sent for an hour instead of five minutes.
    pub(crate) hour: bool,
    /// Dollars for a million tokens that are written to the new model's cache, if that is known.
    pub(crate) price: Option<f64>,
}

impl ModelSwitch {
    pub(crate) fn of(
        shared: &ConversationShared,
        from: &str,
        to: &str,
        requested: Option<String>,
        source: &'static str,
    ) -> Self {
        let info = shared.session.catalog.resolve(to).info;
        let hour = shared.seed.cache == CacheMarkers::OneHour;
        let price = info.prices.and_then(|prices| {
            let longer = prices.cache_write_1h.filter(|_| hour);
            longer.or(prices.cache_write_5m).or(Some(prices.input))
        });
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
            requested,
            source,
            context_tokens: shared.state.usage.lock().used(),
            hour,
            price,
        }
    }
}

/// Tells hooks that another model took over by itself.
pub(crate) async fn tell_takeover(shared: &ConversationShared, from: &str, to: &str) {
    if shared.hooks.wants_model_switches() {
        let switch = ModelSwitch::of(shared, from, to, None, "auto");
        shared.hooks.post_model_switch(&switch).await;
    }
}

impl HookPoints {
    /// The model is to be switched.
    pub(crate) async fn pre_model_switch(&self, switch: &ModelSwitch) -> HookOutcome {
        let (event, cancel) = (HookEvent::PreModelSwitch, CancellationToken::new());
        let fields = || self.switch_fields(switch);
        let fired = self.fire(event, Some(&switch.to), fields, &cancel);
        fired.await.unwrap_or_default()
    }

    /// The model was switched. What hooks say reaches the model with its next request.
    pub(crate) async fn post_model_switch(&self, switch: &ModelSwitch) {
        let (event, cancel) = (HookEvent::PostModelSwitch, CancellationToken::new());
        let fields = || self.switch_fields(switch);
        let outcome = self.fire(event, Some(&switch.to), fields, &cancel).await;
        if let Some(outcome) = outcome {
            self.moment
                .lock()
                .pending
                .extend(outcome.additional_context);
        }
    }

    /// Whether any hook listens to switches of the model.
    pub(crate) fn wants_model_switches(&self) -> bool {
        [HookEvent::PreModelSwitch, HookEvent::PostModelSwitch]
            .into_iter()
            .any(|event| self.registry.matches(event, None))
    }

    fn switch_fields(&self, switch: &ModelSwitch) -> Value {
        let keeps = Duration::from_secs(if switch.hour { 3600 } else { 300 });
        let asked = self.moment.lock().asked;
        let warm = asked.is_some_and(|asked| asked.elapsed() < keeps);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a window has far fewer tokens than that"
        )]
        let tokens = switch.context_tokens as f64;
        json!({
            "from_model": switch.from, "to_model": switch.to,
            "requested_model": switch.requested, "source": switch.source,
            "context_tokens": switch.context_tokens, "prompt_cache_warm": warm,
            "cache_ttl": if switch.hour { "1h" } else { "5m" },
            "estimated_cache_write_usd": switch.price.unwrap_or(0.0) * tokens / 1e6,
            "pricing": if switch.price.is_some() { "catalog" } else { "default" },
        })
    }
}
