//! The sources of the workspace, parsed once, without test code.

use lathe_testkit::workspace_root;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A source file outside of tests.
pub(crate) struct SourceFile {
    /// The folder name of the crate.
    pub(crate) crate_name: String,
    /// The path below the workspace, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) syntax: syn::File,
}

/// The folders of the crates.
pub(crate) fn crates() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(workspace_root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    found.sort();
    assert!(found.len() >= 3, "where are the crates?");
    found
}

/// The Rust files below a folder.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A path below the workspace.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(workspace_root())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// Parses all source files below `crates/*/src`, without modules that only tests compile.
pub(crate) fn parse() -> Vec<SourceFile> {
    let mut files = Vec::new();
    let mut test_modules = HashSet::new();
    for folder in crates() {
        let crate_name = folder.file_name().unwrap().to_string_lossy().into_owned();
        for path in rust_files(&folder.join("src")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut syntax = syn::parse_file(&text)
                .unwrap_or_else(|error| panic!("{} does not parse: {error}", shown(&path)));
            collect_test_modules(&path, &syntax.items, &mut test_modules);
            syntax.items.retain(|item| !is_test(item));
            let file = SourceFile {
                crate_name: crate_name.clone(),
                path: shown(&path),
                text,
                syntax,
            };
            files.push((path, file));
        }
    }
    files.retain(|(path, _)| !path.ancestors().any(|part| test_modules.contains(part)));
    files.into_iter().map(|(_, file)| file).collect()
}

/// The files and folders of modules that stand behind `#[cfg(test)]`.
fn collect_test_modules(path: &Path, items: &[syn::Item], found: &mut HashSet<PathBuf>) {
    let folder = path.parent().unwrap();
    let stem = path.file_stem().unwrap();
    let folder = if stem == "mod" || stem == "lib" || stem == "main" {
        folder.to_owned()
    } else {
        folder.join(stem)
    };
    for item in items {
        let syn::Item::Mod(module) = item else {
            continue;
        };
        if module.content.is_none() && has_cfg_test(&module.attrs) {
            let named = module.attrs.iter().find_map(path_attribute);
            let file = match named {
                Some(named) => path.parent().unwrap().join(named),
                None => folder.join(format!("{}.rs", module.ident)),
            };
            found.insert(file);
            found.insert(folder.join(module.ident.to_string()));
        }
    }
}

fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let value = attribute.meta.require_name_value().ok()?;
    if !value.path.is_ident("path") {
        return None;
    }
    match &value.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

/// Whether attributes say that an item is compiled for tests only.
pub(crate) fn has_cfg_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .meta
                    .require_list()
                    .is_ok_and(|list| list.tokens.to_string().starts_with("test")))
    })
}

fn is_test(item: &syn::Item) -> bool {
    match item {
        syn::Item::Mod(item) => has_cfg_test(&item.attrs),
        syn::Item::Fn(item) => has_cfg_test(&item.attrs),
        syn::Item::Impl(item) => has_cfg_test(&item.attrs),
        syn::Item::Struct(item) => has_cfg_test(&item.attrs),
        syn::Item::Use(item) => has_cfg_test(&item.attrs),
        _ => false,
    }
}
