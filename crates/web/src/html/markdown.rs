//! A part of a page as Markdown, in one pass.

use super::main_part::Chosen;
use super::table;
use super::tree::{Node, Tree};
use url::Url;

/// The most Markdown that a page becomes, in bytes.
const MOST: usize = 4 * 1024 * 1024;
/// How deep lists and quotes are indented; deeper ones continue at the same place.
const MOST_INDENTED: usize = 8;
/// The longest address that is written.
const LONGEST_ADDRESS: usize = 2_000;

/// Writes the chosen part.
pub(super) fn write(tree: &Tree<'_>, chosen: &Chosen, base: &Url) -> String {
    let mut writer = Writer::new(tree, chosen, base);
    writer.node(chosen.root);
    writer.finish()
}

/// Writes Markdown.
pub(super) struct Writer<'a> {
    tree: &'a Tree<'a>,
    chosen: &'a Chosen,
    base: &'a Url,
    out: String,
    /// The prefix of each line: quotes and the indentation of lists.
    prefix: Vec<String>,
    /// The mark of a list's item, for the next line.
    mark: Option<String>,
    gap: Gap,
    /// How many of the prefixes an empty line before it has.
    gap_depth: usize,
    /// A blank was seen and not written yet.
    blank: bool,
    /// Marks of emphasis that begin with the next word.
    pending: Vec<&'static str>,
    /// Inside a cell of a table or a heading: everything stands on one line.
    flat: bool,
    /// Inside a link: another one can't begin.
    in_link: bool,
}

/// The separator before the next word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    /// Nothing: the line continues.
    None,
    /// A new line.
    Line,
    /// An empty line.
    Block,
}

impl<'a> Writer<'a> {
    fn new(tree: &'a Tree<'a>, chosen: &'a Chosen, base: &'a Url) -> Self {
        Self {
            tree,
            chosen,
            base,
            out: String::new(),
            prefix: Vec::new(),
            mark: None,
            gap: Gap::None,
            gap_depth: 0,
            blank: false,
            pending: Vec::new(),
            flat: false,
            in_link: false,
        }
    }

    fn finish(mut self) -> String {
        let length = self.out.trim_end().len();
        self.out.truncate(length);
        self.out
    }

    /// The content of a node on one line, for cells of tables.
    pub(super) fn line_of(&self, node: Node) -> String {
        let mut inner = Writer::new(self.tree, self.chosen, self.base);
        inner.flat = true;
        inner.in_link = self.in_link;
        inner.inside(node);
        inner.finish()
    }

    pub(super) fn tree(&self) -> &'a Tree<'a> {
        self.tree
    }

    pub(super) fn hides(&self, node: Node) -> bool {
        self.chosen.hides(node)
    }

    fn at_start_of_line(&self) -> bool {
        self.gap != Gap::None || self.out.is_empty()
    }

    fn ask_for(&mut self, gap: Gap) {
        self.blank = false;
        if self.flat {
            self.blank = !self.out.is_empty();
        } else if !self.out.is_empty() || self.mark.is_some() {
            let depth = self.prefix.len();
            self.gap_depth = if self.gap == Gap::None {
                depth
            } else {
                self.gap_depth.min(depth)
            };
            self.gap = self.gap.max(gap);
        }
    }

    pub(super) fn block(&mut self) {
        self.ask_for(Gap::Block);
    }

    pub(super) fn line(&mut self) {
        self.ask_for(Gap::Line);
    }

