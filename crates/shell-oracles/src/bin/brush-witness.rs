//! Reads commands, each ended by a NUL, and answers each with a line of JSON. A process of its own: the
//! parser is known to hang and to take memory without end.
#![forbid(unsafe_code)]

use std::io::{BufRead, Write};

use nix::sys::resource::{Resource, setrlimit};

/// Far more than any text of the tests needs.
const MEMORY: u64 = 1 << 30;

fn main() -> std::io::Result<()> {
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY)?;
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut command = Vec::new();
    while input.read_until(0, &mut command)? > 0 {
        if command.last() == Some(&0) {
            command.pop();
        }
        let testimony = lathe_shell_oracles::brush::read(&String::from_utf8_lossy(&command));
        serde_json::to_writer(&mut output, &testimony)?;
        output.write_all(b"\n")?;
        output.flush()?;
        command.clear();
    }
    Ok(())
}
