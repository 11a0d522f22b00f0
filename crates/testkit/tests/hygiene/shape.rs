//! The shape of the code: small types, short functions, types as errors, one home for each thing.

use crate::ceilings::{Offender, assert_within};
use crate::sources::{SourceFile, has_cfg_test, parse};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;
use syn::visit::{self, Visit};

/// The most fields of a type with methods.
const MOST_FIELDS: usize = 15;
/// The most lines of a function.
const MOST_LINES: usize = 100;
/// The most files that the `impl` blocks of one type are in.
const MOST_FILES: usize = 4;

/// Types with more fields than `MOST_FIELDS`, with the reason: crate, type, reason.
const LARGE_TYPES: &[(&str, &str, &str)] = &[
    (
        "protocol",
        "MessageRecord",
        "a line of a transcript, as its format has it",
    ),
    (
        "engine",
        "Meta",
        "the file that describes an agent, as its format has it",
    ),
    (
        "scripted",
        "Reply",
        "the parts of a reply, each set by a method of the builder",
    ),
];

/// Functions with more lines than `MOST_LINES`, with the reason: crate, function, reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

type Findings = BTreeMap<&'static str, Vec<Offender>>;

/// The sources are parsed once, for all tests.
static FINDINGS: LazyLock<Findings> = LazyLock::new(|| {
    let sources = parse();
    let mut findings = Findings::from([
        ("large-types", large_types(&sources)),
        ("long-functions", long_functions(&sources)),
        ("wide-impls", wide_impls(&sources)),
        ("string-errors", string_errors(&sources)),
        ("allows", allows(&sources)),
        ("dead-variants", dead_variants(&sources)),
    ]);
    for (aim, home, marks) in HOMES {
        findings.insert(aim, outside_of_home(&sources, home, marks));
    }
    findings
});

fn check(aim: &str) {
    assert_within(aim, &FINDINGS[aim]);
}

#[test]
fn types_with_methods_have_few_fields() {
    check("large-types");
}

#[test]
fn functions_are_short() {
    check("long-functions");
}

#[test]
fn a_type_is_implemented_in_few_files() {
    check("wide-impls");
}

#[test]
fn errors_are_types() {
    check("string-errors");
}

#[test]
fn lint_exceptions_are_expectations() {
    check("allows");
}

#[test]
fn every_variant_is_constructed() {
    check("dead-variants");
}

#[test]
fn process_groups_have_one_home() {
    check("process-groups");
}

#[test]
fn child_processes_have_one_home() {
    check("child-processes");
}

#[test]
fn http_clients_have_one_home() {
    check("http-clients");
}

#[test]
fn boolean_parsers_have_one_home() {
    check("boolean-parsers");
}

fn offender(file: &SourceFile, line: usize, what: &str) -> Offender {
    Offender {
        crate_name: file.crate_name.clone(),
        place: format!("{}:{line} {what}", file.path),
    }
}

fn exempt(list: &[(&str, &str, &str)], crate_name: &str, name: &str) -> bool {
    list.iter()
        .any(|(of, known, _)| *of == crate_name && *known == name)
}

/// The name of the type that an `impl` block is for.
fn self_name(item: &syn::ItemImpl) -> Option<String> {
    match &*item.self_ty {
        syn::Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

/// Visits every `impl` block of a file, also in nested modules.
struct Impls<'a>(Vec<&'a syn::ItemImpl>);

impl<'a> Visit<'a> for Impls<'a> {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if !has_cfg_test(&item.attrs) {
            self.0.push(item);
        }
    }
}

fn impls(file: &SourceFile) -> Vec<&syn::ItemImpl> {
    let mut visitor = Impls(Vec::new());
    visitor.visit_file(&file.syntax);
    visitor.0
}