    /// Ends the line if there is one, and begins the next where something is to be written.
    fn begin(&mut self) {
        let fresh = self.at_start_of_line();
        let ends = match self.gap {
            Gap::None => 0,
            Gap::Line => 1,
            Gap::Block => 2,
        };
        self.gap = Gap::None;
        if !fresh {
            return;
        }
        if !self.out.is_empty() {
            for _ in 0..ends {
                let kept = self.out.trim_end_matches(' ').len();
                if self.out.ends_with('\n') {
                    // The empty line of a quote belongs to it.
                    let depth = self.gap_depth.min(self.prefix.len());
                    let outer = self.prefix.get(..depth).unwrap_or_default().concat();
                    self.out.push_str(outer.trim_end());
                } else {
                    self.out.truncate(kept);
                }
                self.out.push('\n');
            }
        }
        match self.mark.take() {
            Some(mark) => {
                let outer = self.prefix.len().saturating_sub(1);
                let before = self.prefix.get(..outer).unwrap_or_default().concat();
                self.out.push_str(&before);
                self.out.push_str(&mark);
            }
            None => self.out.push_str(&self.prefix.concat()),
        }
    }

    /// Writes words as they are, after the blank and the marks that wait.
    pub(super) fn put(&mut self, text: &str) {
        if self.out.len() > MOST {
            return;
        }
        let fresh = self.at_start_of_line();
        self.begin();
        if self.blank && !fresh {
            self.out.push(' ');
        }
        self.blank = false;
        for mark in std::mem::take(&mut self.pending) {
            self.out.push_str(mark);
        }
        self.out.push_str(text);
    }

    /// Text of the page: blanks are one blank.
    fn words(&mut self, text: &str) {
        if text.starts_with(is_blank) {
            self.blank = self.blank || !self.at_start_of_line();
        }
        for (index, word) in text
            .split(is_blank)
            .filter(|word| !word.is_empty())
            .enumerate()
        {
            if index > 0 {
                self.blank = true;
            }
            self.put(word);
        }
        if text.ends_with(is_blank) {
            self.blank = self.blank || !self.at_start_of_line();
        }
    }

    pub(super) fn inside(&mut self, node: Node) {
        for child in self.tree.children(node) {
            self.node(child);
        }
    }

    fn node(&mut self, node: Node) {
        if self.chosen.hides(node) || self.out.len() > MOST {
            return;
        }
        if let Some(text) = self.tree.own_text(node) {
            self.words(text);
            return;
        }
        match self.tree.name(node) {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.heading(node),
            "pre" | "listing" | "xmp" => self.code_block(node),
            "blockquote" => self.indented(node, "> ", None),
            "ul" | "ol" | "menu" | "dir" => self.list(node),
            "dl" => self.definitions(node),
            "table" => table::write(self, node),
            "hr" => {
                self.block();
                if !self.flat {
                    self.put("---");
                    self.block();
                }
            }
            "br" => self.line(),
            "a" => self.link(node),
            "img" | "picture" | "video" | "audio" | "iframe" | "frame" => self.media(node),
            "input" => {
                let checked = self.tree.attribute(node, "checked").is_some();
                self.put(if checked { "[x]" } else { "[ ]" });
                self.blank = true;
            }
            "em" | "i" | "cite" | "dfn" => self.marked(node, "*"),
            "strong" | "b" | "summary" => self.strong(node),
            "del" | "s" | "strike" => self.marked(node, "~~"),
            "code" | "kbd" | "samp" | "tt" => self.code(node),
            "q" => self.enclosed(node, "\u{201c}", "\u{201d}"),
            "rt" => self.enclosed(node, "(", ")"),
            "sup" => self.raised(node),
            "math" => self.formula(node),
            "rp" => {}
            name if is_block(name) => {
                self.block();
                self.inside(node);
                self.block();
            }
            _ => self.inside(node),
        }
    }

    fn heading(&mut self, node: Node) {
        self.block();
        if self.flat {
            self.inside(node);
            self.block();
            return;
        }
        let line = self.line_of(node);
        let line = line.trim_end_matches(['#', '¶', '§']).trim();
        if !line.is_empty() {
            let level = self
                .tree
                .name(node)
                .get(1..)
                .and_then(|level| level.parse().ok());
            self.put(&format!("{} {line}", "#".repeat(level.unwrap_or(1))));
        }
        self.block();
    }

