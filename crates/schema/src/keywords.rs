//! What the members of a schema mean, and whether they are written as they must be.

use crate::compile::{Compiler, Draft, Place, shown};
use crate::node::{Keyword, Kind, Measure, NodeId};
use crate::pattern::Pattern;
use serde_json::{Map, Number, Value};

type Members = Map<String, Value>;

/// A mistake in a keyword, in words.
fn wrong(place: &Place, keyword: &str, value: &Value, wanted: &str) -> String {
    format!(
        "{}: {keyword} is {value}, it must be {wanted}",
        shown(&place.pointer)
    )
}

fn limit(members: &Members, keyword: &str, place: &Place) -> Result<Option<u64>, String> {
    let Some(value) = members.get(keyword) else {
        return Ok(None);
    };
    let whole = value.as_number().and_then(crate::number::whole);
    match whole.and_then(|whole| u64::try_from(whole).ok()) {
        Some(limit) => Ok(Some(limit)),
        None => Err(wrong(place, keyword, value, "a whole number, 0 or more")),
    }
}

fn number<'a>(
    members: &'a Members,
    keyword: &str,
    place: &Place,
) -> Result<Option<&'a Number>, String> {
    match members.get(keyword) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number)),
        Some(other) => Err(wrong(place, keyword, other, "a number")),
    }
}

fn list<'a>(
    members: &'a Members,
    keyword: &str,
    place: &Place,
) -> Result<Option<&'a Vec<Value>>, String> {
    match members.get(keyword) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(wrong(place, keyword, other, "an array")),
    }
}

fn object<'a>(
    members: &'a Members,
    keyword: &str,
    place: &Place,
) -> Result<Option<&'a Members>, String> {
    match members.get(keyword) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => Err(wrong(place, keyword, other, "an object")),
    }
}

fn names(value: &Value, keyword: &str, place: &Place) -> Result<Vec<String>, String> {
    let names = value.as_array().and_then(|names| {
        let names = names.iter().map(|name| name.as_str().map(str::to_owned));
        names.collect::<Option<Vec<String>>>()
    });
    names.ok_or_else(|| wrong(place, keyword, value, "an array of property names"))
}

fn text<'a>(members: &'a Members, keyword: &str, place: &Place) -> Result<Option<&'a str>, String> {
    match members.get(keyword) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(place, keyword, other, "a string")),
    }
}

fn pattern(source: &str, place: &Place) -> Result<Pattern, String> {
    Pattern::new(source).map_err(|error| {
        format!(
            "{}: {source:?} is no regular expression: {error}",
            shown(&place.pointer)
        )
    })
}

