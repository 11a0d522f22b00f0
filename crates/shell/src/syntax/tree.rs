//! The nodes of a parsed command. Each kind is one that the analysis knows how to judge.

/// A range of bytes in the command as it was handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// And-or lists in sequence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct List {
    /// The pipelines, each with what joins it to the next one.
    pub items: Vec<ListItem>,
}

/// One pipeline of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListItem {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The separator after it.
    pub connector: Connector,
}

/// The separator between two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connector {
    /// `&&`
    And,
    /// `||`
    Or,
    /// `;` or a newline, or the end.
    Sequence,
    /// `&`
    Background,
}

/// Commands joined by `|` or `|&`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Whether it starts with the reserved word `time`.
    pub timed: bool,
    /// The commands in order.
    pub commands: Vec<Command>,
}

/// One command of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Assignments, words and redirections.
    Simple(SimpleCommand),
    /// A compound command with the redirections around it.
    Compound(Box<CompoundCommand>),
    /// A function definition.
    Function(Box<FunctionDefinition>),
}

/// `A=1 command word >target`.
#[derive(Debug, Clone, PartialEq)]
pub struct SimpleCommand {
    /// Where it stands.
    pub span: Span,
    /// Its source text.
    pub text: String,
    /// Assignments before the command word.
    pub assignments: Vec<Assignment>,
    /// Command word and arguments.
    pub words: Vec<Word>,
    /// Arguments of the form `name=(…)` of a declaration command.
    pub array_arguments: Vec<Assignment>,
    /// Redirections, wherever they stood.
    pub redirections: Vec<Redirection>,
}

/// `name=value`, `name+=value`, `name[subscript]=value` or `name=(values)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Whether a subscript was given.
    pub subscript: Option<Arithmetic>,
    /// Whether it is `+=`.
    pub append: bool,
    /// The value.
    pub value: AssignedValue,
}

/// The right side of an assignment.
#[derive(Debug, Clone, PartialEq)]
pub enum AssignedValue {
    /// One word, not split.
    Scalar(Word),
    /// The elements of an array.
    Array(Vec<Word>),
}

/// A redirection.
#[derive(Debug, Clone, PartialEq)]
pub struct Redirection {
    /// Where it stands.
    pub span: Span,
    /// Its source text.
    pub text: String,
    /// Its effect.
    pub operator: RedirectionOperator,
    /// File, descriptor, or text. For a here-document: its delimiter.
    pub target: Word,
    /// The here-document's body, by its place in [`Parsed::documents`](super::Parsed).
    pub document: Option<usize>,
}

/// Redirection operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectionOperator {
    /// `<`
    Input,
    /// `>` and `>|`
    Output,
    /// `>>`
    Append,
    /// `<>`
    ReadWrite,
    /// `<&`
    DuplicateInput,
    /// `>&`
    DuplicateOutput,
    /// `&>`
    OutputAndError,
    /// `&>>`
    AppendOutputAndError,
    /// `<<` and `<<-`
    HereDocument,
    /// `<<<`
    HereString,
}

/// The body of a here-document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HereDocument {
    /// Whether the delimiter was quoted, which makes the body plain data.
    pub quoted: bool,
    /// The expansions in the body of an unquoted one, with the text around them.
    pub body: Word,
    /// The body as it stands in the command.
    pub text: String,
}

/// A compound command.
#[derive(Debug, Clone, PartialEq)]
pub struct CompoundCommand {
    /// Where it stands.
    pub span: Span,
    /// Its kind.
    pub kind: CompoundKind,
    /// Redirections after it.
    pub redirections: Vec<Redirection>,
}

/// The kinds of compound command.
#[derive(Debug, Clone, PartialEq)]
pub enum CompoundKind {
    /// `( list )`
    Subshell(List),
    /// `{ list; }`
    Group(List),
    /// `if … then … elif … else … fi`
    If {
        /// Conditions with what they guard.
        clauses: Vec<(List, List)>,
        /// The `else` list.
        otherwise: Option<List>,
    },
    /// `for name in words; do list; done`, also `select`.
    For {
        /// The loop variable.
        variable: String,
        /// The words after `in`; none means the positional parameters.
        words: Option<Vec<Word>>,
        /// The body.
        body: List,
    },
    /// `for ((…;…;…)); do list; done`
    ArithmeticFor {
        /// All three expressions.
        header: Arithmetic,
        /// The body.
        body: List,
    },
    /// `while` and `until`.
    While {
        /// The condition.
        condition: List,
        /// The body.
        body: List,
    },
    /// `case word in … esac`
    Case {
        /// The operands.
        subject: Word,
        /// Patterns with their lists.
        arms: Vec<(Vec<Word>, List)>,
    },
    /// `[[ … ]]` as its words and operators in order.
    Conditional {
        /// Source text.
        text: String,
        /// The words between the brackets.
        items: Vec<ConditionalItem>,
    },
    /// `(( … ))`
    Arithmetic {
        /// Source text.
        text: String,
        /// The expression.
        expression: Arithmetic,
    },
}