    fn strong(&mut self, node: Node) {
        let summary = self.tree.name(node) == "summary";
        if summary {
            self.block();
        }
        self.marked(node, "**");
        if summary {
            self.block();
        }
    }

    /// Emphasis: the marks stand at the words, never at a blank, and not around nothing.
    fn marked(&mut self, node: Node, mark: &'static str) {
        if self.holds_blocks(node) || self.pending.contains(&mark) {
            self.inside(node);
            return;
        }
        let waiting = self.pending.len();
        self.pending.push(mark);
        self.inside(node);
        if self.pending.len() > waiting {
            self.pending.truncate(waiting);
        } else if !self.at_start_of_line() {
            self.out.push_str(mark);
        }
    }

    fn enclosed(&mut self, node: Node, before: &str, after: &str) {
        self.put(before);
        self.inside(node);
        if !self.at_start_of_line() {
            self.blank = false;
            self.put(after);
        }
    }

    /// A power or a footnote: `x^2`.
    fn raised(&mut self, node: Node) {
        let text = self.tree.text(node, 20);
        let text = text.trim();
        let short = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let linked = self
            .tree
            .children(node)
            .any(|child| self.tree.name(child) == "a");
        if !linked && !text.is_empty() && text.len() <= 20 && text.chars().all(short) {
            self.put(&format!("^{text}"));
        } else {
            self.inside(node);
        }
    }

    /// A formula by its TeX, where the page has it.
    fn formula(&mut self, node: Node) {
        let tex = self.tree.inside(node).find(|inner| {
            let encoding = self.tree.attribute(*inner, "encoding").unwrap_or_default();
            self.tree.name(*inner) == "annotation" && encoding.contains("tex")
        });
        match tex {
            Some(tex) => {
                let text = super::collapsed(&self.tree.text(tex, 10_000));
                self.put(&format!("${text}$"));
            }
            None => self.inside(node),
        }
    }

    fn code(&mut self, node: Node) {
        let text = super::collapsed(&self.visible_text(node));
        if text.is_empty() {
            return;
        }
        let fence = "`".repeat(longest_run(&text) + 1);
        let pad = if text.starts_with('`') || text.ends_with('`') {
            " "
        } else {
            ""
        };
        self.put(&format!("{fence}{pad}{text}{pad}{fence}"));
    }

    /// The text inside a node without what is hidden, with its line ends.
    fn visible_text(&self, node: Node) -> String {
        let mut text = String::new();
        for inner in self.tree.inside(node) {
            if self.chosen.hides(inner) || self.is_gutter(inner, node) {
                continue;
            }
            match (self.tree.own_text(inner), self.tree.name(inner)) {
                (Some(own), _) => text.push_str(own),
                (None, "br" | "tr") => text.push('\n'),
                (None, "div" | "p" | "li") if !text.is_empty() && !text.ends_with('\n') => {
                    text.push('\n');
                }
                _ => {}
            }
            if text.len() > MOST {
                break;
            }
        }
        text
    }

    /// Whether a node is in the column of line numbers.
    fn is_gutter(&self, node: Node, block: Node) -> bool {
        let is_one = |node: Node| {
            let class = self.tree.attribute(node, "class").unwrap_or_default();
            class.split_whitespace().any(|class| {
                matches!(
                    class,
                    "lineno" | "linenos" | "line-number" | "linenumber" | "gutter" | "lnt" | "ln"
                )
            })
        };
        std::iter::successors(Some(node), |inner| Some(self.tree.parent(*inner)))
            .take_while(|inner| *inner != block && inner.place() != 0)
            .any(is_one)
    }

