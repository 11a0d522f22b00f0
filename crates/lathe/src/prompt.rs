//! The prompt of print mode: the argument, standard input, or both.

use crate::error::CliError;
use std::io::{IsTerminal as _, Read as _};

/// The prompt: the argument, the text on standard input, or both. With an argument, standard input that nothing
/// is written to is not waited for.
///
/// # Errors
/// When there is no prompt, or standard input can't be read.
pub(crate) fn read(argument: &str) -> Result<String, CliError> {
    let missing = |what: &str| {
        CliError::usage(what).hint("give the prompt as an argument (`lathe -p \"…\"`) or in a pipe")
    };
    let stdin = std::io::stdin();
    let piped = if !argument.is_empty() {
        available_input()
    } else if stdin.is_terminal() {
        return Err(missing("there is no prompt"));
    } else {
        let mut bytes = Vec::new();
        stdin
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| CliError::usage(format!("standard input can't be read: {error}")))?;
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let piped = piped.trim_end();
    let prompt = match (argument.is_empty(), piped.is_empty()) {
        (false, false) => format!("{argument}\n\n{piped}"),
        (false, true) => argument.to_owned(),
        (true, _) => piped.to_owned(),
    };
    if prompt.trim().is_empty() {
        return Err(missing("the prompt is empty"));
    }
    Ok(prompt)
}

/// The text in a pipe or file on standard input beside a prompt argument. A file is read whole. A pipe is read
/// to its end only if something arrives within 50 ms: a parent may pass on an open pipe and never write.
fn available_input() -> String {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return String::new();
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let reading = std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut bytes = Vec::new();
            let mut first = [0_u8; 1];
            let mut stdin = std::io::stdin().lock();
            match stdin.read(&mut first) {
                Ok(0) | Err(_) => {
                    let _ = sender.send(None);
                }
                Ok(_) => {
                    let _ = sender.send(Some(Vec::new()));
                    bytes.extend(first);
                    let _ = stdin.read_to_end(&mut bytes);
                    let _ = sender.send(Some(bytes));
                }
            }
        });
    if reading.is_err() {
        return String::new();
    }
    // A file, a here-document and the output of a finished command are available at once.
    match receiver.recv_timeout(std::time::Duration::from_millis(50)) {
        Ok(Some(_)) => receiver
            .recv()
            .ok()
            .flatten()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default(),
        _ => String::new(),
    }
}
