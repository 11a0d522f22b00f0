//! Parses the keywords of a schema.

use crate::SchemaError;
use crate::compile::{Compiler, Draft, SchemaLocation};
use crate::node::{Keyword, Kind, Measure, NodeId};
use crate::pattern::Pattern;
use serde_json::{Map, Number, Value};

type Members = Map<String, Value>;

fn wrong(
    location: &SchemaLocation,
    keyword: &str,
    value: &Value,
    expected: &'static str,
) -> SchemaError {
    SchemaError::Keyword {
        pointer: location.pointer.clone(),
        keyword: keyword.to_owned(),
        value: Box::new(value.clone()),
        expected,
    }
}

fn limit(
    members: &Members,
    keyword: &str,
    location: &SchemaLocation,
) -> Result<Option<u64>, SchemaError> {
    let Some(value) = members.get(keyword) else {
        return Ok(None);
    };
    let whole = value.as_number().and_then(crate::number::whole);
    match whole.and_then(|whole| u64::try_from(whole).ok()) {
        Some(limit) => Ok(Some(limit)),
        None => Err(wrong(location, keyword, value, "a whole number, 0 or more")),
    }
}

fn number<'a>(
    members: &'a Members,
    keyword: &str,
    location: &SchemaLocation,
) -> Result<Option<&'a Number>, SchemaError> {
    match members.get(keyword) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(Some(number)),
        Some(other) => Err(wrong(location, keyword, other, "a number")),
    }
}

fn list<'a>(
    members: &'a Members,
    keyword: &str,
    location: &SchemaLocation,
) -> Result<Option<&'a Vec<Value>>, SchemaError> {
    match members.get(keyword) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(wrong(location, keyword, other, "an array")),
    }
}

fn object<'a>(
    members: &'a Members,
    keyword: &str,
    location: &SchemaLocation,
) -> Result<Option<&'a Members>, SchemaError> {
    match members.get(keyword) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => Err(wrong(location, keyword, other, "an object")),
    }
}

fn names(
    value: &Value,
    keyword: &str,
    location: &SchemaLocation,
) -> Result<Vec<String>, SchemaError> {
    let names = value.as_array().and_then(|names| {
        let names = names.iter().map(|name| name.as_str().map(str::to_owned));
        names.collect::<Option<Vec<String>>>()
    });
    names.ok_or_else(|| wrong(location, keyword, value, "an array of property names"))
}

fn text<'a>(
    members: &'a Members,
    keyword: &str,
    location: &SchemaLocation,
) -> Result<Option<&'a str>, SchemaError> {
    match members.get(keyword) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(location, keyword, other, "a string")),
    }
}

fn pattern(source: &str, location: &SchemaLocation) -> Result<Pattern, SchemaError> {
    Pattern::new(source).map_err(|error| SchemaError::Pattern {
        pointer: location.pointer.clone(),
        pattern: source.to_owned(),
        source: error,
    })
}