    fn code_block(&mut self, node: Node) {
        if self.is_gutter(node, self.chosen.root) {
            return;
        }
        self.block();
        let text = self.visible_text(node);
        let text = text.trim_matches('\n').trim_end();
        if text.is_empty() {
            return;
        }
        if self.flat {
            let line = super::collapsed(text);
            self.put(&format!("`{line}`"));
            return;
        }
        let fence = "`".repeat(longest_run(text).max(2) + 1);
        let language = self.language(node);
        self.put(&format!("{fence}{language}"));
        for line in text.split('\n') {
            self.gap = Gap::Line;
            self.put(line.trim_end_matches('\r'));
        }
        self.gap = Gap::Line;
        self.put(&fence);
        self.block();
    }

    /// The language of a block of code, by the classes of its elements.
    fn language(&self, node: Node) -> String {
        let code = self
            .tree
            .children(node)
            .find(|child| self.tree.name(*child) == "code");
        let places = [code, Some(node), Some(self.tree.parent(node))];
        for place in places.into_iter().flatten() {
            let class = self.tree.attribute(place, "class").unwrap_or_default();
            for word in class.split_whitespace() {
                let named = [
                    "language-",
                    "lang-",
                    "highlight-source-",
                    "brush:",
                    "sourceCode-",
                ]
                .iter()
                .find_map(|prefix| word.strip_prefix(prefix));
                let fine = |letter: char| letter.is_ascii_alphanumeric() || "+-#_".contains(letter);
                if let Some(named) = named
                    && named.len() < 30
                    && named.chars().all(fine)
                    && !matches!(named, "plaintext" | "none" | "text" | "default")
                {
                    return named.to_owned();
                }
            }
        }
        String::new()
    }

    /// Content with something before each line.
    fn indented(&mut self, node: Node, prefix: &str, mark: Option<String>) {
        let quoted = mark.is_none();
        if quoted {
            self.block();
        }
        if self.flat {
            self.inside(node);
            self.block();
            return;
        }
        let deep = self.prefix.len() >= MOST_INDENTED;
        if deep {
            self.line();
            if let Some(mark) = &mark {
                self.put(mark.trim_end());
                self.blank = true;
            }
        } else {
            self.begin_indented(prefix, mark);
        }
        self.inside(node);
        if !deep {
            self.prefix.pop();
        }
        if quoted {
            self.block();
        } else if !deep {
            // A mark without words is no item.
            self.mark = None;
        }
    }

    fn begin_indented(&mut self, prefix: &str, mark: Option<String>) {
        if mark.is_some() && self.mark.is_some() {
            // An item that begins with a list: its own mark stands alone.
            self.put("");
        }
        if self.gap == Gap::None && !self.out.is_empty() {
            self.gap = Gap::Line;
        }
        self.prefix.push(prefix.to_owned());
        self.mark = mark;
    }

    fn list(&mut self, node: Node) {
        let nested = self
            .prefix
            .last()
            .is_some_and(|prefix| prefix.trim().is_empty());
        if nested {
            self.line();
        } else {
            self.block();
        }
        let ordered = self.tree.name(node) == "ol";
        let start = self
            .tree
            .attribute(node, "start")
            .and_then(|start| start.trim().parse().ok());
        let mut number: i64 = start.unwrap_or(1);
        for child in self.tree.children(node) {
            if self.chosen.hides(child) {
                continue;
            }
            if self.tree.name(child) != "li" {
                self.node(child);
                continue;
            }
            self.line();
            let mark = if ordered {
                format!("{number}. ")
            } else {
                "- ".to_owned()
            };
            number = number.saturating_add(1);
            let indent = " ".repeat(mark.len());
            self.indented(child, &indent, Some(mark));
            self.line();
        }
        if nested {
            self.line();
        } else {
            self.block();
        }
    }

    fn definitions(&mut self, node: Node) {
        self.block();
        for child in self.tree.children(node) {
            if self.chosen.hides(child) {
                continue;
            }
            match self.tree.name(child) {
                "dt" => {
                    self.block();
                    self.marked(child, "**");
                    self.line();
                }
                "dd" => {
                    self.line();
                    self.indented(child, "  ", Some(": ".to_owned()));
                    self.line();
                }
                "div" => self.definitions(child),
                _ => self.node(child),
            }
        }
        self.block();
    }

