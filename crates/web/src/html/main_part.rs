//! Which part of a page is about something.
//!
//! Too much is better than too little: where nothing stands out, it is the whole page without what is never part of it.

use super::tree::{Node, Tree};

/// Elements that are never shown.
const NEVER: [&str; 24] = [
    "script", "style", "template", "head", "svg", "canvas", "object", "embed", "noembed", "applet",
    "select", "datalist", "button", "input", "textarea", "dialog", "map", "link", "meta", "title",
    "base", "progress", "meter", "portal",
];
/// Elements around the content, unless they are inside it.
const AROUND: [&str; 4] = ["nav", "header", "footer", "aside"];
/// Roles of what is around the content.
const AROUND_ROLES: [&str; 9] = [
    "navigation",
    "banner",
    "contentinfo",
    "search",
    "complementary",
    "dialog",
    "alertdialog",
    "menu",
    "menubar",
];
/// Words in classes and ids of what isn't part of the content.
const AROUND_WORDS: [&str; 21] = [
    "cookie",
    "consent",
    "gdpr",
    "newsletter",
    "subscribe",
    "social",
    "share",
    "sharing",
    "breadcrumb",
    "breadcrumbs",
    "sidebar",
    "advert",
    "advertisement",
    "ads",
    "promo",
    "popup",
    "modal",
    "paywall",
    "skip",
    "pagination",
    "toc",
];
/// The shortest text that counts as content.
const SHORTEST: usize = 140;

/// The selected part of the page, and the nodes that are left out.
pub(super) struct Chosen {
    pub(super) root: Node,
    hidden: Vec<bool>,
}

impl Chosen {
    pub(super) fn hides(&self, node: Node) -> bool {
        self.hidden.get(node.place()).copied().unwrap_or(true)
    }
}

/// Text and text in links, of a node and everything inside.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    text: usize,
    links: usize,
}

/// Chooses the main part.
pub(super) fn choose(tree: &Tree<'_>) -> Chosen {
    let body = match tree.find("frameset") {
        // The body beside frames is for browsers without.
        Some(_) => Tree::root(),
        None => tree.find("body").unwrap_or(Tree::root()),
    };
    let mut hidden = vec![false; tree.len()];
    for node in tree.elements() {
        if never_shown(tree, node) {
            hide(tree, node, &mut hidden);
        }
    }
    let before = weights(tree, &hidden);
    let weight = |weights: &[Weight], node: Node| -> Weight {
        weights.get(node.place()).copied().unwrap_or_default()
    };
    let whole = weight(&before, body).text;
    let root = marked(tree, &before, whole).unwrap_or(body);
    for node in tree.inside(root) {
        if is_around(
            tree,
            node,
            root,
            weight(&before, node),
            weight(&before, root).text,
        ) {
            hide(tree, node, &mut hidden);
        }
    }
    let after = weights(tree, &hidden);
    if weight(&after, root).text * 4 < weight(&before, root).text {
        // What was taken for decoration is most of it: it is the content.
        let mut hidden = vec![false; tree.len()];
        for node in tree.elements() {
            if never_shown(tree, node) {
                hide(tree, node, &mut hidden);
            }
        }
        return Chosen { root, hidden };
    }
    let root = densest(tree, root, &after).unwrap_or(root);
    Chosen { root, hidden }
}

fn hide(tree: &Tree<'_>, node: Node, hidden: &mut [bool]) {
    if hidden.get(node.place()).copied().unwrap_or(true) {
        return;
    }
    for place in std::iter::once(node).chain(tree.inside(node)) {
        if let Some(entry) = hidden.get_mut(place.place()) {
            *entry = true;
        }
    }
}

fn never_shown(tree: &Tree<'_>, node: Node) -> bool {
    let name = tree.name(node);
    // The box of a task in a list says something.
    let task = name == "input" && tree.attribute(node, "type") == Some("checkbox");
    if NEVER.contains(&name) && !task {
        return true;
    }
    let value = |key: &str| tree.attribute(node, key);
    if value("hidden").is_some_and(|value| value != "until-found")
        || value("aria-hidden") == Some("true")
    {
        // MathML is hidden from readers of the picture beside it, and is the readable one of both.
        return name != "math";
    }
    value("style").is_some_and(|style| {
        let style: String = style
            .chars()
            .filter(|character| !character.is_whitespace())
            .take(500)
            .collect();
        let style = style.to_ascii_lowercase();
        [
            "display:none",
            "visibility:hidden",
            "font-size:0;",
            "font-size:0px",
            "opacity:0;",
        ]
        .iter()
        .any(|hides| style.contains(hides))
            || style.ends_with("opacity:0")
            || style.ends_with("font-size:0")
    })
}

