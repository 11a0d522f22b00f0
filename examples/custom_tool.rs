//! A tool of your own beside the built-in ones: the model can roll dice.
//!
//! ```sh
//! cargo run -p lathe-examples --bin custom_tool -- "roll two dice and add them"
//! ```
#![forbid(unsafe_code)]

use lathe_engine::{CustomTools, SessionOptions, ToolOptions, open};
use lathe_protocol::display::Display;
use lathe_protocol::event::Event;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::Subject;
use lathe_settings::Environment;
use lathe_tools::{CallContext, CallTraits, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

struct RollDice;

/// The schema that the model sees is made from this type and its comments.
#[derive(Debug, Deserialize, JsonSchema)]
struct Dice {
    /// The number of sides, from 2 to 100.
    sides: u32,
}

impl Tool for RollDice {
    type Input = Dice;

    fn name(&self) -> &'static str {
        "RollDice"
    }

    fn description(&self) -> &'static str {
        "Rolls one die and returns the number."
    }

    /// A tool is serial and asks for permission until it says otherwise.
    fn traits(&self, _: &Dice) -> CallTraits {
        CallTraits::READS
    }

    /// The pipeline decides by the subject; a tool never asks for permission itself.
    fn subject(&self, _: &Dice, _: &ToolContext) -> Subject {
        Subject::Nothing
    }

    async fn call(&self, input: Dice, _: CallContext) -> Result<ToolOutput, ToolError> {
        if !(2..=100).contains(&input.sides) {
            let text = format!("A die has 2 to 100 sides, not {}.", input.sides);
            return Err(ToolError::InvalidInput(text));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let number = now.map_or(0, |now| now.subsec_nanos()) / 1_000 % input.sides + 1;
        let text = format!("The die shows {number}.");
        let display = Display::Text { text: text.clone() };
        Ok(ToolOutput::new(text, json!({"number": number}), display))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let prompt = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let options = SessionOptions {
        tools: ToolOptions {
            custom: CustomTools::default().with(RollDice),
            ..ToolOptions::default()
        },
        ..SessionOptions::default()
    };
    let opened = open(Environment::of_process()?, options).await?;
    let (session, mut events) = (opened.session, opened.events);
    session.send(Op::Prompt(Prompt::new(prompt)));
    while let Some(event) = events.next().await {
        if let Event::TurnFinished(result) = event {
            writeln!(std::io::stdout(), "{}", result.text)?;
            break;
        }
    }
    session.finish().await;
    Ok(())
}
