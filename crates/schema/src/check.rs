//! Validates a value against the nodes of a schema.
//!
//! Every error names its location in the value. A successful match records the properties and items
//! that were evaluated, for `unevaluatedProperties` and `unevaluatedItems`.

use crate::compile::Compiled;
use crate::node::{Keyword, Kind, Measure, NodeId, ResourceId};
use crate::number;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt::Write as _;

/// The maximum number of errors reported; more would only bury the first.
const MAX_ERRORS: usize = 8;
/// The maximum nesting of schemas during a check.
const MAX_DEPTH: usize = 400;
/// The maximum length of a value in a message, in characters.
const MAX_SHOWN: usize = 100;

/// A location in the value, as a linked list from the leaf to the root.
#[derive(Clone, Copy)]
enum Location<'a> {
    Root,
    Property(&'a Location<'a>, &'a str),
    Item(&'a Location<'a>, usize),
}

impl Location<'_> {
    fn write(self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Property(above, name) => {
                above.write(out);
                out.push('/');
                out.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            Self::Item(above, index) => {
                above.write(out);
                let _ = write!(out, "/{index}");
            }
        }
    }
}

/// The properties and items that were evaluated.
#[derive(Default)]
struct Evaluated<'v> {
    all_properties: bool,
    properties: HashSet<&'v str>,
    /// All items before this index.
    items: usize,
    all_items: bool,
    single_items: HashSet<usize>,
}

impl<'v> Evaluated<'v> {
    fn add(&mut self, other: Evaluated<'v>) {
        self.all_properties |= other.all_properties;
        self.properties.extend(other.properties);
        self.items = self.items.max(other.items);
        self.all_items |= other.all_items;
        self.single_items.extend(other.single_items);
    }

    fn has_item(&self, index: usize) -> bool {
        self.all_items || index < self.items || self.single_items.contains(&index)
    }
}

struct Check<'s> {
    schema: &'s Compiled,
    /// The resources of the enclosing nodes, outermost first.
    scope: Vec<ResourceId>,
    depth: usize,
}

pub(crate) fn problems(schema: &Compiled, value: &Value) -> Vec<String> {
    let mut check = Check {
        schema,
        scope: Vec::new(),
        depth: 0,
    };
    let mut problems = Vec::new();
    check.node(schema.root, value, Location::Root, &mut problems);
    problems.truncate(MAX_ERRORS);
    problems
}

fn report(problems: &mut Vec<String>, location: Location<'_>, problem: &str) {
    if problems.len() >= MAX_ERRORS {
        return;
    }
    let mut text = String::new();
    location.write(&mut text);
    if text.is_empty() {
        text.push('/');
    }
    problems.push(format!("{text}: {problem}"));
}

/// A value as shown in a message.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn listed(values: impl Iterator<Item = String>, word: &str) -> String {
    let values: Vec<String> = values.collect();
    match values.split_last() {
        Some((last, before)) if !before.is_empty() => {
            format!("{} {word} {last}", before.join(", "))
        }
        Some((last, _)) => last.clone(),
        None => "nothing".to_owned(),
    }
}

fn is_kind(value: &Value, kind: Kind, by_value: bool) -> bool {
    match (value, kind) {
        (Value::Null, Kind::Null)
        | (Value::Bool(_), Kind::Boolean)
        | (Value::Object(_), Kind::Object)
        | (Value::Array(_), Kind::Array)
        | (Value::Number(_), Kind::Number)
        | (Value::String(_), Kind::String) => true,
        (Value::Number(value), Kind::Integer) => {
            if by_value {
                number::is_whole(value)
            } else {
                // Written without a fraction; integers beyond u64 are stored as floats.
                !value.is_f64() || value.as_f64().is_some_and(|value| value.abs() > 1.8e19)
            }
        }
        _ => false,
    }
}

/// The size of a value and its unit, if the measure applies to it.
fn size(value: &Value, measure: Measure) -> Option<(u64, &'static str)> {
    let (size, word) = match (value, measure) {
        (Value::String(text), Measure::Characters) => (text.chars().count(), "characters"),
        (Value::Array(items), Measure::Items) => (items.len(), "items"),
        (Value::Object(members), Measure::Properties) => (members.len(), "properties"),
        _ => return None,
    };
    Some((size as u64, word))
}