fn weights(tree: &Tree<'_>, hidden: &[bool]) -> Vec<Weight> {
    let mut weights = vec![Weight::default(); tree.len()];
    // Nodes stand in the order of the page, so everything inside a node comes after it.
    for place in (1..tree.len()).rev() {
        let node = Tree::at(place);
        if hidden.get(place).copied().unwrap_or(true) {
            continue;
        }
        let own = tree.own_text(node).map_or(0, |text| {
            text.split_whitespace().map(|word| word.len() + 1).sum()
        });
        let Some(weight) = weights.get_mut(place) else {
            continue;
        };
        weight.text += own;
        if tree.name(node) == "a" {
            weight.links = weight.text;
        }
        let weight = *weight;
        if let Some(parent) = weights.get_mut(tree.parent(node).place()) {
            parent.text += weight.text;
            parent.links += weight.links;
        }
    }
    weights
}

/// The part that the page itself marks.
fn marked(tree: &Tree<'_>, weights: &[Weight], whole: usize) -> Option<Node> {
    let text = |node: &Node| weights.get(node.place()).map_or(0, |weight| weight.text);
    let mains = tree
        .elements()
        .filter(|node| tree.name(*node) == "main" || tree.attribute(*node, "role") == Some("main"));
    let main = mains
        .max_by_key(text)
        .filter(|node| text(node) >= SHORTEST.min(whole / 4));
    let within = main.unwrap_or(Tree::root());
    let articles: Vec<Node> = tree
        .elements()
        .filter(|node| tree.name(*node) == "article" && tree.contains(within, *node))
        .collect();
    let all = main.as_ref().map_or(whole, text);
    let article = articles
        .iter()
        .copied()
        .max_by_key(text)
        // One of several is no more than a part of a list.
        .filter(|node| text(node) >= SHORTEST && text(node) * 10 >= all * 6);
    article.or(main)
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|character: char| !character.is_ascii_alphanumeric())
        .take(40)
        .map(str::to_ascii_lowercase)
}

fn is_around(tree: &Tree<'_>, node: Node, root: Node, weight: Weight, all: usize) -> bool {
    let name = tree.name(node);
    if name.is_empty() || weight.text * 2 > all {
        return false;
    }
    let role = tree.attribute(node, "role").unwrap_or_default();
    if AROUND_ROLES.contains(&role) || name == "nav" {
        return true;
    }
    if AROUND.contains(&name) {
        // The header of an article has its title, its author and its date.
        let of_content =
            std::iter::successors(Some(tree.parent(node)), |outer| Some(tree.parent(*outer)))
                .take_while(|outer| *outer != root && outer.place() != 0)
                .any(|outer| matches!(tree.name(outer), "article" | "main" | "section"));
        let is_content = matches!(tree.name(root), "article" | "main");
        let titled = name == "header" && tree.inside(node).any(|inner| tree.name(inner) == "h1");
        return !(titled || name != "aside" && (of_content || is_content && name == "header"));
    }
    if !matches!(
        name,
        "div" | "section" | "ul" | "ol" | "form" | "p" | "a" | "span"
    ) {
        return false;
    }
    let named = ["class", "id"]
        .iter()
        .filter_map(|key| tree.attribute(node, key))
        .any(|value| words(value).any(|word| AROUND_WORDS.contains(&word.as_str())));
    // Long texts with few links are content, whatever they are called.
    named && (weight.links * 2 > weight.text || weight.text < 400)
}

/// The element that holds most of the paragraphs, where one clearly does.
fn densest(tree: &Tree<'_>, root: Node, weights: &[Weight]) -> Option<Node> {
    if matches!(tree.name(root), "article" | "main") {
        return None;
    }
    let weight = |node: Node| weights.get(node.place()).copied().unwrap_or_default();
    let all = weight(root);
    let mut best = root;
    // Down the page, as long as one child has nearly everything that isn't a link.
    loop {
        let plain = |node: Node| weight(node).text.saturating_sub(weight(node).links);
        let next = tree
            .children(best)
            .filter(|child| {
                matches!(
                    tree.name(*child),
                    "div" | "section" | "body" | "html" | "form" | "center"
                )
            })
            .max_by_key(|child| plain(*child))
            .filter(|child| plain(*child) * 20 >= plain(best) * 19 && plain(*child) >= SHORTEST);
        match next {
            Some(next) => best = next,
            None => break,
        }
    }
    (best != root && weight(best).text * 2 >= all.text.saturating_sub(all.links)).then_some(best)
}