impl Compiler<'_> {
    /// What a schema's members ask, in the order in which it is looked at.
    pub(crate) fn keywords(
        &mut self,
        members: &Members,
        place: &Place,
    ) -> Result<Vec<Keyword>, String> {
        let mut found = Vec::new();
        if let Some(reference) = text(members, "$ref", place)? {
            let (node, _) = self.referred(reference, place)?;
            found.push(Keyword::Reference(node));
            if self.draft < Draft::Nineteen {
                // In older drafts nothing counts beside a reference.
                return Ok(found);
            }
        }
        self.dynamic(members, place, &mut found)?;
        self.values(members, place, &mut found)?;
        numbers(members, place, self.draft, &mut found)?;
        sizes(members, place, &mut found)?;
        if let Some(source) = text(members, "pattern", place)? {
            found.push(Keyword::Matches(pattern(source, place)?));
        }
        self.items(members, place, &mut found)?;
        self.properties(members, place, &mut found)?;
        self.dependencies(members, place, &mut found)?;
        self.combined(members, place, &mut found)?;
        // Last: they look at what the others left over.
        if let Some(node) = self.below(members, "unevaluatedItems", place)? {
            found.push(Keyword::UnevaluatedItems(node));
        }
        if let Some(node) = self.below(members, "unevaluatedProperties", place)? {
            found.push(Keyword::UnevaluatedProperties(node));
        }
        Ok(found)
    }

    /// The schema that a keyword holds.
    fn below(
        &mut self,
        members: &Members,
        keyword: &str,
        place: &Place,
    ) -> Result<Option<NodeId>, String> {
        match members.get(keyword) {
            Some(schema) => self.node(schema, &place.below(keyword)).map(Some),
            None => Ok(None),
        }
    }

    fn each(
        &mut self,
        list: &[Value],
        keyword: &str,
        place: &Place,
    ) -> Result<Vec<NodeId>, String> {
        let place = place.below(keyword);
        list.iter()
            .enumerate()
            .map(|(index, schema)| self.node(schema, &place.below(&index.to_string())))
            .collect()
    }

    fn dynamic(
        &mut self,
        members: &Members,
        place: &Place,
        found: &mut Vec<Keyword>,
    ) -> Result<(), String> {
        if self.draft == Draft::Twenty
            && let Some(reference) = text(members, "$dynamicRef", place)?
        {
            let (target, at) = self.referred(reference, place)?;
            let name = reference.rsplit_once('#').map_or("", |(_, name)| name);
            found.push(if self.is_dynamic(&at, name) {
                Keyword::DynamicReference {
                    name: name.to_owned(),
                    target,
                }
            } else {
                Keyword::Reference(target)
            });
        }
        if self.draft == Draft::Nineteen
            && let Some(reference) = text(members, "$recursiveRef", place)?
        {
            let (target, _) = self.referred(reference, place)?;
            found.push(Keyword::RecursiveReference(target));
        }
        Ok(())
    }

    fn values(
        &mut self,
        members: &Members,
        place: &Place,
        found: &mut Vec<Keyword>,
    ) -> Result<(), String> {
        if let Some(value) = members.get("type") {
            let named = |value: &Value| value.as_str().and_then(Kind::named);
            let kinds = match value {
                Value::Array(list) if !list.is_empty() => list.iter().map(named).collect(),
                other => named(other).map(|kind| vec![kind]),
            };
            let Some(kinds) = kinds else {
                return Err(wrong(
                    place,
                    "type",
                    value,
                    "null, boolean, object, array, number, integer or string, or an array of these",
                ));
            };
            found.push(Keyword::Kinds {
                kinds,
                by_value: self.draft > Draft::Four,
            });
        }
        if let Some(value) = members.get("const")
            && self.draft > Draft::Four
        {
            found.push(Keyword::Constant(value.clone()));
        }
        if let Some(list) = list(members, "enum", place)? {
            found.push(Keyword::OneOfValues(list.clone()));
        }
        Ok(())
    }

    fn items(
        &mut self,
        members: &Members,
        place: &Place,
        found: &mut Vec<Keyword>,
    ) -> Result<(), String> {
        let mut first = Vec::new();
        let mut rest = None;
        if self.draft == Draft::Twenty
            && let Some(list) = list(members, "prefixItems", place)?
        {
            first = self.each(list, "prefixItems", place)?;
        }
        match members.get("items") {
            // The older way to say `prefixItems`.
            Some(Value::Array(list)) if first.is_empty() => {
                first = self.each(list, "items", place)?;
                rest = self.below(members, "additionalItems", place)?;
            }
            Some(schema) => rest = Some(self.node(schema, &place.below("items"))?),
            None => {}
        }
        if !first.is_empty() || rest.is_some() {
            found.push(Keyword::Items { first, rest });
        }
        if self.draft > Draft::Four
            && let Some(schema) = self.below(members, "contains", place)?
        {
            let counted = self.draft >= Draft::Nineteen;
            let bound = |keyword| match counted {
                true => limit(members, keyword, place),
                false => Ok(None),
            };
            found.push(Keyword::Contains {
                schema,
                least: bound("minContains")?.unwrap_or(1),
                most: bound("maxContains")?,
                evaluates: self.draft == Draft::Twenty,
            });
        }
        match members.get("uniqueItems") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => found.push(Keyword::UniqueItems),
            Some(other) => return Err(wrong(place, "uniqueItems", other, "true or false")),
        }
        Ok(())
    }

    fn properties(
        &mut self,
        members: &Members,
        place: &Place,
        found: &mut Vec<Keyword>,
    ) -> Result<(), String> {
        let mut named = std::collections::HashMap::new();
        if let Some(properties) = object(members, "properties", place)? {
            let place = place.below("properties");
            for (name, schema) in properties {
                named.insert(name.clone(), self.node(schema, &place.below(name))?);
            }
        }
        let mut patterns = Vec::new();
        if let Some(properties) = object(members, "patternProperties", place)? {
            let place = place.below("patternProperties");
            for (source, schema) in properties {
                let node = self.node(schema, &place.below(source))?;
                patterns.push((pattern(source, &place)?, node));
            }
        }
        let additional = self.below(members, "additionalProperties", place)?;
        if !named.is_empty() || !patterns.is_empty() || additional.is_some() {
            found.push(Keyword::Properties {
                named,
                patterns,
                additional,
            });
        }
        if self.draft > Draft::Four
            && let Some(node) = self.below(members, "propertyNames", place)?
        {
            found.push(Keyword::PropertyNames(node));
        }
        if let Some(value) = members.get("required") {
            found.push(Keyword::Required(names(value, "required", place)?));
        }
        // Schemas that nothing refers to are read all the same, so that a mistake in them is told.
        for keyword in ["$defs", "definitions"] {
            if let Some(definitions) = object(members, keyword, place)? {
                let place = place.below(keyword);
                for (name, schema) in definitions {
                    self.node(schema, &place.below(name))?;
                }
            }
        }
        Ok(())
    }

    fn dependencies(
        &mut self,
        members: &Members,
        place: &Place,
        found: &mut Vec<Keyword>,
    ) -> Result<(), String> {
        let mut wanted = Vec::new();
        let mut schemas = Vec::new();
        if let Some(dependencies) = object(members, "dependentRequired", place)? {
            for (name, value) in dependencies {
                wanted.push((name.clone(), names(value, "dependentRequired", place)?));
            }
        }
        // The older keyword holds both.
        for keyword in ["dependentSchemas", "dependencies"] {
            let Some(dependencies) = object(members, keyword, place)? else {
                continue;
            };
            let place = place.below(keyword);
            for (name, value) in dependencies {
                if keyword == "dependencies" && value.is_array() {
                    wanted.push((name.clone(), names(value, keyword, &place)?));
                } else {
                    schemas.push((name.clone(), self.node(value, &place.below(name))?));
                }
            }
        }
        if !wanted.is_empty() {
            found.push(Keyword::DependentRequired(wanted));
        }
        if !schemas.is_empty() {
            found.push(Keyword::DependentSchemas(schemas));
        }
        Ok(())
    }

    fn combined(
        &mut self,
        members: &Members,
        place: &Place,
        found: &mut Vec<Keyword>,
    ) -> Result<(), String> {
        type Make = fn(Vec<NodeId>) -> Keyword;
        let makers: [(&str, Make); 3] = [
            ("allOf", Keyword::All),
            ("anyOf", Keyword::Any),
            ("oneOf", Keyword::One),
        ];
        for (keyword, make) in makers {
            match list(members, keyword, place)? {
                Some(list) if list.is_empty() => {
                    let empty = Value::Array(Vec::new());
                    return Err(wrong(place, keyword, &empty, "an array of schemas"));
                }
                Some(list) => found.push(make(self.each(list, keyword, place)?)),
                None => {}
            }
        }
        if let Some(node) = self.below(members, "not", place)? {
            found.push(Keyword::Not(node));
        }
        if self.draft >= Draft::Seven
            && let Some(condition) = self.below(members, "if", place)?
        {
            found.push(Keyword::If {
                condition,
                then: self.below(members, "then", place)?,
                otherwise: self.below(members, "else", place)?,
            });
        }
        Ok(())
    }
}