impl Check<'_> {
    /// Validates a value against a node and collects the errors.
    fn node<'v>(
        &mut self,
        id: NodeId,
        value: &'v Value,
        location: Location<'_>,
        problems: &mut Vec<String>,
    ) -> Evaluated<'v> {
        let mut seen = Evaluated::default();
        let schema = self.schema;
        let Some(node) = schema.nodes.get(id) else {
            return seen;
        };
        if self.depth >= MAX_DEPTH {
            report(problems, location, "nested too deeply to be checked");
            return seen;
        }
        self.depth += 1;
        self.scope.push(node.resource);
        let before = problems.len();
        for keyword in &node.keywords {
            if problems.len() >= MAX_ERRORS {
                break;
            }
            let rest = matches!(
                keyword,
                Keyword::UnevaluatedItems(_) | Keyword::UnevaluatedProperties(_)
            );
            // What is unevaluated is unknown if a keyword before failed.
            if !rest || problems.len() == before {
                self.keyword(keyword, value, location, &mut seen, problems);
            }
        }
        self.scope.pop();
        self.depth -= 1;
        seen
    }

    /// The evaluated parts of a valid value, or the errors.
    fn try_node<'v>(
        &mut self,
        id: NodeId,
        value: &'v Value,
        location: Location<'_>,
    ) -> Result<Evaluated<'v>, Vec<String>> {
        let mut problems = Vec::new();
        let seen = self.node(id, value, location, &mut problems);
        if problems.is_empty() {
            Ok(seen)
        } else {
            Err(problems)
        }
    }

    fn keyword<'v>(
        &mut self,
        keyword: &Keyword,
        value: &'v Value,
        location: Location<'_>,
        seen: &mut Evaluated<'v>,
        problems: &mut Vec<String>,
    ) {
        match keyword {
            Keyword::Items { .. }
            | Keyword::Contains { .. }
            | Keyword::UniqueItems
            | Keyword::UnevaluatedItems(_) => {
                if let Value::Array(items) = value {
                    self.array(keyword, items, location, seen, problems);
                }
            }
            Keyword::Properties { .. }
            | Keyword::PropertyNames(_)
            | Keyword::Required(_)
            | Keyword::DependentRequired(_)
            | Keyword::UnevaluatedProperties(_) => {
                if let Value::Object(members) = value {
                    self.object(keyword, members, location, seen, problems);
                }
            }
            Keyword::DependentSchemas(_)
            | Keyword::All(_)
            | Keyword::Any(_)
            | Keyword::One(_)
            | Keyword::Not(_)
            | Keyword::If { .. }
            | Keyword::Reference(_)
            | Keyword::DynamicReference { .. }
            | Keyword::RecursiveReference(_) => {
                self.applicator(keyword, value, location, seen, problems);
            }
            _ => check_assertion(keyword, value, location, problems),
        }
    }

    /// A keyword that applies other schemas to the same value.
    fn applicator<'v>(
        &mut self,
        keyword: &Keyword,
        value: &'v Value,
        location: Location<'_>,
        seen: &mut Evaluated<'v>,
        problems: &mut Vec<String>,
    ) {
        match keyword {
            Keyword::DependentSchemas(schemas) => {
                for (name, node) in schemas {
                    if value.get(name).is_some() {
                        seen.add(self.node(*node, value, location, problems));
                    }
                }
            }
            Keyword::All(nodes) => {
                for node in nodes {
                    seen.add(self.node(*node, value, location, problems));
                }
            }
            Keyword::Any(nodes) | Keyword::One(nodes) => {
                let one = matches!(keyword, Keyword::One(_));
                self.choice(nodes, one, value, location, seen, problems);
            }
            Keyword::Not(node) if self.try_node(*node, value, location).is_ok() => {
                let text = format!("{} is not allowed here", shown(value));
                report(problems, location, &text);
            }
            Keyword::If {
                condition,
                then,
                otherwise,
            } => {
                let branch = match self.try_node(*condition, value, location) {
                    Ok(found) => {
                        seen.add(found);
                        then
                    }
                    Err(_) => otherwise,
                };
                if let Some(branch) = branch {
                    seen.add(self.node(*branch, value, location, problems));
                }
            }
            Keyword::Reference(node) => seen.add(self.node(*node, value, location, problems)),
            Keyword::DynamicReference { name, target } => {
                let target = self.dynamic_target(name).unwrap_or(*target);
                seen.add(self.node(target, value, location, problems));
            }
            Keyword::RecursiveReference(target) => {
                let target = self.recursive_target(*target);
                seen.add(self.node(target, value, location, problems));
            }
            _ => {}
        }
    }

    /// The node of the outermost enclosing resource that has a dynamic anchor of this name.
    fn dynamic_target(&self, name: &str) -> Option<NodeId> {
        self.scope.iter().find_map(|resource| {
            let anchors = &self.schema.resources.get(*resource)?.anchors;
            let (_, node) = anchors.iter().find(|(anchor, _)| anchor == name)?;
            Some(*node)
        })
    }

    /// The outermost enclosing resource of an unbroken chain of recursive anchors.
    fn recursive_target(&self, target: NodeId) -> NodeId {
        let recursive = |resource: ResourceId| self.schema.resources.get(resource)?.recursive;
        let own = self.schema.nodes.get(target).map(|node| node.resource);
        if own.and_then(recursive) != Some(target) {
            return target;
        }
        let outer = self.scope.iter().rev().map_while(|it| recursive(*it));
        outer.last().unwrap_or(target)
    }

    /// `anyOf` and `oneOf`.
    fn choice<'v>(
        &mut self,
        nodes: &[NodeId],
        only_one: bool,
        value: &'v Value,
        location: Location<'_>,
        seen: &mut Evaluated<'v>,
        problems: &mut Vec<String>,
    ) {
        let mut matching = 0;
        let mut reasons = Vec::new();
        for node in nodes {
            match self.try_node(*node, value, location) {
                Ok(found) => {
                    matching += 1;
                    seen.add(found);
                }
                Err(mut found) => reasons.extend((!found.is_empty()).then(|| found.swap_remove(0))),
            }
        }
        if matching == 0 {
            reasons.dedup();
            let text = format!(
                "it matches none of the {} allowed schemas ({})",
                nodes.len(),
                listed(reasons.into_iter().take(4), "and")
            );
            report(problems, location, &text);
        } else if only_one && matching > 1 {
            let text = format!("it matches {matching} of the schemas, but must match exactly one");
            report(problems, location, &text);
        }
    }

    fn array<'v>(
        &mut self,
        keyword: &Keyword,
        items: &'v [Value],
        location: Location<'_>,
        seen: &mut Evaluated<'v>,
        problems: &mut Vec<String>,
    ) {
        match keyword {
            Keyword::Items { first, rest } => {
                for (index, item) in items.iter().enumerate() {
                    let Some(node) = first.get(index).or(rest.as_ref()) else {
                        break;
                    };
                    self.node(*node, item, Location::Item(&location, index), problems);
                }
                seen.items = seen.items.max(first.len());
                seen.all_items |= rest.is_some();
            }
            Keyword::Contains {
                schema,
                least,
                most,
                evaluates,
            } => {
                let mut count = 0;
                for (index, item) in items.iter().enumerate() {
                    if self
                        .try_node(*schema, item, Location::Item(&location, index))
                        .is_ok()
                    {
                        count += 1;
                        if *evaluates {
                            seen.single_items.insert(index);
                        }
                    }
                }
                if count < *least || most.is_some_and(|most| count > most) {
                    let wanted = match most {
                        Some(most) => format!("{least} to {most} are required"),
                        None => format!("at least {least} are required"),
                    };
                    let text = format!("{count} of its items match \"contains\", {wanted}");
                    report(problems, location, &text);
                }
            }
            Keyword::UniqueItems => {
                let twice = items.iter().enumerate().find_map(|(index, item)| {
                    let before = &items[..index];
                    let first = before.iter().position(|other| number::equal(other, item))?;
                    Some((first, index))
                });
                if let Some((first, second)) = twice {
                    let text = format!("items {first} and {second} are the same");
                    report(problems, location, &text);
                }
            }
            Keyword::UnevaluatedItems(node) => {
                for (index, item) in items.iter().enumerate() {
                    if !seen.has_item(index) {
                        self.node(*node, item, Location::Item(&location, index), problems);
                    }
                }
                seen.all_items = true;
            }
            _ => {}
        }
    }

    fn object<'v>(
        &mut self,
        keyword: &Keyword,
        members: &'v Map<String, Value>,
        location: Location<'_>,
        seen: &mut Evaluated<'v>,
        problems: &mut Vec<String>,
    ) {
        match keyword {
            Keyword::Properties {
                named,
                patterns,
                additional,
            } => {
                for (name, value) in members {
                    let location = Location::Property(&location, name);
                    let mut known = false;
                    if let Some(node) = named.get(name) {
                        known = true;
                        self.node(*node, value, location, problems);
                    }
                    for (pattern, node) in patterns {
                        if pattern.occurs_in(name) {
                            known = true;
                            self.node(*node, value, location, problems);
                        }
                    }
                    if known {
                        seen.properties.insert(name);
                    } else if let Some(node) = additional {
                        self.extra(*node, value, location, problems);
                    }
                }
                seen.all_properties |= additional.is_some();
            }
            Keyword::PropertyNames(node) => {
                for name in members.keys() {
                    let value = Value::String(name.clone());
                    self.node(*node, &value, Location::Property(&location, name), problems);
                }
            }
            Keyword::Required(names) => {
                for name in names.iter().filter(|name| !members.contains_key(*name)) {
                    report(
                        problems,
                        location,
                        &format!("the property {name:?} is missing"),
                    );
                }
            }
            Keyword::DependentRequired(dependencies) => {
                for (name, wanted) in dependencies {
                    if !members.contains_key(name) {
                        continue;
                    }
                    for missing in wanted.iter().filter(|name| !members.contains_key(*name)) {
                        let text =
                            format!("the property {missing:?} is missing, which {name:?} requires");
                        report(problems, location, &text);
                    }
                }
            }
            Keyword::UnevaluatedProperties(node) => {
                for (name, value) in members {
                    if !seen.all_properties && !seen.properties.contains(name.as_str()) {
                        self.extra(*node, value, Location::Property(&location, name), problems);
                    }
                }
                seen.all_properties = true;
            }
            _ => {}
        }
    }

    /// Validates a property that the schema doesn't name.
    fn extra(
        &mut self,
        node: NodeId,
        value: &Value,
        location: Location<'_>,
        problems: &mut Vec<String>,
    ) {
        let refused = self
            .schema
            .nodes
            .get(node)
            .is_some_and(|node| matches!(node.keywords.as_slice(), [Keyword::Nothing]));
        if refused {
            report(problems, location, "this property is not allowed");
        } else {
            self.node(node, value, location, problems);
        }
    }
}

