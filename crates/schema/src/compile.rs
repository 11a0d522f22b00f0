//! From a schema's JSON to nodes.
//!
//! First the document is walked along the keywords that hold schemas, to find the parts that have
//! an address (`$id`, `$anchor`, `$dynamicAnchor`). Then nodes are made from the top, each place once;
//! references lead to places, so that a schema may refer to itself. A reference to another document is
//! refused: a schema must not make us read files or the network.

use crate::node::{Keyword, Node, NodeId, Resource, ResourceId};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use url::Url;

/// The address of a document that says none.
const NO_ADDRESS: &str = "schema:///";

/// Which rules a schema is written by.
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
    /// What `$schema` says; the newest where it says nothing that is known.
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

/// Where a schema stands.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The way from the document's root, as a JSON pointer.
    pub(crate) pointer: String,
    pub(crate) base: Url,
    pub(crate) resource: ResourceId,
}

impl Place {
    /// The place below this one.
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

/// A schema ready for use.
pub(crate) struct Compiled {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    pub(crate) resources: Vec<Resource>,
}

/// What is known of the document's addresses.
#[derive(Default)]
struct Index {
    /// Resources by their address.
    addresses: HashMap<String, Place>,
    /// Named places by address and name.
    anchors: HashMap<(String, String), Place>,
    /// Dynamic ones by resource, with their names; `None` is a recursive anchor.
    dynamic: Vec<(ResourceId, Option<String>, Place)>,
    resources: usize,
}

/// Makes the nodes.
pub(crate) struct Compiler<'a> {
    document: &'a Value,
    pub(crate) draft: Draft,
    index: Index,
    nodes: Vec<Node>,
    /// The node of each place that has one.
    known: HashMap<String, NodeId>,
}

/// Reads a schema.
///
/// # Errors
/// In words, with the place, when it is none.
pub(crate) fn compile(document: &Value) -> Result<Compiled, String> {
    let draft = Draft::of(document);
    let base = Url::parse(NO_ADDRESS).map_err(|error| error.to_string())?;
    let mut index = Index::default();
    let root = Place {
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
    for (resource, name, place) in std::mem::take(&mut compiler.index.dynamic) {
        let Some(schema) = document.pointer(&place.pointer) else {
            continue;
        };
        let node = compiler.node(schema, &place)?;
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

/// An address without what follows the `#`.
fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.into()
}

impl Index {
    /// Notes the addresses in a schema and in those inside it. Gives its place, which has another base
    /// when it names one.
    fn walk(&mut self, schema: &Value, mut place: Place, draft: Draft) -> Result<Place, String> {
        let Some(members) = schema.as_object() else {
            return Ok(place);
        };
        let beside_reference = draft < Draft::Nineteen && members.contains_key("$ref");
        if !beside_reference
            && let Some(id) = members.get(draft.id_keyword()).and_then(Value::as_str)
        {
            self.enter(id, &mut place, draft)?;
        }
        if draft >= Draft::Nineteen {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = members.get(keyword).and_then(Value::as_str) {
                    let key = (address(&place.base), name.to_owned());
                    self.anchors.insert(key, place.clone());
                    if keyword == "$dynamicAnchor" {
                        let name = Some(name.to_owned());
                        self.dynamic.push((place.resource, name, place.clone()));
                    }
                }
            }
            if members.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                self.dynamic.push((place.resource, None, place.clone()));
            }
        }
        for (keyword, value) in members {
            let below = place.below(keyword);
            match (Holds::of(keyword), value) {
                (Holds::Schema | Holds::SchemaOrList, Value::Object(_)) => {
                    self.walk(value, below, draft)?;
                }
                (Holds::List | Holds::SchemaOrList, Value::Array(list)) => {
                    for (index, value) in list.iter().enumerate() {
                        self.walk(value, below.below(&index.to_string()), draft)?;
                    }
                }
                (Holds::Named, Value::Object(named)) => {
                    for (name, value) in named {
                        self.walk(value, below.below(name), draft)?;
                    }
                }
                _ => {}
            }
        }
        Ok(place)
    }

    /// Takes in an `$id`.
    fn enter(&mut self, id: &str, place: &mut Place, draft: Draft) -> Result<(), String> {
        let url = place
            .base
            .join(id)
            .map_err(|error| format!("{} {id:?} is no address: {error}", draft.id_keyword()))?;
        if draft < Draft::Nineteen
            && id.starts_with('#')
            && let Some(name) = url.fragment()
        {
            // In older drafts this is a name within the resource.
            let key = (address(&place.base), name.to_owned());
            self.anchors.insert(key, place.clone());
            return Ok(());
        }
        place.base = url.clone();
        place.base.set_fragment(None);
        if !place.pointer.is_empty() {
            place.resource = self.resources;
            self.resources += 1;
        }
        if let Some(name) = url.fragment().filter(|name| !name.is_empty()) {
            let key = (address(&url), name.to_owned());
            self.anchors.insert(key, place.clone());
        }
        self.addresses.insert(address(&url), place.clone());
        Ok(())
    }
}

