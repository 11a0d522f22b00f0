//! Redirections and here-documents.

use super::ShellKind;
use super::parser::{Outcome, Parser, PendingDocument, is_delimiter, is_name_byte};
use super::tree::{HereDocument, Redirection, RedirectionOperator, Word};

/// Whether a redirection starts here: an operator, perhaps after a descriptor or `{name}`.
pub(super) fn at_redirection(parser: &mut Parser<'_>) -> bool {
    let mut offset = 0;
    if parser.peek() == Some(b'{') {
        offset = 1;
        while parser.peek_at(offset).is_some_and(is_name_byte) {
            offset += 1;
        }
        if offset == 1 || parser.peek_at(offset) != Some(b'}') {
            return false;
        }
        offset += 1;
    } else {
        // Descriptors are short; a long run of digits is a word.
        while offset < 20
            && parser
                .peek_at(offset)
                .is_some_and(|byte| byte.is_ascii_digit())
        {
            offset += 1;
        }
    }
    match parser.peek_at(offset) {
        Some(b'<' | b'>') => offset > 0 || parser.peek_at(1) != Some(b'('),
        _ => false,
    }
}

pub(super) fn trailing_redirections(parser: &mut Parser<'_>) -> Outcome<Vec<Redirection>> {
    let mut found = Vec::new();
    loop {
        parser.skip_blanks()?;
        let both = parser.starts_with("&>");
        if both {
            parser.needs_extensions("'&>'")?;
        }
        if !both && !at_redirection(parser) {
            return Ok(found);
        }
        found.push(redirection(parser)?);
    }
}

pub(super) fn redirection(parser: &mut Parser<'_>) -> Outcome<Redirection> {
    let start = parser.position;
    if parser.peek() == Some(b'{') {
        return parser.refuse("a redirection to a named descriptor");
    }
    while parser.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        parser.position += 1;
    }
    if parser.position - start > 1 {
        parser.needs_extensions("a descriptor of two digits")?;
    }
    let (operator, length) = [
        ("&>>", RedirectionOperator::AppendOutputAndError),
        ("&>", RedirectionOperator::OutputAndError),
        ("<<<", RedirectionOperator::HereString),
        ("<<-", RedirectionOperator::HereDocument),
        ("<<", RedirectionOperator::HereDocument),
        ("<&", RedirectionOperator::DuplicateInput),
        ("<>", RedirectionOperator::ReadWrite),
        (">>", RedirectionOperator::Append),
        (">&", RedirectionOperator::DuplicateOutput),
        (">|", RedirectionOperator::Output),
        ("<", RedirectionOperator::Input),
        (">", RedirectionOperator::Output),
    ]
    .into_iter()
    .find(|(text, _)| parser.starts_with(text))
    .map_or((RedirectionOperator::Output, 1), |(text, operator)| {
        (operator, text.len())
    });
    if operator == RedirectionOperator::HereString {
        parser.needs_extensions("'<<<'")?;
    }
    let strip_tabs = operator == RedirectionOperator::HereDocument && length == 3;
    parser.operator(length)?;
    if parser.shell == ShellKind::Zsh && matches!(parser.peek(), Some(b'!' | b'|')) {
        return parser.refuse("a zsh redirection");
    }
    parser.skip_blanks()?;
    match parser.peek() {
        None | Some(b'\n' | b';' | b'&' | b'|' | b')' | b'(') => {
            return parser.refuse("a redirection without a target");
        }
        Some(b'<' | b'>') if parser.peek_at(1) != Some(b'(') => {
            return parser.refuse("a redirection without a target");
        }
        Some(b'0'..=b'9') if at_redirection(parser) => {
            return parser.refuse("a redirection without a target");
        }
        _ => {}
    }
    let duplicates = matches!(
        operator,
        RedirectionOperator::DuplicateInput | RedirectionOperator::DuplicateOutput
    );
    // Bash takes the dash of `>&-` by itself: `>&-rm x` runs `rm`.
    if duplicates && parser.peek() == Some(b'-') && !parser.peek_at(1).is_none_or(is_delimiter) {
        return parser.refuse("text after a closed descriptor");
    }
    let target = parser.word()?;
    // Bash expands the word after `>&` a second time when it isn't a number: even what stands in
    // single quotes runs.
    if duplicates && target.text.contains(['$', '`', '\'', '"', '\\']) {
        return parser.refuse("a descriptor that isn't plain");
    }
    let mut document = None;
    if operator == RedirectionOperator::HereDocument {
        document = Some(announce_document(parser, &target, strip_tabs)?);
    }
    let text = parser.slice(start).to_owned();
    Ok(Redirection {
        span: parser.span_from(start),
        text,
        operator,
        target,
        document,
    })
}

