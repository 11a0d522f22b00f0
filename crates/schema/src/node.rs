//! A schema as it is worked with: numbered nodes, each with what it asks of a value.

use crate::pattern::Pattern;
use serde_json::{Number, Value};
use std::collections::HashMap;
use std::fmt;

/// A node's place in [`crate::compile::Compiled::nodes`].
pub(crate) type NodeId = usize;
/// A schema with an address of its own: the whole document, or a part with an `$id`.
pub(crate) type ResourceId = usize;

/// One schema.
#[derive(Default)]
pub(crate) struct Node {
    /// Which resource it belongs to.
    pub(crate) resource: ResourceId,
    /// What it asks, in the order in which it is looked at: what needs to know of the others is last.
    pub(crate) keywords: Vec<Keyword>,
}

/// The kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Object,
    Array,
    Number,
    Integer,
    String,
}

impl Kind {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "object" => Self::Object,
            "array" => Self::Array,
            "number" => Self::Number,
            "integer" => Self::Integer,
            "string" => Self::String,
            _ => return None,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Number => "a number",
            Self::Integer => "an integer",
            Self::String => "a string",
        })
    }
}

/// A size with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Characters,
    Items,
    Properties,
}

/// One thing that a schema asks of a value.
pub(crate) enum Keyword {
    /// `false`: nothing fits.
    Nothing,
    /// One of these kinds.
    Kinds {
        kinds: Vec<Kind>,
        /// Whether `1.0` is an integer; it wasn't in draft 4.
        by_value: bool,
    },
    Constant(Value),
    OneOfValues(Vec<Value>),
    MultipleOf(Number),
    Minimum {
        limit: Number,
        exclusive: bool,
    },
    Maximum {
        limit: Number,
        exclusive: bool,
    },
    AtLeast(Measure, u64),
    AtMost(Measure, u64),
    Matches(Pattern),
    /// The first items each by their own schema, the rest by one.
    Items {
        first: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        schema: NodeId,
        least: u64,
        most: Option<u64>,
        /// Whether a fitting item counts as looked at.
        evaluates: bool,
    },
    UniqueItems,
    Properties {
        named: HashMap<String, NodeId>,
        patterns: Vec<(Pattern, NodeId)>,
        additional: Option<NodeId>,
    },
    PropertyNames(NodeId),
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    DependentSchemas(Vec<(String, NodeId)>),
    All(Vec<NodeId>),
    Any(Vec<NodeId>),
    One(Vec<NodeId>),
    Not(NodeId),
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    Reference(NodeId),
    /// A reference whose target the schemas on the way here may have replaced.
    DynamicReference {
        name: String,
        target: NodeId,
    },
    /// The same in draft 2019-09, where only whole resources are replaced.
    RecursiveReference(NodeId),
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

/// What a resource offers to dynamic references.
#[derive(Default)]
pub(crate) struct Resource {
    /// Its own schema, for recursive references, if it may replace others.
    pub(crate) recursive: Option<NodeId>,
    /// Its dynamic anchors.
    pub(crate) anchors: Vec<(String, NodeId)>,
}
