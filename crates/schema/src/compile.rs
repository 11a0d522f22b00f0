//! Compiles a schema's JSON to nodes.
//!
//! The first pass walks the keywords that contain schemas and indexes the parts that have an address
//! (`$id`, `$anchor`, `$dynamicAnchor`). The second creates the nodes from the root, one per location;
//! references resolve to locations, so a schema may refer to itself. A reference to another document is
//! rejected: a schema must not cause file or network access.

use crate::SchemaError;
use crate::node::{Keyword, Node, NodeId, Resource, ResourceId};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use url::Url;

/// The base address of a document without `$id`.
const DEFAULT_ADDRESS: &str = "schema:///";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Draft {
    Four,
    Six,
    Seven,
    /// 2019-09.
    Nineteen,
    /// 2020-12.
    Twenty,
}

impl Draft {
    /// The draft that `$schema` names; the newest if it is absent or unknown.
    fn of(schema: &Value) -> Self {
        let named = schema.get("$schema").and_then(Value::as_str).unwrap_or("");
        for (mark, draft) in [
            ("draft-04", Self::Four),
            ("draft-06", Self::Six),
            ("draft-07", Self::Seven),
            ("draft/2019-09", Self::Nineteen),
        ] {
            if named.contains(mark) {
                return draft;
            }
        }
        Self::Twenty
    }

    fn id_keyword(self) -> &'static str {
        if self == Self::Four { "id" } else { "$id" }
    }
}

/// A location in the document.
#[derive(Debug, Clone)]
pub(crate) struct SchemaLocation {
    /// A JSON pointer from the root of the document.
    pub(crate) pointer: String,
    pub(crate) base: Url,
    pub(crate) resource: ResourceId,
}

impl SchemaLocation {
    pub(crate) fn below(&self, step: &str) -> Self {
        let mut pointer = self.pointer.clone();
        pointer.push('/');
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        Self {
            pointer,
            ..self.clone()
        }
    }
}

pub(crate) struct Compiled {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    pub(crate) resources: Vec<Resource>,
}

/// The addresses in the document.
#[derive(Default)]
struct Index {
    /// Resources by address.
    addresses: HashMap<String, SchemaLocation>,
    /// Anchors by address and name.
    anchors: HashMap<(String, String), SchemaLocation>,
    /// Dynamic anchors with resource and name; `None` is a recursive anchor.
    dynamic: Vec<(ResourceId, Option<String>, SchemaLocation)>,
    resources: usize,
}

pub(crate) struct Compiler<'a> {
    document: &'a Value,
    pub(crate) draft: Draft,
    index: Index,
    nodes: Vec<Node>,
    /// Nodes by JSON pointer.
    known: HashMap<String, NodeId>,
}

pub(crate) fn compile(document: &Value) -> Result<Compiled, SchemaError> {
    let draft = Draft::of(document);
    let base = Url::parse(DEFAULT_ADDRESS).map_err(|source| SchemaError::Address {
        pointer: String::new(),
        keyword: draft.id_keyword(),
        id: DEFAULT_ADDRESS.to_owned(),
        source,
    })?;
    let mut index = Index::default();
    let root = SchemaLocation {
        pointer: String::new(),
        base: base.clone(),
        resource: 0,
    };
    index.addresses.insert(address(&base), root.clone());
    index.resources = 1;
    let root = index.walk(document, root, draft)?;
    let mut compiler = Compiler {
        document,
        draft,
        index,
        nodes: Vec::new(),
        known: HashMap::new(),
    };
    let root = compiler.node(document, &root)?;
    let mut resources: Vec<Resource> = (0..compiler.index.resources)
        .map(|_| Resource::default())
        .collect();
    for (resource, name, location) in std::mem::take(&mut compiler.index.dynamic) {
        let Some(schema) = document.pointer(&location.pointer) else {
            continue;
        };
        let node = compiler.node(schema, &location)?;
        let Some(resource) = resources.get_mut(resource) else {
            continue;
        };
        match name {
            Some(name) => resource.anchors.push((name, node)),
            None => resource.recursive = Some(node),
        }
    }
    let compiled = Compiled {
        nodes: compiler.nodes,
        root,
        resources,
    };
    compiled.refuse_endless()?;
    Ok(compiled)
}

/// An address without its fragment.
fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.into()
}

fn resolve(id: &str, location: &SchemaLocation, draft: Draft) -> Result<Url, SchemaError> {
    location
        .base
        .join(id)
        .map_err(|source| SchemaError::Address {
            pointer: location.pointer.clone(),
            keyword: draft.id_keyword(),
            id: id.to_owned(),
            source,
        })
}