fn large_types(sources: &[SourceFile]) -> Vec<Offender> {
    struct Structs<'a>(Vec<&'a syn::ItemStruct>);
    impl<'a> Visit<'a> for Structs<'a> {
        fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
            self.0.push(item);
        }
    }
    let mut with_methods = HashSet::new();
    for file in sources {
        for item in impls(file).into_iter().filter(|item| item.trait_.is_none()) {
            let has_method = item.items.iter().any(
                |item| matches!(item, syn::ImplItem::Fn(function) if function.sig.receiver().is_some()),
            );
            if let (true, Some(name)) = (has_method, self_name(item)) {
                with_methods.insert((&file.crate_name, name));
            }
        }
    }
    let mut found = Vec::new();
    let mut used = HashSet::new();
    for file in sources {
        let mut structs = Structs(Vec::new());
        structs.visit_file(&file.syntax);
        for item in structs.0 {
            let name = item.ident.to_string();
            let fields = item.fields.len();
            if fields <= MOST_FIELDS || !with_methods.contains(&(&file.crate_name, name.clone())) {
                continue;
            }
            if exempt(LARGE_TYPES, &file.crate_name, &name) {
                used.insert((file.crate_name.clone(), name));
            } else {
                let line = item.ident.span().start().line;
                found.push(offender(file, line, &format!("{name} ({fields} fields)")));
            }
        }
    }
    found.extend(unused(LARGE_TYPES, &used));
    found
}

/// Exemptions that nothing needs any more.
fn unused(list: &[(&str, &str, &str)], used: &HashSet<(String, String)>) -> Vec<Offender> {
    list.iter()
        .filter(|(of, name, _)| !used.contains(&((*of).to_owned(), (*name).to_owned())))
        .map(|(of, name, _)| Offender {
            crate_name: (*of).to_owned(),
            place: format!("{name}: remove its exemption in shape.rs"),
        })
        .collect()
}

fn long_functions(sources: &[SourceFile]) -> Vec<Offender> {
    struct Functions<'a>(Vec<(&'a syn::Ident, &'a syn::Block)>);
    impl<'a> Visit<'a> for Functions<'a> {
        fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
            if !has_cfg_test(&item.attrs) {
                visit::visit_item_mod(self, item);
            }
        }
        fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
            self.0.push((&item.sig.ident, &item.block));
            visit::visit_item_fn(self, item);
        }
        fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
            self.0.push((&item.sig.ident, &item.block));
            visit::visit_impl_item_fn(self, item);
        }
    }
    let mut found = Vec::new();
    let mut used = HashSet::new();
    for file in sources {
        let mut functions = Functions(Vec::new());
        functions.visit_file(&file.syntax);
        for (ident, block) in functions.0 {
            let span = block.brace_token.span;
            let lines = span.close().start().line - span.open().start().line;
            if lines <= MOST_LINES {
                continue;
            }
            let name = ident.to_string();
            if exempt(LONG_FUNCTIONS, &file.crate_name, &name) {
                used.insert((file.crate_name.clone(), name));
            } else {
                let line = ident.span().start().line;
                found.push(offender(file, line, &format!("{name} ({lines} lines)")));
            }
        }
    }
    found.extend(unused(LONG_FUNCTIONS, &used));
    found
}

fn wide_impls(sources: &[SourceFile]) -> Vec<Offender> {
    let mut places: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for file in sources {
        for item in impls(file).into_iter().filter(|item| item.trait_.is_none()) {
            if let Some(name) = self_name(item) {
                let key = (file.crate_name.clone(), name);
                places.entry(key).or_default().insert(&file.path);
            }
        }
    }
    places
        .into_iter()
        .filter(|(_, files)| files.len() > MOST_FILES)
        .map(|((crate_name, name), files)| Offender {
            crate_name,
            place: format!("{name} ({} files): {files:?}", files.len()),
        })
        .collect()
}