    /// An address made absolute; `None` for one that leads nowhere.
    fn address(&self, written: &str) -> Option<String> {
        let written = written.trim();
        if written.is_empty() || written.starts_with('#') || written.len() > LONGEST_ADDRESS {
            return None;
        }
        let address = self.base.join(written).ok()?;
        if !matches!(
            address.scheme(),
            "http" | "https" | "mailto" | "ftp" | "tel"
        ) {
            return None;
        }
        let text = String::from(address);
        Some(text.replace('(', "%28").replace(')', "%29"))
    }

    fn link(&mut self, node: Node) {
        let written = self.tree.attribute(node, "href").unwrap_or_default();
        let within_page = written.trim_start().starts_with('#');
        if within_page
            && matches!(
                self.tree.text(node, 20).trim(),
                "" | "#" | "¶" | "§" | "🔗" | "Link" | "Anchor"
            )
        {
            return;
        }
        let Some(address) = self.address(written).filter(|_| !self.in_link) else {
            self.inside(node);
            return;
        };
        if self.holds_blocks(node) && !self.flat {
            self.in_link = true;
            self.inside(node);
            self.in_link = false;
            self.line();
            self.put(&format!("<{address}>"));
            self.block();
            return;
        }
        self.in_link = true;
        let line = self.line_of(node);
        self.in_link = false;
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        // Blanks inside the link stand outside of it.
        let text = self.tree.text(node, 200);
        if text.starts_with(is_blank) && !self.at_start_of_line() {
            self.blank = true;
        }
        if line == address {
            self.put(&format!("<{address}>"));
        } else {
            let line = line.replace('[', "\\[").replace(']', "\\]");
            self.put(&format!("[{line}]({address})"));
        }
        self.blank = text.ends_with(is_blank);
    }

    fn media(&mut self, node: Node) {
        let attribute = |key: &str| self.tree.attribute(node, key);
        let source = attribute("src").and_then(|source| self.address(source));
        let words = |key: &str| attribute(key).map(super::collapsed).unwrap_or_default();
        match self.tree.name(node) {
            "img" => {
                let about = words("alt");
                match source {
                    _ if about.is_empty() => {}
                    Some(source) if !self.in_link => self.put(&format!("![{about}]({source})")),
                    _ => self.put(&about),
                }
            }
            "picture" => self.inside(node),
            kind => {
                let inner = self.tree.inside(node).find_map(|inner| {
                    let source = self.tree.attribute(inner, "src")?;
                    self.address(source)
                });
                if let Some(source) = source.or(inner) {
                    let title = [words("title"), words("aria-label"), words("name")]
                        .into_iter()
                        .find(|words| !words.is_empty());
                    let about =
                        title.map_or_else(|| kind.to_owned(), |title| format!("{kind}: {title}"));
                    self.block();
                    self.put(&format!("[{about}]({source})"));
                    self.block();
                }
            }
        }
    }

    fn holds_blocks(&self, node: Node) -> bool {
        self.tree.inside(node).take(2_000).any(|inner| {
            is_block(self.tree.name(inner))
                || matches!(self.tree.name(inner), "table" | "pre" | "ul" | "ol")
        })
    }
}

fn is_blank(character: char) -> bool {
    // Not the non-breaking one: it is a character of the page. It is written as a blank all the same.
    character.is_whitespace() || character == '\u{200b}' || character == '\u{ad}'
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "center"
            | "details"
            | "div"
            | "dl"
            | "dd"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hgroup"
            | "hr"
            | "html"
            | "legend"
            | "li"
            | "main"
            | "nav"
            | "noscript"
            | "p"
            | "section"
            | "caption"
            | "td"
            | "th"
            | "tr"
            | "frameset"
            | "noframes"
    )
}

fn longest_run(text: &str) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