impl Index {
    /// Indexes the addresses in a schema and its subschemas. Returns the schema's location with the base
    /// that its own `$id` sets.
    fn walk(
        &mut self,
        schema: &Value,
        mut location: SchemaLocation,
        draft: Draft,
    ) -> Result<SchemaLocation, SchemaError> {
        let Some(members) = schema.as_object() else {
            return Ok(location);
        };
        let beside_reference = draft < Draft::Nineteen && members.contains_key("$ref");
        if !beside_reference
            && let Some(id) = members.get(draft.id_keyword()).and_then(Value::as_str)
        {
            self.enter(id, &mut location, draft)?;
        }
        if draft >= Draft::Nineteen {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = members.get(keyword).and_then(Value::as_str) {
                    let key = (address(&location.base), name.to_owned());
                    self.anchors.insert(key, location.clone());
                    if keyword == "$dynamicAnchor" {
                        let name = Some(name.to_owned());
                        self.dynamic
                            .push((location.resource, name, location.clone()));
                    }
                }
            }
            if members.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                self.dynamic
                    .push((location.resource, None, location.clone()));
            }
        }
        for (keyword, value) in members {
            let below = location.below(keyword);
            match (Subschemas::of(keyword), value) {
                (Subschemas::Schema | Subschemas::SchemaOrList, Value::Object(_)) => {
                    self.walk(value, below, draft)?;
                }
                (Subschemas::List | Subschemas::SchemaOrList, Value::Array(list)) => {
                    for (index, value) in list.iter().enumerate() {
                        self.walk(value, below.below(&index.to_string()), draft)?;
                    }
                }
                (Subschemas::Named, Value::Object(named)) => {
                    for (name, value) in named {
                        self.walk(value, below.below(name), draft)?;
                    }
                }
                _ => {}
            }
        }
        Ok(location)
    }

    /// Applies an `$id`.
    fn enter(
        &mut self,
        id: &str,
        location: &mut SchemaLocation,
        draft: Draft,
    ) -> Result<(), SchemaError> {
        let url = resolve(id, location, draft)?;
        if draft < Draft::Nineteen
            && id.starts_with('#')
            && let Some(name) = url.fragment()
        {
            // In older drafts this is an anchor within the resource.
            let key = (address(&location.base), name.to_owned());
            self.anchors.insert(key, location.clone());
            return Ok(());
        }
        location.base = url.clone();
        location.base.set_fragment(None);
        if !location.pointer.is_empty() {
            location.resource = self.resources;
            self.resources += 1;
        }
        if let Some(name) = url.fragment().filter(|name| !name.is_empty()) {
            let key = (address(&url), name.to_owned());
            self.anchors.insert(key, location.clone());
        }
        self.addresses.insert(address(&url), location.clone());
        Ok(())
    }
}

/// Where the value of a keyword contains schemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subschemas {
    Schema,
    List,
    SchemaOrList,
    Named,
    Nothing,
}

impl Subschemas {
    fn of(keyword: &str) -> Self {
        match keyword {
            "additionalProperties"
            | "additionalItems"
            | "contains"
            | "else"
            | "if"
            | "not"
            | "propertyNames"
            | "then"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contentSchema" => Self::Schema,
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => Self::List,
            "items" => Self::SchemaOrList,
            "$defs" | "definitions" | "dependentSchemas" | "dependencies" | "patternProperties"
            | "properties" => Self::Named,
            _ => Self::Nothing,
        }
    }
}

impl<'a> Compiler<'a> {
    /// The node of the schema at a location; created on first use.
    pub(crate) fn node(
        &mut self,
        schema: &Value,
        location: &SchemaLocation,
    ) -> Result<NodeId, SchemaError> {
        if let Some(id) = self.known.get(&location.pointer) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        self.nodes.push(Node::default());
        self.known.insert(location.pointer.clone(), id);
        let (resource, keywords) = match schema {
            Value::Bool(true) => (location.resource, Vec::new()),
            Value::Bool(false) => (location.resource, vec![Keyword::Nothing]),
            Value::Object(members) => {
                let location = self.with_own_base(members, location)?;
                (location.resource, self.keywords(members, &location)?)
            }
            _ => {
                return Err(SchemaError::NotASchema {
                    pointer: location.pointer.clone(),
                    value: Box::new(schema.clone()),
                });
            }
        };
        self.nodes[id] = Node { resource, keywords };
        Ok(id)
    }

