//! From what servers of other families say to which [`ModelError`] it is: they put much into 400, 429 and even 200.

use crate::classify::{Refusal, bad_request, classified, comparison, numbers, shortened};
use crate::error::{ApiFailure, ModelError};
use serde_json::Value;
use std::time::Duration;

/// Classifies a refusal by a server of another family. `cloud_kind` is what AWS puts into a header.
pub(crate) fn refusal(refusal: &Refusal<'_>, cloud_kind: Option<&str>) -> ModelError {
    let mut failure = refusal.failure();
    let body: Value = serde_json::from_slice(refusal.body).unwrap_or_default();
    // Google wraps errors of streams into a list.
    let body = match body {
        Value::Array(mut items) if !items.is_empty() => items.swap_remove(0),
        other => other,
    };
    if body.is_null() {
        failure.message = shortened(String::from_utf8_lossy(refusal.body).trim());
    } else {
        fill_foreign(&mut failure, body.get("error").unwrap_or(&body));
        if failure.message.is_empty() {
            failure.message = shortened(&body.to_string());
        }
    }
    if let Some(kind) = cloud_kind {
        let kind = kind.split(':').next().unwrap_or(kind);
        failure.kind = Some(kind.to_owned());
    }
    foreign(failure)
}

/// Classifies an error that a server of another family reports inside of a stream.
pub(crate) fn stream_error(error: &Value) -> ModelError {
    let mut failure = ApiFailure::default();
    fill_foreign(&mut failure, error);
    if failure.message.is_empty() {
        failure.message = match error {
            Value::Null => "the server reported an error without a reason".to_owned(),
            _ => shortened(&error.to_string()),
        };
    }
    failure.status = error["code"]
        .as_u64()
        .or_else(|| error["status_code"].as_u64())
        .or_else(|| error["code"].as_str().and_then(|text| text.parse().ok()))
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..600).contains(code));
    foreign(failure)
}

/// The window was full before a word was written, and the server said so only by stopping.
pub(crate) fn silent_overflow(tokens: u64) -> ModelError {
    ModelError::PromptTooLong {
        failure: Box::new(ApiFailure {
            message: "the context window is full: the model stopped before its first token"
                .to_owned(),
            ..ApiFailure::default()
        }),
        tokens: (tokens > 0).then_some(tokens),
        limit: None,
    }
}

fn fill_foreign(failure: &mut ApiFailure, error: &Value) {
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    failure.message = text("message")
        .or_else(|| text("Message"))
        .or_else(|| text("detail"))
        .or_else(|| text("error_description"))
        .or_else(|| error.as_str())
        .unwrap_or_default()
        .to_owned();
    // Gateways put the words of the provider behind their own.
    if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
        failure.message = format!("{}: {}", failure.message, shortened(raw));
    }
    failure.kind = text("code")
        .or_else(|| text("type"))
        .or_else(|| text("status"))
        .or_else(|| text("__type"))
        .map(str::to_owned);
    let details = error["details"].as_array();
    for detail in details.into_iter().flatten() {
        if let Some(reason) = detail["reason"].as_str() {
            failure.kind = Some(reason.to_owned());
        }
        let delay = detail["retryDelay"].as_str();
        if let Some(seconds) = delay.and_then(|text| text.trim_end_matches('s').parse().ok()) {
            failure.retry_after = Duration::try_from_secs_f64(seconds).ok();
        }
    }
}

/// The sentences with which servers say that a prompt is too long.
const TOO_LONG: [&str; 16] = [
    "maximum context length is",
    "exceeds the context window",
    "context_length_exceeded",
    "exceeds the available context size",
    "does not fit in context length",
    "exceeded max context length",
    "exceeds the maximum context length",
    "reduce the length of the messages",
    "maximum prompt length is",
    "too large for model with",
    "input is too long",
    "prompt is too long",
    "context window is full",
    "exceed context limit",
    "exceeds model's maximum context",
    "longer than the model's context length",
];

pub(crate) fn is_too_long(kind: &str, message: &str) -> bool {
    if message.contains("please wait") || message.contains("per minute") {
        return false;
    }
    kind == "context_length_exceeded"
        || TOO_LONG.iter().any(|sentence| message.contains(sentence))
        || (message.contains("input token count") && message.contains("exceeds"))
}

/// Kinds that mean: never without the user.
const NO_MONEY: [&str; 4] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "access_terminated",
    "billing_not_active",
];