fn string_errors(sources: &[SourceFile]) -> Vec<Offender> {
    struct Errors(Vec<usize>);
    impl<'a> Visit<'a> for Errors {
        fn visit_path_segment(&mut self, segment: &'a syn::PathSegment) {
            if segment.ident == "Result"
                && let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
                && let Some(syn::GenericArgument::Type(syn::Type::Path(error))) =
                    arguments.args.iter().nth(1)
                && error.path.is_ident("String")
            {
                self.0.push(segment.ident.span().start().line);
            }
            visit::visit_path_segment(self, segment);
        }
        fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
            if !has_cfg_test(&item.attrs) {
                visit::visit_item_mod(self, item);
            }
        }
    }
    let mut found = Vec::new();
    for file in sources {
        let mut errors = Errors(Vec::new());
        errors.visit_file(&file.syntax);
        found.extend(
            errors
                .0
                .iter()
                .map(|line| offender(file, *line, "Result<_, String>")),
        );
    }
    found
}

fn allows(sources: &[SourceFile]) -> Vec<Offender> {
    struct Allows(Vec<usize>);
    impl<'a> Visit<'a> for Allows {
        fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
            if attribute.path().is_ident("allow") {
                self.0.push(attribute.pound_token.span.start().line);
            }
        }
        fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
            if !has_cfg_test(&item.attrs) {
                visit::visit_item_mod(self, item);
            }
        }
    }
    let mut found = Vec::new();
    for file in sources {
        let mut allows = Allows(Vec::new());
        allows.visit_file(&file.syntax);
        found.extend(
            allows
                .0
                .iter()
                .map(|line| offender(file, *line, "#[allow]; write #[expect]")),
        );
    }
    found
}

/// Things that have one home: the aim, the crate, the texts that show them.
const HOMES: &[(&str, &str, &[&str])] = &[
    (
        "process-groups",
        "process",
        &[".process_group(", "setsid(", "setpgid("],
    ),
    (
        "child-processes",
        "process",
        &[
            "std::process::Command",
            "std::process::{Command",
            "tokio::process::Command",
            "tokio::process::{Command",
        ],
    ),
    (
        "http-clients",
        "net",
        &[
            "Client::builder(",
            "ClientBuilder::new(",
            "reqwest::Client::new(",
        ],
    ),
    (
        "boolean-parsers",
        "settings",
        &[
            r#""1" | "true""#,
            r#""true" | "1""#,
            r#""0" | "false""#,
            r#""false" | "0""#,
            r#""yes" | "on""#,
        ],
    ),
];

/// Crates that check the program with means of their own.
const APART: &[&str] = &["testkit", "shell-oracles"];

fn outside_of_home(sources: &[SourceFile], home: &str, marks: &[&str]) -> Vec<Offender> {
    let mut found = Vec::new();
    for file in sources
        .iter()
        .filter(|file| file.crate_name != home && !APART.contains(&file.crate_name.as_str()))
    {
        for (index, line) in code(&file.text).enumerate() {
            if marks.iter().any(|mark| line.contains(mark)) {
                found.push(offender(file, index + 1, line.trim()));
            }
        }
    }
    found
}

/// The lines of a file before its tests, without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .map(|line| line.split("//").next().unwrap_or_default())
}

/// Derives that construct variants: a parser makes them from text.
const CONSTRUCTING: &[&str] = &[
    "Deserialize",
    "ValueEnum",
    "Subcommand",
    "FromPrimitive",
    "EnumIter",
    "Arbitrary",
];

/// Enums by name with their variants, and where variants are constructed.
#[derive(Default)]
struct Variants {
    self_type: Vec<String>,
    constructed: HashSet<(String, String)>,
    /// Names that a file uses without their enum.
    bare: HashSet<String>,
}

impl Variants {
    fn see(&mut self, path: &syn::Path) {
        let mut names = path
            .segments
            .iter()
            .rev()
            .map(|segment| segment.ident.to_string());
        let (Some(last), before) = (names.next(), names.next()) else {
            return;
        };
        match before {
            Some(before) if before == "Self" => {
                if let Some(current) = self.self_type.last() {
                    self.constructed.insert((current.clone(), last));
                }
            }
            Some(before) => {
                self.constructed.insert((before, last));
            }
            None => {
                self.bare.insert(last);
            }
        }
    }
}