/// A keyword that looks at the value itself.
fn check_assertion(
    keyword: &Keyword,
    value: &Value,
    location: Location<'_>,
    problems: &mut Vec<String>,
) {
    let text = match keyword {
        Keyword::Nothing => "no value is allowed here".to_owned(),
        Keyword::Kinds { kinds, by_value }
            if !kinds.iter().any(|kind| is_kind(value, *kind, *by_value)) =>
        {
            let expected = listed(kinds.iter().map(ToString::to_string), "or");
            format!("{} is not {expected}", shown(value))
        }
        Keyword::Constant(expected) if !number::equal(value, expected) => {
            format!("{} is not {}", shown(value), shown(expected))
        }
        Keyword::OneOfValues(values)
            if !values.iter().any(|allowed| number::equal(value, allowed)) =>
        {
            let expected = listed(values.iter().map(shown), "or");
            format!("{} is not {expected}", shown(value))
        }
        Keyword::AtLeast(measure, limit) => match size(value, *measure) {
            Some((size, unit)) if size < *limit => {
                format!("it has {size} {unit}, the minimum is {limit}")
            }
            _ => return,
        },
        Keyword::AtMost(measure, limit) => match size(value, *measure) {
            Some((size, unit)) if size > *limit => {
                format!("it has {size} {unit}, the maximum is {limit}")
            }
            _ => return,
        },
        Keyword::Matches(pattern)
            if value.as_str().is_some_and(|text| !pattern.occurs_in(text)) =>
        {
            format!("{} doesn't match {}", shown(value), pattern.source())
        }
        Keyword::MultipleOf(_) | Keyword::Minimum { .. } | Keyword::Maximum { .. } => {
            return check_number(keyword, value, location, problems);
        }
        _ => return,
    };
    report(problems, location, &text);
}

fn check_number(
    keyword: &Keyword,
    value: &Value,
    location: Location<'_>,
    problems: &mut Vec<String>,
) {
    let Value::Number(value) = value else {
        return;
    };
    let problem = match keyword {
        Keyword::MultipleOf(divisor) if !number::is_multiple(value, divisor) => {
            format!("{value} is not a multiple of {divisor}")
        }
        Keyword::Minimum { limit, exclusive } => match number::compare(value, limit) {
            Ordering::Less => format!("{value} is less than {limit}"),
            Ordering::Equal if *exclusive => format!("{value} must be more than {limit}"),
            _ => return,
        },
        Keyword::Maximum { limit, exclusive } => match number::compare(value, limit) {
            Ordering::Greater => format!("{value} is more than {limit}"),
            Ordering::Equal if *exclusive => format!("{value} must be less than {limit}"),
            _ => return,
        },
        _ => return,
    };
    report(problems, location, &problem);
}