/// Classifies by kind and words first: servers of other families put much into 400, 429 and even 200.
fn foreign(mut failure: ApiFailure) -> ModelError {
    let kind = failure.kind.clone().unwrap_or_default();
    let message = failure.message.to_lowercase();
    if is_too_long(&kind, &message) {
        return too_long(failure, &message);
    }
    let resets_far = message.contains("resets in") && message.contains("day");
    let no_money = NO_MONEY.contains(&kind.as_str())
        || message.contains("insufficient_quota")
        || (message.contains("exceeded your current quota, please check your plan")
            // Google says so of the limit of a minute as well, and then how long to wait.
            && failure.retry_after.is_none())
        || message.contains("credit balance")
        || message.contains("insufficient credits")
        || message.contains("requires more credits")
        || resets_far;
    if no_money {
        return ModelError::Billing(Box::new(failure));
    }
    if message.contains("on-demand throughput") {
        return ModelError::ModelNotFound(Box::new(failure));
    }
    if message.contains("only supported in v1/responses")
        || message.contains("use the responses api")
    {
        failure
            .message
            .push_str(" (declare the provider with kind \"openai\")");
        return ModelError::InvalidRequest(Box::new(failure));
    }
    let unsupported_image = message.contains("image")
        && [
            "not support",
            "unsupported",
            "no image",
            "not a multimodal",
            "cannot process",
            "unable to process",
        ]
        .iter()
        .any(|word| message.contains(word));
    if unsupported_image {
        return ModelError::ImageTooLarge {
            failure: Box::new(failure),
            at: None,
        };
    }
    let failure = match by_kind(&kind, &message, Box::new(failure)) {
        Ok(error) => return error,
        Err(failure) => *failure,
    };
    if failure.status == Some(503) {
        // Loading, or too much to do: either way it passes.
        return ModelError::Overloaded(Box::new(failure));
    }
    if failure.status == Some(404) && message.contains("model") {
        return ModelError::ModelNotFound(Box::new(failure));
    }
    classified(failure)
}

/// Classifies by the word of the server; gives the failure back where it isn't known.
fn by_kind(
    kind: &str,
    message: &str,
    failure: Box<ApiFailure>,
) -> Result<ModelError, Box<ApiFailure>> {
    Ok(match kind {
        "API_KEY_INVALID"
        | "invalid_api_key"
        | "UNAUTHENTICATED"
        | "PERMISSION_DENIED"
        | "AccessDeniedException"
        | "UnrecognizedClientException"
        | "ExpiredTokenException"
        | "ExpiredToken"
        | "InvalidSignatureException"
        | "accessDeniedException" => ModelError::Authentication(failure),
        "rate_limit_exceeded"
        | "RESOURCE_EXHAUSTED"
        | "ThrottlingException"
        | "throttlingException"
        | "too_many_requests" => ModelError::RateLimited(failure),
        "server_is_overloaded"
        | "overloaded"
        | "UNAVAILABLE"
        | "serviceUnavailableException"
        | "ServiceUnavailableException"
        | "slow_down" => ModelError::Overloaded(failure),
        "server_error"
        | "INTERNAL"
        | "internalServerException"
        | "InternalServerException"
        | "modelStreamErrorException"
        | "modelTimeoutException"
        | "ModelTimeoutException"
        | "ModelStreamErrorException"
        | "ModelNotReadyException" => ModelError::Server(failure),
        "invalid_prompt" | "INVALID_ARGUMENT" | "validationException" | "ValidationException"
            if failure.status.is_none() =>
        {
            bad_request(400, message, failure)
        }
        "model_not_found" | "ResourceNotFoundException" => ModelError::ModelNotFound(failure),
        _ => return Err(failure),
    })
}

/// A prompt that is too long, with the numbers that the sentence names.
pub(crate) fn too_long(failure: ApiFailure, message: &str) -> ModelError {
    let (tokens, limit) = sizes(message);
    ModelError::PromptTooLong {
        failure: Box::new(failure),
        tokens,
        limit,
    }
}

