//! Holding a value against the nodes of a schema.
//!
//! Everything that is wrong is told with its place in the value. What fits leaves a note of the
//! properties and items that were looked at, for the keywords about the rest of them.

use crate::compile::Compiled;
use crate::node::{Keyword, Kind, Measure, NodeId, ResourceId};
use crate::number;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt::Write as _;

/// How many mistakes are named at once: more only bury the first.
const MOST_PROBLEMS: usize = 8;
/// How deep schemas may lead into one another; a value that deep is no answer.
const DEEPEST: usize = 400;
/// How many characters of a value are shown.
const SHOWN: usize = 100;

/// A place in the value.
#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Property(&'a Step<'a>, &'a str),
    Item(&'a Step<'a>, usize),
}

impl Step<'_> {
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

/// What was looked at.
#[derive(Default)]
struct Seen<'v> {
    all_properties: bool,
    properties: HashSet<&'v str>,
    /// The items before this one.
    items: usize,
    all_items: bool,
    single_items: HashSet<usize>,
}

impl<'v> Seen<'v> {
    fn add(&mut self, other: Seen<'v>) {
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

/// One check of one value.
struct Check<'s> {
    schema: &'s Compiled,
    /// The resources on the way to the present node, outermost first.
    scope: Vec<ResourceId>,
    depth: usize,
}

/// What is wrong with a value; empty when it fits.
pub(crate) fn problems(schema: &Compiled, value: &Value) -> Vec<String> {
    let mut check = Check {
        schema,
        scope: Vec::new(),
        depth: 0,
    };
    let mut problems = Vec::new();
    check.node(schema.root, value, Step::Root, &mut problems);
    problems.truncate(MOST_PROBLEMS);
    problems
}

fn tell(problems: &mut Vec<String>, place: Step<'_>, problem: &str) {
    if problems.len() >= MOST_PROBLEMS {
        return;
    }
    let mut text = String::new();
    place.write(&mut text);
    if text.is_empty() {
        text.push('/');
    }
    problems.push(format!("{text}: {problem}"));
}

/// A value in a message.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
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
                // Written without a fraction; one that is too large to be kept as such counts.
                !value.is_f64() || value.as_f64().is_some_and(|value| value.abs() > 1.8e19)
            }
        }
        _ => false,
    }
}