    /// A schema's location with the base that its own `$id` sets.
    fn with_own_base(
        &self,
        members: &Map<String, Value>,
        location: &SchemaLocation,
    ) -> Result<SchemaLocation, SchemaError> {
        let Some(id) = members.get(self.draft.id_keyword()).and_then(Value::as_str) else {
            return Ok(location.clone());
        };
        if self.draft < Draft::Nineteen && (members.contains_key("$ref") || id.starts_with('#')) {
            return Ok(location.clone());
        }
        let url = resolve(id, location, self.draft)?;
        // A location that was not indexed (in an unknown keyword) keeps its base.
        let known = self.index.addresses.get(&address(&url));
        Ok(known
            .filter(|known| known.pointer == location.pointer)
            .cloned()
            .unwrap_or_else(|| location.clone()))
    }

    /// Resolves a reference.
    pub(crate) fn target(
        &self,
        reference: &str,
        location: &SchemaLocation,
    ) -> Result<(&'a Value, SchemaLocation), SchemaError> {
        let lost = || SchemaError::Reference {
            pointer: location.pointer.clone(),
            reference: reference.to_owned(),
        };
        let url = location.base.join(reference).map_err(|_| lost())?;
        let resource = address(&url);
        let fragment = decoded(url.fragment().unwrap_or("")).ok_or_else(lost)?;
        let target = if fragment.is_empty() {
            self.index.addresses.get(&resource).cloned()
        } else if let Some(pointer) = fragment.strip_prefix('/') {
            let root = self.index.addresses.get(&resource).ok_or_else(lost)?;
            Some(self.follow(root, pointer).ok_or_else(lost)?)
        } else {
            self.index.anchors.get(&(resource, fragment)).cloned()
        };
        let target = target.ok_or_else(lost)?;
        let schema = self.document.pointer(&target.pointer).ok_or_else(lost)?;
        Ok((schema, target))
    }

    /// Follows a JSON pointer, applying each `$id` it passes.
    fn follow(&self, root: &SchemaLocation, pointer: &str) -> Option<SchemaLocation> {
        let mut location = root.clone();
        for step in pointer.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            if let Some(members) = self.document.pointer(&location.pointer)?.as_object() {
                location = self.with_own_base(members, &location).ok()?;
            }
            location = location.below(&step);
        }
        Some(location)
    }

    /// True if a location has a dynamic anchor of this name.
    pub(crate) fn is_dynamic(&self, target: &SchemaLocation, name: &str) -> bool {
        self.index.dynamic.iter().any(|(_, anchor, location)| {
            anchor.as_deref() == Some(name) && location.pointer == target.pointer
        })
    }

    /// Resolves a reference to a node.
    pub(crate) fn target_node(
        &mut self,
        reference: &str,
        location: &SchemaLocation,
    ) -> Result<(NodeId, SchemaLocation), SchemaError> {
        let (schema, target) = self.target(reference, location)?;
        Ok((self.node(schema, &target)?, target))
    }
}

/// Decodes percent escapes.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

impl Compiled {
    /// Rejects schemas that apply themselves to the same value, which would never end.
    fn refuse_endless(&self) -> Result<(), SchemaError> {
        let mut finished = HashSet::new();
        for start in 0..self.nodes.len() {
            let mut open = HashSet::new();
            if self.reaches_itself(start, &mut open, &mut finished) {
                return Err(SchemaError::Endless);
            }
        }
        Ok(())
    }

    fn reaches_itself(
        &self,
        node: NodeId,
        open: &mut HashSet<NodeId>,
        finished: &mut HashSet<NodeId>,
    ) -> bool {
        if finished.contains(&node) {
            return false;
        }
        if !open.insert(node) {
            return true;
        }
        let again = self.nodes.get(node).is_some_and(|it| {
            it.keywords
                .iter()
                .flat_map(Keyword::in_place)
                .any(|next| self.reaches_itself(next, open, finished))
        });
        open.remove(&node);
        finished.insert(node);
        again
    }
}

impl Keyword {
    /// The subschemas that apply to the same value.
    fn in_place(&self) -> Vec<NodeId> {
        match self {
            Self::All(list) | Self::Any(list) | Self::One(list) => list.clone(),
            Self::Not(node)
            | Self::Reference(node)
            | Self::RecursiveReference(node)
            | Self::DynamicReference { target: node, .. } => vec![*node],
            Self::If {
                condition,
                then,
                otherwise,
            } => [Some(*condition), *then, *otherwise]
                .into_iter()
                .flatten()
                .collect(),
            Self::DependentSchemas(list) => list.iter().map(|(_, node)| *node).collect(),
            _ => Vec::new(),
        }
    }
}