/// How many tokens there are and may be, as far as a sentence says it.
fn sizes(message: &str) -> (Option<u64>, Option<u64>) {
    if let Some((tokens, limit)) = comparison(message) {
        return (Some(tokens), Some(limit));
    }
    let found: Vec<u64> = numbers(message).filter(|number| *number >= 256).collect();
    match found.as_slice() {
        [] => (None, None),
        [only] => (None, Some(*only)),
        many => (many.iter().max().copied(), many.iter().min().copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn foreign_answer(status: u16, body: &str) -> ModelError {
        let said = Refusal {
            status,
            body: body.as_bytes(),
            request_id: None,
            retry_after_ms: None,
            retry_after: None,
            should_retry: None,
        };
        refusal(&said, None)
    }

    #[test]
    fn a_quota_of_a_minute_is_waited_for_and_one_of_the_plan_is_final() {
        let message =
            "You exceeded your current quota, please check your plan and billing details.";
        let plan =
            json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": message}});
        let error = foreign_answer(429, &plan.to_string());
        assert!(matches!(error, ModelError::Billing(_)), "{error:?}");
        let mut minute = plan;
        minute["error"]["details"] =
            json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]);
        let error = foreign_answer(429, &minute.to_string());
        let ModelError::RateLimited(failure) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn every_word_of_aws_for_a_failure_has_its_reaction() {
        let names = [
            ("throttlingException", true),
            ("modelStreamErrorException", true),
            ("internalServerException", true),
            ("serviceUnavailableException", true),
            ("modelTimeoutException", true),
            ("validationException", false),
        ];
        for (name, retried) in names {
            let inside = stream_error(&json!({"type": name, "message": "no"}));
            assert_eq!(inside.is_retryable(), retried, "{name}: {inside:?}");
        }
        let said = |status, kind: &str| {
            let refused = Refusal {
                status,
                body: br#"{"message":"no"}"#,
                request_id: None,
                retry_after_ms: None,
                retry_after: None,
                should_retry: None,
            };
            refusal(&refused, Some(kind))
        };
        // The header may go on with an address. Expired credentials are a 403.
        let address = "ExpiredTokenException:http://internal.amazon.com/coral/";
        assert!(matches!(said(403, address), ModelError::Authentication(_)));
        let throttled = said(429, "ThrottlingException");
        assert!(matches!(throttled, ModelError::RateLimited(_)));
    }

    #[test]
    fn every_servers_way_of_saying_too_long_is_an_overflow() {
        for message in [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            "Your input exceeds the context window of this model.",
            "the request exceeds the available context size, try increasing it",
            "The number of tokens to keep from the initial prompt does not fit in context length",
            "prompt too long; exceeded max context length by 12 tokens",
            "Please reduce the length of the messages or completion.",
            "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Input is too long for requested model.",
        ] {
            let body = json!({"error": {"message": message}}).to_string();
            for status in [400, 413, 500] {
                let error = foreign_answer(status, &body);
                assert!(
                    matches!(error, ModelError::PromptTooLong { .. }),
                    "{message}: {error:?}"
                );
            }
            let inside = stream_error(&json!({"message": message}));
            assert!(
                matches!(inside, ModelError::PromptTooLong { .. }),
                "{message}"
            );
        }
        let coded = json!({"error": {"message": "no", "code": "context_length_exceeded"}});
        assert!(matches!(
            foreign_answer(400, &coded.to_string()),
            ModelError::PromptTooLong { .. }
        ));
        let throttled =
            json!({"message": "Too many tokens, please wait before trying again."}).to_string();
        assert!(matches!(
            foreign_answer(429, &throttled),
            ModelError::RateLimited(_)
        ));
    }

    #[test]
    fn a_quota_that_only_a_person_can_raise_is_final() {
        for (status, body) in [
            (
                429,
                json!({"error": {"message": "You exceeded your current quota, please check your plan and billing details.", "code": "insufficient_quota"}}),
            ),
            (
                429,
                json!({"error": {"message": "Usage limit reached, resets in 16 days"}}),
            ),
            (
                402,
                json!({"error": {"message": "This request requires more credits", "code": 402}}),
            ),
        ] {
            let error = foreign_answer(status, &body.to_string());
            assert!(
                matches!(error, ModelError::Billing(_)) && !error.is_retryable(),
                "{error:?}"
            );
        }
        let passing = foreign_answer(
            429,
            r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}"#,
        );
        assert!(passing.is_retryable());
    }

    #[test]
    fn a_bad_key_of_gemini_is_a_400_and_its_wait_is_in_the_details() {
        let bad = json!({"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}});
        assert!(matches!(
            foreign_answer(400, &bad.to_string()),
            ModelError::Authentication(_)
        ));
        let busy = json!([{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}}]);
        let error = foreign_answer(429, &busy.to_string());
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_bare_404_names_address_and_model_and_a_wrong_kind_is_named() {
        let mut error = foreign_answer(404, "404 page not found");
        if let Some(failure) = error.failure_mut() {
            failure.origin = Some(Box::new(crate::error::Origin {
                model: "house/m".into(),
                url: "http://h/chat/completions".into(),
                key: String::new(),
            }));
        }
        let text = error.to_string();
        assert!(
            text.contains("http://h/chat/completions") && text.contains("house/m"),
            "{text}"
        );
        let kind = foreign_answer(
            404,
            r#"{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions."}}"#,
        );
        assert!(kind.to_string().contains("kind \"openai\""), "{kind}");
    }
}
