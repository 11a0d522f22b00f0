//! A page as a tree, of bounded depth and size.

use super::tokens::{Token, Tokens};
use std::borrow::Cow;

/// How deep elements are nested at most; deeper ones count as part of the last.
const DEEPEST: usize = 128;
/// How many nodes a page has at most; the rest of it is left out.
const MOST_NODES: usize = 400_000;

/// How many tags and texts are read at most.
const MOST_TOKENS: usize = 2_000_000;
/// How many of the elements that are too deep are known by name.
const MOST_KNOWN_BEYOND: usize = 64;

/// A node, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node(usize);

#[derive(Debug)]
enum Content<'a> {
    Element {
        name: String,
        attributes: Vec<(String, Cow<'a, str>)>,
    },
    Text(Cow<'a, str>),
}

#[derive(Debug)]
struct TreeNode<'a> {
    content: Content<'a>,
    parent: usize,
    /// The node after everything inside this one: nodes stand in the order of the page.
    end: usize,
}

/// A page.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    nodes: Vec<TreeNode<'a>>,
}

/// Elements that have no content.
const VOID: [&str; 15] = [
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param",
    "source", "track", "wbr",
];

/// Elements that end a paragraph that wasn't closed.
const ENDS_PARAGRAPH: [&str; 33] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "center",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "ul",
];

/// The elements that a new element closes, and the ones that stop the closing.
fn closes(name: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match name {
        "li" => (&["li"], &["ul", "ol", "menu", "dir"]),
        "dt" | "dd" => (&["dt", "dd"], &["dl"]),
        "tr" => (&["tr", "td", "th", "caption", "colgroup"], &["table"]),
        "td" | "th" => (&["td", "th"], &["tr", "table"]),
        "thead" | "tbody" | "tfoot" => (
            &[
                "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "colgroup",
            ],
            &["table"],
        ),
        "option" | "optgroup" => (&["option"], &["select", "datalist"]),
        "rt" | "rp" => (&["rt", "rp"], &["ruby"]),
        "body" => (&["head"], &[]),
        _ if ENDS_PARAGRAPH.contains(&name) => (
            &["p"],
            &[
                "table",
                "td",
                "th",
                "li",
                "dd",
                "div",
                "section",
                "article",
                "blockquote",
                "button",
                "caption",
                "object",
            ],
        ),
        _ => (&[], &[]),
    }
}

/// Builds the tree.
struct Builder<'a> {
    tree: Tree<'a>,
    /// The open elements, outermost first.
    open: Vec<usize>,
    /// Elements that are open beyond the deepest, so that their ends aren't taken for others'.
    beyond: Vec<String>,
    /// How many more there are.
    beyond_unknown: usize,
}

impl<'a> Builder<'a> {
    fn parent(&self) -> usize {
        self.open.last().copied().unwrap_or_default()
    }

    fn add(&mut self, content: Content<'a>) -> Option<usize> {
        let place = self.tree.nodes.len();
        if place >= MOST_NODES {
            return None;
        }
        let parent = self.parent();
        self.tree.nodes.push(TreeNode {
            content,
            parent,
            end: place + 1,
        });
        Some(place)
    }

    fn name_of(&self, place: usize) -> &str {
        self.tree.name(Node(place))
    }

    /// Closes open elements down to a length of the list.
    fn close_to(&mut self, length: usize) {
        let end = self.tree.nodes.len();
        for place in self.open.drain(length.max(1)..) {
            if let Some(entry) = self.tree.nodes.get_mut(place) {
                entry.end = end;
            }
        }
    }