impl Compiler<'_> {
    /// The keywords of a schema in the order of evaluation.
    pub(crate) fn keywords(
        &mut self,
        members: &Members,
        location: &SchemaLocation,
    ) -> Result<Vec<Keyword>, SchemaError> {
        let mut found = Vec::new();
        if let Some(reference) = text(members, "$ref", location)? {
            let (node, _) = self.target_node(reference, location)?;
            found.push(Keyword::Reference(node));
            if self.draft < Draft::Nineteen {
                // Older drafts ignore the siblings of a reference.
                return Ok(found);
            }
        }
        self.dynamic(members, location, &mut found)?;
        self.values(members, location, &mut found)?;
        numbers(members, location, self.draft, &mut found)?;
        sizes(members, location, &mut found)?;
        if let Some(source) = text(members, "pattern", location)? {
            found.push(Keyword::Matches(pattern(source, location)?));
        }
        self.items(members, location, &mut found)?;
        self.properties(members, location, &mut found)?;
        self.dependencies(members, location, &mut found)?;
        self.combined(members, location, &mut found)?;
        // Last: they apply to what the others did not evaluate.
        if let Some(node) = self.below(members, "unevaluatedItems", location)? {
            found.push(Keyword::UnevaluatedItems(node));
        }
        if let Some(node) = self.below(members, "unevaluatedProperties", location)? {
            found.push(Keyword::UnevaluatedProperties(node));
        }
        Ok(found)
    }

    /// The node of the schema that is a keyword's value.
    fn below(
        &mut self,
        members: &Members,
        keyword: &str,
        location: &SchemaLocation,
    ) -> Result<Option<NodeId>, SchemaError> {
        match members.get(keyword) {
            Some(schema) => self.node(schema, &location.below(keyword)).map(Some),
            None => Ok(None),
        }
    }

    fn each(
        &mut self,
        list: &[Value],
        keyword: &str,
        location: &SchemaLocation,
    ) -> Result<Vec<NodeId>, SchemaError> {
        let location = location.below(keyword);
        list.iter()
            .enumerate()
            .map(|(index, schema)| self.node(schema, &location.below(&index.to_string())))
            .collect()
    }

    fn dynamic(
        &mut self,
        members: &Members,
        location: &SchemaLocation,
        found: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        if self.draft == Draft::Twenty
            && let Some(reference) = text(members, "$dynamicRef", location)?
        {
            let (target, at) = self.target_node(reference, location)?;
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
            && let Some(reference) = text(members, "$recursiveRef", location)?
        {
            let (target, _) = self.target_node(reference, location)?;
            found.push(Keyword::RecursiveReference(target));
        }
        Ok(())
    }

    fn values(
        &mut self,
        members: &Members,
        location: &SchemaLocation,
        found: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        if let Some(value) = members.get("type") {
            let named = |value: &Value| value.as_str().and_then(Kind::named);
            let kinds = match value {
                Value::Array(list) if !list.is_empty() => list.iter().map(named).collect(),
                other => named(other).map(|kind| vec![kind]),
            };
            let Some(kinds) = kinds else {
                return Err(wrong(
                    location,
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
        if let Some(list) = list(members, "enum", location)? {
            found.push(Keyword::OneOfValues(list.clone()));
        }
        Ok(())
    }

    fn items(
        &mut self,
        members: &Members,
        location: &SchemaLocation,
        found: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        let mut first = Vec::new();
        let mut rest = None;
        if self.draft == Draft::Twenty
            && let Some(list) = list(members, "prefixItems", location)?
        {
            first = self.each(list, "prefixItems", location)?;
        }
        match members.get("items") {
            // The older form of `prefixItems`.
            Some(Value::Array(list)) if first.is_empty() => {
                first = self.each(list, "items", location)?;
                rest = self.below(members, "additionalItems", location)?;
            }
            Some(schema) => rest = Some(self.node(schema, &location.below("items"))?),
            None => {}
        }
        if !first.is_empty() || rest.is_some() {
            found.push(Keyword::Items { first, rest });
        }
        if self.draft > Draft::Four
            && let Some(schema) = self.below(members, "contains", location)?
        {
            let counted = self.draft >= Draft::Nineteen;
            let bound = |keyword| match counted {
                true => limit(members, keyword, location),
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
            Some(other) => return Err(wrong(location, "uniqueItems", other, "true or false")),
        }
        Ok(())
    }

    fn properties(
        &mut self,
        members: &Members,
        location: &SchemaLocation,
        found: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        let mut named = std::collections::HashMap::new();
        if let Some(properties) = object(members, "properties", location)? {
            let location = location.below("properties");
            for (name, schema) in properties {
                named.insert(name.clone(), self.node(schema, &location.below(name))?);
            }
        }
        let mut patterns = Vec::new();
        if let Some(properties) = object(members, "patternProperties", location)? {
            let location = location.below("patternProperties");
            for (source, schema) in properties {
                let node = self.node(schema, &location.below(source))?;
                patterns.push((pattern(source, &location)?, node));
            }
        }
        let additional = self.below(members, "additionalProperties", location)?;
        if !named.is_empty() || !patterns.is_empty() || additional.is_some() {
            found.push(Keyword::Properties {
                named,
                patterns,
                additional,
            });
        }
        if self.draft > Draft::Four
            && let Some(node) = self.below(members, "propertyNames", location)?
        {
            found.push(Keyword::PropertyNames(node));
        }
        if let Some(value) = members.get("required") {
            found.push(Keyword::Required(names(value, "required", location)?));
        }
        // Definitions that nothing refers to are compiled too, so that errors in them are reported.
        for keyword in ["$defs", "definitions"] {
            if let Some(definitions) = object(members, keyword, location)? {
                let location = location.below(keyword);
                for (name, schema) in definitions {
                    self.node(schema, &location.below(name))?;
                }
            }
        }
        Ok(())
    }

    fn dependencies(
        &mut self,
        members: &Members,
        location: &SchemaLocation,
        found: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        let mut wanted = Vec::new();
        let mut schemas = Vec::new();
        if let Some(dependencies) = object(members, "dependentRequired", location)? {
            for (name, value) in dependencies {
                wanted.push((name.clone(), names(value, "dependentRequired", location)?));
            }
        }
        // The older keyword has both forms.
        for keyword in ["dependentSchemas", "dependencies"] {
            let Some(dependencies) = object(members, keyword, location)? else {
                continue;
            };
            let location = location.below(keyword);
            for (name, value) in dependencies {
                if keyword == "dependencies" && value.is_array() {
                    wanted.push((name.clone(), names(value, keyword, &location)?));
                } else {
                    schemas.push((name.clone(), self.node(value, &location.below(name))?));
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
        location: &SchemaLocation,
        found: &mut Vec<Keyword>,
    ) -> Result<(), SchemaError> {
        type Make = fn(Vec<NodeId>) -> Keyword;
        let makers: [(&str, Make); 3] = [
            ("allOf", Keyword::All),
            ("anyOf", Keyword::Any),
            ("oneOf", Keyword::One),
        ];
        for (keyword, make) in makers {
            match list(members, keyword, location)? {
                Some(list) if list.is_empty() => {
                    let empty = Value::Array(Vec::new());
                    return Err(wrong(location, keyword, &empty, "an array of schemas"));
                }
                Some(list) => found.push(make(self.each(list, keyword, location)?)),
                None => {}
            }
        }
        if let Some(node) = self.below(members, "not", location)? {
            found.push(Keyword::Not(node));
        }
        if self.draft >= Draft::Seven
            && let Some(condition) = self.below(members, "if", location)?
        {
            found.push(Keyword::If {
                condition,
                then: self.below(members, "then", location)?,
                otherwise: self.below(members, "else", location)?,
            });
        }
        Ok(())
    }
}

fn numbers(
    members: &Members,
    location: &SchemaLocation,
    draft: Draft,
    found: &mut Vec<Keyword>,
) -> Result<(), SchemaError> {
    if let Some(divisor) = number(members, "multipleOf", location)? {
        if divisor.as_f64().is_none_or(|divisor| divisor <= 0.0) {
            let value = Value::Number(divisor.clone());
            return Err(wrong(location, "multipleOf", &value, "a number above 0"));
        }
        found.push(Keyword::MultipleOf(divisor.clone()));
    }
    // In draft 4, a boolean excludes the bound itself.
    let excluded = |keyword| draft == Draft::Four && members.get(keyword) == Some(&true.into());
    if let Some(limit) = number(members, "minimum", location)? {
        found.push(Keyword::Minimum {
            limit: limit.clone(),
            exclusive: excluded("exclusiveMinimum"),
        });
    }
    if let Some(limit) = number(members, "maximum", location)? {
        found.push(Keyword::Maximum {
            limit: limit.clone(),
            exclusive: excluded("exclusiveMaximum"),
        });
    }
    if draft > Draft::Four {
        if let Some(limit) = number(members, "exclusiveMinimum", location)? {
            found.push(Keyword::Minimum {
                limit: limit.clone(),
                exclusive: true,
            });
        }
        if let Some(limit) = number(members, "exclusiveMaximum", location)? {
            found.push(Keyword::Maximum {
                limit: limit.clone(),
                exclusive: true,
            });
        }
    }
    Ok(())
}

fn sizes(
    members: &Members,
    location: &SchemaLocation,
    found: &mut Vec<Keyword>,
) -> Result<(), SchemaError> {
    for (least, most, measure) in [
        ("minLength", "maxLength", Measure::Characters),
        ("minItems", "maxItems", Measure::Items),
        ("minProperties", "maxProperties", Measure::Properties),
    ] {
        if let Some(limit) = limit(members, least, location)? {
            found.push(Keyword::AtLeast(measure, limit));
        }
        if let Some(limit) = limit(members, most, location)? {
            found.push(Keyword::AtMost(measure, limit));
        }
    }
    Ok(())
}
