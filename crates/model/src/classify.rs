//! From what the API said to which [`ModelError`] it is. Pure; the one place that reads the API's
//! sentences.

use crate::classify_foreign;
use crate::error::{ApiFailure, BlockPosition, ModelError};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An answer that is not a success.
pub(crate) struct Refusal<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    pub(crate) request_id: Option<&'a str>,
    pub(crate) retry_after_ms: Option<&'a str>,
    pub(crate) retry_after: Option<&'a str>,
    pub(crate) should_retry: Option<&'a str>,
}

impl Refusal<'_> {
    /// The facts of status and headers; the body is not read yet.
    pub(crate) fn failure(&self) -> ApiFailure {
        ApiFailure {
            status: Some(self.status),
            request_id: self.request_id.map(str::to_owned),
            retry_after: wait(self.retry_after_ms, self.retry_after, SystemTime::now()),
            should_retry: self.should_retry.and_then(|text| text.trim().parse().ok()),
            ..ApiFailure::default()
        }
    }
}

/// The longest stretch of a foreign error page that is shown.
const SHOWN: usize = 300;

/// Classifies an answer that is not a success.
pub(crate) fn refusal(refusal: &Refusal<'_>) -> ModelError {
    let mut failure = refusal.failure();
    match serde_json::from_slice::<Value>(refusal.body) {
        Ok(value) => {
            let error = value.get("error").unwrap_or(&value);
            let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
            failure.kind = text("type");
            failure.message = text("message")
                .or_else(|| error.as_str().map(str::to_owned))
                .unwrap_or_else(|| shortened(&value.to_string()));
            if failure.request_id.is_none() {
                failure.request_id = value
                    .get("request_id")
                    .and_then(Value::as_str)
                    .map(str::to_owned);
            }
        }
        Err(_) => failure.message = shortened(String::from_utf8_lossy(refusal.body).trim()),
    }
    classified(failure)
}

/// Classifies an `error` event in the middle of a stream.
pub(crate) fn stream_error(kind: &str, message: &str, request_id: Option<String>) -> ModelError {
    classified(ApiFailure {
        kind: Some(kind.to_owned()),
        message: message.to_owned(),
        request_id,
        ..ApiFailure::default()
    })
}

pub(crate) fn classified(failure: ApiFailure) -> ModelError {
    let kind = failure.kind.as_deref().unwrap_or_default();
    // In a stream the status line has long been sent; the API's word stands for the status.
    let status = failure.status.unwrap_or(match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    });
    let message = failure.message.to_lowercase();
    let overloaded = status == 529 || kind == "overloaded_error";
    // Servers of other families speak this API too, and say it in their own words.
    if !overloaded && status != 429 && classify_foreign::is_too_long(kind, &message) {
        return classify_foreign::too_long(failure, &message);
    }
    let failure = Box::new(failure);
    if overloaded {
        return ModelError::Overloaded(failure);
    }
    match status {
        402 => ModelError::Billing(failure),
        401 | 403 => ModelError::Authentication(failure),
        404 if message.contains("model") => ModelError::ModelNotFound(failure),
        404 => ModelError::NotFound(failure),
        400 | 413 | 422 => bad_request(status, &message, failure),
        408 | 409 => ModelError::Server(failure),
        429 => ModelError::RateLimited(failure),
        500.. => ModelError::Server(failure),
        _ => ModelError::InvalidRequest(failure),
    }
}

pub(crate) fn bad_request(status: u16, message: &str, failure: Box<ApiFailure>) -> ModelError {
    let at = position(message);
    if message.contains("credit balance") {
        return ModelError::Billing(failure);
    }
    // A part of the block is missing or isn't of its kind; `at` says that it is in the conversation.
    let malformed =
        at.is_some() && (message.contains("field required") || message.contains("input should be"));
    if message.contains("pdf") || (malformed && message.contains(".document.")) {
        return ModelError::PdfTooLarge { failure, at };
    }
    let image_trouble = [
        "exceed",
        "too large",
        "could not process",
        "dimension",
        "invalid",
    ];
    if malformed && message.contains(".image.") {
        return ModelError::ImageTooLarge { failure, at };
    }
    if message.contains("image") && image_trouble.iter().any(|word| message.contains(word)) {
        return ModelError::ImageTooLarge { failure, at };
    }
    if message.contains("thinking")
        && (message.contains("signature") || message.contains("block"))
        && !message.contains("budget")
    {
        return ModelError::ThinkingRejected(failure);
    }
    if status == 413 {
        return ModelError::RequestTooLarge(failure);
    }
    if message.contains("model:") && message.contains("not found") {
        return ModelError::ModelNotFound(failure);
    }
    ModelError::InvalidRequest(failure)
}