    fn open(&mut self, name: String, attributes: Vec<(String, Cow<'a, str>)>, closed: bool) {
        let (closing, barriers) = closes(&name);
        if !closing.is_empty() && self.beyond.is_empty() {
            let mut reached = None;
            for (at, place) in self.open.iter().enumerate().rev() {
                let open = self.name_of(*place);
                if barriers.contains(&open) {
                    break;
                }
                if closing.contains(&open) {
                    reached = Some(at);
                }
            }
            if let Some(at) = reached {
                self.close_to(at);
            }
        }
        let void = VOID.contains(&name.as_str());
        if self.open.len() >= DEEPEST && !void {
            if self.beyond.len() < MOST_KNOWN_BEYOND {
                self.beyond.push(name);
            } else {
                self.beyond_unknown += 1;
            }
            return;
        }
        // HTML knows `/>` for void elements only, but foreign content (SVG, MathML) really ends there.
        let ends = void || (closed && is_foreign(&name));
        let place = self.add(Content::Element { name, attributes });
        if let (Some(place), false) = (place, ends) {
            self.open.push(place);
        }
    }

    fn close(&mut self, name: &str) {
        if self.beyond_unknown > 0 {
            self.beyond_unknown -= 1;
            return;
        }
        if let Some(at) = self.beyond.iter().rposition(|open| open == name) {
            self.beyond.truncate(at);
            return;
        }
        if !self.beyond.is_empty() && !matches!(name, "body" | "html") {
            // Inside something too deep nothing else is closed by a stray end.
            return;
        }
        let found = self
            .open
            .iter()
            .rposition(|place| self.name_of(*place) == name);
        match found {
            Some(at) if at > 0 => {
                // An end doesn't reach out of a cell or a table.
                let through = self.open.get(at + 1..).unwrap_or_default();
                let table = through
                    .iter()
                    .any(|place| matches!(self.name_of(*place), "table"));
                if !table || matches!(name, "table" | "body" | "html" | "td" | "th" | "tr") {
                    self.beyond.clear();
                    self.close_to(at);
                }
            }
            _ if name == "p" || name == "br" => {
                self.open(name.to_owned(), Vec::new(), false);
                if name == "p" {
                    self.close_to(self.open.len().saturating_sub(1));
                }
            }
            _ => {}
        }
    }
}

fn is_foreign(name: &str) -> bool {
    matches!(
        name,
        "svg"
            | "path"
            | "g"
            | "use"
            | "circle"
            | "rect"
            | "line"
            | "polygon"
            | "polyline"
            | "ellipse"
            | "stop"
            | "image"
            | "mspace"
            | "none"
            | "mprescripts"
    )
}

impl<'a> Tree<'a> {
    /// Reads a page.
    pub(super) fn parse(html: &'a str) -> Self {
        let root = TreeNode {
            content: Content::Element {
                name: String::new(),
                attributes: Vec::new(),
            },
            parent: 0,
            end: 1,
        };
        let mut builder = Builder {
            tree: Self { nodes: vec![root] },
            open: vec![0],
            beyond: Vec::new(),
            beyond_unknown: 0,
        };
        for token in Tokens::new(html).take(MOST_TOKENS) {
            match token {
                Token::Text(text) => {
                    builder.add(Content::Text(text));
                }
                Token::Open {
                    name,
                    attributes,
                    closed,
                } => builder.open(name, attributes, closed),
                Token::Close { name } => builder.close(&name),
            }
            if builder.tree.nodes.len() >= MOST_NODES {
                break;
            }
        }
        builder.close_to(1);
        let mut tree = builder.tree;
        let end = tree.nodes.len();
        if let Some(root) = tree.nodes.first_mut() {
            root.end = end;
        }
        tree
    }

    pub(super) fn root() -> Node {
        Node(0)
    }

    /// The node at a place.
    pub(super) fn at(place: usize) -> Node {
        Node(place)
    }

    /// The name of an element; empty for text.
    pub(super) fn name(&self, node: Node) -> &str {
        match self.nodes.get(node.0).map(|entry| &entry.content) {
            Some(Content::Element { name, .. }) => name,
            _ => "",
        }
    }

    /// The text of a text node.
    pub(super) fn own_text(&self, node: Node) -> Option<&str> {
        match &self.nodes.get(node.0)?.content {
            Content::Text(text) => Some(text),
            Content::Element { .. } => None,
        }
    }

    pub(super) fn attribute(&self, node: Node, wanted: &str) -> Option<&str> {
        match &self.nodes.get(node.0)?.content {
            Content::Element { attributes, .. } => attributes
                .iter()
                .find(|(key, _)| key == wanted)
                .map(|(_, value)| value.as_ref()),
            Content::Text(_) => None,
        }
    }

