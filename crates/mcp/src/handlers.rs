//! Requests from servers: roots, elicitation (questions to the user) and sampling (requests to
//! the model).
//!
//! Connections know neither person nor model; the session provides [`Handlers`]. The older protocol
//! sends these as requests, the newer one as rounds of a call (`input_required`); both are handled
//! here.

use futures::future::BoxFuture;
use serde_json::Value;

/// Answers requests from servers.
pub trait Handlers: Send + Sync + 'static {
    /// The capabilities offered to servers. Read for each connection.
    fn offers(&self) -> Offers;

    /// The working directories.
    fn roots(&self) -> Vec<Root>;

    /// Asks the user on behalf of a server. Dropping the future withdraws the question.
    fn elicit<'a>(
        &'a self,
        server: &'a str,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitationAnswer>;

    /// Asks the model on behalf of a server: takes the parameters of `sampling/createMessage` and
    /// returns a `CreateMessageResult`.
    fn sample<'a>(
        &'a self,
        server: &'a str,
        request: Value,
    ) -> BoxFuture<'a, Result<Value, SamplingRefused>>;
}

/// Why a request for sampling is refused; the server gets this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SamplingRefused(pub String);

/// The capabilities that we offer to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    /// The working directories.
    pub roots: bool,
    pub sampling: bool,
    pub elicitation_form: bool,
    /// A page that the user opens.
    pub elicitation_url: bool,
}

/// A working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Its `file://` address.
    pub uri: String,
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    pub message: String,
    pub kind: ElicitationKind,
    /// The raw parameters of the request.
    pub params: Value,
}

/// The kind of answer that a question asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationKind {
    /// The fields of a form, as a flat JSON schema.
    Form { schema: Value },
    /// A page to open and finish.
    Url {
        url: String,
        /// The id with which the server reports completion.
        elicitation_id: Option<String>,
    },
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// Accepted, with the fields of the form (an empty object for a page).
    Accept(Value),
    Decline,
    /// The question was dismissed.
    Cancel,
}

impl ElicitationAnswer {
    /// The name in the protocol.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept(_) => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

/// Handlers without the user: no roots, every question is declined.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Handlers for Nobody {
    fn offers(&self) -> Offers {
        Offers::default()
    }

    fn roots(&self) -> Vec<Root> {
        Vec::new()
    }

    fn elicit<'a>(
        &'a self,
        _server: &'a str,
        _question: Elicitation,
    ) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(async { ElicitationAnswer::Decline })
    }

    fn sample<'a>(
        &'a self,
        _server: &'a str,
        _request: Value,
    ) -> BoxFuture<'a, Result<Value, SamplingRefused>> {
        Box::pin(async { Err(SamplingRefused("sampling is not available here".to_owned())) })
    }
}

/// The default values of a form's schema, for unattended acceptance. Fields without a default are
/// left out.
#[must_use]
pub fn form_defaults(schema: &Value) -> Value {
    let mut values = serde_json::Map::new();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            if let Some(default) = property.get("default") {
                values.insert(name.clone(), default.clone());
            }
        }
    }
    Value::Object(values)
}