fn numbers(
    members: &Members,
    place: &Place,
    draft: Draft,
    found: &mut Vec<Keyword>,
) -> Result<(), String> {
    if let Some(divisor) = number(members, "multipleOf", place)? {
        if divisor.as_f64().is_none_or(|divisor| divisor <= 0.0) {
            let value = Value::Number(divisor.clone());
            return Err(wrong(place, "multipleOf", &value, "a number above 0"));
        }
        found.push(Keyword::MultipleOf(divisor.clone()));
    }
    // Draft 4 says with a boolean that a bound itself is excluded.
    let excluded = |keyword| draft == Draft::Four && members.get(keyword) == Some(&true.into());
    if let Some(limit) = number(members, "minimum", place)? {
        found.push(Keyword::Minimum {
            limit: limit.clone(),
            exclusive: excluded("exclusiveMinimum"),
        });
    }
    if let Some(limit) = number(members, "maximum", place)? {
        found.push(Keyword::Maximum {
            limit: limit.clone(),
            exclusive: excluded("exclusiveMaximum"),
        });
    }
    if draft > Draft::Four {
        if let Some(limit) = number(members, "exclusiveMinimum", place)? {
            found.push(Keyword::Minimum {
                limit: limit.clone(),
                exclusive: true,
            });
        }
        if let Some(limit) = number(members, "exclusiveMaximum", place)? {
            found.push(Keyword::Maximum {
                limit: limit.clone(),
                exclusive: true,
            });
        }
    }
    Ok(())
}

fn sizes(members: &Members, place: &Place, found: &mut Vec<Keyword>) -> Result<(), String> {
    for (least, most, measure) in [
        ("minLength", "maxLength", Measure::Characters),
        ("minItems", "maxItems", Measure::Items),
        ("minProperties", "maxProperties", Measure::Properties),
    ] {
        if let Some(limit) = limit(members, least, place)? {
            found.push(Keyword::AtLeast(measure, limit));
        }
        if let Some(limit) = limit(members, most, place)? {
            found.push(Keyword::AtMost(measure, limit));
        }
    }
    Ok(())
}