    pub(super) fn parent(&self, node: Node) -> Node {
        Node(self.nodes.get(node.0).map_or(0, |entry| entry.parent))
    }

    fn end(&self, node: Node) -> usize {
        self.nodes.get(node.0).map_or(0, |entry| entry.end)
    }

    /// The nodes directly inside one.
    pub(super) fn children(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let end = self.end(node);
        let mut next = node.0 + 1;
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let child = Node(next);
            next = self.end(child).max(next + 1);
            Some(child)
        })
    }

    /// All nodes inside one, in order.
    pub(super) fn inside(&self, node: Node) -> impl Iterator<Item = Node> + use<> {
        (node.0 + 1..self.end(node)).map(Node)
    }

    /// Whether a node is inside another.
    pub(super) fn contains(&self, outer: Node, inner: Node) -> bool {
        inner.0 > outer.0 && inner.0 < self.end(outer)
    }

    /// All elements, in order.
    pub(super) fn elements(&self) -> impl Iterator<Item = Node> + '_ {
        (1..self.nodes.len())
            .map(Node)
            .filter(|node| !self.name(*node).is_empty())
    }

    /// The first element of a name.
    pub(super) fn find(&self, name: &str) -> Option<Node> {
        self.elements().find(|node| self.name(*node) == name)
    }

    /// The text inside a node, as written, up to a number of bytes.
    pub(super) fn text(&self, node: Node, most: usize) -> String {
        let mut text = String::new();
        for inner in self.inside(node) {
            if let Some(own) = self.own_text(inner) {
                text.push_str(own);
            }
            if text.len() > most {
                break;
            }
        }
        text
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}

impl Node {
    /// Its place in the order of the page.
    pub(super) fn place(self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tree: &Tree<'_>, node: Node) -> String {
        if let Some(text) = tree.own_text(node) {
            return text.to_owned();
        }
        let inside: String = tree
            .children(node)
            .map(|child| shown(tree, child))
            .collect();
        match tree.name(node) {
            "" => inside,
            name => format!("{name}({inside})"),
        }
    }

    fn tree(html: &str) -> String {
        shown(&Tree::parse(html), Tree::root())
    }

    #[test]
    fn tags_that_are_not_closed_end_where_browsers_end_them() {
        let cases = [
            ("<p>a<p>b", "p(a)p(b)"),
            (
                "<ul><li>a<li>b<ul><li>c</ul><li>d</ul>",
                "ul(li(a)li(bul(li(c)))li(d))",
            ),
            (
                "<table><tr><td>a<td>b<tr><td>c</table>x",
                "table(tr(td(a)td(b))tr(td(c)))x",
            ),
            ("<dl><dt>a<dd>b<dt>c</dl>", "dl(dt(a)dd(b)dt(c))"),
            ("<p>a<div>b</div>", "p(a)div(b)"),
            ("<b>a</i>b</b>c", "b(ab)c"),
            ("<div>a</p>b</div>", "div(ap()b)"),
            ("a<br>b</br>c", "abr()bbr()c"),
            ("<td>a</div>b</td>", "td(ab)"),
            (
                "<div><table><tr><td>a</div>b</td></tr></table>c</div>",
                "div(table(tr(td(ab)))c)",
            ),
            (
                "<p>a<table><tr><td><p>b</table>c",
                "p(a)table(tr(td(p(b))))c",
            ),
        ];
        for (html, expected) in cases {
            assert_eq!(tree(html), expected, "{html}");
        }
    }

    #[test]
    fn a_page_that_is_too_deep_is_flat_below() {
        let html = format!(
            "{}deep{}after",
            "<div>".repeat(10_000),
            "</div>".repeat(10_000)
        );
        let tree = Tree::parse(&html);
        assert!(tree.len() < 300, "{}", tree.len());
        assert_eq!(tree.text(Tree::root(), 100), "deepafter");
        let last = tree.children(Tree::root()).last();
        assert_eq!(last.and_then(|node| tree.own_text(node)), Some("after"));
    }
}