/// A piece of a `[[ … ]]`.
#[derive(Debug, Clone, PartialEq)]
pub enum ConditionalItem {
    /// `&&`, `||`, `!`, `(`, `)`, `<` or `>`.
    Operator(&'static str),
    /// Anything else.
    Word(Word),
}

/// `name() body`.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionDefinition {
    /// Where it stands.
    pub span: Span,
    /// Source text.
    pub text: String,
    /// The function's name.
    pub name: String,
    /// Its body.
    pub body: CompoundCommand,
}

/// A word, in the pieces that decide what it can become.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Word {
    /// Where it stands.
    pub span: Span,
    /// Source text.
    pub text: String,
    /// The pieces in order.
    pub parts: Vec<WordPart>,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq)]
pub enum WordPart {
    /// Unquoted text that means itself.
    Literal(String),
    /// Text from quotes or a backslash, decoded.
    Quoted(String),
    /// `*`, `?` or a bracket expression, unquoted.
    Glob(char),
    /// The start of a brace expansion.
    Brace,
    /// `~` or `~user` at the start of a word or of an assigned value.
    Tilde(String),
    /// `$name` or `${…}`.
    Parameter(Box<Parameter>),
    /// `$(…)` or backticks.
    Command {
        /// The command.
        list: List,
        /// Whether the result is kept in one piece.
        quoted: bool,
    },
    /// `<(…)` or `>(…)`.
    Process(List),
    /// `$((…))`.
    Arithmetic {
        /// The expression.
        expression: Arithmetic,
        /// Whether it stands in double quotes.
        quoted: bool,
    },
    /// Something whose value depends on the environment, such as `$"…"` or zsh's `=command`.
    Opaque(&'static str),
}

/// A parameter expansion.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The parameter's name, such as `HOME`, `1` or `@`.
    pub name: String,
    /// Whether it stands in double quotes.
    pub quoted: bool,
    /// Whether it is `$name` or `${name}` without any operator.
    pub plain: bool,
    /// `${#name}`: a length.
    pub length: bool,
    /// `${!name…}`: the value of another parameter, or the names with a prefix.
    pub indirect: bool,
    /// `${name@P}` and its relatives: the operator letter.
    pub transformation: Option<char>,
    /// Whether the operator assigns (`=`, `:=`).
    pub assigns: bool,
    /// The subscript, or the offset and length of a slice: evaluated as arithmetic.
    pub evaluated: Vec<Arithmetic>,
    /// The word after the operator.
    pub operand: Option<Word>,
}

/// An arithmetic expression, as far as it matters: what it contains that isn't a number or an operator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arithmetic {
    /// Whether a variable is named. Its value would be evaluated in turn.
    pub names: bool,
    /// Expansions inside. Their results are evaluated too.
    pub expansions: Vec<WordPart>,
    /// Whether it is `@` or `*` as a whole subscript.
    pub whole: bool,
}

impl Arithmetic {
    /// Whether nothing but numbers and operators is evaluated.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let numeric = |part: &WordPart| match part {
            WordPart::Parameter(parameter) => parameter.is_number(),
            _ => false,
        };
        self.whole || (!self.names && self.expansions.iter().all(numeric))
    }
}

impl Parameter {
    /// Whether its value is sure to be a number: a length, a count, a status or a process.
    #[must_use]
    pub fn is_number(&self) -> bool {
        let subscripts = self.evaluated.iter().all(Arithmetic::is_constant);
        (self.length && subscripts) || (self.plain && matches!(self.name.as_str(), "#" | "?" | "$"))
    }
}

impl Word {
    /// The word's only possible value, if it has just one.
    #[must_use]
    pub fn fixed(&self) -> Option<String> {
        let mut value = String::new();
        for part in &self.parts {
            match part {
                WordPart::Literal(text) | WordPart::Quoted(text) => value.push_str(text),
                _ => return None,
            }
        }
        Some(value)
    }

    /// The text when the word is wholly unquoted and without expansions, as a reserved word must be.
    #[must_use]
    pub fn plain_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [WordPart::Literal(text)] => Some(text),
            _ => None,
        }
    }
}