pub(super) fn announce_document(
    parser: &mut Parser<'_>,
    target: &Word,
    strip_tabs: bool,
) -> Outcome<usize> {
    // A continuation is no quote: it is gone before the delimiter is looked at.
    if target.text.contains("\\\n") {
        return parser.refuse("a line continuation in a here-document's delimiter");
    }
    let delimiter = delimiter(parser, target)?;
    if delimiter.contains('\n') {
        return parser.refuse("a here-document delimiter of several lines");
    }
    let quoted = target.text.contains(['\'', '"', '\\']);
    let index = parser.documents.len();
    parser.documents.push(HereDocument {
        quoted,
        body: Word::default(),
        text: String::new(),
    });
    parser.pending.push(PendingDocument {
        delimiter,
        quoted,
        strip_tabs,
        index,
    });
    Ok(index)
}

/// Only quotes are removed from a delimiter; anything that looks like more is refused.
pub(super) fn delimiter(parser: &Parser<'_>, target: &Word) -> Outcome<String> {
    let odd = target
        .text
        .contains(['$', '`', '~', '*', '?', '[', '{', '(']);
    match target.fixed() {
        Some(delimiter) if !odd => Ok(delimiter),
        _ => parser.refuse("a here-document delimiter that isn't plain"),
    }
}

pub(super) fn here_document_body(
    parser: &mut Parser<'_>,
    document: &PendingDocument,
) -> Outcome<()> {
    let start = parser.position;
    // Lines that a backslash joins are one line to bash, also when it looks for the end.
    let mut joined = String::new();
    loop {
        if parser.position >= parser.bytes.len() {
            return parser.refuse(format!(
                "a here-document without its end '{}'",
                document.delimiter
            ));
        }
        let line_start = parser.position;
        let rest = parser.bytes.get(line_start..).unwrap_or_default();
        let length = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len());
        parser.work += length as u64 + 1;
        let line = parser
            .source
            .get(line_start..line_start + length)
            .unwrap_or_default();
        parser.position = (line_start + length + 1).min(parser.bytes.len());
        let stripped = if document.strip_tabs {
            line.trim_start_matches('\t')
        } else {
            line
        };
        let goes_on = !document.quoted && ends_in_continuation(line);
        if !joined.is_empty() || goes_on {
            joined.push_str(line.strip_suffix('\\').filter(|_| goes_on).unwrap_or(line));
            if could_end(&joined, document) || could_end(stripped, document) {
                return parser.refuse("a line continuation before a here-document's end");
            }
            if joined.is_empty() {
                // A line of nothing but a backslash still joins the next one.
                joined.push('\t');
            }
            if !goes_on {
                joined.clear();
            }
            continue;
        }
        if stripped == document.delimiter {
            // Bash ends the body at the delimiter even without a final newline.
            let body_end = line_start;
            return document_expansions(parser, document, start, body_end);
        }
        if parser.substitutions > 0 || parser.outer.is_some() {
            let close = stripped.strip_prefix(document.delimiter.as_str());
            if close.is_some_and(|tail| tail.trim_start().starts_with([')', '`'])) {
                return parser.refuse("a here-document whose end shares its line");
            }
        }
    }
}

/// Whether a line that was joined could be a here-document's end, wherever tabs are taken away.
fn could_end(line: &str, document: &PendingDocument) -> bool {
    let mut characters = line.chars().filter(|character| *character != '\t');
    let mut delimiter = document
        .delimiter
        .chars()
        .filter(|character| *character != '\t');
    delimiter.all(|wanted| characters.next() == Some(wanted))
}

/// Reads the expansions in the body of a here-document, which is like text in double quotes.
pub(super) fn document_expansions(
    parser: &mut Parser<'_>,
    document: &PendingDocument,
    start: usize,
    end: usize,
) -> Outcome<()> {
    let text = parser.source.get(start..end).unwrap_or_default().to_owned();
    if let Some(slot) = parser.documents.get_mut(document.index) {
        slot.text = text;
    }
    if document.quoted {
        let resume = parser.position;
        parser.position = start;
        while parser.position < end {
            let byte = parser
                .bytes
                .get(parser.position)
                .copied()
                .unwrap_or_default();
            parser.note_quoted_oddity(byte);
            parser.position += 1;
        }
        parser.position = resume;
        return Ok(());
    }
    let resume = parser.position;
    let whole = parser.bytes;
    parser.bytes = whole.get(..end).unwrap_or_default();
    parser.position = start;
    let outer = std::mem::take(&mut parser.pending);
    let body = parser.document_text()?;
    parser.pending = outer;
    parser.bytes = whole;
    parser.position = resume;
    if let Some(slot) = parser.documents.get_mut(document.index) {
        slot.body = body;
    }
    Ok(())
}

/// Whether a line ends in a backslash that isn't escaped itself.
fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}
