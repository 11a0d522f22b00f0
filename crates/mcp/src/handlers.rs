//! What a server may ask of us: the folders we work in, a person's answer, a model's answer.
//!
//! The connections know neither persons nor models; whoever opens a session hands in [`Handlers`].
//! In the older protocol a server sends these as requests, in the newer one they come as rounds of a
//! call (`input_required`); both end here.

use futures::future::BoxFuture;
use serde_json::Value;

/// Answers what servers ask.
pub trait Handlers: Send + Sync + 'static {
    /// What is offered to servers. Read at each connection.
    fn offers(&self) -> Offers;

    /// The folders that are worked in.
    fn roots(&self) -> Vec<Root>;

    /// A server asks the person something. Dropping the future withdraws the question.
    fn elicit<'a>(
        &'a self,
        server: &'a str,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitationAnswer>;

    /// A server asks the model something: the parameters of `sampling/createMessage`, answered by a
    /// `CreateMessageResult` or by the reason why not.
    fn sample<'a>(
        &'a self,
        server: &'a str,
        request: Value,
    ) -> BoxFuture<'a, Result<Value, String>>;
}

/// What we tell servers that they may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    /// The folders that are worked in.
    pub roots: bool,
    /// A model's answer.
    pub sampling: bool,
    /// A form for the person.
    pub elicitation_form: bool,
    /// An address that the person opens.
    pub elicitation_url: bool,
}

/// A folder that is worked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Its `file://` address.
    pub uri: String,
    /// What to call it.
    pub name: Option<String>,
}

/// A question for the person.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    /// What it is about.
    pub message: String,
    /// What is wanted.
    pub kind: ElicitationKind,
    /// The request's parameters as the server sent them.
    pub params: Value,
}

/// What is wanted of the person.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationKind {
    /// The fields of a form, as a flat JSON schema.
    Form {
        /// The schema.
        schema: Value,
    },
    /// A page to open and finish.
    Url {
        /// The page.
        url: String,
        /// What the server calls this question when it tells of its end.
        elicitation_id: Option<String>,
    },
}

/// The person's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// Yes, with the fields of the form (an empty object for a page).
    Accept(Value),
    /// No.
    Decline,
    /// Neither: the question was put away.
    Cancel,
}

impl ElicitationAnswer {
    /// The protocol's word for it.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept(_) => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

/// Nobody is there: no folders, every question is declined.
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
    ) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async { Err("nobody is here to allow a model's answer".to_owned()) })
    }
}

/// The values that a form's schema gives by default: what an unattended acceptance answers with.
/// Fields without a default are left out.
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