/// What the value of a keyword holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Schema,
    List,
    SchemaOrList,
    Named,
    Nothing,
}

impl Holds {
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
    /// The node of a schema at a place; made when it is new.
    pub(crate) fn node(&mut self, schema: &Value, place: &Place) -> Result<NodeId, String> {
        if let Some(id) = self.known.get(&place.pointer) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        self.nodes.push(Node::default());
        self.known.insert(place.pointer.clone(), id);
        let (resource, keywords) = match schema {
            Value::Bool(true) => (place.resource, Vec::new()),
            Value::Bool(false) => (place.resource, vec![Keyword::Nothing]),
            Value::Object(members) => {
                let place = self.entered(members, place)?;
                (place.resource, self.keywords(members, &place)?)
            }
            _ => {
                return Err(format!(
                    "{} is {schema}, which is no schema (an object, true or false)",
                    shown(&place.pointer)
                ));
            }
        };
        self.nodes[id] = Node { resource, keywords };
        Ok(id)
    }

    /// A schema's place with the base that it names itself.
    fn entered(&self, members: &Map<String, Value>, place: &Place) -> Result<Place, String> {
        let Some(id) = members.get(self.draft.id_keyword()).and_then(Value::as_str) else {
            return Ok(place.clone());
        };
        if self.draft < Draft::Nineteen && (members.contains_key("$ref") || id.starts_with('#')) {
            return Ok(place.clone());
        }
        let url = place.base.join(id).map_err(|error| error.to_string())?;
        // A place that the walk didn't see (in a keyword that nobody knows) keeps its own.
        let known = self.index.addresses.get(&address(&url));
        Ok(known
            .filter(|known| known.pointer == place.pointer)
            .cloned()
            .unwrap_or_else(|| place.clone()))
    }

    /// Where a reference leads.
    pub(crate) fn target(
        &self,
        reference: &str,
        place: &Place,
    ) -> Result<(&'a Value, Place), String> {
        let lost = || {
            format!(
                "{} refers to {reference:?}, which is not in the schema; put what it means under \"$defs\", other documents are not read",
                shown(&place.pointer)
            )
        };
        let url = place.base.join(reference).map_err(|_| lost())?;
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

    /// The place that a pointer from another place leads to. Addresses on the way count.
    fn follow(&self, root: &Place, pointer: &str) -> Option<Place> {
        let mut place = root.clone();
        for step in pointer.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            if let Some(members) = self.document.pointer(&place.pointer)?.as_object() {
                place = self.entered(members, &place).ok()?;
            }
            place = place.below(&step);
        }
        Some(place)
    }

    /// Whether a reference leads to a dynamic anchor, by its name.
    pub(crate) fn is_dynamic(&self, target: &Place, name: &str) -> bool {
        self.index.dynamic.iter().any(|(_, anchor, place)| {
            anchor.as_deref() == Some(name) && place.pointer == target.pointer
        })
    }

    /// As [`Self::target`], as a node.
    pub(crate) fn referred(
        &mut self,
        reference: &str,
        place: &Place,
    ) -> Result<(NodeId, Place), String> {
        let (schema, target) = self.target(reference, place)?;
        Ok((self.node(schema, &target)?, target))
    }
}

/// Undoes the percent signs of an address.
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

/// A place in words.
pub(crate) fn shown(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the schema"
    } else {
        pointer
    }
}

impl Compiled {
    /// A schema that asks of a value what it asks of it already would never come to an end.
    fn refuse_endless(&self) -> Result<(), String> {
        let mut finished = HashSet::new();
        for start in 0..self.nodes.len() {
            let mut open = HashSet::new();
            if self.comes_back(start, &mut open, &mut finished) {
                return Err(
                    "it refers to itself without going into a part of the value, so that checking would never end"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }

    fn comes_back(
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
                .any(|next| self.comes_back(next, open, finished))
        });
        open.remove(&node);
        finished.insert(node);
        again
    }
}

impl Keyword {
    /// The schemas that it holds against the very same value.
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