impl<'a> Visit<'a> for Variants {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if has_cfg_test(&item.attrs) {
            return;
        }
        self.self_type.push(self_name(item).unwrap_or_default());
        visit::visit_item_impl(self, item);
        self.self_type.pop();
    }
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !has_cfg_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
    fn visit_expr_path(&mut self, item: &'a syn::ExprPath) {
        self.see(&item.path);
        visit::visit_expr_path(self, item);
    }
    fn visit_expr_struct(&mut self, item: &'a syn::ExprStruct) {
        self.see(&item.path);
        visit::visit_expr_struct(self, item);
    }
    // A pattern names a variant without constructing it.
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_macro(&mut self, item: &'a syn::Macro) {
        let is_match = item
            .path
            .segments
            .last()
            .is_some_and(|name| name.ident == "matches");
        // The second argument of `matches!` is a pattern.
        let is_comma = |token: &proc_macro2::TokenTree| matches!(token, proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ',');
        let expression = item.tokens.clone().into_iter();
        let tokens = flat(
            expression
                .take_while(|token| !(is_match && is_comma(token)))
                .collect(),
        );
        for window in tokens.windows(4) {
            if let [
                proc_macro2::TokenTree::Ident(of),
                proc_macro2::TokenTree::Punct(first),
                proc_macro2::TokenTree::Punct(second),
                proc_macro2::TokenTree::Ident(name),
            ] = window
                && first.as_char() == ':'
                && second.as_char() == ':'
            {
                let of = match (of.to_string().as_str(), self.self_type.last()) {
                    ("Self", Some(current)) => current.clone(),
                    (of, _) => of.to_owned(),
                };
                self.constructed.insert((of, name.to_string()));
            }
        }
    }
}

/// All tokens of a macro, without the structure of its brackets.
fn flat(tokens: proc_macro2::TokenStream) -> Vec<proc_macro2::TokenTree> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Group(group) => found.extend(flat(group.stream())),
            token => found.push(token),
        }
    }
    found
}

fn dead_variants(sources: &[SourceFile]) -> Vec<Offender> {
    struct Enums<'a>(Vec<&'a syn::ItemEnum>);
    impl<'a> Visit<'a> for Enums<'a> {
        fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
            self.0.push(item);
        }
    }
    let mut seen = Variants::default();
    for file in sources {
        seen.visit_file(&file.syntax);
    }
    // An alias of an enum constructs its variants.
    let mut aliases: HashMap<String, String> = HashMap::new();
    for file in sources {
        for line in code(&file.text) {
            if let Some((from, to)) = line
                .trim()
                .trim_end_matches([',', ';', '}'])
                .split_once(" as ")
            {
                let from = from.rsplit(['{', ',', ':', ' ']).next().unwrap_or_default();
                aliases.insert(to.trim().to_owned(), from.trim().to_owned());
            }
        }
    }
    let renamed: Vec<(String, String)> = seen
        .constructed
        .iter()
        .filter_map(|(of, name)| Some((aliases.get(of)?.clone(), name.clone())))
        .collect();
    seen.constructed.extend(renamed);
    let mut found = Vec::new();
    for file in sources {
        let mut enums = Enums(Vec::new());
        enums.visit_file(&file.syntax);
        for item in enums.0 {
            let attributes: String = item
                .attrs
                .iter()
                .filter_map(|attribute| attribute.meta.require_list().ok())
                .map(|list| list.tokens.to_string())
                .collect();
            if CONSTRUCTING
                .iter()
                .any(|derive| attributes.contains(derive))
            {
                continue;
            }
            for variant in &item.variants {
                let name = variant.ident.to_string();
                let is_made = variant
                    .attrs
                    .iter()
                    .any(|attribute| attribute.path().is_ident("default"))
                    || variant.fields.iter().any(|field| {
                        field
                            .attrs
                            .iter()
                            .any(|attribute| attribute.path().is_ident("from"))
                    });
                let key = (item.ident.to_string(), name.clone());
                if !is_made && !seen.constructed.contains(&key) && !seen.bare.contains(&name) {
                    let line = variant.ident.span().start().line;
                    found.push(offender(file, line, &format!("{}::{name}", item.ident)));
                }
            }
        }
    }
    found
}
