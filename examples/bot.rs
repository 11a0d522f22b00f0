//! A bot in forty lines: answers each line of standard input in one conversation, and may only read.
//!
//! ```sh
//! echo "what does this project do?" | cargo run -p lathe-examples --bin bot
//! ```
#![forbid(unsafe_code)]

use lathe_engine::{PromptOptions, SessionOptions, ToolOptions, open};
use lathe_protocol::event::Event;
use lathe_protocol::op::{Op, Prompt};
use lathe_settings::Environment;
use std::io::{BufRead as _, Write as _};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let options = SessionOptions {
        tools: ToolOptions {
            only: Some(["Read", "Grep", "Glob"].map(str::to_owned).to_vec()),
            ..ToolOptions::default()
        },
        prompt: PromptOptions {
            append: Some("Answer in one short paragraph.".to_owned()),
            ..PromptOptions::default()
        },
        ..SessionOptions::default()
    };
    let opened = open(Environment::of_process()?, options).await?;
    let (session, mut events) = (opened.session, opened.events);
    for line in std::io::stdin().lock().lines() {
        session.send(Op::Prompt(Prompt::new(line?)));
        while let Some(event) = events.next().await {
            match event {
                Event::CallStarted { activity, .. } => {
                    writeln!(std::io::stderr(), "… {activity}")?;
                }
                Event::TurnFinished(result) => {
                    writeln!(std::io::stdout(), "{}", result.text)?;
                    break;
                }
                _ => {}
            }
        }
    }
    session.finish().await;
    Ok(())
}
