//! A bot in forty lines: answers each line of standard input in one conversation, and may only read.
//!
//! ```sh
//! echo "what does this project do?" | cargo run -p lathe-examples --bin bot
//! ```
#![forbid(unsafe_code)]

use lathe_engine::{SessionOptions, open};
use lathe_protocol::event::Event;
use lathe_protocol::op::{Op, Prompt};
use lathe_settings::Environment;
use std::io::{BufRead as _, Write as _};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let options = SessionOptions {
        tools: Some(["Read", "Grep", "Glob"].map(str::to_owned).to_vec()),
        append_system_prompt: Some("Answer in one short paragraph.".to_owned()),
        max_turns: Some(20),
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