/// The two sides of `A > B`, where A may be a sum: `205000 tokens > 200000 maximum`,
/// `188240 + 20000 > 200000`.
pub(crate) fn comparison(message: &str) -> Option<(u64, u64)> {
    let (left, right) = message.split_once('>')?;
    let left = left.rsplit(':').next()?;
    let total = numbers(left).reduce(u64::saturating_add)?;
    Some((total, numbers(right).next()?))
}

pub(crate) fn numbers(text: &str) -> impl Iterator<Item = u64> + '_ {
    text.split(|character: char| !character.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .filter_map(|digits| digits.parse().ok())
}

/// Reads `messages.3.content.1.…` and `messages.3.content.1.tool_result.content.0.…`.
fn position(message: &str) -> Option<BlockPosition> {
    let rest = &message[message.find("messages.")? + "messages.".len()..];
    let mut words = rest.split(['.', ':', ' ']);
    let index = words.next()?.parse().ok()?;
    let _ = words.next().filter(|word| *word == "content")?;
    let block = words.next()?.parse().ok()?;
    let _kind = words.next();
    let inner = match words.next() {
        Some("content") => words.next().and_then(|word| word.parse().ok()),
        _ => None,
    };
    Some(BlockPosition {
        message: index,
        block,
        inner,
    })
}

/// How long the API asks to wait: milliseconds, else seconds or an HTTP date.
pub(crate) fn wait(
    milliseconds: Option<&str>,
    after: Option<&str>,
    now: SystemTime,
) -> Option<Duration> {
    let positive = |number: f64| (number.is_finite() && number >= 0.0).then_some(number);
    if let Some(number) = milliseconds
        .and_then(|text| text.trim().parse().ok())
        .and_then(positive)
    {
        return Duration::try_from_secs_f64(number / 1000.0).ok();
    }
    let after = after?.trim();
    if let Ok(number) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(positive(number)?).ok();
    }
    let date = jiff::fmt::rfc2822::parse(after).ok()?;
    let at = UNIX_EPOCH + Duration::try_from_secs_f64(date.timestamp().as_second() as f64).ok()?;
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

