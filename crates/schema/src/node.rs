//! A compiled schema: numbered nodes, each with its keywords.

use crate::pattern::Pattern;
use serde_json::{Number, Value};
use std::collections::HashMap;
use std::fmt;

/// An index into [`crate::compile::Compiled::nodes`].
pub(crate) type NodeId = usize;
/// A schema with an address of its own: the whole document, or a part with an `$id`.
pub(crate) type ResourceId = usize;

#[derive(Default)]
pub(crate) struct Node {
    pub(crate) resource: ResourceId,
    /// In the order of evaluation; keywords that depend on the results of others come last.
    pub(crate) keywords: Vec<Keyword>,
}

/// The types of JSON values.
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

/// The size that a bound applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Characters,
    Items,
    Properties,
}

/// One constraint of a schema.
pub(crate) enum Keyword {
    /// The schema `false`, which no value matches.
    Nothing,
    Kinds {
        kinds: Vec<Kind>,
        /// True if `1.0` is an integer, which draft 4 denies.
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
    /// One schema for each of the first items, and one for the rest.
    Items {
        first: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        schema: NodeId,
        least: u64,
        most: Option<u64>,
        /// True if a matching item counts as evaluated.
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
    /// A reference whose target an enclosing dynamic scope may override.
    DynamicReference {
        name: String,
        target: NodeId,
    },
    /// The form of draft 2019-09, where only whole resources are overridden.
    RecursiveReference(NodeId),
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

/// The targets that a resource provides for dynamic references.
#[derive(Default)]
pub(crate) struct Resource {
    /// Its root, if it has `$recursiveAnchor: true`.
    pub(crate) recursive: Option<NodeId>,
    pub(crate) anchors: Vec<(String, NodeId)>,
}
