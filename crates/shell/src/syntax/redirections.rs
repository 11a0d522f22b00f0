//! Redirections and here-documents.

use super::ShellKind;
use super::parser::{Outcome, Parser, PendingDocument, is_delimiter, is_name_byte};
use super::tree::{HereDocument, Redirection, RedirectionOperator, Word};

impl Parser<'_> {
    /// Whether a redirection starts here: an operator, perhaps after a descriptor or `{name}`.
    pub(super) fn at_redirection(&mut self) -> bool {
        let mut offset = 0;
        if self.peek() == Some(b'{') {
            offset = 1;
            while self.peek_at(offset).is_some_and(is_name_byte) {
                offset += 1;
            }
            if offset == 1 || self.peek_at(offset) != Some(b'}') {
                return false;
            }
            offset += 1;
        } else {
            // Descriptors are short; a long run of digits is a word.
            while offset < 20
                && self
                    .peek_at(offset)
                    .is_some_and(|byte| byte.is_ascii_digit())
            {
                offset += 1;
            }
        }
        match self.peek_at(offset) {
            Some(b'<' | b'>') => offset > 0 || self.peek_at(1) != Some(b'('),
            _ => false,
        }
    }

    pub(super) fn trailing_redirections(&mut self) -> Outcome<Vec<Redirection>> {
        let mut found = Vec::new();
        loop {
            self.skip_blanks()?;
            let both = self.starts_with("&>");
            if both {
                self.needs_extensions("'&>'")?;
            }
            if !both && !self.at_redirection() {
                return Ok(found);
            }
            found.push(self.redirection()?);
        }
    }

    pub(super) fn redirection(&mut self) -> Outcome<Redirection> {
        let start = self.position;
        if self.peek() == Some(b'{') {
            return self.refuse("a redirection to a named descriptor");
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
        if self.position - start > 1 {
            self.needs_extensions("a descriptor of two digits")?;
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
        .find(|(text, _)| self.starts_with(text))
        .map_or((RedirectionOperator::Output, 1), |(text, operator)| {
            (operator, text.len())
        });
        if operator == RedirectionOperator::HereString {
            self.needs_extensions("'<<<'")?;
        }
        let strip_tabs = operator == RedirectionOperator::HereDocument && length == 3;
        self.operator(length)?;
        if self.shell == ShellKind::Zsh && matches!(self.peek(), Some(b'!' | b'|')) {
            return self.refuse("a zsh redirection");
        }
        self.skip_blanks()?;
        match self.peek() {
            None | Some(b'\n' | b';' | b'&' | b'|' | b')' | b'(') => {
                return self.refuse("a redirection without a target");
            }
            Some(b'<' | b'>') if self.peek_at(1) != Some(b'(') => {
                return self.refuse("a redirection without a target");
            }
            Some(b'0'..=b'9') if self.at_redirection() => {
                return self.refuse("a redirection without a target");
            }
            _ => {}
        }
        let duplicates = matches!(
            operator,
            RedirectionOperator::DuplicateInput | RedirectionOperator::DuplicateOutput
        );
        // Bash takes the dash of `>&-` by itself: `>&-rm x` runs `rm`.
        if duplicates && self.peek() == Some(b'-') && !self.peek_at(1).is_none_or(is_delimiter) {
            return self.refuse("text after a closed descriptor");
        }
        let target = self.word()?;
        // Bash expands the word after `>&` a second time when it isn't a number: even what stands in
        // single quotes runs.
        if duplicates && target.text.contains(['$', '`', '\'', '"', '\\']) {
            return self.refuse("a descriptor that isn't plain");
        }
        let mut document = None;
        if operator == RedirectionOperator::HereDocument {
            document = Some(self.announce_document(&target, strip_tabs)?);
        }
        let text = self.slice(start).to_owned();
        Ok(Redirection {
            span: self.span_from(start),
            text,
            operator,
            target,
            document,
        })
    }

    pub(super) fn announce_document(&mut self, target: &Word, strip_tabs: bool) -> Outcome<usize> {
        // A continuation is no quote: it is gone before the delimiter is looked at.
        if target.text.contains("\\\n") {
            return self.refuse("a line continuation in a here-document's delimiter");
        }
        let delimiter = self.delimiter(target)?;
        if delimiter.contains('\n') {
            return self.refuse("a here-document delimiter of several lines");
        }
        let quoted = target.text.contains(['\'', '"', '\\']);
        let index = self.documents.len();
        self.documents.push(HereDocument {
            quoted,
            body: Word::default(),
            text: String::new(),
        });
        self.pending.push(PendingDocument {
            delimiter,
            quoted,
            strip_tabs,
            index,
        });
        Ok(index)
    }

    /// Only quotes are removed from a delimiter; anything that looks like more is refused.
    pub(super) fn delimiter(&self, target: &Word) -> Outcome<String> {
        let odd = target
            .text
            .contains(['$', '`', '~', '*', '?', '[', '{', '(']);
        match target.fixed() {
            Some(delimiter) if !odd => Ok(delimiter),
            _ => self.refuse("a here-document delimiter that isn't plain"),
        }
    }

    pub(super) fn here_document_body(&mut self, document: &PendingDocument) -> Outcome<()> {
        let start = self.position;
        // Lines that a backslash joins are one line to bash, also when it looks for the end.
        let mut joined = String::new();
        loop {
            if self.position >= self.bytes.len() {
                return self.refuse(format!(
                    "a here-document without its end '{}'",
                    document.delimiter
                ));
            }
            let line_start = self.position;
            let rest = self.bytes.get(line_start..).unwrap_or_default();
            let length = rest
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(rest.len());
            self.work += length as u64 + 1;
            let line = self
                .source
                .get(line_start..line_start + length)
                .unwrap_or_default();
            self.position = (line_start + length + 1).min(self.bytes.len());
            let stripped = if document.strip_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            let goes_on = !document.quoted && ends_in_continuation(line);
            if !joined.is_empty() || goes_on {
                joined.push_str(line.strip_suffix('\\').filter(|_| goes_on).unwrap_or(line));
                if self.could_end(&joined, document) || self.could_end(stripped, document) {
                    return self.refuse("a line continuation before a here-document's end");
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
                return self.document_expansions(document, start, body_end);
            }
            if self.substitutions > 0 || self.outer.is_some() {
                let close = stripped.strip_prefix(document.delimiter.as_str());
                if close.is_some_and(|tail| tail.trim_start().starts_with([')', '`'])) {
                    return self.refuse("a here-document whose end shares its line");
                }
            }
        }
    }

    /// Whether a line that was joined could be a here-document's end, wherever tabs are taken away.
    fn could_end(&self, line: &str, document: &PendingDocument) -> bool {
        let mut characters = line.chars().filter(|character| *character != '\t');
        let mut delimiter = document
            .delimiter
            .chars()
            .filter(|character| *character != '\t');
        delimiter.all(|wanted| characters.next() == Some(wanted))
    }

    /// Reads the expansions in the body of a here-document, which is like text in double quotes.
    pub(super) fn document_expansions(
        &mut self,
        document: &PendingDocument,
        start: usize,
        end: usize,
    ) -> Outcome<()> {
        let text = self.source.get(start..end).unwrap_or_default().to_owned();
        if let Some(slot) = self.documents.get_mut(document.index) {
            slot.text = text;
        }
        if document.quoted {
            let resume = self.position;
            self.position = start;
            while self.position < end {
                let byte = self.bytes.get(self.position).copied().unwrap_or_default();
                self.note_quoted_oddity(byte);
                self.position += 1;
            }
            self.position = resume;
            return Ok(());
        }
        let resume = self.position;
        let whole = self.bytes;
        self.bytes = whole.get(..end).unwrap_or_default();
        self.position = start;
        let outer = std::mem::take(&mut self.pending);
        let body = self.document_text()?;
        self.pending = outer;
        self.bytes = whole;
        self.position = resume;
        if let Some(slot) = self.documents.get_mut(document.index) {
            slot.body = body;
        }
        Ok(())
    }
}

/// Whether a line ends in a backslash that isn't escaped itself.
fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}