pub(crate) fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(status: u16, kind: &str, message: &str) -> ModelError {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}});
        raw(status, body.to_string().as_bytes())
    }

    fn raw(status: u16, body: &[u8]) -> ModelError {
        refusal(&Refusal {
            status,
            body,
            request_id: Some("req_7"),
            retry_after_ms: None,
            retry_after: None,
            should_retry: None,
        })
    }

    #[test]
    fn an_image_that_lacks_a_field_is_refused_media() {
        for message in [
            "messages.2.content.1.image.source.base64.media_type: Field required",
            "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
            "messages.4.content.0.tool_result.content.1.image.source.base64.data: Field required",
        ] {
            let error = answer(400, "invalid_request_error", message);
            assert!(
                matches!(error, ModelError::ImageTooLarge { at: Some(_), .. }),
                "{message}: {error:?}"
            );
        }
        let document = "messages.0.content.0.document.source.base64.media_type: Field required";
        let error = answer(400, "invalid_request_error", document);
        assert!(matches!(error, ModelError::PdfTooLarge { .. }), "{error:?}");
        let other = "messages.0.content.0.text.text: Field required";
        let error = answer(400, "invalid_request_error", other);
        assert!(matches!(error, ModelError::InvalidRequest(_)), "{error:?}");
    }

    #[test]
    fn statuses_and_sentences_become_reactions() {
        let bad = "invalid_request_error";
        let cases: [(ModelError, &str, bool); 17] = [
            (
                answer(400, bad, "messages: roles must alternate"),
                "invalid_request",
                false,
            ),
            (
                answer(400, bad, "Your credit balance is too low"),
                "billing_error",
                false,
            ),
            (
                answer(401, "authentication_error", "invalid x-api-key"),
                "authentication_failed",
                false,
            ),
            (answer(402, "billing_error", "pay"), "billing_error", false),
            (
                answer(403, "permission_error", "no"),
                "authentication_failed",
                false,
            ),
            (
                answer(404, "not_found_error", "model: claude-nope"),
                "model_not_found",
                false,
            ),
            (
                answer(404, "not_found_error", "Not Found"),
                "invalid_request",
                false,
            ),
            (answer(408, "timeout_error", "slow"), "server_error", true),
            (answer(409, "conflict", "again"), "server_error", true),
            (
                answer(413, "request_too_large", "Request exceeds the maximum size"),
                "invalid_request",
                false,
            ),
            (
                answer(429, "rate_limit_error", "slow down"),
                "rate_limit",
                true,
            ),
            (answer(500, "api_error", "oops"), "server_error", true),
            (answer(502, "", "bad gateway"), "server_error", true),
            (answer(503, "overloaded_error", "busy"), "overloaded", true),
            (
                answer(529, "overloaded_error", "Overloaded"),
                "overloaded",
                true,
            ),
            (
                stream_error("overloaded_error", "Overloaded", None),
                "overloaded",
                true,
            ),
            (
                stream_error("api_error", "oops", None),
                "server_error",
                true,
            ),
        ];
        for (error, kind, retryable) in cases {
            assert_eq!(error.sdk_kind(), kind, "{error}");
            assert_eq!(error.is_retryable(), retryable, "{error}");
        }
    }

    #[test]
    fn a_long_prompt_tells_how_long_it_is() {
        let error = answer(
            400,
            "invalid_request_error",
            "prompt is too long: 205133 tokens > 200000 maximum",
        );
        assert!(matches!(
            error,
            ModelError::PromptTooLong {
                tokens: Some(205_133),
                limit: Some(200_000),
                ..
            }
        ));
        let error = answer(
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 188240 + 20000 > 200000, decrease input length",
        );
        assert!(matches!(
            error,
            ModelError::PromptTooLong {
                tokens: Some(208_240),
                limit: Some(200_000),
                ..
            }
        ));
        let error = answer(413, "request_too_large", "Prompt is too long");
        assert!(matches!(
            error,
            ModelError::PromptTooLong {
                tokens: None,
                limit: None,
                ..
            }
        ));
    }

    #[test]
    fn a_refused_image_or_document_is_located() {
        let error = answer(
            400,
            "invalid_request_error",
            "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
        );
        let expected = BlockPosition {
            message: 3,
            block: 1,
            inner: None,
        };
        assert!(matches!(error, ModelError::ImageTooLarge { at: Some(at), .. } if at == expected));
        let error = answer(
            400,
            "invalid_request_error",
            "messages.12.content.0.tool_result.content.2.image.source: image dimensions exceed max allowed size",
        );
        let expected = BlockPosition {
            message: 12,
            block: 0,
            inner: Some(2),
        };
        assert!(matches!(error, ModelError::ImageTooLarge { at: Some(at), .. } if at == expected));
        let error = answer(
            400,
            "invalid_request_error",
            "A maximum of 100 PDF pages may be provided.",
        );
        assert!(matches!(error, ModelError::PdfTooLarge { at: None, .. }));
    }

    #[test]
    fn refused_reasoning_is_told_apart() {
        let error = answer(
            400,
            "invalid_request_error",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        );
        assert!(matches!(error, ModelError::ThinkingRejected(_)));
        let error = answer(
            400,
            "invalid_request_error",
            "thinking.budget_tokens: must be at least 1024",
        );
        assert!(matches!(error, ModelError::InvalidRequest(_)));
    }

    #[test]
    fn an_answer_in_another_language_is_shown_shortened() {
        let page = format!("<html>\n<body>{}</body>", "Bad Gateway ".repeat(100));
        let error = raw(502, page.as_bytes());
        let text = error.summary();
        assert!(
            text.starts_with("API Error: 502 <html> <body>Bad Gateway"),
            "{text}"
        );
        assert!(text.chars().count() < 400, "{text}");
        assert!(raw(500, b"").summary().starts_with("API Error: 500"));
        assert!(
            raw(500, &[0xff, 0xfe])
                .summary()
                .starts_with("API Error: 500")
        );
        assert_eq!(
            raw(400, br#"{"error":"just text"}"#)
                .failure()
                .unwrap()
                .message,
            "just text"
        );
    }

    #[test]
    fn waits_are_read_in_all_three_forms() {
        let now = UNIX_EPOCH + Duration::from_secs(1_445_412_480);
        assert_eq!(
            wait(Some("1500"), Some("9"), now),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            wait(None, Some("2.5"), now),
            Some(Duration::from_millis(2500))
        );
        assert_eq!(
            wait(None, Some("Wed, 21 Oct 2015 07:28:30 GMT"), now),
            Some(Duration::from_secs(30))
        );
        assert_eq!(
            wait(None, Some("Wed, 21 Oct 2015 07:27:00 GMT"), now),
            Some(Duration::ZERO)
        );
        assert_eq!(wait(None, Some("soon"), now), None);
        assert_eq!(wait(Some("-1"), None, now), None);
        assert_eq!(wait(None, Some("NaN"), now), None);
    }
}