/// A value's size by a measure that it has, with the word for it.
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
    /// Holds a value against a node and tells what is wrong.
    fn node<'v>(
        &mut self,
        id: NodeId,
        value: &'v Value,
        place: Step<'_>,
        problems: &mut Vec<String>,
    ) -> Seen<'v> {
        let mut seen = Seen::default();
        let schema = self.schema;
        let Some(node) = schema.nodes.get(id) else {
            return seen;
        };
        if self.depth >= DEEPEST {
            tell(problems, place, "it is nested too deeply to be checked");
            return seen;
        }
        self.depth += 1;
        self.scope.push(node.resource);
        let before = problems.len();
        for keyword in &node.keywords {
            if problems.len() >= MOST_PROBLEMS {
                break;
            }
            let rest = matches!(
                keyword,
                Keyword::UnevaluatedItems(_) | Keyword::UnevaluatedProperties(_)
            );
            // What is left over can't be told while something is wrong.
            if !rest || problems.len() == before {
                self.keyword(keyword, value, place, &mut seen, problems);
            }
        }
        self.scope.pop();
        self.depth -= 1;
        seen
    }

    /// What was looked at when the value fits; what is wrong when it doesn't.
    fn try_node<'v>(
        &mut self,
        id: NodeId,
        value: &'v Value,
        place: Step<'_>,
    ) -> Result<Seen<'v>, Vec<String>> {
        let mut problems = Vec::new();
        let seen = self.node(id, value, place, &mut problems);
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
        place: Step<'_>,
        seen: &mut Seen<'v>,
        problems: &mut Vec<String>,
    ) {
        match keyword {
            Keyword::Nothing => tell(problems, place, "nothing is allowed here"),
            Keyword::Kinds { kinds, by_value } => {
                if !kinds.iter().any(|kind| is_kind(value, *kind, *by_value)) {
                    let wanted = listed(kinds.iter().map(ToString::to_string), "or");
                    tell(
                        problems,
                        place,
                        &format!("{} is not {wanted}", shown(value)),
                    );
                }
            }
            Keyword::Constant(wanted) => {
                if !number::equal(value, wanted) {
                    let text = format!("{} is not {}", shown(value), shown(wanted));
                    tell(problems, place, &text);
                }
            }
            Keyword::OneOfValues(values) => {
                if !values.iter().any(|wanted| number::equal(value, wanted)) {
                    let wanted = listed(values.iter().map(shown), "or");
                    tell(
                        problems,
                        place,
                        &format!("{} is not {wanted}", shown(value)),
                    );
                }
            }
            Keyword::MultipleOf(_) | Keyword::Minimum { .. } | Keyword::Maximum { .. } => {
                check_number(keyword, value, place, problems);
            }
            Keyword::AtLeast(measure, limit) => {
                if let Some((size, word)) = size(value, *measure)
                    && size < *limit
                {
                    let text = format!("it has {size} {word}, {limit} are the least");
                    tell(problems, place, &text);
                }
            }
            Keyword::AtMost(measure, limit) => {
                if let Some((size, word)) = size(value, *measure)
                    && size > *limit
                {
                    let text = format!("it has {size} {word}, {limit} are the most");
                    tell(problems, place, &text);
                }
            }
            Keyword::Matches(pattern) => {
                if let Some(text) = value.as_str()
                    && !pattern.occurs_in(text)
                {
                    let text = format!("{} doesn't match {}", shown(value), pattern.source());
                    tell(problems, place, &text);
                }
            }
            Keyword::Items { .. }
            | Keyword::Contains { .. }
            | Keyword::UniqueItems
            | Keyword::UnevaluatedItems(_) => {
                if let Value::Array(items) = value {
                    self.array(keyword, items, place, seen, problems);
                }
            }
            Keyword::Properties { .. }
            | Keyword::PropertyNames(_)
            | Keyword::Required(_)
            | Keyword::DependentRequired(_)
            | Keyword::UnevaluatedProperties(_) => {
                if let Value::Object(members) = value {
                    self.object(keyword, members, place, seen, problems);
                }
            }
            Keyword::DependentSchemas(schemas) => {
                for (name, node) in schemas {
                    if value.get(name).is_some() {
                        seen.add(self.node(*node, value, place, problems));
                    }
                }
            }
            Keyword::All(nodes) => {
                for node in nodes {
                    seen.add(self.node(*node, value, place, problems));
                }
            }
            Keyword::Any(nodes) | Keyword::One(nodes) => {
                let one = matches!(keyword, Keyword::One(_));
                self.choice(nodes, one, value, place, seen, problems);
            }
            Keyword::Not(node) => {
                if self.try_node(*node, value, place).is_ok() {
                    let text = format!("{} is what is not allowed here", shown(value));
                    tell(problems, place, &text);
                }
            }
            Keyword::If {
                condition,
                then,
                otherwise,
            } => {
                let branch = match self.try_node(*condition, value, place) {
                    Ok(found) => {
                        seen.add(found);
                        then
                    }
                    Err(_) => otherwise,
                };
                if let Some(branch) = branch {
                    seen.add(self.node(*branch, value, place, problems));
                }
            }
            Keyword::Reference(node) => seen.add(self.node(*node, value, place, problems)),
            Keyword::DynamicReference { name, target } => {
                let target = self.dynamic_target(name).unwrap_or(*target);
                seen.add(self.node(target, value, place, problems));
            }
            Keyword::RecursiveReference(target) => {
                let target = self.recursive_target(*target);
                seen.add(self.node(target, value, place, problems));
            }
        }
    }

    /// The outermost schema on the way here that has an anchor of this name.
    fn dynamic_target(&self, name: &str) -> Option<NodeId> {
        self.scope.iter().find_map(|resource| {
            let anchors = &self.schema.resources.get(*resource)?.anchors;
            let (_, node) = anchors.iter().find(|(anchor, _)| anchor == name)?;
            Some(*node)
        })
    }

    /// The outermost of the schemas that hand the recursion on.
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
        place: Step<'_>,
        seen: &mut Seen<'v>,
        problems: &mut Vec<String>,
    ) {
        let mut fitting = 0;
        let mut reasons = Vec::new();
        for node in nodes {
            match self.try_node(*node, value, place) {
                Ok(found) => {
                    fitting += 1;
                    seen.add(found);
                }
                Err(mut found) => reasons.extend((!found.is_empty()).then(|| found.swap_remove(0))),
            }
        }
        if fitting == 0 {
            reasons.dedup();
            let text = format!(
                "it fits none of the {} shapes that are allowed ({})",
                nodes.len(),
                listed(reasons.into_iter().take(4), "and")
            );
            tell(problems, place, &text);
        } else if only_one && fitting > 1 {
            let text = format!("it fits {fitting} of the shapes, and exactly one is allowed");
            tell(problems, place, &text);
        }
    }

    fn array<'v>(
        &mut self,
        keyword: &Keyword,
        items: &'v [Value],
        place: Step<'_>,
        seen: &mut Seen<'v>,
        problems: &mut Vec<String>,
    ) {
        match keyword {
            Keyword::Items { first, rest } => {
                for (index, item) in items.iter().enumerate() {
                    let Some(node) = first.get(index).or(rest.as_ref()) else {
                        break;
                    };
                    self.node(*node, item, Step::Item(&place, index), problems);
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
                        .try_node(*schema, item, Step::Item(&place, index))
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
                        Some(most) => format!("{least} to {most} are wanted"),
                        None => format!("at least {least} must be"),
                    };
                    let text = format!("{count} of its items are of the wanted kind, {wanted}");
                    tell(problems, place, &text);
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
                    tell(problems, place, &text);
                }
            }
            Keyword::UnevaluatedItems(node) => {
                for (index, item) in items.iter().enumerate() {
                    if !seen.has_item(index) {
                        self.node(*node, item, Step::Item(&place, index), problems);
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
        place: Step<'_>,
        seen: &mut Seen<'v>,
        problems: &mut Vec<String>,
    ) {
        match keyword {
            Keyword::Properties {
                named,
                patterns,
                additional,
            } => {
                for (name, value) in members {
                    let place = Step::Property(&place, name);
                    let mut known = false;
                    if let Some(node) = named.get(name) {
                        known = true;
                        self.node(*node, value, place, problems);
                    }
                    for (pattern, node) in patterns {
                        if pattern.occurs_in(name) {
                            known = true;
                            self.node(*node, value, place, problems);
                        }
                    }
                    if known {
                        seen.properties.insert(name);
                    } else if let Some(node) = additional {
                        self.extra(*node, value, place, problems);
                    }
                }
                seen.all_properties |= additional.is_some();
            }
            Keyword::PropertyNames(node) => {
                for name in members.keys() {
                    let value = Value::String(name.clone());
                    self.node(*node, &value, Step::Property(&place, name), problems);
                }
            }
            Keyword::Required(names) => {
                for name in names.iter().filter(|name| !members.contains_key(*name)) {
                    tell(
                        problems,
                        place,
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
                        let text = format!(
                            "the property {missing:?} is missing, which must come with {name:?}"
                        );
                        tell(problems, place, &text);
                    }
                }
            }
            Keyword::UnevaluatedProperties(node) => {
                for (name, value) in members {
                    if !seen.all_properties && !seen.properties.contains(name.as_str()) {
                        self.extra(*node, value, Step::Property(&place, name), problems);
                    }
                }
                seen.all_properties = true;
            }
            _ => {}
        }
    }

    /// A property that the schema doesn't name.
    fn extra(&mut self, node: NodeId, value: &Value, place: Step<'_>, problems: &mut Vec<String>) {
        let refused = self
            .schema
            .nodes
            .get(node)
            .is_some_and(|node| matches!(node.keywords.as_slice(), [Keyword::Nothing]));
        if refused {
            tell(problems, place, "this property is not allowed");
        } else {
            self.node(node, value, place, problems);
        }
    }
}

fn check_number(keyword: &Keyword, value: &Value, place: Step<'_>, problems: &mut Vec<String>) {
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
    tell(problems, place, &problem);
}
